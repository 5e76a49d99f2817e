//! Signing up, and what a stranger cannot get by it.

use mailapi_model::Secret;
use mailapi_service::auth::{SignUp, SignUpError};
use mailapi_service::mail::SendError;
use mailapi_testkit::TestApp;

use crate::{HERE, caller, letter};

fn request(domain: &str, email: &str) -> SignUp {
    SignUp {
        domain: domain.parse().unwrap(),
        email: email.parse().unwrap(),
        password: Secret::new(mailapi_testkit::PASSWORD.to_owned()),
        name: "Eve".into(),
    }
}

#[tokio::test]
async fn an_admins_domain_and_one_that_exists_cannot_be_signed_up() {
    let admins = |settings: &mut mailapi_testkit::TestSettings| {
        settings.service.admins = ["root@corp.example".parse().unwrap()].into();
    };
    let app = TestApp::start_with(admins).await;
    app.domain("example.org").await;
    for (domain, email) in [("corp.example", "root@corp.example"), ("example.org", "eve@example.org")] {
        let refused = app.service.sign_up(request(domain, email), HERE).await;
        assert!(matches!(refused, Err(SignUpError::DomainExists)), "{domain}");
    }
    let elsewhere = app.service.sign_up(request("new.example", "eve@other.example"), HERE).await;
    assert!(matches!(elsewhere, Err(SignUpError::Invalid(_))));
}

#[tokio::test]
async fn nobodys_mail_is_caught_by_signing_up_its_domain() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    let ann = caller(&app, &ann).await;
    app.service.sign_up(request("big.example", "victim@big.example"), HERE).await.unwrap();

    let sent = app.service.send(&ann, letter("ann@example.org", &["victim@big.example"])).await.unwrap();
    app.settle().await;
    let record = app.service.status(&ann, sent.message_id).await.unwrap();
    assert_eq!(record.recipients[0].status.as_str(), "sent");
    let elsewhere = app.mail_server.world.received();
    assert_eq!(elsewhere[0].recipients, ["victim@big.example"], "it goes to the real server of the domain");
    let victim = "victim@big.example".parse().unwrap();
    assert_eq!(app.mail_server.backend().mailboxes.quota(&victim).await.unwrap().messages, 0);
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 0, "a restart changes nothing about it");
}

#[tokio::test]
async fn an_approved_domain_sends_and_receives() {
    let app = TestApp::start().await;
    let signed_up = app.service.sign_up(request("new.example", "eve@new.example"), HERE).await.unwrap();
    let eve = app.service.authenticate(&signed_up.session.value).await.unwrap();
    let early = app.service.send(&eve, letter("eve@new.example", &["eve@new.example"])).await;
    assert!(matches!(early, Err(SendError::DomainNotAllowed)));

    let admin = caller(&app, app.admin()).await;
    assert!(app.service.approve_domain(&eve, &signed_up.domain).await.is_err(), "not by herself");
    let approved = app.service.approve_domain(&admin, &signed_up.domain).await.unwrap();
    assert!(approved.active && approved.dkim_selector.is_some());
    app.service.send(&eve, letter("eve@new.example", &["eve@new.example"])).await.unwrap();
    app.deliver("ann@far.example", "eve@new.example", "Subject: Hi\n\nHello\n").await;
    let eve = "eve@new.example".parse().unwrap();
    assert_eq!(app.mail_server.backend().mailboxes.quota(&eve).await.unwrap().messages, 2);
}
