//! `GET /permissions/mine`.

use axum::http::StatusCode;
use mailapi_model::Permission;

use crate::support::App;

#[tokio::test]
async fn everybody_sees_what_was_delegated_to_them() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    app.grant("ann@example.org", Permission::SendMail, "example.org").await;
    app.grant("ann@example.org", Permission::ViewStats, "example.org").await;
    let mine = app.get(&ann, "/permissions/mine?limit=1").await.assert(StatusCode::OK);
    assert_eq!((&mine["total"], &mine["limit"], &mine["offset"]), (&2.into(), &1.into(), &0.into()));
    assert_eq!(mine["permissions"][0]["permission"], "view_stats", "newest first");
    for token in [&bob, &app.admin] {
        assert_eq!(app.get(token, "/permissions/mine").await.assert(StatusCode::OK)["total"], 0);
    }
    assert_eq!(app.get(&bob, "/permissions/mine?offset=x").await.assert_invalid(), ["offset"]);
}
