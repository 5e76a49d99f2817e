//! Greylisting of mail from outside.

use std::time::Duration;

use mailapi_backend::{InboundAction, Judgement};
use mailapi_model::Clock as _;
use mailapi_service::ExpiringRows;
use mailapi_store::{GreylistAttempt, GreylistRoom};
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
async fn a_flood_of_one_network_has_few_rows_and_delays_no_other() {
    /// A network's share of the rows that wait.
    const SHARE: u64 = 1_000;
    let app = app().await;
    attempt(&app, CLIENT, SENDER).await;
    app.clock.advance(minutes(3));
    assert_eq!(attempt(&app, CLIENT, SENDER).await, InboundAction::Deliver);
    let waiting = async || app.store.greylist().rows().await.unwrap().waiting;
    for number in 0..SHARE + 50 {
        let client = format!("192.0.2.{}", number % 250);
        assert_eq!(attempt(&app, &client, &format!("s{number}@far.example")).await, deferred());
    }
    assert_eq!(waiting().await, SHARE);
    // A sender without a row is deferred again and again, until the flood's rows have expired.
    app.clock.advance(minutes(3));
    assert_eq!(attempt(&app, CLIENT, "late@far.example").await, deferred());
    app.clock.advance(minutes(3));
    assert_eq!(attempt(&app, CLIENT, "late@far.example").await, deferred());
    // Known senders of the same network pass, and those of others get their rows.
    assert_eq!(attempt(&app, CLIENT, SENDER).await, InboundAction::Deliver);
    assert_eq!(attempt(&app, "192.0.3.7", SENDER).await, deferred());
    app.clock.advance(minutes(3));
    assert_eq!(attempt(&app, "192.0.3.7", SENDER).await, InboundAction::Deliver);

    app.clock.advance(minutes(60 * 24));
    let step = app.service.prune_step(ExpiringRows::Greylist).await.unwrap();
    assert!(step > 0 && step < SHARE / 2, "one step deletes {step} rows");
    app.service.prune_once().await.unwrap();
    assert_eq!(waiting().await, 0);
    assert_eq!(attempt(&app, CLIENT, "late@far.example").await, deferred());
    app.clock.advance(minutes(3));
    assert_eq!(attempt(&app, CLIENT, "late@far.example").await, InboundAction::Deliver);
}

#[tokio::test]
async fn a_flood_of_many_networks_ends_greylisting_for_the_others() {
    let app = app().await;
    let room = GreylistRoom { waiting: u64::MAX, passed: u64::MAX, is_full_of_passed: false };
    for network in 0..100 {
        let keys = (0..1_000).map(|number| format!("{network} {number}")).collect();
        let (now, before) = (app.clock.now(), app.clock.now().minus(minutes(3)));
        let attempt = GreylistAttempt { keys, network: format!("10.0.{network}.0/24"), now, before, room };
        app.store.greylist().attempt(&attempt).await.unwrap();
    }
    assert_eq!(attempt(&app, "10.0.7.1", SENDER).await, deferred(), "one of the networks that fill the greylist");
    assert_eq!(attempt(&app, CLIENT, SENDER).await, InboundAction::Deliver);
    assert_eq!(app.store.greylist().rows().await.unwrap().waiting, 100_000);
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
