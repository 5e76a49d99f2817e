//! `DELETE /domains/{domain}`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use crate::support::App;

#[tokio::test]
async fn only_admins_delete_domains() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::ManageDomains, "example.org").await;
    for path in ["/domains/example.org", "/domains/example.org?force=true", "/domains/nowhere.example"] {
        app.delete(&ann, path).await.assert_error(403, "ACCESS_DENIED");
    }
    for path in ["/domains/nowhere.example", "/domains/a%20b?force=true"] {
        app.delete(&app.admin, path).await.assert_error(404, "DOMAIN_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_domain_with_users_stays() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for query in ["", "?force=false"] {
        let path = format!("/domains/example.org{query}");
        app.delete(&app.admin, &path).await.assert_error(409, "DOMAIN_NOT_EMPTY");
    }
    assert_eq!(app.delete(&app.admin, "/domains/example.org?force=yes").await.assert_invalid(), ["force"]);
    app.get(&ann, "/mail/inbox").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn a_domain_whose_mail_cannot_be_removed_now_stays() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.trouble.go_down();
    app.delete(&app.admin, "/domains/example.org?force=true").await.assert_error(500, "IMAP_ERROR");
    app.get(&ann, "/auth/me").await.assert(StatusCode::OK);
    assert_eq!(app.get(&app.admin, "/domains/example.org").await.assert(StatusCode::OK)["domain"]["user_count"], 2);
}

#[tokio::test]
async fn force_takes_the_users_and_their_tokens_along() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    let eve = app.user("eve@other.example").await;
    app.grant("eve@other.example", Permission::ManageDomains, "example.org").await;
    let deleted = app.delete(&app.admin, "/domains/EXAMPLE.org?force=true").await.assert(StatusCode::OK);
    assert_eq!((&deleted["success"], &deleted["domain"]), (&json!(true), &json!("example.org")));
    app.get(&ann, "/mail/inbox").await.assert_error(401, "TOKEN_EXPIRED");
    app.get(&app.admin, "/users/ann@example.org").await.assert_error(404, "USER_NOT_FOUND");
    app.get(&app.admin, "/mailbox/ann@example.org/messages").await.assert_error(404, "MAILBOX_NOT_FOUND");
    assert_eq!(app.get(&eve, "/permissions/mine").await.assert(StatusCode::OK)["total"], 0);
    app.delete(&app.admin, "/domains/example.org?force=true").await.assert_error(404, "DOMAIN_NOT_FOUND");
}

#[tokio::test]
async fn an_empty_domain_goes_without_force() {
    let app = App::start().await;
    app.domain("example.org").await;
    app.delete(&app.admin, "/domains/example.org").await.assert(StatusCode::OK);
    assert_eq!(app.get(&app.admin, "/domains").await.json()["total"], 0);
}
