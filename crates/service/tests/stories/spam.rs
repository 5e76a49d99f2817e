//! Mail from outside that a spam filter checks: failures of the filter first.

use mailapi_backend::{InboundAction, Judgement};
use mailapi_service::mail::DmarcAction;
use mailapi_testkit::{ScriptedRspamd, TestApp};

use crate::inbound::{CLIENT, judged_from, message};

async fn app_with(rspamd: &ScriptedRspamd) -> TestApp {
    let address = rspamd.address().parse().unwrap();
    let app = TestApp::start_with(|settings| {
        settings.service.inbound.rspamd = Some(address);
        settings.service.inbound.dmarc = DmarcAction::Reject;
    })
    .await;
    app.domain("here.example").await;
    app
}

async fn judged(app: &TestApp) -> Judgement {
    judged_from(app, CLIENT, "zoe@far.example", message("zoe@far.example")).await
}

fn counted(app: &TestApp, result: &str) -> bool {
    app.service.metrics().text().contains(&format!("mailapi_spam_checks_total{{result=\"{result}\"}} 1\n"))
}

#[tokio::test]
async fn mail_passes_when_the_filter_fails() {
    let rspamd = ScriptedRspamd::start().await;
    let app = app_with(&rspamd).await;
    rspamd.answers("{\"action\":\"explode\"}");
    let judgement = judged(&app).await;
    assert_eq!(judgement.action, InboundAction::Deliver);
    // Nothing claims that the message was checked, and a claim that arrived is removed.
    assert!(!judgement.fields.contains("X-Spam"), "{}", judgement.fields);
    assert_eq!(judgement.own_fields, ["X-Spam", "X-Spam-Status"]);
    assert!(counted(&app, "failed"));
}

#[tokio::test]
async fn the_filter_is_not_asked_about_other_mail() {
    let rspamd = ScriptedRspamd::start().await;
    let app = app_with(&rspamd).await;
    // Another filter in front has checked it.
    assert_eq!(judged_from(&app, "127.0.0.1", "", message("zoe@far.example")).await, Judgement::unchecked());
    let forged = judged_from(&app, CLIENT, "", message("ann@here.example")).await;
    assert!(matches!(forged.action, InboundAction::Refuse(_)), "{forged:?}");
    assert_eq!(rspamd.requests(), []);
}

#[tokio::test]
async fn each_answer_decides_about_the_message() {
    let rspamd = ScriptedRspamd::start().await;
    let app = app_with(&rspamd).await;
    let refused = |text: &str| InboundAction::Refuse(text.to_owned());
    let deferred = |text: &str| InboundAction::Defer(text.to_owned());
    for (action, text, expected) in [
        ("no action", "", InboundAction::Deliver),
        ("greylist", "", InboundAction::Deliver),
        ("add header", "", InboundAction::Junk),
        ("rewrite subject", "", InboundAction::Junk),
        ("soft reject", "", deferred("Try again later")),
        ("soft reject", "Rate limit", deferred("Rate limit")),
        ("reject", "", refused("The message was rejected as spam")),
        ("reject", "Gtube pattern", refused("Gtube pattern")),
    ] {
        rspamd.finds(action, 7.5, text);
        assert_eq!(judged(&app).await.action, expected, "{action}");
    }
}

#[tokio::test]
async fn the_verdict_is_in_the_header() {
    let rspamd = ScriptedRspamd::start().await;
    let app = app_with(&rspamd).await;
    rspamd.finds("no action", -1e308, "");
    let fields = judged(&app).await.fields;
    assert!(fields.ends_with("\r\nX-Spam-Status: No, score=-9999.00 required=15.00\r\n"), "{fields}");
    rspamd.finds("add header", 7.256, "");
    let fields = judged(&app).await.fields;
    assert!(fields.starts_with("Authentication-Results: "), "{fields}");
    assert!(fields.ends_with("\r\nX-Spam: Yes\r\nX-Spam-Status: Yes, score=7.26 required=15.00\r\n"), "{fields}");
    assert!(counted(&app, "passed") && counted(&app, "marked"));
}

#[tokio::test]
async fn the_filter_learns_a_name_that_leads_back() {
    let rspamd = ScriptedRspamd::start().await;
    let app = app_with(&rspamd).await;
    app.dns.set_names(CLIENT, &["mx.far.example"]);
    judged(&app).await;
    app.dns.set_addresses("mx.far.example", &[CLIENT]);
    judged(&app).await;
    let requests = rspamd.requests();
    assert_eq!(requests.iter().map(|one| one.field("Hostname")).collect::<Vec<_>>(), [["unknown"], ["mx.far.example"]]);
    assert_eq!(requests[0].field("Rcpt"), ["bob@here.example"]);
    assert_eq!(requests[0].message, message("zoe@far.example").as_bytes());
}

#[tokio::test]
async fn the_filter_is_checked_without_a_message() {
    let rspamd = ScriptedRspamd::start().await;
    let app = app_with(&rspamd).await;
    assert!(app.service.check_spam_filter().await.unwrap().is_err());
    rspamd.answers("pong");
    app.service.check_spam_filter().await.unwrap().unwrap();
    assert!(TestApp::start().await.service.check_spam_filter().await.is_none());
}
