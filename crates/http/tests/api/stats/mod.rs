//! Statistics over HTTP; the tests of the service define what counts.

mod delivery;
mod domain;
mod domains;
mod users;

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::{App, EVE};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Starts a service in which Ann has sent to Bob, to an unknown address, and to a host that does not respond. The
/// statistics are up to date.
///
/// With a real mail server the clock advances until it is done. If the hour changes meanwhile, the counts are in an
/// hour that no test queries, so the function starts again.
async fn app_with_mail() -> (App, String, String) {
    loop {
        let (app, ann, bob) = App::with_ann_and_bob().await;
        let sent_in = hour(&app);
        let to = ["bob@example.org", "nobody@example.org", EVE];
        let message = json!({ "from": "ann@example.org", "to": to, "body": { "text": "x" } });
        app.post(&ann, "/mail/send", message).await.assert(StatusCode::ACCEPTED);
        app.sync().await;
        count(&app).await;
        if hour(&app) == sent_in {
            return (app, ann, bob);
        }
    }
}

/// Returns the hour since 1970.
fn hour(app: &App) -> i64 {
    const MILLIS: i64 = 60 * 60 * 1000;
    app.now().as_millis() / MILLIS
}

/// Returns the range of the last seven days.
fn last_week(app: &App) -> Value {
    json!({ "start": app.ago(DAY * 7).to_string(), "end": app.now().to_string() })
}

/// Counts all events that are not counted yet.
async fn count(app: &App) {
    while app.service.roll_up_once().await.unwrap().more {}
}
