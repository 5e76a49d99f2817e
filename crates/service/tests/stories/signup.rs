//! Sign-up, and its protection against strangers.

use std::time::Duration;

use futures_util::future::join_all;
use mailapi_model::{AccountChange, EmailAddress, LoginProtocol, Secret, Visitor};
use mailapi_service::auth::{SignUp, SignUpError};
use mailapi_service::mail::SendError;
use mailapi_service::users::UpdateUser;
use mailapi_testkit::TestApp;

use crate::{HERE, caller, message};

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
async fn signing_up_a_foreign_domain_captures_no_mail() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    let ann = caller(&app, &ann).await;
    app.service.sign_up(request("big.example", "victim@big.example"), HERE).await.unwrap();

    let sent = app.service.send(&ann, message("ann@example.org", &["victim@big.example"])).await.unwrap();
    app.settle().await;
    let record = app.service.status(&ann, sent.message_id).await.unwrap();
    assert_eq!(record.recipients[0].status.as_str(), "sent");
    let elsewhere = app.mail_server.sink.received();
    assert_eq!(elsewhere[0].recipients, ["victim@big.example"], "it goes to the real server of the domain");
    let victim = "victim@big.example".parse().unwrap();
    assert_eq!(app.mail_server.backend().mailboxes.quota(&victim).await.unwrap().messages, 0);
    assert_eq!(app.service.reconcile().await.unwrap().repaired, 0, "a restart does not change the pending domain");
}

#[tokio::test]
async fn an_approved_domain_sends_and_receives() {
    let app = TestApp::start().await;
    let signed_up = app.service.sign_up(request("new.example", "eve@new.example"), HERE).await.unwrap();
    let eve = app.service.authenticate(&signed_up.session.value).await.unwrap();
    let early = app.service.send(&eve, message("eve@new.example", &["eve@new.example"])).await;
    assert!(matches!(early, Err(SendError::DomainNotAllowed)));

    let admin = caller(&app, app.admin()).await;
    assert!(app.service.approve_domain(&eve, &signed_up.domain).await.is_err(), "eve may not approve her own domain");
    let approved = app.service.approve_domain(&admin, &signed_up.domain).await.unwrap();
    assert!(approved.active && approved.dkim_selector.is_some());
    app.service.send(&eve, message("eve@new.example", &["eve@new.example"])).await.unwrap();
    app.deliver("ann@far.example", "eve@new.example", "Subject: Hi\n\nHello\n").await;
    let eve = "eve@new.example".parse().unwrap();
    assert_eq!(app.mail_server.backend().mailboxes.quota(&eve).await.unwrap().messages, 2);
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn limit(app: &TestApp, mailbox: &str) -> Option<u64> {
    let mailbox = mailbox.parse().unwrap();
    app.mail_server.backend().mailboxes.quota(&mailbox).await.unwrap().limit_bytes
}

#[tokio::test]
async fn a_stranger_gets_a_small_mailbox_until_an_admin_approves() {
    let app = TestApp::start_with(|settings| settings.service.default_quota = 1 << 30).await;
    let admin = caller(&app, app.admin()).await;
    let first = app.service.sign_up(request("one.example", "eve@one.example"), HERE).await.unwrap();
    let second = app.service.sign_up(request("two.example", "eve@two.example"), HERE).await.unwrap();
    for mailbox in ["eve@one.example", "eve@two.example"] {
        assert_eq!(limit(&app, mailbox).await, Some(100 << 20));
    }
    let record = AccountChange { quota_bytes: Some(Some(7000)), ..AccountChange::default() };
    let two: EmailAddress = "eve@two.example".parse().unwrap();
    app.service.update_user(&admin, &two, UpdateUser { record, password: None }).await.unwrap();
    for signed_up in [first, second] {
        app.service.approve_domain(&admin, &signed_up.domain).await.unwrap();
    }
    assert_eq!(limit(&app, "eve@one.example").await, Some(1 << 30), "the default of new users");
    assert_eq!(limit(&app, "eve@two.example").await, Some(7000), "the value that the admin set");
    app.mailbox("ann@example.org", None).await;
    assert_eq!(limit(&app, "ann@example.org").await, Some(1 << 30));
    app.mailbox("bob@example.org", Some(5000)).await;
    assert_eq!(limit(&app, "bob@example.org").await, Some(5000));
}

#[tokio::test]
async fn strangers_from_everywhere_sign_up_only_so_many_domains() {
    let app = TestApp::start().await;
    let from = |n: u8| Visitor { protocol: LoginProtocol::Http, address: [192, 0, 2, n].into() };
    for n in 0..100 {
        let domain = format!("d{n}.example");
        app.service.sign_up(request(&domain, &format!("eve@{domain}")), from(n)).await.unwrap();
    }
    let refused = app.service.sign_up(request("more.example", "eve@more.example"), from(200)).await;
    assert!(matches!(refused, Err(SignUpError::TooMany { .. })));
    let admin = caller(&app, app.admin()).await;
    app.service.approve_domain(&admin, &"d7.example".parse().unwrap()).await.unwrap();
    app.service.sign_up(request("more.example", "eve@more.example"), from(201)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_ups_at_the_same_time_are_counted_one_by_one() {
    let app = TestApp::start_with(|settings| settings.service.signups_per_hour = u32::MAX).await;
    let sign_up = async |n: u8| {
        let domain = format!("d{n}.example");
        app.service.sign_up(request(&domain, &format!("eve@{domain}")), HERE).await
    };
    let outcomes = join_all((0..30).map(sign_up)).await;
    let added = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(added, 10, "ten of a client");
    for (n, outcome) in outcomes.iter().enumerate() {
        let mailbox = format!("eve@d{n}.example").parse().unwrap();
        let has_mailbox = app.mail_server.backend().mailboxes.quota(&mailbox).await.is_ok();
        match outcome {
            Ok(_) => assert!(has_mailbox),
            Err(error) => assert!(matches!(error, SignUpError::TooMany { .. }) && !has_mailbox, "{error}"),
        }
    }
}

#[tokio::test]
async fn one_client_does_not_close_sign_up_for_others() {
    let app = TestApp::start_with(|settings| settings.service.signups_per_hour = u32::MAX).await;
    let from =
        |n: u16| Visitor { protocol: LoginProtocol::Http, address: format!("2001:db8:7:{n:x}::1").parse().unwrap() };
    let mut signed_up = 0;
    for n in 0..12 {
        let domain = format!("d{n}.example");
        let outcome = app.service.sign_up(request(&domain, &format!("eve@{domain}")), from(n)).await;
        signed_up += usize::from(outcome.is_ok());
        app.clock.advance(DAY / 4);
    }
    assert_eq!(signed_up, 10, "networks of one subscriber count together, for as long as domains wait");
    app.service.sign_up(request("bob.example", "bob@bob.example"), HERE).await.unwrap();
    let admin = caller(&app, app.admin()).await;
    app.service.approve_domain(&admin, &"d7.example".parse().unwrap()).await.unwrap();
    app.service.sign_up(request("more.example", "eve@more.example"), from(0)).await.unwrap();
}

#[tokio::test]
async fn an_unapproved_domain_expires_with_its_user() {
    let app = TestApp::start().await;
    let admin = caller(&app, app.admin()).await;
    let kept = app.service.sign_up(request("kept.example", "ann@kept.example"), HERE).await.unwrap();
    app.service.approve_domain(&admin, &kept.domain).await.unwrap();
    app.service.sign_up(request("old.example", "eve@old.example"), HERE).await.unwrap();
    app.clock.advance(DAY);
    app.service.sign_up(request("late.example", "eve@late.example"), HERE).await.unwrap();
    app.clock.advance(6 * DAY);
    assert_eq!(app.service.prune_once().await.unwrap(), 0, "seven days are not over");

    app.clock.advance(Duration::from_secs(1));
    assert_eq!(app.service.prune_once().await.unwrap(), 1);
    let domains = app.service.list_domains(&admin, mailapi_model::Page::new(10, 0)).await.unwrap().items;
    let names: Vec<_> = domains.iter().map(|domain| domain.name.shown()).collect();
    assert_eq!(names, ["late.example", "kept.example"]);
    let gone: EmailAddress = "eve@old.example".parse().unwrap();
    assert!(app.store.accounts().get(&gone).await.unwrap().is_none());
    assert!(app.mail_server.backend().mailboxes.quota(&gone).await.is_err(), "its mailbox is removed too");
    app.mail_server.backend().mailboxes.quota(&"ann@kept.example".parse().unwrap()).await.unwrap();
    app.service.sign_up(request("old.example", "bob@old.example"), HERE).await.expect("the name is free again");
}
