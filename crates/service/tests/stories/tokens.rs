//! Tokens, and the time until they become invalid.

use std::time::Duration;

use mailapi_model::{Clock as _, Grants, Secret, TokenKind, TokenValue};
use mailapi_service::auth::AuthenticateError;
use mailapi_service::tokens::{CreateToken, TokenError};
use mailapi_service::{Parts, Service};
use mailapi_testkit::{PASSWORD, TestApp};

use crate::{HERE, caller, parts, with};

#[tokio::test]
async fn a_revoked_token_is_dead_when_the_answer_leaves() {
    let app = TestApp::start().await;
    let value = app.user("ann@example.org").await;
    let ann = caller(&app, &value).await;
    app.service.revoke_token(&ann, ann.token.as_ref().unwrap().id).await.unwrap();
    let dead = app.service.authenticate(&TokenValue::from_caller(&value)).await;
    assert!(matches!(dead, Err(AuthenticateError::Expired { .. })));
}

#[tokio::test]
async fn a_token_of_a_disabled_or_deleted_mailbox_is_dead() {
    let app = TestApp::start().await;
    let value = app.user("ann@example.org").await;
    caller(&app, &value).await;
    let (admin, ann) = (with(Grants::admin_token()), "ann@example.org".parse().unwrap());
    app.service.disable_user(&admin, &ann).await.unwrap();
    assert!(matches!(
        app.service.authenticate(&TokenValue::from_caller(&value)).await,
        Err(AuthenticateError::Expired { .. })
    ));
    app.service.enable_user(&admin, &ann).await.unwrap();
    caller(&app, &value).await;
    app.service.delete_user(&admin, &ann).await.unwrap();
    assert!(matches!(
        app.service.authenticate(&TokenValue::from_caller(&value)).await,
        Err(AuthenticateError::Expired { .. })
    ));
}

#[tokio::test]
async fn another_process_revokes_a_token_and_this_one_notices() {
    let app = TestApp::start().await;
    let value = app.user("ann@example.org").await;
    let id = caller(&app, &value).await.token.unwrap().id;

    let changes = app.store.foreign_changes();
    let before = changes.count();
    app.another_node().await.tokens().revoke(id, app.clock.now()).await.unwrap();
    changes.after(before).await;
    assert!(matches!(
        app.service.authenticate(&TokenValue::from_caller(&value)).await,
        Err(AuthenticateError::Expired { .. })
    ));
}

#[tokio::test]
async fn a_session_lives_while_any_node_uses_it() {
    let app = TestApp::start().await;
    app.user("ann@example.org").await;
    let there = another_service(&app).await;
    let password = Secret::new(PASSWORD.to_owned());
    let session = app.service.login("ann@example.org", &password, HERE).await.unwrap().value;
    app.service.authenticate(&session).await.unwrap();
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    for _ in 0..4 {
        app.clock.advance(minutes(6));
        there.authenticate(&session).await.unwrap();
    }
    app.service.authenticate(&session).await.expect("it was used at the other node just now");

    // A use after a long pause is visible at once, before the other node writes its uses.
    app.clock.advance(minutes(9));
    app.service.authenticate(&session).await.unwrap();
    app.clock.advance(minutes(2));
    there.authenticate(&session).await.expect("it was used here two minutes ago");

    app.clock.advance(minutes(11));
    for node in [&app.service, &there] {
        assert!(matches!(node.authenticate(&session).await, Err(AuthenticateError::Expired { .. })));
    }
}

/// The service of another process on the same database.
async fn another_service(app: &TestApp) -> Service {
    Service::new(Parts { store: app.another_node().await, ..parts(app) })
}

#[tokio::test]
async fn the_last_way_in_is_not_closed() {
    let app = TestApp::start().await;
    let admin = caller(&app, app.admin()).await;
    let id = admin.token.as_ref().unwrap().id;
    assert!(matches!(app.service.revoke_token(&admin, id).await, Err(TokenError::LastAdmin)));
    caller(&app, app.admin()).await;
}

#[tokio::test]
async fn uses_are_written_down_later_and_kept_until_then() {
    let app = TestApp::start().await;
    let value = app.user("ann@example.org").await;
    let ann = caller(&app, &value).await;
    let token = app.service.current_token(&ann).unwrap();
    assert!(token.last_used_at.is_some());
    assert_eq!(app.store.tokens().get(token.id).await.unwrap().unwrap().last_used_at, None);
    assert_eq!(app.service.write_last_used_once().await.unwrap(), 1);
    assert_eq!(app.store.tokens().get(token.id).await.unwrap().unwrap().last_used_at, token.last_used_at);
    assert_eq!(app.service.write_last_used_once().await.unwrap(), 0);
}

#[tokio::test]
async fn a_session_ends_by_idleness_and_by_age() {
    const MINUTE: Duration = Duration::from_secs(60);
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    let password = mailapi_model::Secret::new(mailapi_testkit::PASSWORD.to_owned());
    let idle = app.service.login("ann@example.org", &password, HERE).await.unwrap();
    let busy = app.service.login("ann@example.org", &password, HERE).await.unwrap();
    for _ in 0..47 {
        app.clock.advance(10 * MINUTE);
        app.service.authenticate(&busy.value).await.unwrap();
    }
    assert!(matches!(app.service.authenticate(&idle.value).await, Err(AuthenticateError::Expired { .. })));
    app.clock.advance(10 * MINUTE);
    assert!(
        matches!(app.service.authenticate(&busy.value).await, Err(AuthenticateError::Expired { .. })),
        "after 8 hours"
    );
}

#[tokio::test]
async fn a_session_in_use_stays_alive_after_its_uses_are_stored() {
    const MINUTE: Duration = Duration::from_secs(60);
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    let password = mailapi_model::Secret::new(mailapi_testkit::PASSWORD.to_owned());
    let session = app.service.login("ann@example.org", &password, HERE).await.unwrap();
    for _ in 0..12 {
        app.clock.advance(5 * MINUTE);
        app.service.authenticate(&session.value).await.unwrap();
        app.service.write_last_used_once().await.unwrap();
    }
    app.clock.advance(11 * MINUTE);
    assert!(matches!(app.service.authenticate(&session.value).await, Err(AuthenticateError::Expired { .. })));
}

#[tokio::test]
async fn a_user_token_of_an_admins_mailbox_is_a_user_token() {
    let root = "root@example.org";
    let app = TestApp::start_with(|settings| settings.service.admins = [root.parse().unwrap()].into()).await;
    let token = app.user(root).await;
    assert!(caller(&app, &token).await.grants.admin().is_err());
    let password = mailapi_model::Secret::new(mailapi_testkit::PASSWORD.to_owned());
    let session = app.service.login(root, &password, HERE).await.unwrap();
    assert!(app.service.authenticate(&session.value).await.unwrap().grants.admin().is_ok());
}

#[tokio::test]
async fn a_session_is_refreshed_once() {
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    let password = mailapi_model::Secret::new(mailapi_testkit::PASSWORD.to_owned());
    let session = app.service.login("ann@example.org", &password, HERE).await.unwrap();
    let ann = app.service.authenticate(&session.value).await.unwrap();
    let fresh = app.service.refresh(&ann).await.unwrap();
    assert!(app.service.refresh(&ann).await.is_err(), "a request that was under way with the old one");
    assert!(matches!(app.service.authenticate(&session.value).await, Err(AuthenticateError::Expired { .. })));
    app.service.authenticate(&fresh.value).await.unwrap();
}

#[tokio::test]
async fn revocation_is_permanent_and_sessions_are_no_api_tokens() {
    let app = TestApp::start().await;
    let value = app.user("ann@example.org").await;
    let id = caller(&app, &value).await.token.unwrap().id;
    let admin = caller(&app, app.admin()).await;
    app.service.revoke_token(&admin, id).await.unwrap();
    let revive = mailapi_service::tokens::UpdateToken { is_active: Some(true), ..Default::default() };
    assert!(matches!(app.service.update_token(&admin, id, revive).await, Err(TokenError::Invalid(_))));

    let password = mailapi_model::Secret::new(mailapi_testkit::PASSWORD.to_owned());
    app.service.login("ann@example.org", &password, HERE).await.unwrap();
    assert_eq!(app.service.list_tokens(&admin, mailapi_model::Page::default()).await.unwrap().total, 2);
    app.clock.advance(Duration::from_secs(8 * 24 * 60 * 60));
    assert_eq!(app.service.prune_once().await.unwrap(), 1, "the session");
}

#[tokio::test]
async fn an_ended_session_stays_ended_when_the_clock_goes_back() {
    const MINUTE: Duration = Duration::from_secs(60);
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    let password = mailapi_model::Secret::new(mailapi_testkit::PASSWORD.to_owned());
    let is_ended = async |session: &mailapi_service::auth::Session| {
        matches!(app.service.authenticate(&session.value).await, Err(AuthenticateError::Expired { .. }))
    };
    let idle = app.service.login("ann@example.org", &password, HERE).await.unwrap();
    app.clock.advance(11 * MINUTE);
    assert!(is_ended(&idle).await);
    app.clock.set_back(11 * MINUTE);
    assert!(is_ended(&idle).await, "a session found idle stays ended");

    let old = app.service.login("ann@example.org", &password, HERE).await.unwrap();
    let unseen = app.service.login("ann@example.org", &password, HERE).await.unwrap();
    app.clock.advance(8 * 60 * MINUTE);
    assert!(is_ended(&old).await);
    app.service.prune_once().await.unwrap();
    app.clock.set_back(8 * 60 * MINUTE);
    assert!(is_ended(&old).await, "a session found too old stays ended");
    assert!(is_ended(&unseen).await, "not shown, and its time was over");
    let fresh = app.service.login("ann@example.org", &password, HERE).await.unwrap();
    app.service.authenticate(&fresh.value).await.unwrap();
}

#[tokio::test]
async fn a_mailbox_has_only_so_many_tokens_and_sessions() {
    let app = TestApp::start_with(|settings| settings.service.tokens_per_mailbox = 2).await;
    let first = app.user("ann@example.org").await;
    let ann = caller(&app, &first).await;
    let new = || CreateToken { name: "more".to_owned(), kind: TokenKind::User, email: None, expires_at: None };
    app.service.create_token(&ann, new()).await.unwrap();
    for caller in [&ann, &with(Grants::admin_token())] {
        let new = CreateToken { email: Some("ann@example.org".parse().unwrap()), ..new() };
        let refused = app.service.create_token(caller, new).await;
        assert!(matches!(refused, Err(TokenError::TooMany { most: 2 })));
    }
    app.service.revoke_token(&ann, ann.token.as_ref().unwrap().id).await.unwrap();
    app.service.create_token(&ann, new()).await.expect("a revoked token makes room");

    let mut sessions = Vec::new();
    for _ in 0..3 {
        let session = app.service.login("ann@example.org", &Secret::new(PASSWORD.to_owned()), HERE).await.unwrap();
        app.service.authenticate(&session.value).await.unwrap();
        sessions.push(session.value);
    }
    let oldest = app.service.authenticate(&sessions[0]).await;
    assert!(matches!(oldest, Err(AuthenticateError::Expired { .. })), "a cached session ends too");
    for session in &sessions[1..] {
        app.service.authenticate(session).await.unwrap();
    }
}
