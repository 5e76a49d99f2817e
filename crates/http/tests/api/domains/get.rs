//! `GET /domains/{domain}`.

use axum::http::StatusCode;
use mailapi_model::Permission;

use crate::support::App;

#[tokio::test]
async fn only_managers_of_a_domain_see_it() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    for path in ["/domains/example.org", "/domains/nowhere.example", "/domains/no%20domain"] {
        app.get(&ann, path).await.assert_error(403, "ACCESS_DENIED");
    }
    app.grant("bob@example.org", Permission::ManageDomains, "example.org").await;
    let (_, domain) = (app.domain("other.example").await, app.get(&bob, "/domains/other.example").await);
    domain.assert_error(403, "ACCESS_DENIED");
    let seen = app.get(&bob, "/domains/EXAMPLE.org").await.assert(StatusCode::OK);
    assert_eq!(seen["domain"]["user_count"], 2);
}

#[tokio::test]
async fn to_an_admin_what_does_not_exist_does_not_exist() {
    let app = App::start().await;
    for path in ["/domains/nowhere.example", "/domains/no%20domain", "/domains/a%2Fb"] {
        app.get(&app.admin, path).await.assert_error(404, "DOMAIN_NOT_FOUND");
    }
}
