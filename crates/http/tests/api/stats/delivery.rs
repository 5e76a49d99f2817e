//! `GET /stats/delivery`.

use std::time::Duration;

use axum::http::StatusCode;
use mailapi_model::{Permission, Timestamp};
use serde_json::json;

use super::{DAY, app_with_mail, last_week};
use crate::support::{App, day, elsewhere};

const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test]
async fn what_breaks_a_rule_is_named() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let query = "start_date=soon&end_date=2026-13-01&sender=a%20b&group_by=week";
    let fields = app.get(&ann, &format!("/stats/delivery?{query}")).await.assert_invalid();
    assert_eq!(fields, ["start_date", "end_date", "sender", "group_by"]);
    for (query, field) in [
        ("start_date=2026-11-20&end_date=2026-11-19", "end_date"),
        ("start_date=1970-01-01", "start_date"),
        ("start_date=2024-01-01&group_by=hour", "group_by"),
    ] {
        assert_eq!(app.get(&ann, &format!("/stats/delivery?{query}")).await.assert_invalid(), [field], "{query}");
    }
}

#[tokio::test]
async fn a_sender_that_is_not_ones_own_is_out_of_sight() {
    let (app, _, bob) = app_with_mail().await;
    for sender in ["ann@example.org", "elsewhere.example"] {
        app.get(&bob, &format!("/stats/delivery?sender={sender}")).await.assert_error(403, "ACCESS_DENIED");
    }
    let own = app.get(&bob, "/stats/delivery").await.assert(StatusCode::OK);
    assert_eq!(own["summary"]["total_sent"], 0);
    app.grant("bob@example.org", Permission::ViewStats, "example.org").await;
    let delegated = app.get(&bob, "/stats/delivery").await.assert(StatusCode::OK);
    assert_eq!(delegated["summary"]["total_sent"], 2);
}

#[tokio::test]
async fn the_last_seven_days_are_listed_day_by_day() {
    let (app, ann, _) = app_with_mail().await;
    let stats = app.get(&ann, "/stats/delivery").await.assert(StatusCode::OK);
    let summary = json!({
        "total_sent": 2, "delivered": 1, "bounced": 0, "deferred": 1, "rejected": 1, "delivery_rate": 50.0,
    });
    assert_eq!((&stats["success"], &stats["period"], &stats["summary"]), (&json!(true), &last_week(&app), &summary));
    let days = stats["breakdown"].as_array().unwrap();
    assert_eq!((days.len(), &days[0]["date"]), (8, &json!(day(app.ago(DAY * 7)))));
    let today = json!({ "date": day(app.now()), "sent": 2, "delivered": 1, "bounced": 0, "deferred": 1 });
    assert_eq!(days[7], today);
    assert_eq!(app.get(&app.admin, "/stats/delivery?sender=ann@example.org").await.assert(StatusCode::OK), stats);
}

#[tokio::test]
async fn a_date_ends_with_its_day_and_a_time_where_it_says() {
    let (app, ann, _) = app_with_mail().await;
    let (today, tomorrow) = (day(app.now()), day(app.now().plus(DAY)));
    let asked = async |query: String| app.get(&ann, &format!("/stats/delivery?{query}")).await.assert(StatusCode::OK);
    let yesterday = day(app.ago(DAY));
    let before = asked(format!("start_date={yesterday}&end_date={today}T00:00:00")).await;
    assert_eq!((&before["summary"]["total_sent"], &before["breakdown"][0]["date"]), (&json!(0), &json!(yesterday)));
    assert_eq!(before["breakdown"].as_array().unwrap().len(), 1);
    let whole = asked(format!("start_date={today}&end_date={today}")).await;
    let period = json!({ "start": format!("{today}T00:00:00.000Z"), "end": format!("{tomorrow}T00:00:00.000Z") });
    assert_eq!(whole["period"], period);
    assert_eq!(whole["summary"]["total_sent"], 2);
    let sent = json!([{ "date": today, "sent": 2, "delivered": 1, "bounced": 0, "deferred": 1 }]);
    assert_eq!(whole["breakdown"], sent);
    let hours = asked(format!("start_date={today}&end_date={today}&group_by=hour")).await["breakdown"].clone();
    let hours = hours.as_array().unwrap();
    assert_eq!((hours.len(), &hours[23]["date"]), (24, &json!(format!("{today}T23:00:00Z"))));
    assert_eq!(hours.iter().filter_map(|hour| hour["sent"].as_u64()).sum::<u64>(), 2);
}

#[tokio::test]
async fn the_breakdown_can_be_by_hour_or_recipient_domain() {
    let (app, ann, _) = app_with_mail().await;
    let by = async |query: &str| app.get(&ann, &format!("/stats/delivery?{query}")).await.assert(StatusCode::OK);
    let (now, hour) = (app.now(), |time: Timestamp| format!("{}:00:00Z", &time.to_string()[..13]));
    let (start, end) = (app.ago(2 * HOUR), elsewhere(now));
    let hours = by(&format!("group_by=hour&start_date={start}&end_date={end}")).await;
    let dates: Vec<_> = hours["breakdown"].as_array().unwrap().iter().map(|hour| hour["date"].clone()).collect();
    assert_eq!(dates, [hour(start), hour(app.ago(HOUR)), hour(now)]);
    assert_eq!(hours["breakdown"][2]["sent"], 2);
    let domains = by("group_by=domain").await["breakdown"].clone();
    let mut domains = domains.as_array().unwrap().clone();
    domains.sort_by_key(|entry| entry["date"].to_string());
    let entry = |domain: &str, delivered: u32| json!({ "date": domain, "domain": domain, "sent": 1, "delivered": delivered, "bounced": 0, "deferred": 1 - delivered });
    assert_eq!(domains, [entry("elsewhere.example", 0), entry("example.org", 1)]);
}
