use bytes::Bytes;
use mailapi_backend::{MailboxError, Mailboxes, NewDraft, Provisioning};
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_backend_embedded::message_store::{FlagChange, FolderId, MessageStoreError};
use mailapi_imap::Flags;

use super::test_store::{TestStore, address, ann, bob, folder, mail};

async fn append(test_store: &TestStore, name: &str, flags: &str) -> u32 {
    let flags = Flags::from_words(flags.split(' '));
    let message = Bytes::from(mail("Hi", "."));
    test_store.message_store.append(&ann(), &folder(name), &flags, None, message).await.unwrap().uid
}

async fn id(test_store: &TestStore, name: &str) -> FolderId {
    test_store.message_store.folder(&ann(), &folder(name)).await.unwrap().id
}

async fn names(test_store: &TestStore) -> Vec<String> {
    let folders = test_store.message_store.list_folders(&ann()).await.unwrap();
    folders.into_iter().map(|folder| folder.name.to_string()).collect()
}

#[tokio::test]
async fn what_cannot_be_done_to_folders_is_refused() {
    let test_store = TestStore::with(MessageStoreSettings { max_folders: 9, ..MessageStoreSettings::default() }).await;
    let message_store = &test_store.message_store;
    let (inbox, sent, work) = (folder("INBOX"), folder("Sent"), folder("Work"));
    let unknown = address("nobody@example.org");
    assert_eq!(message_store.create_folder(&unknown, &work).await, Err(MessageStoreError::NoSuchMailbox));
    assert_eq!(message_store.create_folder(&ann(), &sent).await, Err(MessageStoreError::FolderExists));
    assert_eq!(message_store.delete_folder(&ann(), &inbox).await, Err(MessageStoreError::FolderIsFixed));
    assert_eq!(message_store.delete_folder(&ann(), &work).await, Err(MessageStoreError::NoSuchFolder));
    assert_eq!(message_store.rename_folder(&ann(), &work, &folder("W")).await, Err(MessageStoreError::NoSuchFolder));
    assert_eq!(message_store.rename_folder(&ann(), &inbox, &sent).await, Err(MessageStoreError::FolderExists));
    let below = folder("Sent/2026");
    assert_eq!(message_store.rename_folder(&ann(), &sent, &below).await, Err(MessageStoreError::FolderIsFixed));
    assert_eq!(message_store.select(&ann(), &work).await, Err(MessageStoreError::NoSuchFolder));

    message_store.create_folder(&ann(), &folder("Drafts/a")).await.unwrap();
    message_store.create_folder(&ann(), &folder("Old/a")).await.unwrap();
    message_store.delete_folder(&ann(), &folder("Old")).await.unwrap();
    let taken_below = message_store.rename_folder(&ann(), &folder("Drafts"), &folder("Old")).await;
    assert_eq!(taken_below, Err(MessageStoreError::FolderExists));
    assert!(names(&test_store).await.contains(&"Drafts".to_owned()), "a failed rename changes nothing");
    let (deep, drafts) = (folder("Work/a"), folder("Drafts"));
    assert_eq!(message_store.create_folder(&ann(), &deep).await, Err(MessageStoreError::TooManyFolders));
    let moved = message_store.rename_folder(&ann(), &drafts, &folder("Work/a/b")).await;
    assert_eq!(moved, Err(MessageStoreError::TooManyFolders));
    assert!(!names(&test_store).await.contains(&"Work".to_owned()), "the failed rename created no folder");
}

#[tokio::test]
async fn a_new_mailbox_has_its_folders_and_inbox_comes_first() {
    let test_store = TestStore::new().await;
    test_store.message_store.create_folder(&ann(), &folder("Archive/2026")).await.unwrap();
    assert_eq!(names(&test_store).await, ["INBOX", "Archive", "Archive/2026", "Drafts", "Junk", "Sent", "Trash"]);
    let sent = test_store.message_store.folder(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!(sent.special_use.as_deref(), Some("\\Sent"));
    assert_eq!(test_store.message_store.subscriptions(&ann()).await.unwrap().len(), 6);
}

#[tokio::test]
async fn older_mailboxes_get_an_archive() {
    let test_store = TestStore::new().await;
    let archives = "SELECT count(*) FROM drop_folders WHERE special_use = '\\Archive'";
    let all = test_store.number(archives);
    // As left by an earlier version; one user had made such a folder.
    let earlier = "DELETE FROM drop_folders WHERE special_use = '\\Archive';
        INSERT INTO drop_folders (mailbox_id, name, uid_validity) SELECT MIN(id), 'Archive', 1 FROM drop_mailboxes WHERE id > 0;
        DELETE FROM schema_migrations WHERE component = 'maildrop' AND version = 15;";
    test_store.database().execute_batch(earlier).unwrap();
    test_store.open_again().await;
    assert_eq!(test_store.number(archives), all);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_folders GROUP BY uid_validity ORDER BY 1 DESC LIMIT 1"), 1);
}

#[tokio::test]
async fn a_folder_made_again_never_repeats_its_uid_validity() {
    let test_store = TestStore::new().await;
    let mut last = 0;
    for _ in 0..3 {
        test_store.message_store.create_folder(&ann(), &folder("Work")).await.unwrap();
        let made = test_store.message_store.folder(&ann(), &folder("Work")).await.unwrap();
        assert!(made.uid_validity > last);
        last = made.uid_validity;
        append(&test_store, "Work", "").await;
        test_store.message_store.delete_folder(&ann(), &folder("Work")).await.unwrap();
    }
    assert_eq!(test_store.message_store.quota(&ann()).await.unwrap().messages, 0);
}

#[tokio::test]
async fn a_rename_moves_subfolders_and_inbox_stays() {
    let test_store = TestStore::new().await;
    for name in ["Work", "Work/a", "Work/a/b", "Workshop"] {
        test_store.message_store.create_folder(&ann(), &folder(name)).await.unwrap();
    }
    let before = id(&test_store, "Work/a/b").await;
    test_store.message_store.rename_folder(&ann(), &folder("Work"), &folder("Old/Work")).await.unwrap();
    assert_eq!(id(&test_store, "Old/Work/a/b").await, before);
    assert!(names(&test_store).await.contains(&"Workshop".to_owned()));

    append(&test_store, "INBOX", "\\Seen").await;
    append(&test_store, "INBOX", "").await;
    test_store.message_store.rename_folder(&ann(), &folder("INBOX"), &folder("Old/Inbox")).await.unwrap();
    let inbox = test_store.message_store.folder(&ann(), &folder("INBOX")).await.unwrap();
    let moved = test_store.message_store.folder(&ann(), &folder("Old/Inbox")).await.unwrap();
    assert_eq!((inbox.messages, inbox.unread, inbox.uid_next), (0, 0, 3));
    assert_eq!((moved.messages, moved.unread), (2, 1));
}

#[tokio::test]
async fn a_name_that_only_folders_below_it_show_is_renamed_with_them() {
    let test_store = TestStore::new().await;
    test_store.message_store.create_folder(&ann(), &folder("A/B/C")).await.unwrap();
    test_store.message_store.rename_folder(&ann(), &folder("A"), &folder("X/Z")).await.unwrap();
    assert_eq!(names(&test_store).await[5..], ["Trash", "X", "X/Z", "X/Z/B", "X/Z/B/C"][..]);
    test_store.message_store.delete_folder(&ann(), &folder("X")).await.unwrap();
    test_store.message_store.delete_folder(&ann(), &folder("X/Z")).await.unwrap();
    test_store.message_store.rename_folder(&ann(), &folder("X"), &folder("Y")).await.unwrap();
    assert_eq!(names(&test_store).await[5..], ["Trash", "Y/Z/B", "Y/Z/B/C"][..]);
    let nothing = test_store.message_store.rename_folder(&ann(), &folder("X"), &folder("Y")).await;
    assert_eq!(nothing, Err(MessageStoreError::NoSuchFolder));
}

#[tokio::test]
async fn subscriptions_are_names_and_outlive_folders() {
    let test_store = TestStore::new().await;
    test_store.message_store.subscribe(&ann(), &folder("Nowhere")).await.unwrap();
    test_store.message_store.delete_folder(&ann(), &folder("Junk")).await.unwrap();
    test_store.message_store.unsubscribe(&ann(), &folder("Sent")).await.unwrap();
    let left = test_store.message_store.subscriptions(&ann()).await.unwrap();
    let left: Vec<_> = left.iter().map(|name| name.as_str()).collect();
    assert_eq!(left, ["Archive", "Drafts", "INBOX", "Junk", "Nowhere", "Trash"]);
}

#[tokio::test]
async fn an_append_that_does_not_fit_is_refused() {
    let test_store = TestStore::with(MessageStoreSettings {
        max_keywords: 1,
        max_message_bytes: 1_000,
        ..MessageStoreSettings::default()
    })
    .await;
    test_store.message_store.put_mailbox(&bob(), Some(20)).await.unwrap();
    let append = async |mailbox, flags: &str, length| {
        let flags = Flags::from_words(flags.split(' '));
        test_store.message_store.append(&mailbox, &folder("INBOX"), &flags, None, Bytes::from(vec![b'x'; length])).await
    };
    assert_eq!(append(ann(), "", 1_001).await, Err(MessageStoreError::TooLong));
    assert_eq!(append(bob(), "", 21).await, Err(MessageStoreError::OverQuota));
    assert_eq!(append(ann(), "a b", 20).await, Err(MessageStoreError::TooManyKeywords));
    assert!(append(bob(), "", 20).await.is_ok());
    let inbox = test_store.message_store.folder(&bob(), &folder("INBOX")).await.unwrap().id;
    assert_eq!(test_store.message_store.copy(inbox, vec![1], &folder("Sent")).await, Err(MessageStoreError::OverQuota));
    let moved = test_store.message_store.move_messages(inbox, vec![1, 7], &folder("Sent")).await.unwrap();
    assert_eq!(moved.uids, [(1, 1)]);
}

#[tokio::test]
async fn drafts_follow_their_folder_and_make_room_for_others() {
    let test_store = TestStore::new().await;
    let message_store = &test_store.message_store;
    let draft = |length: usize, replaces| NewDraft {
        message: vec![b'x'; length].into(),
        message_id: "<1@example.org>".to_owned(),
        replaces,
    };
    message_store.rename_folder(&ann(), &folder("Drafts"), &folder("Unfinished")).await.unwrap();
    message_store.create_folder(&ann(), &folder("Drafts")).await.unwrap();
    assert_eq!(message_store.save_draft(&ann(), draft(9, None)).await.unwrap().folder, folder("Unfinished"));
    message_store.delete_folder(&ann(), &folder("Unfinished")).await.unwrap();
    assert_eq!(message_store.save_draft(&ann(), draft(9, None)).await.unwrap().folder, folder("Drafts"));
    message_store.delete_folder(&ann(), &folder("Drafts")).await.unwrap();
    assert_eq!(message_store.drafts_folder(&ann()).await, Ok(None));
    assert_eq!(message_store.delete_draft(&ann(), 1).await, Err(MailboxError::NoSuchMessage));
    let saved = message_store.save_draft(&ann(), draft(9, None)).await.unwrap();
    assert_eq!(message_store.drafts_folder(&ann()).await, Ok(Some(saved.folder)));

    message_store.put_mailbox(&bob(), Some(100)).await.unwrap();
    let first = message_store.save_draft(&bob(), draft(80, None)).await.unwrap();
    let second = message_store.save_draft(&bob(), draft(90, Some(first.uid))).await.unwrap();
    assert_eq!(message_store.save_draft(&bob(), draft(101, Some(second.uid))).await, Err(MailboxError::Full));
    assert_eq!(message_store.save_draft(&bob(), draft(90, Some(first.uid))).await, Err(MailboxError::Full));
    assert_eq!(message_store.quota(&bob()).await.unwrap().used_bytes, 90, "the second draft is still there");
}

#[tokio::test]
async fn flags_change_and_a_client_sees_only_what_changed() {
    let test_store = TestStore::new().await;
    for _ in 0..3 {
        append(&test_store, "INBOX", "").await;
    }
    let inbox = id(&test_store, "INBOX").await;
    let before = test_store.message_store.select(&ann(), &folder("INBOX")).await.unwrap();
    let seen = Flags::from_words(["\\Seen", "$Todo"]);
    let states = test_store.message_store.store_flags(inbox, vec![2, 9], FlagChange::Add, seen.clone()).await.unwrap();
    assert_eq!((states[0].uid, states[0].flags.clone()), (2, seen.clone()));
    assert_eq!(states.len(), 1);

    let changed = test_store.message_store.changed_since(inbox, before.folder.highest_modseq).await.unwrap();
    assert_eq!(changed.entries, states);
    assert_eq!(changed.folder.unread, 2);
    let again = test_store.message_store.store_flags(inbox, vec![2], FlagChange::Add, seen.clone()).await.unwrap();
    assert_eq!(again, states, "setting a flag that is set changes nothing");
    let without = test_store.message_store.store_flags(inbox, vec![2], FlagChange::Remove, seen).await.unwrap();
    assert_eq!(without[0].flags, Flags::new());
    assert!(without[0].modseq > states[0].modseq);
}

#[tokio::test]
async fn only_deleted_messages_are_expunged_and_uids_never_come_back() {
    let test_store = TestStore::new().await;
    for flags in ["\\Deleted", "", "\\Deleted", "\\Deleted"] {
        append(&test_store, "INBOX", flags).await;
    }
    let inbox = id(&test_store, "INBOX").await;
    assert_eq!(test_store.message_store.expunge(inbox, Some(vec![2, 4])).await.unwrap(), [4]);
    assert_eq!(test_store.message_store.expunge(inbox, None).await.unwrap(), [1, 3]);
    assert_eq!(append(&test_store, "INBOX", "").await, 5);
    assert_eq!(test_store.message_store.uids(inbox).await.unwrap(), [2, 5]);
}

#[tokio::test]
async fn copies_share_the_bytes_and_moves_leave_none_behind() {
    let test_store = TestStore::new().await;
    append(&test_store, "INBOX", "\\Flagged k").await;
    append(&test_store, "INBOX", "").await;
    let inbox = id(&test_store, "INBOX").await;
    let copied = test_store.message_store.copy(inbox, vec![2, 1, 1], &folder("Sent")).await.unwrap();
    assert_eq!(copied.uids, [(1, 1), (2, 2)]);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 2);
    assert_eq!(test_store.message_store.quota(&ann()).await.unwrap().messages, 4);
    test_store.message_store.move_messages(inbox, vec![1, 2], &folder("Sent")).await.unwrap();
    let sent = test_store.message_store.select(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!(sent.entries.len(), 4);
    assert_eq!(sent.entries[2].flags, Flags::from_words(["\\Flagged", "k"]));
    assert_eq!(test_store.message_store.folder_now(inbox).await.unwrap().messages, 0);
    assert_eq!(
        test_store.message_store.copy(inbox, vec![1], &folder("Nowhere")).await,
        Err(MessageStoreError::NoSuchFolder)
    );
}

#[tokio::test]
async fn a_watcher_hears_of_changes_by_this_process_and_by_others() {
    let test_store = TestStore::new().await;
    let mailbox = test_store.message_store.mailbox(&ann()).await.unwrap();
    let mut watch = test_store.message_store.watch(mailbox);
    test_store.deliver(&["bob@example.org"], &mail("not for ann", ".")).await;
    assert!(!watch.take_pending());
    append(&test_store, "INBOX", "").await;
    watch.changed().await;
    watch.take_pending();
    let other = test_store.open_again().await;
    other.create_folder(&ann(), &folder("Work")).await.unwrap();
    watch.changed().await;
}
