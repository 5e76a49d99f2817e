//! The caller's own mailbox.

use mailapi_testkit::PASSWORD;

use crate::support::{ANN, Browser, PROOF, server};

#[tokio::test]
async fn a_new_password_needs_the_current_one_and_ends_other_sessions() {
    let app = server().await;
    let (mut ann, other) = (Browser::of(&app, ANN).await, Browser::of(&app, ANN).await);
    let form = |current, new| [("act", "password"), ("current_password", current), ("new_password", new)];
    assert_eq!(ann.post("/console/account", &form("wrong", "another password")).await.status, 401);
    assert_eq!(ann.post("/console/account", &form(PASSWORD, "short")).await.status, 422);
    other.page("/console").await;
    let answer = ann.post("/console/account", &form(PASSWORD, "another password")).await;
    assert_eq!(answer.header("location"), "/console/account?done=password-changed");
    ann.page("/console/account").await;
    assert_eq!(other.get("/console").await.status, 303);
}

#[tokio::test]
async fn copies_of_sent_mail_are_chosen() {
    let app = server().await;
    let mut ann = Browser::of(&app, ANN).await;
    assert!(ann.page("/console/account").await.contains("<option value=\"off\" selected>"));
    let refused = ann.post("/console/account", &[("act", "save-sent"), ("save_sent", "some")]).await;
    assert_eq!(refused.status, 422);
    let answer = ann.post("/console/account", &[("act", "save-sent"), ("save_sent", "api")]).await;
    assert_eq!(answer.header("location"), "/console/account?done=preferences-changed");
    assert!(ann.page("/console/account").await.contains("<option value=\"api\" selected>"));
}

#[tokio::test]
async fn an_app_password_is_shown_once_and_revoked() {
    let app = server().await;
    let mut ann = Browser::of(&app, ANN).await;
    let made = ann.post("/console/account", &[("act", "create-app-password"), ("name", "Phone"), PROOF]).await;
    assert_eq!(made.status, 200);
    let value = made.text().split("<code id=\"secret\">").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let page = ann.page("/console/account").await;
    assert!(page.contains("Phone") && !page.contains(&value));
    let id = page.split("name=\"id\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    ann.post("/console/account", &[("act", "revoke-app-password"), ("id", &id)]).await;
    assert!(!ann.page("/console/account").await.contains("Phone"));
}
