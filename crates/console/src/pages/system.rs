//! The state of the server.

use askama::Template;
use axum::extract::State;
use mailapi_http::HttpState;
use mailapi_service::health::{Check, Health};
use mailapi_service::mailbox::Backlog;

use crate::answer::{Answer, render};
use crate::frame::Frame;
use crate::session::Session;

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    frame: Frame,
    version: &'static str,
    checks: Vec<(&'static str, Result<(), &'static str>)>,
    backlog: Option<Backlog>,
    metrics: Vec<Metric>,
}

/// A line of the metrics.
struct Metric {
    name: String,
    labels: String,
    value: String,
}

/// `GET /health`, and the metrics.
pub(crate) async fn show(State(state): State<HttpState>, session: Session) -> Answer {
    session.caller.grants.admin()?;
    let service = state.service();
    let health = service.health().await;
    let metrics = service.scrape().await.lines().filter_map(metric).collect();
    let backlog = service.backlog().await?;
    let frame = Frame::new(&session, "System").call("GET /health (beside /api/v1)", "Everybody.");
    render(&SystemPage { frame, version: env!("CARGO_PKG_VERSION"), checks: checks(&health), backlog, metrics })
}

fn checks(health: &Health) -> Vec<(&'static str, Check)> {
    let whole = |is_whole: bool, otherwise| if is_whole { Ok(()) } else { Err(otherwise) };
    let parts = [
        ("Account database", Some(health.database)),
        ("Submission of mail", Some(health.smtp)),
        ("Access to mailboxes", Some(health.imap)),
        ("Log of the mail server", health.log),
        ("Lines of the mail log", Some(whole(health.log_is_whole, "lines were lost"))),
        ("Clock of the mail log", Some(whole(health.log_clock_agrees, "differs; times are corrected"))),
        ("Mailbox for bounces", health.bounces),
        ("Bounces read", Some(whole(health.bounces_are_whole, "some were unreadable"))),
        ("User database", health.users),
    ];
    parts.into_iter().filter_map(|(name, check)| Some((name, check?))).collect()
}

/// Buckets of histograms say little without a graph.
fn metric(line: &str) -> Option<Metric> {
    let (place, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#') && !line.contains("_bucket{"))?;
    let (name, labels) = place.split_once('{').unwrap_or((place, ""));
    Some(Metric {
        name: name.to_owned(),
        labels: labels.trim_end_matches('}').replace("\",", "\", "),
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_metrics_has_three_parts() {
        let shown = metric("a_total{b=\"c\",d=\"e f\"} 7").unwrap();
        assert_eq!(
            (shown.name.as_str(), shown.labels.as_str(), shown.value.as_str()),
            ("a_total", "b=\"c\", d=\"e f\"", "7")
        );
        assert_eq!(metric("up 1").unwrap().labels, "");
        for none in ["# EOF", "", "t_bucket{le=\"1\"} 2"] {
            assert!(metric(none).is_none());
        }
    }
}
