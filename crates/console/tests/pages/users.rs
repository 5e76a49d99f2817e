//! Users.

use mailapi_testkit::PASSWORD;
use serde_json::json;

use crate::support::{ANN, Browser, PROOF, ROOT, server};

#[tokio::test]
async fn a_delegate_changes_users_of_its_domain_and_no_admin() {
    let app = server().await;
    app.mailbox("eve@b.example", None).await;
    let grant = json!({ "email": ANN, "permission": "manage_users", "domain": "a.example" });
    assert_eq!(app.post(app.admin(), "/permissions", grant).await.status, 201);
    let mut ann = Browser::of(&app, ANN).await;
    assert!(!ann.page("/console/users").await.contains(ROOT));
    for other in [ROOT, "eve@b.example"] {
        let path = format!("/console/users/{other}");
        assert_eq!(ann.get(&path).await.status, 403, "{other}");
        assert_eq!(ann.post(&path, &[("act", "disable")]).await.status, 403, "{other}");
    }
    ann.page("/console/users/bob@a.example").await;
}

#[tokio::test]
async fn an_invalid_new_user_is_refused_with_each_reason() {
    let app = server().await;
    let mut root = Browser::of(&app, ROOT).await;
    let new = |email, password| [("email", email), ("password", password)];
    for (email, password, status) in [
        ("", PASSWORD, 422),
        ("x", PASSWORD, 422),
        ("x@a.example", "short", 422),
        (ANN, PASSWORD, 409),
        ("x@c.example", PASSWORD, 404),
    ] {
        let answer = root.post("/console/users", &new(email, password)).await;
        assert_eq!(answer.status, status, "{email}");
        assert!(!answer.text().contains(password), "no password on the page");
    }
}

#[tokio::test]
async fn a_user_is_created_changed_purged_and_deleted() {
    let app = server().await;
    let mut root = Browser::of(&app, ROOT).await;
    let new = [("email", "carl@a.example"), ("password", PASSWORD), ("name", "Carl <C>"), ("quota_mib", "10")];
    let answer = root.post("/console/users", &new).await;
    assert_eq!(answer.header("location"), "/console/users/carl@a.example?done=user-created");
    let page = root.page("/console/users/carl@a.example").await;
    assert!(page.contains("value=\"Carl &#60;C&#62;\"") && page.contains("of 10.0 MiB"), "{page}");
    let path = "/console/users/carl@a.example";
    root.post(path, &[("act", "update"), ("name", "Carl"), ("quota_mib", "")]).await;
    assert!(root.page(path).await.contains(", unlimited"));
    let reset = root.post(path, &[("act", "reset"), PROOF]).await.text();
    let made = reset.split("<code id=\"secret\">").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let mut carl = Browser::new(&app);
    assert_eq!(carl.post("/console/login", &[("email", "carl@a.example"), ("password", &made)]).await.status, 303);
    root.post(path, &[("act", "disable")]).await;
    assert_eq!(carl.get("/console").await.status, 303, "sessions end");
    assert_eq!(root.post(path, &[("act", "purge"), ("confirm", "")]).await.status, 422);
    let confirm = ("confirm", "carl@a.example");
    assert!(
        root.post(path, &[("act", "purge"), confirm, PROOF]).await.header("location").ends_with("done=user-purged")
    );
    assert!(
        root.post(path, &[("act", "delete"), confirm, PROOF]).await.header("location").ends_with("done=user-deleted")
    );
    assert_eq!(root.get(path).await.status, 404);
}
