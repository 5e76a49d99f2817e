use std::sync::Mutex;

use mailapi_backend::{FolderScope, MailboxError, Mailboxes, SearchQuery};
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_backend_embedded::message_store::FlagChange;
use mailapi_imap::Flags;
use mailapi_model::Page;
use proptest::prelude::*;

use super::test_store::{TestStore, address, ann, bob, folder, mail};

fn query(text: &str, scope: FolderScope) -> SearchQuery {
    SearchQuery { text: text.parse().unwrap(), scope, page: Page::default() }
}

fn inbox() -> FolderScope {
    FolderScope::One(folder("INBOX"))
}

async fn uids(test_store: &TestStore, text: &str) -> Vec<u32> {
    let found = test_store.message_store.search(&ann(), &query(text, inbox())).await.unwrap();
    assert_eq!(found.total, found.items.len() as u64);
    found.items.into_iter().map(|hit| hit.uid).collect()
}

#[tokio::test]
async fn a_search_nowhere_is_refused() {
    let test_store = TestStore::new().await;
    let nowhere = FolderScope::One(folder("Nowhere"));
    let found = test_store.message_store.search(&ann(), &query("ab", nowhere)).await;
    assert_eq!(found, Err(MailboxError::NoSuchFolder));
    let unknown = address("nobody@example.org");
    assert_eq!(
        test_store.message_store.search(&unknown, &query("ab", inbox())).await,
        Err(MailboxError::NoSuchMailbox)
    );
}

#[tokio::test]
async fn a_text_is_found_before_and_after_it_is_indexed() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], &mail("=?utf-8?q?Caf=C3=A9?=", "nothing here")).await;
    test_store.deliver(&["ann@example.org"], &mail("other", "meet at the CAFÉ \"Zur Post\" AND (x)*")).await;
    test_store.deliver(&["bob@example.org"], &mail("café", "of bob")).await;
    for _ in 0..2 {
        assert_eq!(uids(&test_store, "café").await, [2, 1]);
        assert_eq!(uids(&test_store, "fé \"zur").await, [2]);
        assert_eq!(uids(&test_store, "AND (x)*").await, [2]);
        assert_eq!(uids(&test_store, "FÉ").await, [2, 1]);
        assert_eq!(uids(&test_store, "of bob").await, Vec::<u32>::new());
        assert_eq!(uids(&test_store, "words : x").await, Vec::<u32>::new());
        test_store.message_store.maintain_until_done().await.unwrap();
    }
    assert_eq!(test_store.number("SELECT count(*) FROM drop_unindexed"), 0);
    let inbox = test_store.message_store.folder(&ann(), &folder("INBOX")).await.unwrap().id;
    assert_eq!(test_store.message_store.search_text(inbox, "café").await.unwrap(), [1, 2]);
    assert_eq!(test_store.message_store.search_text(inbox, "").await.unwrap(), [1, 2]);
}

/// Merging segments is most of the index's work; a statement that flushes the index in between doubles it.
#[tokio::test]
async fn what_is_indexed_in_one_step_is_one_segment() {
    let test_store = TestStore::new().await;
    for number in 0..12 {
        test_store.deliver(&["ann@example.org"], &mail(&format!("number {number}"), "to be found")).await;
    }
    assert_eq!(test_store.message_store.index_once().await.unwrap(), 12);
    assert_eq!(test_store.number("SELECT count(DISTINCT segid) FROM drop_fts_idx"), 1);
}

#[tokio::test]
async fn text_is_found_in_any_form_and_in_older_indexes() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], &mail("Mu\u{308}ller", "Cafe\u{301}")).await;
    test_store.deliver(&["ann@example.org"], &mail("Müller", "Viele Grüße, Café")).await;
    test_store.deliver(&["ann@example.org"], &mail("plain", "cafe")).await;
    let check = async |stage: &str| {
        assert_eq!(uids(&test_store, "müller").await, [2, 1], "{stage}");
        assert_eq!(uids(&test_store, "MU\u{308}LLER").await, [2, 1], "{stage}");
        assert_eq!(uids(&test_store, "ül").await.len(), 2, "{stage}");
        assert_eq!(uids(&test_store, "GRÜSSE").await, [2], "{stage}");
        assert_eq!(uids(&test_store, "cafe").await, [3], "{stage}");
    };
    check("not indexed").await;
    test_store.message_store.maintain_until_done().await.unwrap();
    check("indexed").await;
    // As left by an earlier version.
    test_store
        .database()
        .execute_batch(&format!(
            "DELETE FROM drop_fts WHERE rowid = 1;
             INSERT INTO drop_fts (rowid, owners, words) VALUES (1, '<1>', 'mu\u{308}ller cafe\u{301}');
             DROP TABLE drop_quarantine;
             {WITHOUT_LATER_TABLES}
             DELETE FROM schema_migrations WHERE component = 'maildrop' AND version > 2;"
        ))
        .unwrap();
    test_store.open_again().await;
    assert_eq!(test_store.number("SELECT count(*) FROM drop_unindexed"), 2);
    check("to be indexed again").await;
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_unindexed"), 0);
    check("indexed again").await;
}

#[tokio::test]
async fn letters_of_any_width_are_found_also_where_indexed_before() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], &mail("Ｍａｉｌ １２", "ﾃﾞｰﾀ")).await;
    test_store.deliver(&["ann@example.org"], &mail("mail 12", "データ")).await;
    test_store.message_store.maintain_until_done().await.unwrap();
    // As left by an earlier version.
    test_store
        .database()
        .execute_batch(
            "DELETE FROM drop_fts WHERE rowid = 1;
             INSERT INTO drop_fts (rowid, owners, words) VALUES (1, '<1>', 'ｍａｉｌ １２ ﾃﾞｰﾀ');
             DELETE FROM schema_migrations WHERE component = 'maildrop' AND version = 5;",
        )
        .unwrap();
    test_store.open_again().await;
    assert_eq!(test_store.number("SELECT count(*) FROM drop_unindexed"), 1);
    for stage in ["to be indexed again", "indexed again"] {
        for wanted in ["mail 12", "ＭＡＩＬ", "データ", "ﾃﾞｰﾀ"] {
            assert_eq!(uids(&test_store, wanted).await, [2, 1], "{stage} {wanted}");
        }
        test_store.message_store.maintain_until_done().await.unwrap();
    }
}

/// The text that an earlier version stored: only the first author.
const STORED_BEFORE: &str = "
    UPDATE drop_texts SET text = replace(text, ', Second <second@elsewhere.example>', '');
    DELETE FROM drop_fts;
    INSERT INTO drop_fts (rowid, owners, words) SELECT message_id, '<1>', lower(text) FROM drop_texts;";

/// Undoes the changes of tables since version 6.
const WITHOUT_LATER_TABLES: &str = "
    ALTER TABLE drop_mailboxes DROP COLUMN save_sent;
    ALTER TABLE drop_entries DROP COLUMN delivered_to;
    ALTER TABLE drop_entries DROP COLUMN recipient;
    ALTER TABLE drop_folders DROP COLUMN first_recent;
    ALTER TABLE drop_folders DROP COLUMN vanished_after;
    ALTER TABLE drop_folders DROP COLUMN source_uid_next;
    DROP TABLE drop_imported;
    DROP TABLE drop_imports;
    DROP TABLE drop_hourly;
    DROP TABLE drop_expanded;
    DROP TABLE drop_sts_policies;
    ALTER TABLE drop_entries DROP COLUMN saved_at;
    DROP INDEX drop_entries_deleted;
    DROP TABLE drop_vanished;
    DROP TABLE drop_rules;
    DROP TABLE drop_answers;
    DROP TABLE drop_answered;
    DROP INDEX drop_queue_recipients_held_claims;
    ALTER TABLE drop_feed DROP COLUMN mailbox;
    ALTER TABLE drop_feed DROP COLUMN folder;
    ALTER TABLE drop_feed DROP COLUMN uid;
    ALTER TABLE drop_feed DROP COLUMN next_attempt_at;
    ALTER TABLE drop_feed DROP COLUMN authentication;
    ALTER TABLE drop_feed DROP COLUMN submitter;
    ALTER TABLE drop_feed DROP COLUMN author;
    ALTER TABLE drop_feed DROP COLUMN accepted_at;
    ALTER TABLE drop_feed DROP COLUMN attempts;
    ALTER TABLE drop_feed DROP COLUMN recipients;
    ALTER TABLE drop_feed DROP COLUMN size;
    ALTER TABLE drop_queue DROP COLUMN submitter;
    ALTER TABLE drop_queue DROP COLUMN author;
    DROP TABLE drop_aliases;
    ALTER TABLE drop_queue_recipients DROP COLUMN through;
    ALTER TABLE drop_queue_recipients DROP COLUMN forwarded_by;
    ALTER TABLE drop_queue_recipients DROP COLUMN alias_has_it;
    ALTER TABLE drop_queue DROP COLUMN from_outside;
    ALTER TABLE drop_queue_recipients DROP COLUMN failure_notified;
    DROP TABLE drop_reread;
    DELETE FROM drop_mailboxes WHERE id = 0;";

#[tokio::test]
async fn second_authors_are_found_in_mail_that_was_indexed_before() {
    let test_store = TestStore::with(MessageStoreSettings { index_batch: 4, ..MessageStoreSettings::default() }).await;
    let authors = "From: First <first@elsewhere.example>, Second <second@elsewhere.example>";
    for number in 0..10 {
        let message =
            mail("co-written", &format!("text {number}")).replace("From: Eve <eve@elsewhere.example>", authors);
        test_store.deliver(&["ann@example.org"], &message).await;
        test_store.deliver(&["ann@example.org"], &mail("of one", "text")).await;
    }
    test_store.message_store.maintain_until_done().await.unwrap();
    test_store.database().execute_batch(STORED_BEFORE).unwrap();
    assert_eq!(uids(&test_store, "second@").await.len(), 0);
    let before_version_6 = "DELETE FROM schema_migrations WHERE component = 'maildrop' AND version > 5;";
    test_store.database().execute_batch(&[WITHOUT_LATER_TABLES, before_version_6].concat()).unwrap();
    test_store.open_again().await;
    // Each step changes some texts, and changes in between do no harm.
    assert!((1..=8).contains(&test_store.message_store.reread_once().await.unwrap()));
    assert_eq!(uids(&test_store, "second@").await.len(), 4);
    test_store.deliver(&["ann@example.org"], &mail("meanwhile", "second@elsewhere.example")).await;
    let inbox = test_store.message_store.folder(&ann(), &folder("INBOX")).await.unwrap().id;
    test_store
        .message_store
        .store_flags(inbox, vec![19], FlagChange::Add, Flags::from_words(["\\Deleted"]))
        .await
        .unwrap();
    test_store.message_store.expunge(inbox, None).await.unwrap();
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(uids(&test_store, "second@").await.len(), 10);
    assert_eq!(uids(&test_store, "of one").await.len(), 10);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_unindexed"), 0);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_reread"), 0);
    assert!(!test_store.message_store.maintain_once().await.unwrap());
}

#[tokio::test]
async fn a_text_too_long_for_the_index_is_found_all_the_same() {
    let test_store =
        TestStore::with(MessageStoreSettings { max_indexed_bytes: 100, ..MessageStoreSettings::default() }).await;
    test_store.deliver(&["ann@example.org"], &mail("long", &format!("{} needle", "hay ".repeat(50)))).await;
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_unindexed"), 1);
    assert_eq!(uids(&test_store, "needle").await, [1]);
}

#[tokio::test]
async fn all_folders_are_searched_newest_first_page_by_page() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], &mail("one needle", ".")).await;
    test_store.advance(1);
    let sent = bytes::Bytes::from(mail("two needle", "."));
    test_store.message_store.append(&ann(), &folder("Sent"), &Flags::new(), None, sent).await.unwrap();
    test_store.advance(1);
    test_store.deliver(&["ann@example.org"], &mail("three", "with a needle in it")).await;
    test_store.message_store.maintain_until_done().await.unwrap();
    let found = test_store.message_store.search(&ann(), &query("NEEDLE", FolderScope::All)).await.unwrap();
    let places: Vec<_> = found.items.iter().map(|hit| (hit.folder.as_str(), hit.uid)).collect();
    assert_eq!(places, [("INBOX", 2), ("Sent", 1), ("INBOX", 1)]);
    assert_eq!(found.items[0].snippet, "with a needle in it");
    assert_eq!(found.items[0].from.name, "Eve");
    let page = SearchQuery { page: Page::new(1, 1), ..query("needle", FolderScope::All) };
    let second = test_store.message_store.search(&ann(), &page).await.unwrap();
    assert_eq!((second.total, &second.items[..]), (3, &found.items[1..2]));
}

fn small_text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "A", "ß", "İ", "σ", "ς", "\"", "'", "*", " ", "😀"]),
        0..12,
    )
    .prop_map(|letters| letters.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_index_finds_exactly_what_a_look_at_every_text_finds(
        bodies in prop::collection::vec(small_text(), 1..12),
        wanted in prop::collection::vec(small_text(), 8),
        indexed in 0_usize..12,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let settings = MessageStoreSettings { index_batch: indexed.max(1), ..MessageStoreSettings::default() };
            let test_store = TestStore::with(settings).await;
            for body in &bodies {
                let text = format!("Content-Type: text/plain; charset=utf-8\r\n\r\nxx{body}yy\r\n");
                let message = bytes::Bytes::from(text);
                test_store.message_store.append(&ann(), &folder("INBOX"), &Flags::new(), None, message).await.unwrap();
            }
            if indexed > 0 {
                test_store.message_store.index_once().await.unwrap();
            }
            for text in &wanted {
                let Ok(asked) = text.parse() else { continue };
                let naive: Vec<u32> = (1..=bodies.len())
                    .rev()
                    .filter(|n| mailapi_backend::mime::matches(&format!("xx{}yy", bodies[n - 1]), &asked))
                    .map(|n| u32::try_from(n).unwrap())
                    .collect();
                assert_eq!(uids(&test_store, text).await, naive, "{text:?} in {bodies:?}");
            }
        });
    }
}

#[tokio::test]
async fn concurrent_searches_of_one_mailbox_all_get_answers() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org", "bob@example.org"], &mail("Hi", "a needle in the hay")).await;
    let folders = [&ann(), &bob()].map(|mailbox| {
        let message_store = test_store.message_store.clone();
        let mailbox = mailbox.clone();
        async move { message_store.folder(&mailbox, &folder("INBOX")).await.unwrap().id }
    });
    let [ann, bob] = folders;
    let (ann, bob) = (ann.await, bob.await);
    let searches = (0..40).map(|number| {
        let message_store = test_store.message_store.clone();
        let folder = if number % 2 == 0 { ann } else { bob };
        tokio::spawn(async move { message_store.search_text(folder, "NEEDLE").await })
    });
    for search in searches.collect::<Vec<_>>() {
        assert_eq!(search.await.unwrap().unwrap(), [1]);
    }
}

#[tokio::test]
async fn a_search_that_reads_long_gives_way_to_others_of_the_mailbox() {
    let test_store =
        TestStore::with(MessageStoreSettings { mailbox_searches: 1, ..MessageStoreSettings::default() }).await;
    // Texts without an index are read: together many times the amount of one step.
    for number in 0..5 {
        test_store.deliver(&["ann@example.org"], &mail(&format!("long {number}"), &"hay ".repeat(700_000))).await;
    }
    let id = async |name: &str| test_store.message_store.folder(&ann(), &folder(name)).await.unwrap().id;
    let (inbox, sent) = (id("INBOX").await, id("Sent").await);
    for text in ["needle", "xy"] {
        let order = Mutex::new(Vec::new());
        let search = async |name: &'static str, folder| {
            let found = test_store.message_store.search_text(folder, text).await.unwrap();
            order.lock().unwrap().push((name, found.len()));
        };
        tokio::join!(search("long", inbox), search("short", sent));
        assert_eq!(order.into_inner().unwrap(), [("short", 0), ("long", 0)], "{text}");
    }
    assert_eq!(uids(&test_store, "long 3").await, [4]);
}
