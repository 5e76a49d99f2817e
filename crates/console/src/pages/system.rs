//! The state of the server.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use mailapi_http::HttpState;
use mailapi_model::Timestamp;
use mailapi_service::health::{Check, Health};
use mailapi_service::mailbox::{Backlog, ImportProgress};

use crate::answer::{Answer, render};
use crate::frame::Frame;
use crate::session::Session;
use crate::show::Moment;

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    frame: Frame,
    version: &'static str,
    checks: Vec<(&'static str, Result<(), &'static str>)>,
    backlog: Option<Backlog>,
    imports: Vec<Import>,
    metrics: Vec<Metric>,
}

impl SystemPage {
    fn imports_run(&self) -> bool {
        self.imports.iter().any(|import| import.is_running)
    }
}

/// An import of mail by the command `mailapi import`.
struct Import {
    mailbox: String,
    folder: String,
    /// `1200 of 5000`.
    messages: String,
    changed_at: Moment,
    is_running: bool,
}

impl Import {
    fn of(progress: ImportProgress, now: Timestamp) -> Self {
        let ImportProgress { mailbox, folder, done, total, changed_at } = progress;
        Self {
            mailbox: mailbox.shown().to_owned(),
            folder: folder.to_string(),
            messages: total.map_or_else(|| done.to_string(), |total| format!("{done} of {total}")),
            is_running: now.since(changed_at) < SILENCE,
            changed_at: changed_at.into(),
        }
    }
}

/// An import without progress for this long was interrupted: the command reports each second, unless a large message
/// takes longer.
const SILENCE: Duration = Duration::from_mins(2);

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
    // If they cannot be read, the table of health says why.
    let backlog = service.backlog().await.ok().flatten();
    let imports = service.imports().await.unwrap_or_default();
    let now = service.clock().now();
    let imports = imports.into_iter().map(|progress| Import::of(progress, now)).collect();
    let frame = Frame::new(&session, "System").call("GET /health (beside /api/v1)", "Everybody.");
    render(&SystemPage {
        frame,
        version: env!("CARGO_PKG_VERSION"),
        checks: checks(&health),
        backlog,
        imports,
        metrics,
    })
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
    fn an_import_without_progress_was_interrupted() {
        let (start, minutes) = (Timestamp::from_seconds(1_000_000), Duration::from_mins);
        let at = |total, now| {
            let (mailbox, folder) = ("ann@a.example".parse().unwrap(), "Old/Mail".parse().unwrap());
            let progress = ImportProgress { mailbox, folder, done: 120, total, changed_at: start };
            let import = Import::of(progress, now);
            (import.messages, import.is_running)
        };
        assert_eq!(at(Some(500), start.plus(minutes(1))), ("120 of 500".to_owned(), true));
        assert_eq!(at(None, start.plus(minutes(3))), ("120".to_owned(), false));
    }

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
