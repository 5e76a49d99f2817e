//! `GET /tokens/me`.

use axum::http::StatusCode;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn the_token_is_shown_without_a_success_member() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let mut me = app.get(&ann, "/tokens/me").await.assert(StatusCode::OK);
    let id = me["id"].take();
    assert!(id.is_i64());
    let expected = json!({
        "id": null, "token_prefix": &ann[..12], "token_type": "user", "email": "ann@example.org", "name": "test",
        "is_active": true, "created_at": "2026-11-20T10:15:30.000Z", "last_used_at": "2026-11-20T10:15:30.000Z",
        "expires_at": null,
    });
    assert_eq!(me, expected);
    let admin = app.get(&app.admin, "/tokens/me").await.assert(StatusCode::OK);
    assert_eq!((&admin["token_type"], &admin["email"]), (&json!("admin"), &json!(null)));
}
