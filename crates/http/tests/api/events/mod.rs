//! The log of events.

mod documented;
mod get;
mod list;
mod stream;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::App;

/// Sends a message as Ann; returns its id.
pub(super) async fn send(app: &App, token: &str, to: &[&str]) -> String {
    let body = json!({ "from": "ann@example.org", "to": to, "body": { "text": "Hello" } });
    let sent = app.post(token, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    app.read_events().await;
    sent["message_id"].as_str().unwrap().to_owned()
}

/// Lists events.
async fn list(app: &App, token: &str, query: &str) -> Value {
    app.get(token, &format!("/events{query}")).await.assert(StatusCode::OK)
}

/// Returns the types of the events in a list.
pub(super) fn types(listed: &Value) -> Vec<&str> {
    listed["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// Returns the position after the newest event.
async fn newest(app: &App) -> String {
    list(app, &app.admin, "").await["cursor"].as_str().unwrap().to_owned()
}
