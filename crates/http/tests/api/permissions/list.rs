//! `GET /permissions`.

use axum::http::StatusCode;
use mailapi_model::Permission;

use crate::support::App;

#[tokio::test]
async fn only_admins_list_and_filters_are_checked() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.get(&ann, "/permissions").await.assert_error(403, "ACCESS_DENIED");
    let fields = app.get(&app.admin, "/permissions?email=x&domain=a_b&limit=0").await.assert_invalid();
    assert_eq!(fields, ["email", "domain", "limit"]);
}

#[tokio::test]
async fn filters_narrow_the_list_and_pages_never_overlap() {
    let (app, ..) = App::with_ann_and_bob().await;
    app.domain("other.example").await;
    for (email, permission, domain) in [
        ("ann@example.org", Permission::SendMail, "example.org"),
        ("ann@example.org", Permission::SendMail, "other.example"),
        ("bob@example.org", Permission::ViewStats, "other.example"),
    ] {
        app.grant(email, permission, domain).await;
    }
    let list = async |query: &str| app.get(&app.admin, &format!("/permissions{query}")).await.assert(StatusCode::OK);
    assert_eq!(list("").await["total"], 3);
    assert_eq!(list("").await["permissions"][0]["email"], "bob@example.org", "newest first");
    assert_eq!(list("?email=ANN@example.org").await["total"], 2);
    assert_eq!(list("?email=ann@example.org&domain=other.example").await["total"], 1);
    assert_eq!(list("?domain=nowhere.example").await["total"], 0);
    let (first, second) = (list("?limit=2").await, list("?limit=2&offset=2").await);
    assert_eq!(
        (first["permissions"].as_array().unwrap().len(), second["permissions"].as_array().unwrap().len()),
        (2, 1)
    );
    assert_eq!(second["permissions"][0]["domain"], "example.org");
}
