//! The log of events, newest first.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use mailapi_http::HttpState;
use mailapi_model::Violations;
use mailapi_service::Service;
use mailapi_service::events::{
    After, EventCursor, EventQuery, EventType, EventsError, StoredEvent, TypePattern, event_facts,
};

use crate::answer::{Answer, render};
use crate::fields::{Fields, Query};
use crate::frame::Frame;
use crate::session::Session;
use crate::show::Moment;

const PATH: &str = "/console/events";

/// Number of positions of the log on one page.
const AT_ONCE: u64 = 200;

#[derive(Template)]
#[template(path = "events.html")]
struct EventsPage {
    frame: Frame,
    filters: Fields,
    types: Vec<&'static str>,
    rows: Vec<EventRow>,
    first: u64,
    last: u64,
    older: Option<String>,
    is_live: bool,
}

/// An event.
pub(crate) struct EventRow {
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) event_type: &'static str,
    /// The colour: of a success, a delay, a failure, or none.
    pub(crate) tone: &'static str,
    pub(crate) at: Moment,
    pub(crate) mailbox: String,
    pub(crate) summary: String,
    pub(crate) facts: Vec<(String, String)>,
}

impl EventRow {
    pub(crate) fn of(event: &StoredEvent) -> Self {
        let facts = event_facts(&event.body);
        Self {
            id: event.id.to_string(),
            number: event.number,
            event_type: event.event_type.as_str(),
            tone: tone(event.event_type.as_str()),
            at: event.at.into(),
            mailbox: event.mailbox.as_ref().map_or_else(String::new, |mailbox| mailbox.shown().to_owned()),
            summary: summary(&facts),
            facts,
        }
    }
}

fn tone(event_type: &str) -> &'static str {
    let is = |ends: &[&str]| ends.iter().any(|end| event_type.ends_with(end));
    if is(&[".delivered", ".verified"]) {
        "sent"
    } else if is(&[".deferred", ".gap"]) {
        "deferred"
    } else if is(&[".bounced", ".failed", ".rejected", ".locked", "webhook.disabled"]) {
        "bounced"
    } else {
        "plain"
    }
}

/// The members that say most about an event.
fn summary(facts: &[(String, String)]) -> String {
    /// Names of members. A word before the value says what an address is.
    const TELLING: [(&str, &str); 12] = [
        ("subject", ""),
        ("recipient.email", "to "),
        ("from", "from "),
        ("address", ""),
        ("email", ""),
        ("name", ""),
        ("smtp.response", ""),
        ("reason", ""),
        ("url", ""),
        ("stage", ""),
        ("domain", ""),
        ("feed", ""),
    ];
    let part = |(name, word): &(&str, &str)| {
        let (_, value) = facts.iter().find(|(known, _)| known == name)?;
        (!value.is_empty()).then(|| format!("{word}{value}"))
    };
    TELLING.iter().filter_map(part).take(3).collect::<Vec<_>>().join(" · ")
}

/// `GET /events`, from the newest on. A link to older events names a position, so new events do not move a page.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(filters): Query) -> Answer {
    let mut violations = Violations::none();
    let types: Option<TypePattern> = filters.parsed("type", &mut violations);
    let wanted = EventQuery {
        types: types.into_iter().collect(),
        domain: filters.parsed("domain", &mut violations),
        mailbox: filters.parsed("mailbox", &mut violations),
        ..EventQuery::default()
    };
    let until = filters.parsed::<u64>("until", &mut violations);
    let wanted = violations.or(Some(wanted))?;
    let found = newest(state.service(), &session, wanted, until, AT_ONCE).await?;
    let older = (found.first > 1).then(|| filters.link(PATH, "until", &(found.first - 1).to_string()));
    let frame = Frame::new(&session, "Events").call(
        "GET /events",
        "Every caller: events of their own mailbox. view_stats and view_mailbox add those of a domain. Admins: all.",
    );
    render(&EventsPage {
        frame,
        filters,
        types: EventType::ALL.iter().map(|event_type| event_type.as_str()).collect(),
        rows: found.events.iter().rev().map(EventRow::of).collect(),
        first: found.first,
        last: found.last,
        older,
        is_live: until.is_none(),
    })
}

/// Events of a part of the log, oldest first.
pub(crate) struct Found {
    pub(crate) events: Vec<StoredEvent>,
    /// The first position of the part.
    first: u64,
    /// The last position of the part.
    last: u64,
}

/// The events that the caller may see among the `positions` up to one, by default the newest.
pub(crate) async fn newest(
    service: &Service,
    session: &Session,
    wanted: EventQuery,
    until: Option<u64>,
    positions: u64,
) -> Result<Found, EventsError> {
    let now = EventQuery { after: After::Now, ..wanted.clone() };
    let newest = service.list_events(&session.caller, &now, 1, Duration::ZERO).await?.cursor.number();
    let last = until.unwrap_or(newest).min(newest);
    let begin = last.saturating_sub(positions);
    let part = EventQuery { after: After::Cursor(EventCursor::after_number(begin)), ..wanted };
    let limit = usize::try_from(positions).unwrap_or(usize::MAX);
    let mut events = service.list_events(&session.caller, &part, limit, Duration::ZERO).await?.events;
    events.retain(|event| event.number <= last);
    Ok(Found { events, first: begin + 1, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_what_people_look_for() {
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let facts = [fact("size", "7"), fact("recipient.email", "bob@b.example"), fact("smtp.response", "250 ok")];
        assert_eq!(summary(&facts), "to bob@b.example · 250 ok");
        assert_eq!(tone("message.bounced"), "bounced");
        assert_eq!(tone("user.created"), "plain");
    }
}
