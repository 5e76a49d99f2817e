//! Two nodes on one PostgreSQL.

use mailapi_service::Settings;
use mailapi_testkit::TestEngine;

use super::*;

fn node(name: &str) -> Settings {
    Settings { node: Some(name.to_owned()), ..Settings::default() }
}

/// Lets time pass for the reservations, which the clock of the database ends.
fn pass(app: &TestApp, seconds: u32) {
    app.postgres().unwrap().sql(&format!("UPDATE webhooks SET claimed_until = claimed_until - {seconds} * 1000"));
    app.clock.advance(Duration::from_secs(seconds.into()));
}

#[tokio::test]
async fn the_webhook_of_a_dead_node_is_sent_by_another() {
    let app = TestApp::start_with(|settings| {
        settings.engine = Some(TestEngine::Postgres);
        settings.service.node = Some("here".to_owned());
    })
    .await;
    let ann = caller(&app, &app.user("ann@example.org").await).await;
    let receiver = TestReceiver::start().await;
    app.service.create_webhook(&admin(), to(&receiver.url)).await.unwrap();
    let send = async || {
        app.service.send(&ann, message("ann@example.org", &["ann@example.org"])).await.unwrap();
        app.settle().await;
        while app.service.read_events_once().await.unwrap() {}
    };
    send().await;
    let mut here = app.service.webhook_sender();
    while here.send_once().await.unwrap().more {}
    assert_eq!(receiver.take().len(), 2);

    // The first node ends now. Its reservation lasts a minute more.
    pass(&app, 30);
    let there = app.beside(node("there")).await;
    let mut there = there.webhook_sender();
    there.send_once().await.unwrap();
    send().await;
    assert_eq!(there.send_once().await.unwrap(), WebhookStep { rounds: 1, more: false }, "it looks once");
    for _ in 0..2 {
        pass(&app, 10);
        assert_eq!(there.send_once().await.unwrap(), WebhookStep { rounds: 0, more: false }, "it rests");
    }
    assert!(receiver.take().is_empty());
    pass(&app, 41);
    while there.send_once().await.unwrap().more {}
    assert_eq!(receiver.types(), ["message.accepted", "message.delivered"]);
}
