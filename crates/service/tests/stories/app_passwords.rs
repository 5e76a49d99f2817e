//! App passwords: logins of mail programs with them, their limits, and their end.

use std::collections::HashSet;
use std::time::Duration;

use mailapi_backend::{LoggedIn, Login, LoginError};
use mailapi_model::{
    AppPassword, AppPasswordId, AppPasswordValue, Clock as _, EmailAddress, Grants, LoginProtocol, Page, Permission,
    Secret, SecretText, Visitor,
};
use mailapi_service::auth::CredentialsError;
use mailapi_service::users::{CreateUser, UserError};
use mailapi_service::{Caller, Settings};
use mailapi_testkit::{PASSWORD, TestApp};

use crate::{HERE, caller, with};

const ANN: &str = "ann@example.org";
const BOB: &str = "bob@example.org";
const MAIL_PROGRAMS: [LoginProtocol; 2] = [LoginProtocol::Imap, LoginProtocol::Submission];

fn address(text: &str) -> EmailAddress {
    text.parse().unwrap()
}

fn secret(text: &str) -> SecretText {
    Secret::new(text.to_owned())
}

fn by(protocol: LoginProtocol) -> Visitor {
    Visitor { protocol, address: [192, 0, 2, 1].into() }
}

fn admin() -> Caller {
    with(Grants::admin_token())
}

async fn app_with_ann_and_bob() -> TestApp {
    app_with(|_| {}).await
}

async fn app_with(change: impl FnOnce(&mut Settings)) -> TestApp {
    let app = TestApp::start_with(|settings| change(&mut settings.service)).await;
    app.mailbox(ANN, None).await;
    app.mailbox(BOB, None).await;
    app
}

async fn create(app: &TestApp, user: &str) -> (AppPassword, AppPasswordValue) {
    app.service.create_app_password(&admin(), &address(user), "Thunderbird").await.unwrap()
}

async fn revoke(app: &TestApp, user: &str, id: AppPasswordId) -> Result<(), UserError> {
    app.service.revoke_app_password(&admin(), &address(user), id).await
}

async fn enter(app: &TestApp, user: &str, password: &str) -> Result<LoggedIn, LoginError> {
    app.service.log_in(user, &secret(password), by(LoginProtocol::Imap)).await
}

async fn listed(app: &TestApp, user: &str) -> Vec<AppPassword> {
    app.service.list_app_passwords(&admin(), &address(user), Page::default()).await.unwrap().items
}

#[tokio::test]
async fn wrong_app_passwords_count_as_failures_of_the_mailbox() {
    let app = app_with_ann_and_bob().await;
    let (_, right) = create(&app, ANN).await;
    let (_, of_bob) = create(&app, BOB).await;
    for (wrong, protocol) in [of_bob.expose(), "aaaaa-aaaaa-aaaaa-aaaaa", "aaaaaaaaaaaaaaaaaaaa", "wrong", ""]
        .into_iter()
        .zip(MAIL_PROGRAMS.into_iter().cycle())
    {
        let refused = app.service.log_in(ANN, &secret(wrong), by(protocol)).await;
        assert_eq!(refused.map(drop), Err(LoginError::Refused), "{wrong}");
    }
    assert_eq!(enter(&app, ANN, right.expose()).await, Err(LoginError::Locked), "the right one is not checked");
    let elsewhere = Visitor { address: [203, 0, 113, 9].into(), ..by(LoginProtocol::Imap) };
    app.service.log_in(ANN, &secret(right.expose()), elsewhere).await.expect("another client is not delayed");
    app.clock.advance(Duration::from_secs(30));
    enter(&app, ANN, right.expose()).await.unwrap();
    assert_eq!(enter(&app, ANN, "wrong").await, Err(LoginError::Refused));
    enter(&app, ANN, right.expose()).await.expect("a success clears earlier failures");
}

#[tokio::test]
async fn an_app_password_opens_mail_programs_and_never_the_api() {
    let app = app_with_ann_and_bob().await;
    let (_, value) = create(&app, ANN).await;
    let typed =
        [value.expose().to_owned(), value.expose().replace('-', ""), value.expose().replace('-', " ").to_uppercase()];
    for text in &typed {
        let at_the_api = app.service.login(ANN, &secret(text), HERE).await;
        assert!(matches!(at_the_api, Err(CredentialsError::Refused)), "{at_the_api:?}");
        for protocol in MAIL_PROGRAMS {
            let entered = app.service.log_in(ANN, &secret(text), by(protocol)).await.unwrap();
            assert_eq!(entered.grants.mailbox(), Some(&address(ANN)));
            let as_bob = app.service.log_in(BOB, &secret(text), by(protocol)).await;
            assert_eq!(as_bob.map(drop), Err(LoginError::Refused));
            app.service.log_in(BOB, &secret(PASSWORD), by(protocol)).await.unwrap();
        }
    }
    let token = app.user("eve@example.org").await;
    let eve = caller(&app, &token).await;
    let (_, of_eve) = create(&app, "eve@example.org").await;
    let changed = app.service.change_password(&eve, &secret(of_eve.expose()), secret("another horse")).await;
    assert!(changed.is_err(), "an app password is no proof for a new password");
    enter(&app, ANN, PASSWORD).await.expect("the main password is accepted too");
}

#[tokio::test]
async fn the_main_password_can_be_refused_to_mail_programs() {
    let app = app_with(|settings| settings.require_app_passwords = true).await;
    let (_, value) = create(&app, ANN).await;
    for (user, password) in [(ANN, PASSWORD), (BOB, PASSWORD), (ANN, "wrong"), ("nobody@example.org", PASSWORD)] {
        assert_eq!(enter(&app, user, password).await, Err(LoginError::Refused), "{user}");
    }
    enter(&app, ANN, value.expose()).await.unwrap();
    app.service.login(ANN, &secret(PASSWORD), HERE).await.expect("the API accepts the main password");
}

#[tokio::test]
async fn a_revoked_app_password_ends_its_sessions_and_no_others() {
    let app = app_with_ann_and_bob().await;
    let ((lost, of_lost), (_, of_kept)) = (create(&app, ANN).await, create(&app, ANN).await);
    let mut on_lost = enter(&app, ANN, of_lost.expose()).await.unwrap();
    let mut on_kept = enter(&app, ANN, of_kept.expose()).await.unwrap();
    let mut on_main = enter(&app, ANN, PASSWORD).await.unwrap();
    assert!(matches!(revoke(&app, BOB, lost.id).await, Err(UserError::AppPasswordNotFound)), "not one of bob's");
    assert_eq!(app.service.renew(&mut on_lost).await, Ok(()));

    revoke(&app, ANN, lost.id).await.unwrap();
    assert_eq!(app.service.renew(&mut on_lost).await, Err(LoginError::Refused));
    assert_eq!(enter(&app, ANN, of_lost.expose()).await, Err(LoginError::Refused));
    for other in [&mut on_kept, &mut on_main] {
        assert_eq!(app.service.renew(other).await, Ok(()));
    }
    assert!(matches!(revoke(&app, ANN, lost.id).await, Err(UserError::AppPasswordNotFound)));
}

#[tokio::test]
async fn a_revocation_on_another_node_ends_sessions_here() {
    let app = app_with_ann_and_bob().await;
    let (record, value) = create(&app, ANN).await;
    let mut session = enter(&app, ANN, value.expose()).await.unwrap();
    let changes = app.store.foreign_changes();
    let before = changes.count();
    let there = app.another_node().await;
    assert!(there.app_passwords().revoke(&address(ANN), record.id, app.clock.now()).await.unwrap());
    let noticed = tokio::time::timeout(Duration::from_secs(60), changes.after(before)).await;
    noticed.expect("the change is noticed");
    assert_eq!(app.service.renew(&mut session).await, Err(LoginError::Refused));
}

#[tokio::test]
async fn the_account_decides_about_its_app_passwords() {
    let app = app_with_ann_and_bob().await;
    let (ann, (_, value)) = (address(ANN), create(&app, ANN).await);
    let mut session = enter(&app, ANN, value.expose()).await.unwrap();
    app.service.reset_password(&admin(), &ann, None).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Ok(()), "a new main password leaves app passwords");
    enter(&app, ANN, value.expose()).await.unwrap();

    app.service.disable_user(&admin(), &ann).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Err(LoginError::Refused));
    assert_eq!(enter(&app, ANN, value.expose()).await, Err(LoginError::Refused));
    app.service.enable_user(&admin(), &ann).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Err(LoginError::Refused), "an ended session stays ended");
    let mut session = enter(&app, ANN, value.expose()).await.unwrap();

    app.service.delete_user(&admin(), &ann).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Err(LoginError::Refused));
    let password = secret(PASSWORD);
    let again = CreateUser { email: ann.clone(), password: password.into(), name: String::new(), quota_bytes: None };
    app.service.create_user(&admin(), again).await.unwrap();
    assert_eq!(listed(&app, ANN).await, [], "the new owner of the address has none");
    assert_eq!(enter(&app, ANN, value.expose()).await, Err(LoginError::Refused));
    assert_eq!(app.service.renew(&mut session).await, Err(LoginError::Refused));
}

#[tokio::test]
async fn the_owner_delegates_and_admins_manage_them() {
    const ROOT: &str = "root@example.org";
    let app = app_with(|settings| settings.admins = [address(ROOT)].into()).await;
    let (ann, bob) = (app.user("anna@example.org").await, app.user("bert@example.org").await);
    let root = app.user(ROOT).await;
    let (ann, bob, root) = (caller(&app, &ann).await, caller(&app, &bob).await, caller(&app, &root).await);
    let allowed = async |by: &Caller, of: &str| {
        let (of, id) = (address(of), AppPasswordId(99));
        let created = app.service.create_app_password(by, &of, "x").await;
        let listed = app.service.list_app_passwords(by, &of, Page::default()).await;
        let revoked = app.service.revoke_app_password(by, &of, id).await;
        let is_allowed = |error: Option<UserError>| !matches!(error, Some(UserError::Denied(_)));
        [is_allowed(created.err()), is_allowed(listed.err()), is_allowed(revoked.err())]
    };
    assert_eq!(allowed(&bob, "anna@example.org").await, [false; 3]);
    assert_eq!(allowed(&ann, "anna@example.org").await, [true; 3]);
    let domain = address(ANN).domain();
    let bob = with(Grants::of_mailbox(address("bert@example.org"), false, vec![(Permission::ManageUsers, domain)]));
    assert_eq!(allowed(&bob, "anna@example.org").await, [true; 3]);
    assert_eq!(allowed(&bob, ROOT).await, [false; 3], "a delegate must not open an admin's mailbox");
    assert_eq!(allowed(&root, ROOT).await, [true; 3]);
    assert_eq!(allowed(&root, "anna@example.org").await, [false; 3], "a user token of an admin reaches one mailbox");
    assert_eq!(allowed(&admin(), ROOT).await, [true; 3]);
}

#[tokio::test]
async fn an_app_password_of_an_admin_has_the_rights_of_a_user_token() {
    let app = app_with(|settings| settings.admins = [address(ANN)].into()).await;
    let (_, value) = create(&app, ANN).await;
    let mut entered = enter(&app, ANN, value.expose()).await.unwrap();
    assert!(entered.grants.may_send_as(&address(ANN), true).is_ok());
    app.mailbox("eve@example.net", None).await;
    app.service.renew(&mut entered).await.unwrap();
    assert!(entered.grants.admin().is_err() && entered.grants.may_send_as(&address(BOB), true).is_err());
    let main = enter(&app, ANN, PASSWORD).await.unwrap();
    assert!(main.grants.may_send_as(&address(BOB), true).is_ok(), "the main password gives all rights");
}

#[tokio::test]
async fn a_mailbox_has_fifty_at_most_and_each_is_different() {
    let app = app_with_ann_and_bob().await;
    let mut values = HashSet::new();
    for _ in 0..50 {
        values.insert(create(&app, ANN).await.1.expose().to_owned());
    }
    assert_eq!(values.len(), 50);
    let refused = app.service.create_app_password(&admin(), &address(ANN), "one more").await;
    assert!(matches!(&refused, Err(UserError::Invalid(rule)) if rule.to_string().contains("50 app passwords")));
    for value in &values {
        enter(&app, ANN, value).await.unwrap();
    }
    let oldest = listed(&app, ANN).await.pop().unwrap();
    revoke(&app, ANN, oldest.id).await.unwrap();
    create(&app, ANN).await;
    create(&app, BOB).await;
}

#[tokio::test]
async fn a_bad_name_and_an_unknown_user_are_refused() {
    let app = app_with_ann_and_bob().await;
    for name in ["", " ", "a\nb", &"x".repeat(201)] {
        let refused = app.service.create_app_password(&admin(), &address(ANN), name).await;
        assert!(matches!(refused, Err(UserError::Invalid(_))), "{name:?}");
    }
    let nobody = address("nobody@example.org");
    let created = app.service.create_app_password(&admin(), &nobody, "x").await;
    assert!(matches!(created, Err(UserError::NotFound)));
    let listed = app.service.list_app_passwords(&admin(), &nobody, Page::default()).await;
    assert!(matches!(listed, Err(UserError::NotFound)));
    assert!(matches!(revoke(&app, "nobody@example.org", AppPasswordId(1)).await, Err(UserError::NotFound)));
}

#[tokio::test]
async fn log_ins_write_nothing_and_their_last_time_is_kept() {
    let app = app_with_ann_and_bob().await;
    let (record, value) = create(&app, ANN).await;
    create(&app, ANN).await;
    let writes = app.writes_begun();
    for _ in 0..3 {
        app.clock.advance(Duration::from_secs(1));
        enter(&app, ANN, value.expose()).await.unwrap();
    }
    enter(&app, ANN, "aaaaa-aaaaa-aaaaa-aaaaa").await.unwrap_err();
    assert_eq!(app.writes_begun(), writes);
    assert_eq!(listed(&app, ANN).await[1].last_used_at, None);
    assert_eq!(app.service.write_last_used_once().await.unwrap(), 1);
    let used = &listed(&app, ANN).await[1];
    assert_eq!(used.id, record.id);
    assert_eq!(used.last_used_at, Some(app.clock.now()));
    assert_eq!(app.service.write_last_used_once().await.unwrap(), 0);
}
