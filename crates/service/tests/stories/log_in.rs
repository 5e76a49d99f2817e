//! Logins at all listeners: limits on wrong passwords, and the end of sessions.

use futures_util::FutureExt;
use mailapi_backend::{LoggedIn, Login, LoginError, SendAsError};
use mailapi_model::{Denied, EmailAddress, Grants, LoginProtocol, Permission, Secret, SecretText, Visitor};
use mailapi_service::aliases::CreateAlias;
use mailapi_service::auth::CredentialsError;
use mailapi_testkit::{PASSWORD, TestApp};
use std::time::Duration;

use crate::{HERE, with};

const ANN: &str = "ann@example.org";
const BOB: &str = "bob@example.org";
const MINUTE: Duration = Duration::from_secs(60);

fn secret(text: &str) -> SecretText {
    Secret::new(text.to_owned())
}

fn by(protocol: LoginProtocol, address: &str) -> Visitor {
    Visitor { protocol, address: address.parse().unwrap() }
}

fn imap(address: &str) -> Visitor {
    by(LoginProtocol::Imap, address)
}

async fn try_in(app: &TestApp, user: &str, password: &str, from: Visitor) -> Result<(), LoginError> {
    app.service.log_in(user, &secret(password), from).await.map(drop)
}

async fn app_with_ann_and_bob() -> TestApp {
    let app = TestApp::start().await;
    app.mailbox(ANN, None).await;
    app.mailbox(BOB, None).await;
    app
}

async fn enter(app: &TestApp, user: &str) -> LoggedIn {
    app.service.log_in(user, &secret(PASSWORD), imap("192.0.2.1")).await.unwrap()
}

#[tokio::test]
async fn a_lock_out_of_the_api_leaves_mail_programs_alone() {
    let app = app_with_ann_and_bob().await;
    let stranger = by(LoginProtocol::Http, "203.0.113.9");
    for _ in 0..5 {
        let refused = app.service.login(ANN, &secret("wrong horse"), stranger).await;
        assert!(matches!(refused, Err(CredentialsError::Refused)));
    }
    let locked = app.service.login(ANN, &secret(PASSWORD), HERE).await;
    assert!(
        matches!(locked, Err(CredentialsError::Locked { .. })),
        "the lock of the API applies to every client address"
    );
    for protocol in [LoginProtocol::Imap, LoginProtocol::Submission] {
        assert_eq!(try_in(&app, ANN, PASSWORD, by(protocol, "192.0.2.1")).await, Ok(()), "{protocol}");
        assert_eq!(try_in(&app, ANN, PASSWORD, by(protocol, "203.0.113.9")).await, Ok(()), "{protocol}");
    }
}

#[tokio::test]
async fn decomposed_letters_name_the_same_mailbox() {
    const COMPOSED: &str = "jos\u{e9}@example.org";
    const DECOMPOSED: &str = "Jose\u{301}@Example.org";
    let app = TestApp::start().await;
    app.mailbox(DECOMPOSED, None).await;
    for user in [COMPOSED, DECOMPOSED] {
        assert_eq!(try_in(&app, user, "wrong horse", imap("192.0.2.2")).await, Err(LoginError::Refused));
        for protocol in [LoginProtocol::Imap, LoginProtocol::Submission] {
            assert_eq!(try_in(&app, user, PASSWORD, by(protocol, "192.0.2.1")).await, Ok(()), "{protocol} {user}");
        }
        let logged_in = app.service.login(user, &secret(PASSWORD), HERE).await;
        assert!(logged_in.is_ok(), "{user}");
    }
    assert_eq!(enter(&app, DECOMPOSED).await.grants.mailbox().unwrap().as_str(), COMPOSED);
}

#[tokio::test]
async fn wrong_passwords_at_imap_delay_that_client_alone() {
    let app = app_with_ann_and_bob().await;
    for guess in 0..5 {
        let stranger = by([LoginProtocol::Imap, LoginProtocol::Submission][guess % 2], "2001:db8::9");
        assert_eq!(try_in(&app, ANN, &format!("wrong horse {guess}"), stranger).await, Err(LoginError::Refused));
    }
    for neighbour in ["2001:db8::9", "2001:db8::1:2:3:4"] {
        assert_eq!(try_in(&app, ANN, PASSWORD, imap(neighbour)).await, Err(LoginError::Locked));
    }
    assert_eq!(try_in(&app, ANN, PASSWORD, imap("2001:db8:0:1::9")).await, Ok(()), "another network");
    assert_eq!(try_in(&app, BOB, PASSWORD, imap("2001:db8::9")).await, Ok(()), "another mailbox");
    app.service.login(ANN, &secret(PASSWORD), HERE).await.unwrap();
}

#[tokio::test]
async fn a_mail_program_with_an_old_password_locks_no_one_out() {
    let app = app_with_ann_and_bob().await;
    let home = imap("192.0.2.1");
    for _ in 0..60 {
        assert_eq!(try_in(&app, ANN, "the old password", home).await, Err(LoginError::Refused));
    }
    assert_eq!(try_in(&app, ANN, PASSWORD, home).await, Ok(()), "another program of the same network");
}

#[tokio::test]
async fn the_delay_grows_with_each_wrong_password_and_ends() {
    let app = app_with_ann_and_bob().await;
    let owner = imap("192.0.2.1");
    let mut guesses = (0..).map(|number| format!("wrong horse {number}"));
    for guess in guesses.by_ref().take(4) {
        assert_eq!(try_in(&app, ANN, &guess, owner).await, Err(LoginError::Refused));
    }
    for (delay, guess) in [30, 60, 120, 240, 480, 900, 900].map(Duration::from_secs).into_iter().zip(guesses) {
        assert_eq!(try_in(&app, ANN, &guess, owner).await, Err(LoginError::Refused));
        app.clock.advance(delay - Duration::from_secs(1));
        assert_eq!(try_in(&app, ANN, PASSWORD, owner).await, Err(LoginError::Locked), "{delay:?}");
        app.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(try_in(&app, ANN, PASSWORD, owner).await, Ok(()));
    assert_eq!(try_in(&app, ANN, "wrong horse", owner).await, Err(LoginError::Refused));
    assert_eq!(try_in(&app, ANN, PASSWORD, owner).await, Ok(()), "a successful login clears earlier failures");
}

#[tokio::test]
async fn a_client_that_guesses_at_many_mailboxes_is_delayed() {
    let app = app_with_ann_and_bob().await;
    let web_mail = imap("192.0.2.1");
    assert_eq!(try_in(&app, BOB, PASSWORD, web_mail).await, Ok(()));
    for n in 0..50 {
        let (protocol, user) =
            ([LoginProtocol::Imap, LoginProtocol::Submission][n % 2], format!("user{n}@example.org"));
        assert_eq!(
            try_in(&app, &user, "wrong horse", by(protocol, "192.0.2.1")).await,
            Err(LoginError::Refused),
            "{n}"
        );
    }
    for protocol in [LoginProtocol::Imap, LoginProtocol::Submission] {
        assert_eq!(try_in(&app, ANN, PASSWORD, by(protocol, "192.0.2.1")).await, Err(LoginError::Locked));
    }
    let at_the_api = app.service.login(ANN, &secret(PASSWORD), by(LoginProtocol::Http, "192.0.2.1")).await;
    assert!(matches!(at_the_api, Err(CredentialsError::TooManyFromClient { .. })), "{at_the_api:?}");
    assert_eq!(try_in(&app, BOB, PASSWORD, web_mail).await, Ok(()), "bob logged in from this address before");
    assert_eq!(try_in(&app, ANN, PASSWORD, imap("192.0.2.2")).await, Ok(()));
    app.clock.advance(Duration::from_secs(30));
    assert_eq!(try_in(&app, ANN, PASSWORD, web_mail).await, Ok(()));
}

#[tokio::test]
async fn a_clock_that_is_set_back_lengthens_no_lock_out() {
    let app = app_with_ann_and_bob().await;
    let owner = imap("192.0.2.1");
    for guess in 0..5 {
        app.service.login(ANN, &secret("wrong horse"), HERE).await.unwrap_err();
        assert_eq!(try_in(&app, ANN, &format!("wrong horse {guess}"), owner).await, Err(LoginError::Refused));
    }
    app.clock.set_back(60 * MINUTE);
    app.clock.advance(15 * MINUTE);
    assert_eq!(try_in(&app, ANN, PASSWORD, owner).await, Ok(()));
    app.service.login(ANN, &secret(PASSWORD), HERE).await.unwrap();
}

#[tokio::test]
async fn a_password_that_is_too_long_is_refused_unhashed() {
    let app = app_with_ann_and_bob().await;
    for length in [129, 1020] {
        let (long, owner) = (secret(&"x".repeat(length)), imap("192.0.2.1"));
        // Hashes are computed on another thread, so a future that needs one is not ready at the first poll.
        let refused = app.service.log_in(ANN, &long, owner).now_or_never();
        assert_eq!(refused.map(|answer| answer.map(drop)), Some(Err(LoginError::Refused)), "{length}");
        let refused = app.service.login(ANN, &long, HERE).now_or_never();
        assert!(matches!(refused, Some(Err(CredentialsError::Refused))), "{length}");
    }
}

#[tokio::test]
async fn a_session_ends_with_the_account_or_its_password() {
    let app = TestApp::start().await;
    let (admin, ann): (_, EmailAddress) = (with(Grants::admin_token()), "ann@example.org".parse().unwrap());
    app.mailbox("ann@example.org", None).await;
    app.mailbox("bob@example.org", None).await;
    let mut other = enter(&app, "bob@example.org").await;

    let mut session = enter(&app, "ann@example.org").await;
    assert_eq!(app.service.renew(&mut session).await, Ok(()));
    app.service.disable_user(&admin, &ann).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Err(LoginError::Refused));
    app.service.enable_user(&admin, &ann).await.unwrap();

    let mut session = enter(&app, "ann@example.org").await;
    app.service.reset_password(&admin, &ann, None).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Err(LoginError::Refused));

    app.service.delete_user(&admin, &ann).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Err(LoginError::Refused));
    assert_eq!(app.service.renew(&mut other).await, Ok(()), "sessions of other users go on");
}

/// Disabling and enabling may both happen between two commands of a mail program.
#[tokio::test]
async fn a_session_stays_over_when_its_account_is_enabled_again() {
    let app = TestApp::start().await;
    let (admin, ann): (_, EmailAddress) = (with(Grants::admin_token()), "ann@example.org".parse().unwrap());
    app.mailbox("ann@example.org", None).await;
    let mut session = enter(&app, "ann@example.org").await;
    app.service.disable_user(&admin, &ann).await.unwrap();
    app.service.enable_user(&admin, &ann).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Err(LoginError::Refused));
    let mut session = enter(&app, "ann@example.org").await;
    app.service.enable_user(&admin, &ann).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Ok(()), "enabling an enabled account ends no session");
}

#[tokio::test]
async fn a_session_learns_what_its_owner_may_do_meanwhile() {
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    app.domain("team.example").await;
    let (ann, team): (EmailAddress, EmailAddress) =
        ("ann@example.org".parse().unwrap(), "hello@team.example".parse().unwrap());
    let mut session = enter(&app, "ann@example.org").await;
    assert!(session.grants.may_send_as(&team, true).is_err());
    let admin = with(Grants::admin_token());
    let granted = app.service.grant_permission(&admin, &ann, Permission::SendMail, &team.domain()).await;
    granted.unwrap();
    app.service.renew(&mut session).await.unwrap();
    assert!(session.grants.may_send_as(&team, true).is_ok());
    let send_as = async || app.service.may_send_as(&session.grants, &team).await;
    assert_eq!(send_as().await.unwrap_err(), SendAsError::Denied(Denied), "no user has the address");
    app.mailbox("hello@team.example", None).await;
    assert_eq!(*send_as().await.unwrap().address(), team);
}

#[tokio::test]
async fn mail_programs_send_with_tags_and_from_their_aliases() {
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    let session = enter(&app, "ann@example.org").await;
    let may_send = async |from: &str| app.service.may_send_as(&session.grants, &from.parse().unwrap()).await.is_ok();
    assert!(may_send("ann+shop@example.org").await && !may_send("sales@example.org").await);
    let ann: EmailAddress = "ann@example.org".parse().unwrap();
    let (address, members) = ("sales@example.org".parse().unwrap(), vec![ann.clone()]);
    let new = CreateAlias { address, members, senders: vec![ann], active: true };
    app.service.create_alias(&with(Grants::admin_token()), new).await.unwrap();
    assert!(may_send("sales@example.org").await && !may_send("sales+x@example.org").await);
}
