use bytes::Bytes;
use mailapi_backend::{Mailboxes, Provisioning};
use mailapi_backend_embedded::MaildropSettings;
use mailapi_backend_embedded::maildrop::{FlagChange, FolderId, MaildropError};
use mailapi_imap::Flags;

use super::house::{House, address, ann, bob, folder, mail};

async fn append(house: &House, name: &str, flags: &str) -> u32 {
    let flags = Flags::from_words(flags.split(' '));
    let message = Bytes::from(mail("Hi", "."));
    house.maildrop.append(&ann(), &folder(name), &flags, None, message).await.unwrap().uid
}

async fn id(house: &House, name: &str) -> FolderId {
    house.maildrop.folder(&ann(), &folder(name)).await.unwrap().id
}

async fn names(house: &House) -> Vec<String> {
    let folders = house.maildrop.list_folders(&ann()).await.unwrap();
    folders.into_iter().map(|folder| folder.name.to_string()).collect()
}

#[tokio::test]
async fn what_cannot_be_done_to_folders_is_refused() {
    let house = House::with(MaildropSettings { max_folders: 8, ..MaildropSettings::default() }).await;
    let maildrop = &house.maildrop;
    let (inbox, sent, work) = (folder("INBOX"), folder("Sent"), folder("Work"));
    let nobody = address("nobody@example.org");
    assert_eq!(maildrop.create_folder(&nobody, &work).await, Err(MaildropError::NoSuchMailbox));
    assert_eq!(maildrop.create_folder(&ann(), &sent).await, Err(MaildropError::FolderExists));
    assert_eq!(maildrop.delete_folder(&ann(), &inbox).await, Err(MaildropError::FolderIsFixed));
    assert_eq!(maildrop.delete_folder(&ann(), &work).await, Err(MaildropError::NoSuchFolder));
    assert_eq!(maildrop.rename_folder(&ann(), &work, &folder("W")).await, Err(MaildropError::NoSuchFolder));
    assert_eq!(maildrop.rename_folder(&ann(), &inbox, &sent).await, Err(MaildropError::FolderExists));
    let below = folder("Sent/2026");
    assert_eq!(maildrop.rename_folder(&ann(), &sent, &below).await, Err(MaildropError::FolderIsFixed));
    assert_eq!(maildrop.select(&ann(), &work).await, Err(MaildropError::NoSuchFolder));

    maildrop.create_folder(&ann(), &folder("Drafts/a")).await.unwrap();
    maildrop.create_folder(&ann(), &folder("Old/a")).await.unwrap();
    maildrop.delete_folder(&ann(), &folder("Old")).await.unwrap();
    let taken_below = maildrop.rename_folder(&ann(), &folder("Drafts"), &folder("Old")).await;
    assert_eq!(taken_below, Err(MaildropError::FolderExists));
    assert!(names(&house).await.contains(&"Drafts".to_owned()), "a rename is done whole or not at all");
    let (deep, drafts) = (folder("Work/a"), folder("Drafts"));
    assert_eq!(maildrop.create_folder(&ann(), &deep).await, Err(MaildropError::TooManyFolders));
    let moved = maildrop.rename_folder(&ann(), &drafts, &folder("Work/a/b")).await;
    assert_eq!(moved, Err(MaildropError::TooManyFolders));
    assert!(!names(&house).await.contains(&"Work".to_owned()), "nothing of it was kept");
}

#[tokio::test]
async fn a_new_mailbox_has_its_folders_and_inbox_comes_first() {
    let house = House::new().await;
    house.maildrop.create_folder(&ann(), &folder("Archive/2026")).await.unwrap();
    assert_eq!(names(&house).await, ["INBOX", "Archive", "Archive/2026", "Drafts", "Junk", "Sent", "Trash"]);
    let sent = house.maildrop.folder(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!(sent.special_use.as_deref(), Some("\\Sent"));
    assert_eq!(house.maildrop.subscriptions(&ann()).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_folder_made_again_never_repeats_its_uid_validity() {
    let house = House::new().await;
    let mut last = 0;
    for _ in 0..3 {
        house.maildrop.create_folder(&ann(), &folder("Work")).await.unwrap();
        let made = house.maildrop.folder(&ann(), &folder("Work")).await.unwrap();
        assert!(made.uid_validity > last);
        last = made.uid_validity;
        append(&house, "Work", "").await;
        house.maildrop.delete_folder(&ann(), &folder("Work")).await.unwrap();
    }
    assert_eq!(house.maildrop.quota(&ann()).await.unwrap().messages, 0);
}

#[tokio::test]
async fn a_rename_takes_the_folders_below_with_it_and_inbox_leaves_itself_behind() {
    let house = House::new().await;
    for name in ["Work", "Work/a", "Work/a/b", "Workshop"] {
        house.maildrop.create_folder(&ann(), &folder(name)).await.unwrap();
    }
    let before = id(&house, "Work/a/b").await;
    house.maildrop.rename_folder(&ann(), &folder("Work"), &folder("Old/Work")).await.unwrap();
    assert_eq!(id(&house, "Old/Work/a/b").await, before);
    assert!(names(&house).await.contains(&"Workshop".to_owned()));

    append(&house, "INBOX", "\\Seen").await;
    append(&house, "INBOX", "").await;
    house.maildrop.rename_folder(&ann(), &folder("INBOX"), &folder("Old/Inbox")).await.unwrap();
    let inbox = house.maildrop.folder(&ann(), &folder("INBOX")).await.unwrap();
    let moved = house.maildrop.folder(&ann(), &folder("Old/Inbox")).await.unwrap();
    assert_eq!((inbox.messages, inbox.unread, inbox.uid_next), (0, 0, 3));
    assert_eq!((moved.messages, moved.unread), (2, 1));
}

#[tokio::test]
async fn a_name_that_only_folders_below_it_show_is_renamed_with_them() {
    let house = House::new().await;
    house.maildrop.create_folder(&ann(), &folder("A/B/C")).await.unwrap();
    house.maildrop.rename_folder(&ann(), &folder("A"), &folder("X/Z")).await.unwrap();
    assert_eq!(names(&house).await[4..], ["Trash", "X", "X/Z", "X/Z/B", "X/Z/B/C"][..]);
    house.maildrop.delete_folder(&ann(), &folder("X")).await.unwrap();
    house.maildrop.delete_folder(&ann(), &folder("X/Z")).await.unwrap();
    house.maildrop.rename_folder(&ann(), &folder("X"), &folder("Y")).await.unwrap();
    assert_eq!(names(&house).await[4..], ["Trash", "Y/Z/B", "Y/Z/B/C"][..]);
    let nothing = house.maildrop.rename_folder(&ann(), &folder("X"), &folder("Y")).await;
    assert_eq!(nothing, Err(MaildropError::NoSuchFolder));
}

#[tokio::test]
async fn subscriptions_are_names_and_outlive_folders() {
    let house = House::new().await;
    house.maildrop.subscribe(&ann(), &folder("Nowhere")).await.unwrap();
    house.maildrop.delete_folder(&ann(), &folder("Junk")).await.unwrap();
    house.maildrop.unsubscribe(&ann(), &folder("Sent")).await.unwrap();
    let left = house.maildrop.subscriptions(&ann()).await.unwrap();
    let left: Vec<_> = left.iter().map(|name| name.as_str()).collect();
    assert_eq!(left, ["Drafts", "INBOX", "Junk", "Nowhere", "Trash"]);
}

#[tokio::test]
async fn an_append_that_does_not_fit_is_refused() {
    let house =
        House::with(MaildropSettings { max_keywords: 1, max_message_bytes: 1_000, ..MaildropSettings::default() })
            .await;
    house.maildrop.put_mailbox(&bob(), Some(20)).await.unwrap();
    let append = async |mailbox, flags: &str, length| {
        let flags = Flags::from_words(flags.split(' '));
        house.maildrop.append(&mailbox, &folder("INBOX"), &flags, None, Bytes::from(vec![b'x'; length])).await
    };
    assert_eq!(append(ann(), "", 1_001).await, Err(MaildropError::TooLong));
    assert_eq!(append(bob(), "", 21).await, Err(MaildropError::OverQuota));
    assert_eq!(append(ann(), "a b", 20).await, Err(MaildropError::TooManyKeywords));
    assert!(append(bob(), "", 20).await.is_ok());
    let inbox = house.maildrop.folder(&bob(), &folder("INBOX")).await.unwrap().id;
    assert_eq!(house.maildrop.copy(inbox, vec![1], &folder("Sent")).await, Err(MaildropError::OverQuota));
    let moved = house.maildrop.move_messages(inbox, vec![1, 7], &folder("Sent")).await.unwrap();
    assert_eq!(moved.uids, [(1, 1)]);
}

#[tokio::test]
async fn flags_change_and_a_client_sees_only_what_changed() {
    let house = House::new().await;
    for _ in 0..3 {
        append(&house, "INBOX", "").await;
    }
    let inbox = id(&house, "INBOX").await;
    let before = house.maildrop.select(&ann(), &folder("INBOX")).await.unwrap();
    let seen = Flags::from_words(["\\Seen", "$Todo"]);
    let states = house.maildrop.store_flags(inbox, vec![2, 9], FlagChange::Add, seen.clone()).await.unwrap();
    assert_eq!((states[0].uid, states[0].flags.clone()), (2, seen.clone()));
    assert_eq!(states.len(), 1);

    let changed = house.maildrop.changed_since(inbox, before.folder.highest_modseq).await.unwrap();
    assert_eq!(changed.entries, states);
    assert_eq!(changed.folder.unread, 2);
    let again = house.maildrop.store_flags(inbox, vec![2], FlagChange::Add, seen.clone()).await.unwrap();
    assert_eq!(again, states, "what is so already is not a change");
    let without = house.maildrop.store_flags(inbox, vec![2], FlagChange::Remove, seen).await.unwrap();
    assert_eq!(without[0].flags, Flags::new());
    assert!(without[0].modseq > states[0].modseq);
}

#[tokio::test]
async fn only_deleted_messages_are_expunged_and_uids_never_come_back() {
    let house = House::new().await;
    for flags in ["\\Deleted", "", "\\Deleted", "\\Deleted"] {
        append(&house, "INBOX", flags).await;
    }
    let inbox = id(&house, "INBOX").await;
    assert_eq!(house.maildrop.expunge(inbox, Some(vec![2, 4])).await.unwrap(), [4]);
    assert_eq!(house.maildrop.expunge(inbox, None).await.unwrap(), [1, 3]);
    assert_eq!(append(&house, "INBOX", "").await, 5);
    assert_eq!(house.maildrop.uids(inbox).await.unwrap(), [2, 5]);
}

#[tokio::test]
async fn copies_share_the_octets_and_moves_leave_none_behind() {
    let house = House::new().await;
    append(&house, "INBOX", "\\Flagged k").await;
    append(&house, "INBOX", "").await;
    let inbox = id(&house, "INBOX").await;
    let copied = house.maildrop.copy(inbox, vec![2, 1, 1], &folder("Sent")).await.unwrap();
    assert_eq!(copied.uids, [(1, 1), (2, 2)]);
    assert_eq!(house.number("SELECT count(*) FROM drop_messages"), 2);
    assert_eq!(house.maildrop.quota(&ann()).await.unwrap().messages, 4);
    house.maildrop.move_messages(inbox, vec![1, 2], &folder("Sent")).await.unwrap();
    let sent = house.maildrop.select(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!(sent.entries.len(), 4);
    assert_eq!(sent.entries[2].flags, Flags::from_words(["\\Flagged", "k"]));
    assert_eq!(house.maildrop.folder_now(inbox).await.unwrap().messages, 0);
    assert_eq!(house.maildrop.copy(inbox, vec![1], &folder("Nowhere")).await, Err(MaildropError::NoSuchFolder));
}

#[tokio::test]
async fn a_watcher_hears_of_changes_by_this_process_and_by_others() {
    let house = House::new().await;
    let mailbox = house.maildrop.mailbox(&ann()).await.unwrap();
    let mut watch = house.maildrop.watch(mailbox);
    house.deliver(&["bob@example.org"], &mail("not for ann", ".")).await;
    assert!(!watch.take_pending());
    append(&house, "INBOX", "").await;
    watch.changed().await;
    watch.take_pending();
    let other = house.open_again().await;
    other.create_folder(&ann(), &folder("Work")).await.unwrap();
    watch.changed().await;
}
