use futures_util::FutureExt;
use mailapi_backend::DeliveryFeed;
use mailapi_backend_embedded::MaildropSettings;
use mailapi_model::{FeedCursor, Outcome};

use super::house::{House, mail};

#[tokio::test]
async fn the_cursor_of_another_feed_is_refused() {
    let house = House::new().await;
    assert!(house.maildrop.read_after(&FeedCursor("log:12:34".to_owned()), 10).await.is_err());
    assert!(house.maildrop.forget_until(&FeedCursor("x".to_owned())).await.is_err());
}

#[tokio::test]
async fn events_come_in_order_and_again_until_they_are_forgotten() {
    let house = House::new().await;
    let start = FeedCursor::default();
    for subject in ["one", "two"] {
        house.deliver(&["ann@example.org", "bob@example.org"], &mail(subject, ".")).await;
    }
    let first = house.maildrop.read_after(&start, 3).await.unwrap();
    let recipients: Vec<_> = first.events.iter().map(|event| event.recipient.local().to_owned()).collect();
    assert_eq!(recipients, ["ann", "bob", "ann"]);
    assert!(first.more);
    let event = &first.events[0];
    assert_eq!((event.outcome, event.dsn.unwrap().to_string().as_str()), (Outcome::Sent, "2.0.0"));
    assert_eq!(event.relay.as_deref(), Some("mailapi/local"));
    assert_eq!(house.maildrop.read_after(&start, 3).await.unwrap(), first);

    let rest = house.maildrop.read_after(&first.cursor, 3).await.unwrap();
    assert_eq!((rest.events.len(), rest.more), (1, false));
    house.maildrop.forget_until(&first.cursor).await.unwrap();
    assert_eq!(house.maildrop.read_after(&start, 10).await.unwrap().events, rest.events);

    house.maildrop.forget_until(&rest.cursor).await.unwrap();
    assert_eq!(house.maildrop.read_after(&rest.cursor, 10).await.unwrap().cursor, rest.cursor);
    house.deliver(&["ann@example.org"], &mail("three", ".")).await;
    assert_eq!(house.maildrop.read_after(&rest.cursor, 10).await.unwrap().events.len(), 1);
}

#[tokio::test]
async fn a_reader_that_comes_late_or_waits_already_is_woken() {
    let house = House::new().await;
    assert_eq!(house.maildrop.changed().now_or_never(), None);
    house.deliver(&["ann@example.org"], &mail("one", ".")).await;
    house.maildrop.changed().await;
    let waiting = tokio::spawn({
        let maildrop = house.maildrop.clone();
        async move { maildrop.changed().await }
    });
    tokio::task::yield_now().await;
    house.deliver(&["ann@example.org"], &mail("two", ".")).await;
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_sender_that_does_not_wait_for_the_answer_wakes_the_reader_too() {
    let house = House::new().await;
    let incoming = house.incoming(&["ann@example.org"], &mail("one", "."));
    // The answer comes from another thread, as a rule later than this.
    drop(house.maildrop.accept(incoming).now_or_never());
    house.maildrop.changed().await;
    assert_eq!(house.maildrop.read_after(&FeedCursor::default(), 10).await.unwrap().events.len(), 1);
}

#[tokio::test]
async fn where_accounts_are_kept_elsewhere_nothing_is_told_before_it_is_on_disk() {
    let start = FeedCursor::default();
    for accounts_elsewhere in [true, false] {
        let house = House::with(MaildropSettings { accounts_elsewhere, ..MaildropSettings::default() }).await;
        let database = house.database();
        // The writer is held up, and with it the way to the disk.
        database.execute_batch("BEGIN IMMEDIATE").unwrap();
        let nothing = house.maildrop.read_after(&start, 10).now_or_never();
        assert!(nothing.is_some_and(|batch| batch.unwrap().events.is_empty()), "there is nothing to wait for");
        database.execute_batch("COMMIT").unwrap();
        house.deliver(&["ann@example.org"], &mail("one", ".")).await;

        database.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut batch = house.maildrop.read_after(&start, 10);
        let told = (&mut batch).now_or_never();
        assert_eq!(told.is_none(), accounts_elsewhere);
        database.execute_batch("COMMIT").unwrap();
        let batch = match told {
            Some(batch) => batch,
            None => batch.await,
        };
        assert_eq!(batch.unwrap().events.len(), 1);
    }
}
