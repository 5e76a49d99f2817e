//! Messages sent through the API, and the timeline of one message.

use askama::Template;
use axum::extract::{Path, State};
use mailapi_http::HttpState;
use mailapi_model::{MessageId, MessageStatus, SentRecipient, SentSummary, Timestamp, Violations};
use mailapi_service::events::{EventCursor, EventPage};
use mailapi_service::mail::{SentQuery, StatusError};

use super::events::EventRow;
use crate::answer::{Answer, render};
use crate::failure::Failure;
use crate::fields::{Fields, Query};
use crate::frame::Frame;
use crate::pager::Pager;
use crate::session::Session;
use crate::show::Moment;

pub(crate) const PATH: &str = "/console/messages";

/// Maximum number of events on the page of a message.
const MOST_EVENTS: usize = 500;

#[derive(Template)]
#[template(path = "messages.html")]
struct MessagesPage {
    frame: Frame,
    filters: Fields,
    statuses: &'static [MessageStatus],
    rows: Vec<Row>,
    pager: Pager,
}

/// A sent message in a list.
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) at: Moment,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) subject: String,
    pub(crate) status: &'static str,
}

impl From<SentSummary> for Row {
    fn from(message: SentSummary) -> Self {
        let more = message.to.len().saturating_sub(1);
        let first = message.to.first().map_or_else(String::new, |to| to.shown().to_owned());
        Self {
            id: message.message_id.to_string(),
            at: message.created_at.into(),
            from: message.from.shown().to_owned(),
            to: if more == 0 { first } else { format!("{first} and {more} more") },
            subject: message.subject,
            status: message.status.as_str(),
        }
    }
}

/// `GET /mail/sent`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(filters): Query) -> Answer {
    let page = filters.page();
    let listed = state.service().list_sent(&session.caller, query(&filters)?, page).await?;
    let pager = Pager::new(PATH, &filters, page, listed.items.len(), listed.total);
    let rows = listed.items.into_iter().map(Row::from).collect();
    let frame = Frame::new(&session, "Messages sent")
        .call("GET /mail/sent", "Every caller: messages of their own mailbox. Admins: all.");
    render(&MessagesPage { frame, filters, statuses: &MessageStatus::ALL, rows, pager })
}

fn query(filters: &Fields) -> Result<SentQuery, Violations> {
    let mut violations = Violations::none();
    let query = SentQuery {
        status: filters.parsed("status", &mut violations),
        from: filters.parsed("from", &mut violations),
        recipient: filters.parsed("recipient", &mut violations),
        start: time(filters, "start_date", Timestamp::parse_date_or_time, &mut violations),
        end: time(filters, "end_date", Timestamp::parse_end, &mut violations),
    };
    violations.or(Some(query))
}

fn time<E: std::fmt::Display>(
    filters: &Fields,
    name: &str,
    parse: fn(&str) -> Result<Timestamp, E>,
    violations: &mut Violations,
) -> Option<Timestamp> {
    filters.optional(name).and_then(|text| violations.check(name, parse(&text)))
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    frame: Frame,
    /// The status; a caller who may only read the events of the message does not see it.
    record: Option<Record>,
    events: Vec<EventRow>,
    has_more: bool,
}

struct Record {
    from: String,
    subject: String,
    status: &'static str,
    created_at: Moment,
    submitted_at: Option<Moment>,
    queue_id: Option<String>,
    recipients: Vec<Recipient>,
}

struct Recipient {
    email: String,
    kind: &'static str,
    status: &'static str,
    dsn: String,
    at: Option<Moment>,
    attempts: u32,
    reply: String,
}

impl From<SentRecipient> for Recipient {
    fn from(recipient: SentRecipient) -> Self {
        Self {
            email: recipient.email.shown().to_owned(),
            kind: recipient.kind.as_str(),
            status: recipient.status.as_str(),
            dsn: recipient.dsn.map(|code| code.to_string()).unwrap_or_default(),
            at: recipient.bounced_at.or(recipient.delivered_at).or(recipient.last_attempt_at).map(Moment),
            attempts: recipient.attempts,
            reply: recipient.smtp_response.or(recipient.partly_bounced_response).unwrap_or_default(),
        }
    }
}

/// `GET /mail/{message_id}/status` and `GET /mail/{message_id}/timeline`.
pub(crate) async fn show(State(state): State<HttpState>, session: Session, Path(id): Path<String>) -> Answer {
    let id: MessageId = id.parse().map_err(|_| Failure::from(StatusError::NotFound))?;
    let service = state.service();
    let EventPage { events, has_more, .. } =
        service.timeline(&session.caller, id, EventCursor::default(), MOST_EVENTS).await?;
    let record = match service.status(&session.caller, id).await {
        Ok(record) => Some(record),
        Err(StatusError::NotFound) => None,
        Err(error) => return Err(error.into()),
    };
    let frame = Frame::new(&session, "Message")
        .call("GET /mail/{message_id}/status", "The sender's mailbox, and admins.")
        .call("GET /mail/{message_id}/timeline", "The same callers, and view_stats on the sender's domain.");
    let record = record.map(|record| Record {
        from: record.message.from.shown().to_owned(),
        subject: record.message.subject,
        status: record.message.status.as_str(),
        created_at: record.message.created_at.into(),
        submitted_at: record.message.submitted_at.map(Moment),
        queue_id: record.message.queue_id.map(|id| id.to_string()),
        recipients: record.recipients.into_iter().map(Recipient::from).collect(),
    });
    render(&MessagePage { frame, record, events: events.iter().map(EventRow::of).collect(), has_more })
}
