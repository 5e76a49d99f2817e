//! Commands on very many messages: other writers run between their steps, and the result is all or nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use mailapi_backend::{Mailboxes, Provisioning};
use mailapi_backend_embedded::maildrop::{FlagChange, FolderId, MaildropError};
use mailapi_imap::Flags;

use crate::house::{House, ann, bob, folder};

/// Many times the number of messages that a command changes in one step.
const MANY: u32 = 4_096;

const MAIL: &str = "Subject: x\r\n\r\nx\r\n";

async fn id(house: &House, name: &str) -> FolderId {
    house.maildrop.folder(&ann(), &folder(name)).await.unwrap().id
}

/// A setup in which ann's INBOX holds [`MANY`] messages with shared octets.
async fn full_house() -> (House, FolderId, Vec<u32>) {
    let house = House::new().await;
    let inbox = id(&house, "INBOX").await;
    house.maildrop.append(&ann(), &folder("INBOX"), &Flags::new(), None, MAIL.to_owned()).await.unwrap();
    let mut count = 1;
    while count < MANY {
        let copied = house.maildrop.copy(inbox, (1..=count).collect(), &folder("INBOX")).await.unwrap();
        assert_eq!(copied.uids, (1..=count).map(|uid| (uid, uid + count)).collect::<Vec<_>>());
        count *= 2;
    }
    (house, inbox, (1..=MANY).collect())
}

/// Whether another writer that starts after the command's first change finishes before the command.
async fn lets_others_write<T>(house: &House, command: impl Future<Output = T>) -> (T, bool) {
    let is_done = AtomicBool::new(false);
    let command = async {
        let output = command.await;
        is_done.store(true, Ordering::SeqCst);
        output
    };
    let mailbox = house.maildrop.mailbox(&ann()).await.unwrap();
    let mut watch = house.maildrop.watch(mailbox);
    let other = async {
        watch.changed().await;
        house.maildrop.put_mailbox(&bob(), Some(7)).await.unwrap();
        !is_done.load(Ordering::SeqCst)
    };
    tokio::join!(command, other)
}

#[tokio::test]
async fn others_write_while_very_many_messages_change() {
    let (house, inbox, uids) = full_house().await;
    let (maildrop, sent) = (&house.maildrop, folder("Sent"));

    let (copied, others_wrote) = lets_others_write(&house, maildrop.copy(inbox, uids.clone(), &sent)).await;
    assert_eq!(copied.unwrap().uids, uids.iter().map(|&uid| (uid, uid)).collect::<Vec<_>>());
    assert!(others_wrote, "COPY");

    let deleted = || Flags::from_words(["\\Deleted"]);
    let sent_id = id(&house, "Sent").await;
    let store = maildrop.store_flags(sent_id, uids.clone(), FlagChange::Add, deleted());
    let (stored, others_wrote) = lets_others_write(&house, store).await;
    assert_eq!(stored.unwrap().len(), uids.len());
    assert!(others_wrote, "STORE");

    let (removed, others_wrote) = lets_others_write(&house, maildrop.expunge(sent_id, None)).await;
    assert_eq!(removed.unwrap(), uids);
    assert!(others_wrote, "EXPUNGE");

    let (moved, others_wrote) = lets_others_write(&house, maildrop.move_messages(inbox, uids.clone(), &sent)).await;
    assert_eq!(moved.unwrap().uids, uids.iter().map(|&uid| (uid, uid + MANY)).collect::<Vec<_>>());
    assert!(others_wrote, "MOVE");
    assert_eq!(maildrop.uids(inbox).await.unwrap(), [0; 0]);
    assert_eq!(maildrop.quota(&ann()).await.unwrap().messages, u64::from(MANY));
    assert_eq!(house.number("SELECT refs FROM drop_messages"), i64::from(MANY));
}

#[tokio::test]
async fn others_write_while_a_whole_folder_goes() {
    let (house, inbox, uids) = full_house().await;
    let maildrop = &house.maildrop;
    let (owner, old) = (ann(), folder("Above/Old"));

    let (inbox_name, sent) = (folder("INBOX"), folder("Sent"));
    let (renamed, others_wrote) = lets_others_write(&house, maildrop.rename_folder(&owner, &inbox_name, &old)).await;
    renamed.unwrap();
    assert!(others_wrote, "RENAME INBOX");
    let old_id = id(&house, "Above/Old").await;
    assert_eq!((maildrop.uids(inbox).await.unwrap(), maildrop.uids(old_id).await.unwrap()), (vec![], uids.clone()));

    maildrop.copy(old_id, uids.clone(), &sent).await.unwrap();
    let (purged, others_wrote) = lets_others_write(&house, maildrop.purge(&owner)).await;
    let purged = purged.unwrap();
    assert_eq!((purged.folders, purged.messages), (7, 2 * u64::from(MANY)));
    assert!(others_wrote, "purge");
    assert_eq!(maildrop.quota(&owner).await.unwrap().messages, 0);
}

#[tokio::test]
async fn mail_that_comes_while_a_mailbox_is_purged_stays() {
    let (house, inbox, _) = full_house().await;
    let mailbox = house.maildrop.mailbox(&ann()).await.unwrap();
    let mut watch = house.maildrop.watch(mailbox);
    let owner = ann();
    let meanwhile = async {
        watch.changed().await;
        house.deliver(&["ann@example.org"], MAIL).await;
    };
    let (purged, ()) = tokio::join!(house.maildrop.purge(&owner), meanwhile);
    assert_eq!(purged.unwrap().messages, u64::from(MANY));
    assert_eq!(house.maildrop.uids(inbox).await.unwrap(), [MANY + 1]);
}

/// Entries of folders that are gone and not yet removed.
const LEFT: &str =
    "SELECT count(*) FROM drop_entries e JOIN drop_folders f ON f.id = e.folder_id WHERE f.mailbox_id = 0";

#[tokio::test]
async fn a_large_folder_is_gone_at_once_and_its_rows_step_by_step() {
    let (house, inbox, uids) = full_house().await;
    let (maildrop, sent) = (&house.maildrop, id(&house, "Sent").await);
    maildrop.copy(inbox, uids.clone(), &folder("Sent")).await.unwrap();

    maildrop.delete_folder(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!(maildrop.folder_now(sent).await, Err(MaildropError::NoSuchFolder));
    assert_eq!(maildrop.copy(sent, vec![1], &folder("INBOX")).await, Err(MaildropError::NoSuchFolder));
    assert_eq!(maildrop.quota(&ann()).await.unwrap().messages, u64::from(MANY));
    let again = maildrop.create_folder(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!((again == sent, maildrop.uids(again).await.unwrap()), (false, vec![]));
    assert_eq!(house.number(LEFT), i64::from(MANY));
    maildrop.remove_entries_once().await.unwrap();
    assert!((1..=i64::from(MANY) - 100).contains(&house.number(LEFT)), "{}", house.number(LEFT));

    maildrop.remove_mailbox(&ann()).await.unwrap();
    maildrop.put_mailbox(&ann(), None).await.unwrap();
    assert_eq!(maildrop.quota(&ann()).await.unwrap().messages, 0);
    maildrop.keep_house_until_done().await.unwrap();
    assert_eq!(house.number("SELECT count(*) FROM drop_folders WHERE mailbox_id = 0"), 0);
    assert_eq!(house.number("SELECT count(*) FROM drop_entries"), 0);
    assert_eq!(house.number("SELECT messages + used_bytes FROM drop_mailboxes WHERE id = 0"), 0);
    assert_eq!(house.number("SELECT count(*) FROM drop_messages"), 0);
}

#[tokio::test]
async fn a_copy_that_fails_on_its_way_is_taken_back() {
    let (house, inbox, uids) = full_house().await;
    let used = house.maildrop.quota(&ann()).await.unwrap().used_bytes;
    let owner = ann();
    house.maildrop.put_mailbox(&owner, Some(2 * used - 1)).await.unwrap();
    let copy = async || house.maildrop.copy(inbox, uids.clone(), &folder("Sent")).await;
    assert_eq!(copy().await, Err(MaildropError::OverQuota), "what does not fit is not begun");

    house.maildrop.put_mailbox(&ann(), Some(2 * used)).await.unwrap();
    let (copied, changed) = tokio::join!(copy(), house.maildrop.put_mailbox(&owner, Some(used + used / 2)));
    changed.unwrap();
    assert_eq!(copied, Err(MaildropError::OverQuota), "the quota is lowered after some steps");
    let sent = house.maildrop.folder(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!((sent.messages, sent.size), (0, 0));
    assert_eq!(house.maildrop.quota(&ann()).await.unwrap().used_bytes, used);
}

#[tokio::test]
async fn flags_of_very_many_messages_change_all_or_none() {
    let settings = mailapi_backend_embedded::MaildropSettings { max_keywords: 1, ..Default::default() };
    let house = House::with(settings).await;
    let inbox = id(&house, "INBOX").await;

    house.maildrop.append(&ann(), &folder("INBOX"), &Flags::new(), None, MAIL.to_owned()).await.unwrap();
    for count in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
        house.maildrop.copy(inbox, (1..=count).collect(), &folder("INBOX")).await.unwrap();
    }
    house.maildrop.append(&ann(), &folder("INBOX"), &Flags::from_words(["k"]), None, MAIL.to_owned()).await.unwrap();
    let before = house.maildrop.select(&ann(), &folder("INBOX")).await.unwrap();
    let uids = before.entries.iter().map(|entry| entry.uid).collect();
    let stored = house.maildrop.store_flags(inbox, uids, FlagChange::Add, Flags::from_words(["l"])).await;
    assert_eq!(stored, Err(MaildropError::TooManyKeywords));
    assert_eq!(house.maildrop.select(&ann(), &folder("INBOX")).await.unwrap(), before);
}
