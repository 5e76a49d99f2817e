//! Statistics; what counts and what does not is told by the stories of the service.

mod delivery;
mod domain;
mod domains;
mod users;

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::{App, EVE};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Ann has sent to Bob, to nobody, and to a host that does not answer; the counts are up to date.
///
/// In front of a real mail server the clock goes on until it is done. What was sent in an earlier hour than the clock
/// shows then is counted where no story looks, so such a beginning is left alone for another one.
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

/// Which hour it is, since 1970.
fn hour(app: &App) -> i64 {
    const MILLIS: i64 = 60 * 60 * 1000;
    app.now().as_millis() / MILLIS
}

/// The last seven days.
fn last_week(app: &App) -> Value {
    json!({ "start": app.ago(DAY * 7).to_string(), "end": app.now().to_string() })
}

/// Counts what is not counted yet.
async fn count(app: &App) {
    while app.service.roll_up_once().await.unwrap().more {}
}
