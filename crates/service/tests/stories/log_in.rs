//! Sessions at the mail server's own doors, and how soon they end.

use mailapi_backend::{LogIn, LogInError, LoggedIn};
use mailapi_model::{EmailAddress, Grants, Permission, Secret};
use mailapi_testkit::{PASSWORD, TestApp};

use crate::with;

async fn enter(app: &TestApp, user: &str) -> LoggedIn {
    app.service.log_in(user, &Secret::new(PASSWORD.to_owned())).await.unwrap()
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
    assert_eq!(app.service.renew(&mut session).await, Err(LogInError::Refused));
    app.service.enable_user(&admin, &ann).await.unwrap();

    let mut session = enter(&app, "ann@example.org").await;
    app.service.reset_password(&admin, &ann, None).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Err(LogInError::Refused));

    app.service.delete_user(&admin, &ann).await.unwrap();
    assert_eq!(app.service.renew(&mut session).await, Err(LogInError::Refused));
    assert_eq!(app.service.renew(&mut other).await, Ok(()), "nobody else is sent away");
}

#[tokio::test]
async fn a_session_learns_what_its_owner_may_do_meanwhile() {
    let app = TestApp::start().await;
    app.mailbox("ann@example.org", None).await;
    app.domain("team.example").await;
    let (ann, team): (EmailAddress, EmailAddress) =
        ("ann@example.org".parse().unwrap(), "hello@team.example".parse().unwrap());
    let mut session = enter(&app, "ann@example.org").await;
    assert!(session.grants.may_send_as(&team).is_err());
    let admin = with(Grants::admin_token());
    let granted = app.service.grant_permission(&admin, &ann, Permission::SendMail, &team.domain()).await;
    granted.unwrap();
    app.service.renew(&mut session).await.unwrap();
    assert!(session.grants.may_send_as(&team).is_ok());
}
