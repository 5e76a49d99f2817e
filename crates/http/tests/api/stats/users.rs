//! `GET /stats/users/{email}`.

use axum::http::StatusCode;
use mailapi_model::Permission;

use super::app_with_mail;

#[tokio::test]
async fn other_users_cannot_see_a_users_statistics() {
    let (app, _, bob) = app_with_mail().await;
    for email in ["ann@example.org", "nobody@example.org", "nobody"] {
        app.get(&bob, &format!("/stats/users/{email}")).await.assert_error(403, "ACCESS_DENIED");
    }
    for email in ["nobody@example.org", "nobody"] {
        app.get(&app.admin, &format!("/stats/users/{email}")).await.assert_error(404, "USER_NOT_FOUND");
    }
    let fields = app.get(&bob, "/stats/users/bob@example.org?group_by=x").await.assert_invalid();
    assert_eq!(fields, ["group_by"]);
}

#[tokio::test]
async fn the_user_and_callers_with_view_stats_see_statistics() {
    let (app, ann, bob) = app_with_mail().await;
    app.grant("bob@example.org", Permission::ViewStats, "example.org").await;
    for token in [&ann, &bob, &app.admin] {
        let stats = app.get(token, "/stats/users/ANN@example.org").await.assert(StatusCode::OK);
        assert_eq!(
            (&stats["email"], &stats["summary"]["total_sent"], stats["breakdown"].as_array().unwrap().len()),
            (&"ann@example.org".into(), &2.into(), 8)
        );
    }
}
