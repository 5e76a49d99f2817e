//! `GET /stats/domain/{domain}`.

use axum::http::StatusCode;
use mailapi_model::{Clock, Permission};
use mailapi_service::stats::{InboundEvent, InboundOutcome};
use serde_json::json;

use super::{app_with_mail, count};
use crate::support::day;

#[tokio::test]
async fn only_callers_with_view_stats_see_statistics() {
    let (app, ann, _) = app_with_mail().await;
    app.grant("ann@example.org", Permission::ManageDomains, "example.org").await;
    for name in ["example.org", "nowhere.example", "a%20b"] {
        app.get(&ann, &format!("/stats/domain/{name}")).await.assert_error(403, "ACCESS_DENIED");
    }
    for name in ["nowhere.example", "a%20b"] {
        app.get(&app.admin, &format!("/stats/domain/{name}")).await.assert_error(404, "DOMAIN_NOT_FOUND");
    }
    let fields = app.get(&app.admin, "/stats/domain/example.org?start_date=x&end_date=y").await.assert_invalid();
    assert_eq!(fields, ["start_date", "end_date"]);
}

#[tokio::test]
async fn both_directions_of_mail_are_shown() {
    let (app, ann, _) = app_with_mail().await;
    app.grant("ann@example.org", Permission::ViewStats, "example.org").await;
    let event = |outcome| InboundEvent {
        at: app.clock.now(),
        domain: "example.org".parse().unwrap(),
        sender_domain: Some("news.example".parse().unwrap()),
        outcome,
    };
    let events = [InboundOutcome::Accepted, InboundOutcome::Accepted, InboundOutcome::Rejected].map(event);
    app.service.record_inbound(&events).await.unwrap();
    count(&app).await;
    let today = day(app.now());
    let stats = app.get(&ann, &format!("/stats/domain/Example.org?start_date={today}")).await.assert(StatusCode::OK);
    let mut expected = json!({
        "success": true, "domain": "example.org",
        "period": { "start": format!("{today}T00:00:00.000Z"), "end": app.now().to_string() },
        "outbound": { "total": 2, "delivered": 1, "bounced": 0, "deferred": 1, "top_recipients": null },
        "inbound": { "total": 3, "accepted": 2, "rejected": 1, "spam": 0,
            "top_senders": [{ "domain": "news.example", "count": 2 }] },
    });
    let ranked = stats["outbound"]["top_recipients"].clone();
    assert_eq!(ranked.as_array().unwrap().len(), 2, "a refused recipient makes no rank");
    expected["outbound"]["top_recipients"] = ranked;
    assert_eq!(stats, expected);
}
