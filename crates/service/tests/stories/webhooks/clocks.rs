//! Webhooks while the clock is set back.

use super::*;

const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test]
async fn a_failed_event_does_not_wait_for_the_former_time() {
    let mut setup = Setup::new().await;
    setup.receiver.answer(&["500 Oops"]);
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    assert_eq!((setup.receiver.take().len(), setup.failed().await), (1, 2));
    setup.app.clock.set_back(HOUR);
    setup.app.clock.advance(Duration::from_secs(7));
    setup.run().await;
    assert_eq!(
        (setup.receiver.types(), setup.failed().await),
        (vec!["message.accepted".into(), "message.delivered".into()], 0)
    );
}

#[tokio::test]
async fn a_pause_does_not_last_until_the_former_time() {
    let mut setup = Setup::new().await;
    setup.receiver.answer(&["429 Slow\r\nRetry-After: 20"]);
    setup.send(&["ann@example.org"]).await;
    setup.run().await;
    setup.receiver.take();
    setup.app.clock.set_back(HOUR);
    setup.app.clock.advance(Duration::from_secs(21));
    setup.run().await;
    assert_eq!((setup.receiver.take().len(), setup.failed().await), (2, 0));
}

#[tokio::test]
async fn positions_move_a_minute_later() {
    let mut setup = Setup::new().await;
    setup.run().await;
    record_unwanted(&setup.app).await;
    setup.app.clock.set_back(24 * HOUR);
    setup.app.clock.advance(Duration::from_secs(60));
    setup.run().await;
    assert!(setup.state().await.cursor.number() >= setup.webhook.cursor.number() + UNWANTED);
}
