use futures_util::FutureExt;
use mailapi_backend::DeliveryFeed;
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_model::{FeedCursor, Outcome};

use super::test_store::{TestStore, mail};

#[tokio::test]
async fn the_cursor_of_another_feed_is_refused() {
    let test_store = TestStore::new().await;
    assert!(test_store.message_store.read_after(&FeedCursor("log:12:34".to_owned()), 10).await.is_err());
    assert!(test_store.message_store.forget_until(&FeedCursor("x".to_owned())).await.is_err());
}

#[tokio::test]
async fn nodes_that_share_accounts_have_positions_of_their_own() {
    let name = async |node: Option<&str>| {
        let settings = MessageStoreSettings { node: node.map(str::to_owned), ..MessageStoreSettings::default() };
        TestStore::with(settings).await.message_store.name().to_owned()
    };
    let names = [name(None).await, name(Some("one")).await, name(Some("other")).await];
    assert_eq!(names, ["embedded", "embedded@one", "embedded@other"]);
}

#[tokio::test]
async fn events_come_in_order_and_again_until_they_are_forgotten() {
    let test_store = TestStore::new().await;
    let start = FeedCursor::default();
    for subject in ["one", "two"] {
        test_store.deliver(&["ann@example.org", "bob@example.org"], &mail(subject, ".")).await;
    }
    let first = test_store.message_store.read_after(&start, 3).await.unwrap();
    let recipients: Vec<_> = first.events.iter().map(|event| event.recipient.local().to_owned()).collect();
    assert_eq!(recipients, ["ann", "bob", "ann"]);
    assert!(first.more);
    let event = &first.events[0];
    assert_eq!((event.outcome, event.dsn.unwrap().to_string().as_str()), (Outcome::Sent, "2.0.0"));
    assert_eq!(event.relay.as_deref(), Some("mailapi/local"));
    assert_eq!(test_store.message_store.read_after(&start, 3).await.unwrap(), first);

    let rest = test_store.message_store.read_after(&first.cursor, 3).await.unwrap();
    assert_eq!((rest.events.len(), rest.more), (1, false));
    test_store.message_store.forget_until(&first.cursor).await.unwrap();
    assert_eq!(test_store.message_store.read_after(&start, 10).await.unwrap().events, rest.events);

    test_store.message_store.forget_until(&rest.cursor).await.unwrap();
    assert_eq!(test_store.message_store.read_after(&rest.cursor, 10).await.unwrap().cursor, rest.cursor);
    test_store.deliver(&["ann@example.org"], &mail("three", ".")).await;
    assert_eq!(test_store.message_store.read_after(&rest.cursor, 10).await.unwrap().events.len(), 1);
}

#[tokio::test]
async fn a_reader_that_comes_late_or_waits_already_is_woken() {
    let test_store = TestStore::new().await;
    assert_eq!(test_store.message_store.changed().now_or_never(), None);
    test_store.deliver(&["ann@example.org"], &mail("one", ".")).await;
    test_store.message_store.changed().await;
    let waiting = tokio::spawn({
        let message_store = test_store.message_store.clone();
        async move { message_store.changed().await }
    });
    tokio::task::yield_now().await;
    test_store.deliver(&["ann@example.org"], &mail("two", ".")).await;
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_sender_that_stops_waiting_still_wakes_the_reader() {
    let test_store = TestStore::new().await;
    let incoming = test_store.incoming(&["ann@example.org"], &mail("one", "."));
    // Another thread completes the write, usually later than this line.
    drop(test_store.message_store.accept(incoming).now_or_never());
    test_store.message_store.changed().await;
    assert_eq!(test_store.message_store.read_after(&FeedCursor::default(), 10).await.unwrap().events.len(), 1);
}

#[tokio::test]
async fn without_local_accounts_events_are_durable_before_reporting() {
    let start = FeedCursor::default();
    for accounts_elsewhere in [true, false] {
        let test_store = TestStore::new().await;
        if !accounts_elsewhere {
            test_store.follow_accounts().await;
        }
        let database = test_store.database();
        // A blocked writer also blocks the flush to disk.
        database.execute_batch("BEGIN IMMEDIATE").unwrap();
        let nothing = test_store.message_store.read_after(&start, 10).now_or_never();
        assert!(nothing.is_some_and(|batch| batch.unwrap().events.is_empty()), "an empty feed does not wait");
        database.execute_batch("COMMIT").unwrap();
        test_store.deliver(&["ann@example.org"], &mail("one", ".")).await;

        database.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut batch = test_store.message_store.read_after(&start, 10);
        let ready = (&mut batch).now_or_never();
        assert_eq!(ready.is_none(), accounts_elsewhere);
        database.execute_batch("COMMIT").unwrap();
        let batch = match ready {
            Some(batch) => batch,
            None => batch.await,
        };
        assert_eq!(batch.unwrap().events.len(), 1);
    }
}
