//! Folders whose numbers are used up or damaged, and mailboxes that cannot take mail.

use mailapi_backend::{Mailboxes, Provisioning, Recorded, Submission, SubmitError};
use mailapi_backend_embedded::accept::{AcceptError, RecipientCheck, Relaying};
use mailapi_backend_embedded::message_store::{Folder, MessageStoreError, pass_over_used_numbers};
use mailapi_imap::Flags;
use mailapi_model::{Blob, Clock, EmailAddress, Envelope, MessageId, SaveSent};
use mailapi_testkit::SeededEntropy;
use proptest::prelude::*;

use super::test_store::{TestStore, address, ann, bob, folder, mail};

/// Changes a number of ann's INBOX, as an import by an earlier version or a damaged file did.
fn damage(test_store: &TestStore, assignment: &str) {
    let sql = format!(
        "UPDATE drop_folders SET {assignment} WHERE name = 'INBOX'
            AND mailbox_id = (SELECT id FROM drop_mailboxes WHERE address = 'ann@example.org')"
    );
    assert_eq!(test_store.database().execute(&sql, []).unwrap(), 1, "{assignment}");
}

async fn inbox(test_store: &TestStore, mailbox: &EmailAddress) -> Folder {
    test_store.message_store.folder(mailbox, &folder("INBOX")).await.unwrap()
}

async fn uids(test_store: &TestStore, mailbox: &EmailAddress) -> Vec<u32> {
    test_store.message_store.uids(inbox(test_store, mailbox).await.id).await.unwrap()
}

async fn broken(test_store: &TestStore) -> Vec<String> {
    let found = test_store.message_store.broken_mailboxes().await.unwrap();
    found.into_iter().map(|one| format!("{}: {}", one.address, one.reason)).collect()
}

fn envelope(seed: u64, recipients: &[&str]) -> Envelope {
    let message_id = MessageId::random(mailapi_model::Timestamp::from_millis(0), &SeededEntropy::new(seed));
    Envelope { message_id, sender: Some(bob()), recipients: recipients.iter().map(|one| address(one)).collect() }
}

#[tokio::test]
async fn a_folder_without_free_uids_gets_new_ones_with_new_mail() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], &mail("first", ".")).await;
    test_store.deliver(&["ann@example.org"], &mail("second", ".")).await;
    damage(&test_store, "uid_next = 4294967295, source_uid_next = 4294967295");
    let before = inbox(&test_store, &ann()).await;
    assert!(broken(&test_store).await[0].contains("ann@example.org: the numbers of the folder INBOX are used up"));
    test_store.deliver(&["ann@example.org", "bob@example.org"], &mail("third", ".")).await;
    let after = inbox(&test_store, &ann()).await;
    assert!(after.uid_validity > before.uid_validity, "mail programs must load the folder again");
    assert_ne!(after.id, before.id, "a session with the old UIDs must find the folder gone");
    assert_eq!(test_store.message_store.folder_now(before.id).await, Err(MessageStoreError::NoSuchFolder));
    assert_eq!(uids(&test_store, &ann()).await, [1, 2, 3]);
    assert_eq!((after.messages, after.unread, after.uid_next), (3, 3, 4));
    assert_eq!(uids(&test_store, &bob()).await, [1]);
    assert_eq!(broken(&test_store).await, [] as [&str; 0]);
    test_store.message_store.maintain_until_done().await.unwrap();
    let quota = test_store.message_store.quota(&ann()).await.unwrap();
    assert_eq!((quota.messages, quota.used_bytes), (3, after.size));
    assert_eq!(test_store.number("SELECT count(*) FROM drop_folders WHERE mailbox_id = 0"), 0);
}

#[tokio::test]
async fn purge_mends_a_mailbox_too() {
    for damaged in ["uid_next = 4294967295", "uid_next = -5", "uid_next = 1e300", "highest_modseq = 'x'"] {
        let test_store = TestStore::new().await;
        test_store.deliver(&["ann@example.org"], &mail("first", ".")).await;
        damage(&test_store, damaged);
        let purged = test_store.message_store.purge(&ann()).await.unwrap();
        assert_eq!(purged.messages, 1, "{damaged}");
        test_store.deliver(&["ann@example.org"], &mail("next", ".")).await;
        assert_eq!(inbox(&test_store, &ann()).await.messages, 1, "{damaged}");
    }
}

#[tokio::test]
async fn appending_copying_and_drafts_find_free_uids_as_well() {
    let test_store = TestStore::new().await;
    let message_store = &test_store.message_store;
    test_store.deliver(&["ann@example.org"], &mail("first", ".")).await;
    let use_up = |name: &str| {
        let sql = format!("UPDATE drop_folders SET uid_next = 4294967295 WHERE name = '{name}'");
        test_store.database().execute(&sql, []).unwrap();
    };
    use_up("Archive");
    let appended = message_store
        .append(&ann(), &folder("Archive"), &Flags::new(), None, mail("appended", ".").into_bytes())
        .await
        .unwrap();
    assert_eq!(appended.uid, 1);
    use_up("Archive");
    let source = inbox(&test_store, &ann()).await.id;
    let copied = message_store.copy(source, vec![1], &folder("Archive")).await.unwrap();
    assert_eq!(copied.uids, [(1, 2)]);
    assert!(copied.uid_validity > appended.uid_validity);
    use_up("Drafts");
    let draft = mailapi_backend::NewDraft {
        message: Blob::from(mail("draft", ".")),
        replaces: None,
        message_id: "<draft@example.org>".to_owned(),
    };
    assert_eq!(message_store.save_draft(&ann(), draft).await.unwrap().uid, 1);
}

#[tokio::test]
async fn a_mailbox_that_cannot_be_mended_is_refused_alone() {
    let test_store = TestStore::new().await;
    // Nothing can be added to this folder.
    let trigger =
        "CREATE TRIGGER refuse BEFORE INSERT ON drop_entries WHEN NEW.folder_id = (SELECT f.id FROM drop_folders f
        JOIN drop_mailboxes m ON m.id = f.mailbox_id WHERE m.address = 'ann@example.org' AND f.name = 'INBOX')
        BEGIN SELECT RAISE(ABORT, 'damaged'); END";
    test_store.database().execute(trigger, []).unwrap();
    let incoming = test_store.incoming(&["ann@example.org", "bob@example.org"], &mail("both", "."));
    let taken = test_store.message_store.accept(incoming).await.unwrap();
    assert_eq!(taken.delivered, [bob()]);
    assert_eq!((taken.refused[0].recipient.clone(), taken.refused[0].reply.code), (ann(), 550));
    assert_eq!(uids(&test_store, &bob()).await, [1], "one copy, in spite of two attempts");
    // The same by the API: a result for each recipient.
    let sent = envelope(1, &["ann@example.org", "bob@example.org"]);
    let accepted = test_store.message_store.submit(sent, Blob::from(mail("api", ".")), &Recorded).await.unwrap();
    assert_eq!(accepted.refused[0].recipient, ann());
    assert_eq!(uids(&test_store, &bob()).await, [1, 2]);
    let sent = envelope(2, &["ann@example.org"]);
    let refused = test_store.message_store.submit(sent, Blob::from(mail("api", ".")), &Recorded).await.unwrap_err();
    assert!(matches!(refused, SubmitError::NoRecipients(_)), "{refused:?}");
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 2, "nothing of a refused message remains");
}

#[tokio::test]
async fn a_damaged_author_sends_nevertheless() {
    let test_store = TestStore::new().await;
    test_store.message_store.set_save_sent(&bob(), SaveSent::All).await.unwrap();
    let trigger = "CREATE TRIGGER refuse BEFORE INSERT ON drop_entries
        WHEN NEW.folder_id IN (SELECT id FROM drop_folders WHERE name = 'Sent')
        BEGIN SELECT RAISE(ABORT, 'damaged'); END";
    test_store.database().execute(trigger, []).unwrap();
    let sent = envelope(1, &["ann@example.org"]);
    let accepted = test_store.message_store.submit(sent, Blob::from(mail("api", ".")), &Recorded).await.unwrap();
    assert_eq!(accepted.refused, []);
    assert_eq!(uids(&test_store, &ann()).await, [1]);
}

#[tokio::test]
async fn damaged_rows_of_a_mailbox_refuse_it_at_rcpt() {
    let test_store = TestStore::new().await;
    let sql = "UPDATE drop_mailboxes SET quota_bytes = 'x', used_bytes = -7 WHERE address = 'ann@example.org'";
    test_store.database().execute(sql, []).unwrap();
    let outside = test_store.check("ann@example.org", 0, Relaying::Denied).await;
    assert!(matches!(&outside, RecipientCheck::Refused(reply) if reply.code == 451), "{outside:?}");
    let author = test_store.check("ann@example.org", 0, Relaying::Allowed).await;
    assert!(matches!(&author, RecipientCheck::Refused(reply) if reply.code == 550), "{author:?}");
    assert_eq!(test_store.check("bob@example.org", 0, Relaying::Denied).await, RecipientCheck::Local);
    let incoming = test_store.incoming(&["ann@example.org", "bob@example.org"], &mail("both", "."));
    assert_eq!(test_store.message_store.accept(incoming).await.unwrap().delivered, [bob()]);
    assert_eq!(broken(&test_store).await, ["ann@example.org: its counters are damaged"]);
    assert_eq!(test_store.message_store.mend_all().await.unwrap(), [ann()]);
    assert_eq!(test_store.check("ann@example.org", 0, Relaying::Denied).await, RecipientCheck::Local);
}

#[tokio::test]
async fn damaged_rules_refuse_their_own_mailbox_alone() {
    let test_store = TestStore::new().await;
    let sql =
        "INSERT INTO drop_rules (mailbox_id, rules) SELECT id, '{' FROM drop_mailboxes WHERE address LIKE 'ann@%'";
    test_store.database().execute(sql, []).unwrap();
    let incoming = test_store.incoming(&["bob@example.org", "ann@example.org"], &mail("both", "."));
    assert_eq!(test_store.message_store.accept(incoming).await.unwrap().delivered, [bob()]);
    let incoming = test_store.incoming(&["ann@example.org"], &mail("one", "."));
    let refused = test_store.message_store.accept(incoming).await.unwrap_err();
    assert!(matches!(refused, AcceptError::NoRecipients(_)), "{refused:?}");
    assert!(broken(&test_store).await[0].contains("the rules of a mailbox"));
}

#[tokio::test]
async fn a_missing_inbox_is_created_and_a_damaged_mailbox_removed() {
    let test_store = TestStore::new().await;
    let sql = "DELETE FROM drop_folders WHERE name = 'INBOX'";
    test_store.database().execute(sql, []).unwrap();
    assert_eq!(broken(&test_store).await.len(), 2);
    test_store.deliver(&["ann@example.org"], &mail("first", ".")).await;
    assert_eq!(uids(&test_store, &ann()).await, [1]);
    damage(&test_store, "uid_next = 'x', size = -9");
    test_store.message_store.remove_mailbox(&ann()).await.unwrap();
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_entries"), 0);
    assert_eq!(test_store.number("SELECT messages FROM drop_mailboxes WHERE id = 0"), 0);
}

#[tokio::test]
async fn the_last_uid_validity_is_not_the_last_folder() {
    let test_store = TestStore::new().await;
    for last in ["4294967294", "4294967295", "9e18", "'x'"] {
        test_store.database().execute(&format!("UPDATE drop_uid_validity SET last = {last}"), []).unwrap();
        for name in ["One", "Two", "Three"] {
            let name = folder(&format!("{name} {last}"));
            test_store.message_store.create_folder(&ann(), &name).await.unwrap();
            assert!(test_store.message_store.folder(&ann(), &name).await.unwrap().uid_validity > 0);
        }
    }
}

#[tokio::test]
async fn a_restore_leaves_no_number_behind_its_range() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], &mail("first", ".")).await;
    damage(&test_store, "highest_modseq = 9223372036854775807, uid_next = 4294967000");
    pass_over_used_numbers(&test_store.sqlite, test_store.clock.now()).await.unwrap();
    test_store.message_store.mend_all().await.unwrap();
    test_store.deliver(&["ann@example.org"], &mail("second", ".")).await;
    assert_eq!(uids(&test_store, &ann()).await, [1, 2]);
}

/// Any value that a column of a damaged file may have.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        prop::sample::select(vec![
            "0",
            "1",
            "4294967294",
            "4294967295",
            "4294967296",
            "-1",
            "1.5",
            "1e300",
            "'x'",
            "x''"
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_the_numbers_are_mail_arrives(
        column in prop::sample::select(vec![
            "uid_validity", "uid_next", "highest_modseq", "vanished_after", "first_recent", "source_uid_next", "messages",
            "unread", "size",
        ]),
        value in value(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let test_store = TestStore::new().await;
            test_store.deliver(&["ann@example.org"], &mail("first", ".")).await;
            damage(&test_store, &format!("{column} = {value}"));
            let incoming = test_store.incoming(&["ann@example.org", "bob@example.org"], &mail("both", "."));
            let taken = test_store.message_store.accept(incoming).await.unwrap();
            assert!(taken.delivered.contains(&bob()));
            // Numbers that deliveries do not use are mended at the start.
            test_store.message_store.mend_all().await.unwrap();
            assert_eq!(broken(&test_store).await, [] as [&str; 0]);
            test_store.deliver(&["ann@example.org"], &mail("last", ".")).await;
            // A wrong counter within its range is not noticed.
            let messages = inbox(&test_store, &ann()).await.messages;
            let uids = uids(&test_store, &ann()).await;
            assert!(uids.len() >= 2 && uids[0] > 0 && (column == "messages" || uids.len() as u64 == messages), "{uids:?}");
        });
    }
}
