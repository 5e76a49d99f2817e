//! Receivers that do not answer.

use mailapi_testkit::TestEngine;

use super::*;

/// Messages with more events than connections to one receiver.
const MESSAGES: usize = 10;
/// Maximum number of connections to one receiver.
const CONNECTIONS: usize = 8;

#[tokio::test]
async fn a_receiver_that_hangs_ends_its_round() {
    // The time limit of an attempt passes at once, which connections to PostgreSQL would not survive.
    let app = TestApp::start_with(|settings| settings.engine = Some(TestEngine::Sqlite)).await;
    let ann = caller(&app, &app.user("ann@example.org").await).await;
    let receiver = TestReceiver::start().await;
    receiver.answer(&[HELD; 4 * MESSAGES]);
    let accepted = CreateWebhook { types: vec!["message.accepted".parse().unwrap()], ..to(&receiver.url) };
    let (webhook, _) = app.service.create_webhook(&admin(), accepted).await.unwrap();
    for _ in 0..MESSAGES {
        app.service.send(&ann, message("ann@example.org", &["ann@example.org"])).await.unwrap();
    }
    app.settle().await;

    let mut sender = app.service.webhook_sender();
    tokio::time::pause();
    assert!(sender.send_once().await.unwrap().more, "the other events are sent in the next round");
    let attempted = async || {
        let page = Page::new(100, 0);
        let rows = app.service.webhook_deliveries(&admin(), webhook.id, page).await.unwrap().items;
        (rows.len(), rows.iter().filter(|row| row.attempts > 0).count())
    };
    assert_eq!(attempted().await, (MESSAGES, CONNECTIONS), "other receivers wait for the connections");
    sender.send_once().await.unwrap();
    assert_eq!(attempted().await, (MESSAGES, CONNECTIONS + 1), "it has one connection now");
}
