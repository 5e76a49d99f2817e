//! `mailapi events`.

use std::time::Duration;

use clap::Args;
use mailapi_service::Service;
use mailapi_service::events::{After, EventPage, EventQuery, StoredEvent, TypePattern};
use serde_json::Value;

use super::caller;
use super::output::print_if_open;
use crate::config::Config;
use crate::failure::Outcome;
use crate::signals::Signals;
use crate::terminal_text::is_command;
use crate::wiring::{self, Create};

/// Number of events per read.
const AT_ONCE: usize = 1000;

#[derive(Debug, Args)]
pub(super) struct Events {
    /// Wait for new events until a signal ends the command
    #[arg(long)]
    follow: bool,
    /// Only these types, separated by commas, such as `message.bounced,domain.*`
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<TypePattern>,
    /// Begin after this cursor, with the oldest event (`start`) or with the next one (`now`) [default: start, or now
    /// with --follow]
    #[arg(long, value_name = "CURSOR")]
    after: Option<After>,
    /// Print the JSON of each event in one line, as the API returns it, and its cursor for --after
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: Events, config: &Config) -> Outcome {
    wiring::with_service(config, Create::Nothing, async |service| {
        let Events { follow: is_following, types, after, json } = arguments;
        let after = after.unwrap_or(if is_following { After::Now } else { After::Start });
        let query = EventQuery { after, types, ..EventQuery::default() };
        if is_following { follow(&service, query, json).await } else { list(&service, query, json).await }
    })
    .await
}

async fn list(service: &Service, mut query: EventQuery, json: bool) -> Outcome {
    // On PostgreSQL, events are visible after this step.
    while service.read_events_once().await? {}
    loop {
        let page = service.list_events(&caller(), &query, AT_ONCE, Duration::ZERO).await?;
        if !show(&page, json)? || !page.has_more {
            return Ok(());
        }
        query.after = After::Cursor(page.cursor);
    }
}

async fn follow(service: &Service, query: EventQuery, json: bool) -> Outcome {
    let mut signals = Signals::listen()?;
    let mut events = service.event_stream(&caller(), query).await?;
    let mut reading = std::pin::pin!(read(service));
    loop {
        let page = tokio::select! {
            page = events.next() => page?,
            failed = &mut reading => return failed,
            _ = signals.next() => return Ok(()),
        };
        if !show(&page, json)? {
            return Ok(());
        }
    }
}

/// Reads new events for the stream, until that fails.
async fn read(service: &Service) -> Outcome {
    loop {
        if !service.read_events_once().await? {
            service.events_written().await;
        }
    }
}

/// Prints events. Returns whether the output is still open.
fn show(page: &EventPage, json: bool) -> Outcome<bool> {
    if page.truncated {
        tracing::warn!(
            "events after the given cursor are no longer kept, or it is of another log; all kept events follow"
        );
    }
    let line = |event: &StoredEvent| if json { json_line(event) } else { line(event) };
    print_if_open(&page.events.iter().map(line).collect::<String>())
}

/// Adds the cursor as the last member.
fn json_line(event: &StoredEvent) -> String {
    let members = event.body.trim_end().strip_suffix('}').unwrap_or(&event.body);
    format!("{members},\"cursor\":\"{}\"}}\n", event.cursor())
}

/// Formats an event for people.
fn line(event: &StoredEvent) -> String {
    /// Length of the longest type.
    const TYPE_WIDTH: usize = "message.unsubscribed".len();
    let body: Value = serde_json::from_str(&event.body).unwrap_or_default();
    let data = &body["data"];
    let known = [&data["message_id"], &data["recipient"]["email"], &data["smtp"]["response"], &data["reason"]];
    let mut words: Vec<&str> = known.into_iter().filter_map(Value::as_str).collect();
    // A failure can have the reply as its reason.
    words.dedup();
    let rest = if words.is_empty() { data.to_string() } else { words.join("  ") };
    let event_type = event.event_type.as_str();
    // A reply of another server must not look like another event.
    let rest = rest.replace(is_command, " ");
    format!("{}  {event_type:<TYPE_WIDTH$}  {rest}\n", event.at)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mailapi_model::Timestamp;
    use mailapi_service::events::EventType;

    use super::*;

    fn shown(event_type: EventType, body: &str) -> String {
        line(&stored(event_type, body))
    }

    fn stored(event_type: EventType, body: &str) -> StoredEvent {
        let at = Timestamp::from_seconds(1_795_600_800);
        StoredEvent {
            number: 1,
            id: "evt_01m7w78fqwemea5qcy6jn7hx3x".parse().unwrap(),
            event_type,
            at,
            domain: None,
            mailbox: None,
            message_id: None,
            subject_at: at,
            body: Arc::from(body),
        }
    }

    #[test]
    fn the_json_of_an_event_ends_with_its_cursor() {
        let body = r#"{"id":"evt_1","data":{"domain":"}"}}"#;
        let line = json_line(&stored(EventType::DomainCreated, body));
        assert_eq!(line, "{\"id\":\"evt_1\",\"data\":{\"domain\":\"}\"},\"cursor\":\"1-6jn7hx3x\"}\n");
    }

    #[test]
    fn no_reply_can_forge_a_line() {
        let body = r#"{"data":{"message_id":"67e5","recipient":{"email":"b@c.example"},"smtp":{"response":"a\nb"}}}"#;
        let line = shown(EventType::MessageBounced, body);
        assert_eq!(line, "2026-11-25T10:00:00.000Z  message.bounced       67e5  b@c.example  a b\n");
    }

    #[test]
    fn an_event_about_no_message_shows_its_data() {
        let line = shown(EventType::DomainCreated, r#"{"data":{"domain":"example.org"}}"#);
        assert!(line.ends_with("domain.created        {\"domain\":\"example.org\"}\n"), "{line}");
    }
}
