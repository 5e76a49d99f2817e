//! `/auth/lockouts`.

use axum::http::StatusCode;
use serde_json::json;

use crate::support::{App, PASSWORD};

const UNLOCK: &str = "/auth/lockouts/unlock";

async fn guess(app: &App, email: &str, password: &str) -> u16 {
    app.post("", "/auth/login", json!({ "email": email, "password": password })).await.status.as_u16()
}

#[tokio::test]
async fn only_admins_see_and_end_lock_outs() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.get(&ann, "/auth/lockouts").await.assert_error(403, "ACCESS_DENIED");
    app.post_text(&ann, UNLOCK, "no JSON").await.assert_error(403, "ACCESS_DENIED");
    let admin = app.admin.clone();
    assert_eq!(app.post(&admin, UNLOCK, json!({})).await.assert_invalid(), ["mailbox"]);
    for client in ["x", "192.0.2.1/64", "2001:db8::/48", ""] {
        assert_eq!(app.post(&admin, UNLOCK, json!({ "client": client })).await.assert_invalid(), ["client"]);
    }
}

#[tokio::test]
async fn a_locked_mailbox_is_listed_until_it_is_unlocked() {
    let (app, ..) = App::with_ann_and_bob().await;
    let admin = app.admin.clone();
    for email in ["ann@example.org", "my secret password"] {
        for _ in 0..5 {
            assert_eq!(guess(&app, email, "wrong").await, 401);
        }
    }
    assert_eq!(guess(&app, "ann@example.org", PASSWORD).await, 429);
    let listed = app.get(&admin, "/auth/lockouts").await.assert(StatusCode::OK);
    let until = app.now().plus(app.service.settings().login_lockout).to_string();
    assert_eq!(
        listed["lockouts"],
        json!([{ "mailbox": "ann@example.org", "token_id": null, "client": null, "until": until }])
    );
    let beyond = app.get(&admin, "/auth/lockouts?offset=1").await.assert(StatusCode::OK);
    assert_eq!((&beyond["total"], &beyond["lockouts"]), (&json!(1), &json!([])));
    let other = app.post(&admin, UNLOCK, json!({ "mailbox": "bob@example.org", "client": "192.0.2.1" })).await;
    assert_eq!(other.assert(StatusCode::OK)["unlocked"], 0);
    assert_eq!(guess(&app, "ann@example.org", PASSWORD).await, 429);
    let unlocked = app.post(&admin, UNLOCK, json!({ "mailbox": "ANN@example.org" })).await;
    assert_eq!(unlocked.assert(StatusCode::OK)["unlocked"], 1);
    assert_eq!(guess(&app, "ann@example.org", PASSWORD).await, 200);
    assert_eq!(app.get(&admin, "/auth/lockouts").await.assert(StatusCode::OK)["total"], 0);
}
