//! Statistics; what counts and what does not is told by the stories of the service.

mod delivery;
mod domain;
mod domains;
mod users;

use axum::http::StatusCode;
use serde_json::json;

use crate::support::InMemoryApp;

/// Ann has sent to Bob, to nobody, and to a host that does not answer; the counts are up to date.
async fn app_with_mail() -> (InMemoryApp, String, String) {
    let (app, ann, bob) = InMemoryApp::with_ann_and_bob().await;
    let to = ["bob@example.org", "nobody@example.org", "eve@elsewhere.example"];
    let message = json!({ "from": "ann@example.org", "to": to, "body": { "text": "x" } });
    app.post(&ann, "/mail/send", message).await.assert(StatusCode::ACCEPTED);
    app.get(&app.admin, "/mail/delivery-log/sync").await.assert(StatusCode::OK);
    count(&app).await;
    (app, ann, bob)
}

/// Counts what is not counted yet.
async fn count(app: &InMemoryApp) {
    while app.service.roll_up_once().await.unwrap().more {}
}
