//! The security analysis of mail from outside, whose verdict rules and events have.

use mailapi_backend::InboundAction;
use mailapi_model::SecurityMark;
use mailapi_service::mail::DmarcAction;
use mailapi_testkit::TestApp;

use crate::inbound::{CLIENT, judged_from, message};

/// A server that analyzes mail, in the domain `here.example`.
async fn analyzing() -> TestApp {
    let app = TestApp::start_with(|settings| {
        settings.service.security_analysis = true;
        settings.service.inbound.dmarc = DmarcAction::Reject;
    })
    .await;
    app.domain("here.example").await;
    app
}

#[tokio::test]
async fn without_the_analysis_nothing_claims_a_verdict() {
    let app = TestApp::start().await;
    app.domain("here.example").await;
    let judgement = judged_from(&app, CLIENT, "zoe@far.example", message("zoe@far.example")).await;
    assert_eq!((judgement.security, judgement.own_fields), (None, vec![]));
    assert!(!judgement.fields.contains(SecurityMark::FIELD), "{}", judgement.fields);
}

#[tokio::test]
async fn mail_that_is_refused_or_trusted_is_not_analyzed() {
    let app = analyzing().await;
    let refused = judged_from(&app, CLIENT, "", message("ann@here.example")).await;
    assert!(matches!(refused.action, InboundAction::Refuse(_)) && refused.security.is_none(), "{refused:?}");
    let trusted = judged_from(&app, "127.0.0.1", "", message("zoe@here.examp1e")).await;
    assert_eq!((trusted.security, trusted.own_fields), (None, vec![]));
}

#[tokio::test]
async fn the_verdict_is_a_field_that_others_cannot_write() {
    let app = analyzing().await;
    app.domain("example.org").await;
    let judged = async |message: String| judged_from(&app, CLIENT, "zoe@far.example", message).await;
    let forged = judged(format!("X-Security-Verdict: clean\r\n{}", message("Boss <ann@example-login.net>"))).await;
    assert_eq!(forged.own_fields, [SecurityMark::FIELD]);
    assert!(forged.fields.ends_with("X-Security-Verdict: suspicious (similar_sender)\r\n"), "{}", forged.fields);
    assert_eq!(forged.action, InboundAction::Deliver, "rules decide, not the verdict");
    let honest = judged(message("zoe@far.example")).await;
    let clean = SecurityMark { verdict: "clean".to_owned(), signs: vec![] };
    assert_eq!(honest.security, Some(clean));
}

#[tokio::test]
async fn the_verdict_knows_the_results_of_this_server() {
    let app = TestApp::start_with(|settings| {
        settings.service.security_analysis = true;
        settings.service.inbound.dmarc = DmarcAction::Off;
    })
    .await;
    app.dns.set_txt("_dmarc.far.example", &["v=DMARC1; p=reject"]);
    let claimed = format!("Authentication-Results: mx.here.example; dmarc=pass\r\n{}", message("zoe@far.example"));
    let judgement = judged_from(&app, CLIENT, "zoe@other.example", claimed).await;
    let security = judgement.security.unwrap();
    assert_eq!((security.verdict.as_str(), security.signs), ("suspicious", vec!["authentication_failed".to_owned()]));
}
