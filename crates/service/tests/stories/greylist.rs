//! Greylisting of mail from outside.

use std::time::Duration;

use mailapi_backend::{InboundAction, Judgement};
use mailapi_testkit::{ScriptedRspamd, TestApp};

use crate::inbound::{CLIENT, FarKey, judged_from, message};

const SENDER: &str = "zoe@far.example";
const TEXT: &str = "Greylisted: the first message of an unknown sender is accepted after 3 minutes; try again";

async fn app() -> TestApp {
    let app = TestApp::start_with(|settings| settings.service.inbound.greylist = true).await;
    app.domain("here.example").await;
    app
}

async fn attempt(app: &TestApp, client: &str, sender: &str) -> InboundAction {
    judged_from(app, client, sender, message(SENDER)).await.action
}

fn deferred() -> InboundAction {
    InboundAction::Defer(TEXT.to_owned())
}

fn minutes(number: u64) -> Duration {
    Duration::from_secs(60 * number)
}

#[tokio::test]
async fn an_unknown_sender_waits_for_the_delay() {
    let app = app().await;
    assert_eq!(attempt(&app, CLIENT, SENDER).await, deferred());
    app.clock.advance(minutes(2));
    assert_eq!(attempt(&app, CLIENT, SENDER).await, deferred());
    app.clock.advance(minutes(1));
    // Another server of the same network tries again.
    assert_eq!(attempt(&app, "192.0.2.99", SENDER).await, InboundAction::Deliver);
    assert_eq!(attempt(&app, CLIENT, SENDER).await, InboundAction::Deliver);
    for (client, sender) in [("192.0.3.7", SENDER), (CLIENT, "eve@far.example"), (CLIENT, "")] {
        assert_eq!(attempt(&app, client, sender).await, deferred(), "{client} {sender}");
    }
    let metrics = app.service.metrics().text();
    assert!(metrics.contains("mailapi_greylisted_total{result=\"deferred\"} 5\n"), "{metrics}");
    assert!(metrics.contains("mailapi_greylisted_total{result=\"passed\"} 2\n"), "{metrics}");
}

#[tokio::test]
async fn a_known_sender_is_forgotten_after_a_while() {
    let app = app().await;
    attempt(&app, CLIENT, SENDER).await;
    attempt(&app, CLIENT, "eve@far.example").await;
    app.clock.advance(minutes(3));
    assert_eq!(attempt(&app, CLIENT, SENDER).await, InboundAction::Deliver);
    app.clock.advance(minutes(60 * 24));
    app.service.prune_once().await.unwrap();
    assert_eq!(attempt(&app, CLIENT, "eve@far.example").await, deferred(), "it did not come back in time");
    assert_eq!(attempt(&app, CLIENT, SENDER).await, InboundAction::Deliver);
    app.clock.advance(minutes(60 * 24 * 37));
    app.service.prune_once().await.unwrap();
    assert_eq!(attempt(&app, CLIENT, SENDER).await, deferred());
}

#[tokio::test]
async fn a_mail_server_of_the_sender_does_not_wait() {
    let app = app().await;
    app.dns.set_txt("far.example", &["v=spf1 ip4:192.0.2.7 -all"]);
    assert_eq!(attempt(&app, CLIENT, SENDER).await, InboundAction::Deliver);
    assert_eq!(attempt(&app, "192.0.3.7", SENDER).await, deferred());
    // A signature of the author's domain is enough, one of another domain is not.
    let key = FarKey::published(&app, "far.example");
    let signed = key.signed("far.example", &message(SENDER));
    assert_eq!(judged_from(&app, "192.0.3.7", "", signed).await.action, InboundAction::Deliver);
    let foreign = FarKey::published(&app, "spam.example");
    let signed = foreign.signed("spam.example", &message(SENDER));
    assert_eq!(judged_from(&app, "192.0.3.7", "", signed).await.action, deferred());
}

#[tokio::test]
async fn trusted_clients_and_refused_mail_leave_no_trace() {
    let app = app().await;
    assert_eq!(judged_from(&app, "127.0.0.1", SENDER, message(SENDER)).await, Judgement::unchecked());
    let off = TestApp::start().await;
    assert_eq!(attempt(&off, CLIENT, SENDER).await, InboundAction::Deliver);
    for app in [&app, &off] {
        assert!(app.service.metrics().text().contains("mailapi_greylisted_total{result=\"deferred\"} 0\n"));
    }
}

#[tokio::test]
async fn the_spam_filter_sees_mail_after_the_delay() {
    let rspamd = ScriptedRspamd::start().await;
    let address = rspamd.address().parse().unwrap();
    let app = TestApp::start_with(|settings| {
        settings.service.inbound.greylist = true;
        settings.service.inbound.rspamd = Some(address);
    })
    .await;
    rspamd.finds("add header", 7.0, "");
    assert_eq!(attempt(&app, CLIENT, SENDER).await, deferred());
    assert_eq!(rspamd.requests().len(), 0);
    app.clock.advance(minutes(3));
    assert_eq!(attempt(&app, CLIENT, SENDER).await, InboundAction::Junk);
}
