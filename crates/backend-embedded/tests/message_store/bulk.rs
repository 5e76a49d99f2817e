//! Bulk commands: other writers run between their steps, and the result is all or nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use mailapi_backend::{Mailboxes, Provisioning};
use mailapi_backend_embedded::message_store::{FlagChange, FolderId, MessageStoreError};
use mailapi_imap::Flags;

use crate::test_store::{TestStore, ann, bob, folder};

/// Many times the number of messages in one step of a command.
const MANY: u32 = 4_096;

const MAIL: &str = "Subject: x\r\n\r\nx\r\n";

async fn id(test_store: &TestStore, name: &str) -> FolderId {
    test_store.message_store.folder(&ann(), &folder(name)).await.unwrap().id
}

/// Creates a server whose INBOX of ann has [`MANY`] messages with shared bytes.
async fn full_store() -> (TestStore, FolderId, Vec<u32>) {
    let test_store = TestStore::new().await;
    let inbox = id(&test_store, "INBOX").await;
    test_store.message_store.append(&ann(), &folder("INBOX"), &Flags::new(), None, MAIL.to_owned()).await.unwrap();
    let mut count = 1;
    while count < MANY {
        let copied = test_store.message_store.copy(inbox, (1..=count).collect(), &folder("INBOX")).await.unwrap();
        assert_eq!(copied.uids, (1..=count).map(|uid| (uid, uid + count)).collect::<Vec<_>>());
        count *= 2;
    }
    (test_store, inbox, (1..=MANY).collect())
}

/// Returns whether another writer that starts after the command's first change finishes before the command.
async fn lets_others_write<T>(test_store: &TestStore, command: impl Future<Output = T>) -> (T, bool) {
    let is_done = AtomicBool::new(false);
    let command = async {
        let output = command.await;
        is_done.store(true, Ordering::SeqCst);
        output
    };
    let mailbox = test_store.message_store.mailbox(&ann()).await.unwrap();
    let mut watch = test_store.message_store.watch(mailbox);
    let other = async {
        watch.changed().await;
        test_store.message_store.put_mailbox(&bob(), Some(7)).await.unwrap();
        !is_done.load(Ordering::SeqCst)
    };
    tokio::join!(command, other)
}

#[tokio::test]
async fn others_write_while_very_many_messages_change() {
    let (test_store, inbox, uids) = full_store().await;
    let (message_store, sent) = (&test_store.message_store, folder("Sent"));

    let (copied, others_wrote) = lets_others_write(&test_store, message_store.copy(inbox, uids.clone(), &sent)).await;
    assert_eq!(copied.unwrap().uids, uids.iter().map(|&uid| (uid, uid)).collect::<Vec<_>>());
    assert!(others_wrote, "COPY");

    let deleted = || Flags::from_words(["\\Deleted"]);
    let sent_id = id(&test_store, "Sent").await;
    let store = message_store.store_flags(sent_id, uids.clone(), FlagChange::Add, deleted());
    let (stored, others_wrote) = lets_others_write(&test_store, store).await;
    assert_eq!(stored.unwrap().len(), uids.len());
    assert!(others_wrote, "STORE");

    let (removed, others_wrote) = lets_others_write(&test_store, message_store.expunge(sent_id, None)).await;
    assert_eq!(removed.unwrap(), uids);
    assert!(others_wrote, "EXPUNGE");

    let (moved, others_wrote) =
        lets_others_write(&test_store, message_store.move_messages(inbox, uids.clone(), &sent)).await;
    assert_eq!(moved.unwrap().uids, uids.iter().map(|&uid| (uid, uid + MANY)).collect::<Vec<_>>());
    assert!(others_wrote, "MOVE");
    assert_eq!(message_store.uids(inbox).await.unwrap(), [0; 0]);
    assert_eq!(message_store.quota(&ann()).await.unwrap().messages, u64::from(MANY));
    assert_eq!(test_store.number("SELECT refs FROM drop_messages"), i64::from(MANY));
}

#[tokio::test]
async fn others_write_while_a_whole_folder_goes() {
    let (test_store, inbox, uids) = full_store().await;
    let message_store = &test_store.message_store;
    let (owner, old) = (ann(), folder("Above/Old"));

    let (inbox_name, sent) = (folder("INBOX"), folder("Sent"));
    let (renamed, others_wrote) =
        lets_others_write(&test_store, message_store.rename_folder(&owner, &inbox_name, &old)).await;
    renamed.unwrap();
    assert!(others_wrote, "RENAME INBOX");
    let old_id = id(&test_store, "Above/Old").await;
    assert_eq!(
        (message_store.uids(inbox).await.unwrap(), message_store.uids(old_id).await.unwrap()),
        (vec![], uids.clone())
    );

    message_store.copy(old_id, uids.clone(), &sent).await.unwrap();
    let (purged, others_wrote) = lets_others_write(&test_store, message_store.purge(&owner)).await;
    let purged = purged.unwrap();
    assert_eq!((purged.folders, purged.messages), (8, 2 * u64::from(MANY)));
    assert!(others_wrote, "purge");
    assert_eq!(message_store.quota(&owner).await.unwrap().messages, 0);
}

#[tokio::test]
async fn mail_that_comes_while_a_mailbox_is_purged_stays() {
    let (test_store, inbox, _) = full_store().await;
    let mailbox = test_store.message_store.mailbox(&ann()).await.unwrap();
    let mut watch = test_store.message_store.watch(mailbox);
    let owner = ann();
    let meanwhile = async {
        watch.changed().await;
        test_store.deliver(&["ann@example.org"], MAIL).await;
    };
    let (purged, ()) = tokio::join!(test_store.message_store.purge(&owner), meanwhile);
    assert_eq!(purged.unwrap().messages, u64::from(MANY));
    assert_eq!(test_store.message_store.uids(inbox).await.unwrap(), [MANY + 1]);
}

/// Entries of removed folders that are not deleted yet.
const LEFT: &str =
    "SELECT count(*) FROM drop_entries e JOIN drop_folders f ON f.id = e.folder_id WHERE f.mailbox_id = 0";

#[tokio::test]
async fn a_large_folder_is_gone_at_once_and_its_rows_step_by_step() {
    let (test_store, inbox, uids) = full_store().await;
    let (message_store, sent) = (&test_store.message_store, id(&test_store, "Sent").await);
    message_store.copy(inbox, uids.clone(), &folder("Sent")).await.unwrap();

    message_store.delete_folder(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!(message_store.folder_now(sent).await, Err(MessageStoreError::NoSuchFolder));
    assert_eq!(message_store.copy(sent, vec![1], &folder("INBOX")).await, Err(MessageStoreError::NoSuchFolder));
    assert_eq!(message_store.quota(&ann()).await.unwrap().messages, u64::from(MANY));
    let again = message_store.create_folder(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!((again == sent, message_store.uids(again).await.unwrap()), (false, vec![]));
    assert_eq!(test_store.number(LEFT), i64::from(MANY));
    message_store.remove_entries_once().await.unwrap();
    assert!((1..=i64::from(MANY) - 100).contains(&test_store.number(LEFT)), "{}", test_store.number(LEFT));

    message_store.remove_mailbox(&ann()).await.unwrap();
    message_store.put_mailbox(&ann(), None).await.unwrap();
    assert_eq!(message_store.quota(&ann()).await.unwrap().messages, 0);
    message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_folders WHERE mailbox_id = 0"), 0);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_entries"), 0);
    assert_eq!(test_store.number("SELECT messages + used_bytes FROM drop_mailboxes WHERE id = 0"), 0);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 0);
}

#[tokio::test]
async fn a_copy_that_fails_on_its_way_is_taken_back() {
    let (test_store, inbox, uids) = full_store().await;
    let used = test_store.message_store.quota(&ann()).await.unwrap().used_bytes;
    let owner = ann();
    test_store.message_store.put_mailbox(&owner, Some(2 * used - 1)).await.unwrap();
    let copy = async || test_store.message_store.copy(inbox, uids.clone(), &folder("Sent")).await;
    assert_eq!(copy().await, Err(MessageStoreError::OverQuota), "a copy that does not fit does not start");

    test_store.message_store.put_mailbox(&ann(), Some(2 * used)).await.unwrap();
    let (copied, changed) = tokio::join!(copy(), test_store.message_store.put_mailbox(&owner, Some(used + used / 2)));
    changed.unwrap();
    assert_eq!(copied, Err(MessageStoreError::OverQuota), "the quota was lowered after some steps");
    let sent = test_store.message_store.folder(&ann(), &folder("Sent")).await.unwrap();
    assert_eq!((sent.messages, sent.size), (0, 0));
    assert_eq!(test_store.message_store.quota(&ann()).await.unwrap().used_bytes, used);
}

#[tokio::test]
async fn flags_of_very_many_messages_change_all_or_none() {
    let settings = mailapi_backend_embedded::MessageStoreSettings { max_keywords: 1, ..Default::default() };
    let test_store = TestStore::with(settings).await;
    let inbox = id(&test_store, "INBOX").await;

    test_store.message_store.append(&ann(), &folder("INBOX"), &Flags::new(), None, MAIL.to_owned()).await.unwrap();
    for count in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
        test_store.message_store.copy(inbox, (1..=count).collect(), &folder("INBOX")).await.unwrap();
    }
    test_store
        .message_store
        .append(&ann(), &folder("INBOX"), &Flags::from_words(["k"]), None, MAIL.to_owned())
        .await
        .unwrap();
    let before = test_store.message_store.select(&ann(), &folder("INBOX")).await.unwrap();
    let uids = before.entries.iter().map(|entry| entry.uid).collect();
    let stored = test_store.message_store.store_flags(inbox, uids, FlagChange::Add, Flags::from_words(["l"])).await;
    assert_eq!(stored, Err(MessageStoreError::TooManyKeywords));
    assert_eq!(test_store.message_store.select(&ann(), &folder("INBOX")).await.unwrap(), before);
}
