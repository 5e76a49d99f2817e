//! Tokens.

use crate::support::{ANN, Browser, PROOF, server};

#[tokio::test]
async fn a_token_is_shown_once_and_is_revoked_by_its_owner_only() {
    let app = server().await;
    let mut ann = Browser::of(&app, ANN).await;
    assert_eq!(
        ann.post("/console/tokens", &[("act", "create"), ("name", "X"), ("kind", "admin"), PROOF]).await.status,
        403
    );
    let made = ann.post("/console/tokens", &[("act", "create"), ("name", "Script"), PROOF]).await.text();
    let value = made.split("<code id=\"secret\">").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let me = app.get(&value, "/tokens/me").await.expect(200);
    assert_eq!((me["email"].as_str(), me["name"].as_str()), (Some(ANN), Some("Script")));
    assert!(!ann.page("/console/tokens").await.contains(&value));
    let id = me["id"].to_string();
    let mut bob = Browser::of(&app, "bob@a.example").await;
    assert_eq!(bob.post("/console/tokens", &[("act", "revoke"), ("id", &id)]).await.status, 403);
    ann.post("/console/tokens", &[("act", "revoke"), ("id", &id)]).await;
    assert_eq!(app.get(&value, "/tokens/me").await.status, 401);
}
