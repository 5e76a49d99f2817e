use mailapi_backend::{Backlog, Mailboxes, Provisioning};
use mailapi_backend_embedded::MessageStoreSettings;

use super::test_store::{TestStore, ann, bob, mail};

#[tokio::test]
async fn bytes_go_when_the_last_who_refers_to_them_goes() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org", "bob@example.org"], &mail("Hi", "Hello.")).await;
    test_store.message_store.maintain_until_done().await.unwrap();
    test_store.message_store.purge(&ann()).await.unwrap();
    assert_eq!(test_store.message_store.collect_garbage_once().await.unwrap(), 0);
    test_store.message_store.remove_mailbox(&bob()).await.unwrap();
    test_store.message_store.remove_entries_once().await.unwrap();
    assert_eq!(test_store.message_store.collect_garbage_once().await.unwrap(), 1);
    for table in ["messages", "chunks", "texts", "unindexed"] {
        assert_eq!(test_store.number(&format!("SELECT count(*) FROM drop_{table}")), 0, "{table}");
    }
    assert_eq!(test_store.number("SELECT count(*) FROM drop_fts WHERE drop_fts MATCH '\"hello\"'"), 0);
}

#[tokio::test]
async fn a_step_has_a_bound_and_the_rest_is_left_for_the_next() {
    let test_store =
        TestStore::with(MessageStoreSettings { sweep_batch: 2, index_batch: 2, ..MessageStoreSettings::default() })
            .await;
    for _ in 0..3 {
        test_store.deliver(&["ann@example.org"], &mail("Hi", "Hello.")).await;
    }
    for expected in [2, 1, 0] {
        assert_eq!(test_store.message_store.index_once().await.unwrap(), expected);
    }
    test_store.message_store.purge(&ann()).await.unwrap();
    for expected in [2, 1, 0] {
        assert_eq!(test_store.message_store.collect_garbage_once().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_damaged_message_does_not_stop_indexing() {
    let test_store = TestStore::new().await;
    for _ in 0..2 {
        test_store.deliver(&["ann@example.org"], &mail("Hi", "Hello.")).await;
    }
    test_store.database().execute_batch("DELETE FROM drop_chunks WHERE key < 2 * 65536").unwrap();
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_unindexed"), 0);
    assert_eq!(test_store.number("SELECT count(*) FROM drop_fts WHERE drop_fts MATCH 'words : \"hello\"'"), 1);
}

#[tokio::test]
async fn the_backlog_counts_what_is_left() {
    let store = TestStore::new().await;
    let left = async || Mailboxes::backlog(&store.message_store).await.unwrap().unwrap();
    for _ in 0..3 {
        store.deliver(&["ann@example.org"], &mail("Hi", "Hello.")).await;
    }
    assert_eq!(left().await, Backlog { to_index: 3, to_remove: 0 });
    store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(left().await, Backlog::default());
    store.message_store.remove_mailbox(&ann()).await.unwrap();
    assert_eq!(left().await, Backlog { to_index: 0, to_remove: 3 });
    store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(left().await, Backlog::default());
}
