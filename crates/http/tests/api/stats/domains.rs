//! `GET /stats/domains`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::json;

use super::{app_with_mail, last_week};

#[tokio::test]
async fn an_admin_sees_all_domains_and_others_those_delegated_to_them() {
    let (app, ann, _) = app_with_mail().await;
    app.domain("other.example").await;
    assert_eq!(app.get(&ann, "/stats/domains").await.assert(StatusCode::OK)["total"], 0);
    app.grant("ann@example.org", Permission::ViewStats, "example.org").await;
    let delegated = app.get(&ann, "/stats/domains").await.assert(StatusCode::OK);
    let expected = json!({
        "success": true, "period": last_week(&app),
        "total": 1, "limit": 50, "offset": 0, "domains": [{
            "domain": "example.org", "total_sent": 2, "delivered": 1, "bounced": 0, "deferred": 1, "rejected": 1,
            "delivery_rate": 50.0,
        }],
    });
    assert_eq!(delegated, expected);
    let all = app.get(&app.admin, "/stats/domains?limit=1&offset=1").await.assert(StatusCode::OK);
    assert_eq!((&all["total"], all["domains"].as_array().unwrap().len()), (&json!(2), 1));
    let fields = app.get(&ann, "/stats/domains?start_date=x&limit=0").await.assert_invalid();
    assert_eq!(fields, ["start_date", "limit"]);
}
