//! Imports from other mail servers and from files.

use std::time::Duration;

use mailapi_backend::{ImportProgress, Mailboxes, Provisioning};
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_backend_embedded::message_store::{
    FlagChange, Folder, ImportFolder, ImportMessage, ImportOutcome, MessageStoreError, SourceUids, UidLoss,
};
use mailapi_imap::Flags;
use mailapi_model::{Clock, Timestamp};

use super::test_store::{TestStore, address, ann, bob, folder, mail};

/// The source's UIDVALIDITY, of a time before the clock of the tests.
const VALIDITY: u32 = 1_000_000_007;

const fn numbers(uid_next: u32) -> Option<SourceUids> {
    Some(SourceUids { uid_validity: VALIDITY, uid_next })
}

fn message(uid: u32) -> ImportMessage {
    ImportMessage {
        key: u128::from(uid).to_be_bytes(),
        uid: Some(uid),
        flags: Flags::from_words(["\\Seen", "todo"]),
        internal_date: Some(Timestamp::from_seconds(i64::from(uid))),
        content: mail(&format!("number {uid}"), ".").into(),
    }
}

fn messages(uids: &[u32]) -> Vec<ImportMessage> {
    uids.iter().map(|uid| message(*uid)).collect()
}

async fn prepared(test_store: &TestStore, source: Option<SourceUids>) -> ImportFolder {
    test_store.message_store.prepare_import(&ann(), &folder("INBOX"), source).await.unwrap()
}

async fn imported(test_store: &TestStore, target: ImportFolder, uids: &[u32]) -> Vec<ImportOutcome> {
    test_store.message_store.import(target, messages(uids)).await.unwrap()
}

async fn inbox(test_store: &TestStore) -> Folder {
    test_store.message_store.folder(&ann(), &folder("INBOX")).await.unwrap()
}

async fn uids(test_store: &TestStore) -> Vec<u32> {
    test_store.message_store.uids(inbox(test_store).await.id).await.unwrap()
}

const fn kept(uid: u32) -> ImportOutcome {
    ImportOutcome::Imported { uid, uid_loss: None, lost_keywords: 0 }
}

const fn new(uid: u32, uid_loss: UidLoss) -> ImportOutcome {
    ImportOutcome::Imported { uid, uid_loss: Some(uid_loss), lost_keywords: 0 }
}

#[tokio::test]
async fn an_import_into_no_mailbox_is_refused() {
    let test_store = TestStore::new().await;
    let nobody = address("nobody@example.org");
    let refused = test_store.message_store.prepare_import(&nobody, &folder("INBOX"), None).await;
    assert_eq!(refused, Err(MessageStoreError::NoSuchMailbox));
}

#[tokio::test(start_paused = true)]
async fn an_import_leaves_time_to_another_process_that_writes() {
    let test_store = TestStore::new().await;
    let target = prepared(&test_store, None).await;
    imported(&test_store, target, &[1]).await;
    // The clock moves only while something waits for it.
    let began = tokio::time::Instant::now();
    imported(&test_store, target, &[2]).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    test_store.open_again().await.create_folder(&ann(), &folder("Work")).await.unwrap();
    imported(&test_store, target, &[3]).await;
    assert!(began.elapsed() > Duration::ZERO);
    assert_eq!(uids(&test_store).await, [1, 2, 3]);
}

#[tokio::test]
async fn a_refused_message_or_keyword_does_not_stop_the_others() {
    let test_store = TestStore::with(MessageStoreSettings {
        max_message_bytes: 1000,
        max_keywords: 1,
        ..MessageStoreSettings::default()
    })
    .await;
    let size = message(1).content.len() as u64;
    test_store.message_store.put_mailbox(&ann(), Some(3 * size)).await.unwrap();
    let target = prepared(&test_store, numbers(9)).await;
    let mut all = messages(&[1, 2, 3, 4, 5]);
    all[1].content = "x".repeat(1001).into();
    all[2].flags = Flags::from_words(["one", "two"]);
    let outcomes = test_store.message_store.import(target, all).await.unwrap();
    let refused = ImportOutcome::Refused;
    let expected = [
        kept(1),
        refused(MessageStoreError::TooLong),
        ImportOutcome::Imported { uid: 3, uid_loss: None, lost_keywords: 1 },
        kept(4),
        refused(MessageStoreError::OverQuota),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(uids(&test_store).await, [1, 3, 4]);
}

#[tokio::test]
async fn a_second_run_imports_what_is_missing() {
    let test_store = TestStore::new().await;
    let target = prepared(&test_store, numbers(5)).await;
    imported(&test_store, target, &[2, 3]).await;
    // One of them is removed here, and does not come back.
    let deleted = Flags::from_words(["\\Deleted"]);
    test_store.message_store.store_flags(target.id, vec![3], FlagChange::Add, deleted).await.unwrap();
    test_store.message_store.expunge(target.id, None).await.unwrap();
    let again = prepared(&test_store, numbers(5)).await;
    assert_eq!(again.uid_loss, None);
    let keys = messages(&[2, 3, 4]).iter().map(|message| message.key).collect::<Vec<_>>();
    assert_eq!(test_store.message_store.known_imports(again.id, &keys).await, Ok(vec![true, true, false]));
    let outcomes = imported(&test_store, again, &[2, 3, 4]).await;
    assert_eq!(outcomes, [ImportOutcome::Known, ImportOutcome::Known, kept(4)]);
    assert_eq!(uids(&test_store).await, [2, 4]);
}

#[tokio::test]
async fn a_new_and_empty_folder_gets_the_numbers_of_the_source() {
    let test_store = TestStore::new().await;
    let target = prepared(&test_store, numbers(90)).await;
    assert_eq!(imported(&test_store, target, &[7, 12]).await, [kept(7), kept(12)]);
    assert_eq!(test_store.message_store.finish_import(target.id, numbers(90).unwrap()).await, Ok(None));
    let inbox = inbox(&test_store).await;
    assert_eq!((inbox.uid_validity, inbox.uid_next, inbox.messages), (VALIDITY, 90, 2));
    let mut export = test_store.message_store.begin_export(&ann()).await.unwrap();
    let metas = export.entries_above(inbox.id, 0, 10).unwrap();
    assert_eq!((metas[0].state.uid, metas[0].internal_date.as_seconds()), (7, 7));
    assert_eq!(metas[0].state.flags, Flags::from_words(["\\Seen", "todo"]));
    let content = export.message_of(&metas[1]).unwrap();
    assert_eq!(content.to_bytes().unwrap(), mail("number 12", "."));
    test_store.deliver(&["ann@example.org"], &mail("new", ".")).await;
    assert_eq!(uids(&test_store).await, [7, 12, 90]);
}

#[tokio::test]
async fn other_folders_keep_their_own_numbers() {
    let test_store = TestStore::new().await;
    let before = inbox(&test_store).await.uid_validity;
    let future = SourceUids { uid_validity: u32::MAX, uid_next: 9 };
    let refused = prepared(&test_store, Some(future)).await;
    assert_eq!(refused.uid_loss, Some(UidLoss::BadValidity), "later folders would need a higher one");
    test_store.deliver(&["ann@example.org"], &mail("new", ".")).await;
    let target = prepared(&test_store, numbers(9)).await;
    assert_eq!(imported(&test_store, target, &[7]).await, [new(2, UidLoss::FolderInUse)]);
    assert_eq!(
        test_store.message_store.finish_import(target.id, numbers(9).unwrap()).await,
        Ok(Some(UidLoss::OtherMail))
    );
    assert_eq!(inbox(&test_store).await.uid_validity, before);
}

#[tokio::test]
async fn mail_that_arrives_between_ends_the_numbers_of_the_source() {
    let test_store = TestStore::new().await;
    let target = prepared(&test_store, numbers(9)).await;
    imported(&test_store, target, &[3]).await;
    test_store.deliver(&["ann@example.org"], &mail("new", ".")).await;
    // UID 4 is the new message here, and another one in the source.
    assert_eq!(imported(&test_store, target, &[4]).await, [new(5, UidLoss::OtherMail)]);
    let inbox_now = inbox(&test_store).await;
    assert!(inbox_now.uid_validity > VALIDITY, "clients must not mix up the two");
    assert_eq!(
        test_store.message_store.finish_import(target.id, numbers(9).unwrap()).await,
        Ok(Some(UidLoss::OtherMail))
    );
    let again = prepared(&test_store, numbers(9)).await;
    assert_eq!(again.uid_loss, Some(UidLoss::FolderInUse));
    assert_eq!(imported(&test_store, again, &[4, 8]).await, [ImportOutcome::Known, new(6, UidLoss::FolderInUse)]);
}

#[tokio::test]
async fn removed_messages_of_the_source_end_them_as_well() {
    let test_store = TestStore::new().await;
    let target = prepared(&test_store, numbers(9)).await;
    imported(&test_store, target, &[3]).await;
    test_store.deliver(&["ann@example.org"], &mail("new", ".")).await;
    // The source gave UID 4 to a message that is gone, but a client may remember it.
    assert_eq!(
        test_store.message_store.finish_import(target.id, numbers(9).unwrap()).await,
        Ok(Some(UidLoss::OtherMail))
    );
    assert!(inbox(&test_store).await.uid_validity > VALIDITY);
}

#[tokio::test]
async fn a_missing_folder_is_made_and_its_keys_go_with_it() {
    let test_store = TestStore::new().await;
    let work = folder("Work/2026");
    let target = test_store.message_store.prepare_import(&ann(), &work, numbers(9)).await.unwrap();
    imported(&test_store, target, &[1, 2, 3]).await;
    assert!(test_store.message_store.subscriptions(&ann()).await.unwrap().contains(&work));
    test_store.message_store.delete_folder(&ann(), &work).await.unwrap();
    while test_store.message_store.remove_entries_once().await.unwrap() > 0 {}
    assert_eq!(test_store.number("SELECT count(*) FROM drop_imported"), 0);
    let again = test_store.message_store.prepare_import(&ann(), &work, numbers(9)).await.unwrap();
    assert_eq!(imported(&test_store, again, &[1]).await, [kept(1)]);
}

#[tokio::test]
async fn the_progress_of_an_import_is_known_until_it_ends() {
    let test_store = TestStore::new().await;
    let message_store = &test_store.message_store;
    let progress = |mailbox, folder_name, done, total| ImportProgress {
        mailbox,
        folder: folder(folder_name),
        done,
        total,
        changed_at: test_store.clock.now(),
    };
    assert_eq!(message_store.imports().await.unwrap(), []);
    message_store.note_import(&ann(), &folder("INBOX"), 0, Some(500)).await.unwrap();
    message_store.note_import(&ann(), &folder("Old"), 120, None).await.unwrap();
    let of_ann = progress(ann(), "Old", 120, None);
    test_store.clock.advance(Duration::from_secs(5));
    message_store.note_import(&bob(), &folder("INBOX"), 7, Some(9)).await.unwrap();
    let of_bob = progress(bob(), "INBOX", 7, Some(9));
    assert_eq!(message_store.imports().await.unwrap(), [of_bob.clone(), of_ann], "the latest progress comes first");
    message_store.end_import(&ann()).await.unwrap();
    assert_eq!(message_store.imports().await.unwrap(), [of_bob]);
    message_store.remove_mailbox(&bob()).await.unwrap();
    assert_eq!(message_store.imports().await.unwrap(), []);
    let refused = message_store.note_import(&bob(), &folder("INBOX"), 1, None).await;
    assert_eq!(refused, Err(MessageStoreError::NoSuchMailbox));
}

#[tokio::test]
async fn absurd_numbers_of_a_source_are_not_kept() {
    for (uid_next, source_uids) in
        [(u32::MAX, vec![7]), (9, vec![7, u32::MAX]), (u32::MAX, vec![u32::MAX - 1, u32::MAX])]
    {
        let test_store = TestStore::new().await;
        let target = prepared(&test_store, numbers(uid_next)).await;
        let outcomes = imported(&test_store, target, &source_uids).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, ImportOutcome::Imported { uid, .. } if *uid < 100)));
        let uid_loss = test_store.message_store.finish_import(target.id, numbers(u32::MAX).unwrap()).await.unwrap();
        let after = inbox(&test_store).await;
        assert!(uid_loss.is_some() && after.uid_validity != VALIDITY && after.uid_next < 100, "{after:?}");
        test_store.deliver(&["ann@example.org", "bob@example.org"], &mail("new", ".")).await;
        assert_eq!(inbox(&test_store).await.messages, source_uids.len() as u64 + 1);
    }
}

#[tokio::test]
async fn a_folder_whose_uids_an_import_used_up_can_be_imported_again() {
    let test_store = TestStore::new().await;
    let target = prepared(&test_store, numbers(9)).await;
    imported(&test_store, target, &[3]).await;
    // An earlier version kept these numbers.
    let sql = "UPDATE drop_folders SET uid_next = 4294967295, source_uid_next = 4294967295 WHERE uid_validity = ?1";
    assert_eq!(test_store.database().execute(sql, [VALIDITY]).unwrap(), 1);
    let again = prepared(&test_store, numbers(u32::MAX)).await;
    assert_eq!(again.uid_loss, Some(UidLoss::FolderInUse));
    assert_eq!(imported(&test_store, again, &[3, 4]).await, [ImportOutcome::Known, new(2, UidLoss::FolderInUse)]);
    assert_eq!(uids(&test_store).await, [1, 2]);
}

#[tokio::test]
async fn a_uid_that_a_source_repeats_ends_its_numbers() {
    let test_store = TestStore::new().await;
    let target = prepared(&test_store, numbers(9)).await;
    let mut repeated = messages(&[3, 4]);
    repeated[1].uid = Some(3);
    let outcomes = test_store.message_store.import(target, repeated).await.unwrap();
    assert_eq!(outcomes, [kept(3), new(4, UidLoss::Disordered)]);
    assert!(inbox(&test_store).await.uid_validity > VALIDITY, "clients must not mix up the two");
}
