//! The mail server's queue.

use askama::Template;
use axum::extract::{Path, State};
use mailapi_http::HttpState;
use mailapi_model::{QueueId, QueueState, Violations};
use mailapi_service::queue::{QueueChange, QueueEntry, QueueFilter, QueuedFor};

use crate::answer::{Answer, change, done, render};
use crate::failure::Failure;
use crate::fields::{Fields, Form, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::pager::Pager;
use crate::session::Session;
use crate::show::{self, Moment};

const PATH: &str = "/console/queue";
const RIGHT: &str = "Admins.";

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    frame: Frame,
    filters: Fields,
    states: &'static [QueueState],
    rows: Vec<Row>,
    pager: Pager,
}

struct Row {
    id: String,
    path: String,
    message: Option<String>,
    sender: String,
    size: String,
    queued_at: Moment,
    recipient_count: u64,
    recipients: Vec<Recipient>,
    is_held: bool,
}

struct Recipient {
    email: String,
    state: &'static str,
    attempts: Option<u32>,
    next_attempt_at: Option<Moment>,
    reply: String,
}

impl From<QueueEntry> for Row {
    fn from(entry: QueueEntry) -> Self {
        Self {
            path: show::segment(&entry.queue_id.0),
            id: entry.queue_id.0,
            message: entry.message_id.map(|id| id.to_string()),
            sender: if entry.sender.is_empty() { "(bounce)".to_owned() } else { entry.sender },
            size: show::bytes(entry.size),
            queued_at: entry.queued_at.into(),
            recipient_count: entry.recipient_count,
            is_held: entry.recipients.iter().any(|recipient| recipient.state == QueueState::Held),
            recipients: entry.recipients.into_iter().map(Recipient::from).collect(),
        }
    }
}

impl From<QueuedFor> for Recipient {
    fn from(recipient: QueuedFor) -> Self {
        Self {
            email: recipient.email,
            state: recipient.state.as_str(),
            attempts: recipient.attempts,
            next_attempt_at: recipient.next_attempt_at.map(Moment),
            reply: recipient.last_reply.unwrap_or_default(),
        }
    }
}

/// `GET /queue`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(filters): Query) -> Answer {
    session.caller.grants.admin()?;
    let mut violations = Violations::none();
    let wanted = QueueFilter {
        domain: filters.parsed("domain", &mut violations),
        recipient: filters.parsed("recipient", &mut violations),
        state: filters.parsed("state", &mut violations),
    };
    let wanted = violations.or(Some(wanted))?;
    let page = filters.page();
    let listed = state.service().list_queue(&session.caller, &wanted, page).await?;
    let pager = Pager::new(PATH, &filters, page, listed.items.len(), listed.total);
    let rows = listed.items.into_iter().map(Row::from).collect();
    let frame = Frame::new(&session, "Queue")
        .call("GET /queue", RIGHT)
        .call("POST /queue/{queue_id}/retry", RIGHT)
        .call("POST /queue/{queue_id}/hold", RIGHT)
        .call("POST /queue/{queue_id}/release", RIGHT)
        .call("POST /queue/{queue_id}/cancel", RIGHT);
    render(&QueuePage { frame, filters, states: &QueueState::ALL, rows, pager })
}

/// `POST /queue/{queue_id}/retry`, `hold`, `release` and `cancel`.
pub(crate) async fn act(
    State(state): State<HttpState>,
    session: Session,
    Path(id): Path<String>,
    Form(fields): Form,
) -> Answer {
    let (wanted, note) = match fields.text("act") {
        "retry" => (QueueChange::Retry, Note::Retried),
        "hold" => (QueueChange::Hold, Note::Held),
        "release" => (QueueChange::Release, Note::Released),
        "cancel" => (QueueChange::Cancel, Note::Cancelled),
        _ => return Err(Failure::not_found()),
    };
    let service = state.service().clone();
    change(async move { service.change_queued_message(&session.caller, &QueueId(id), wanted).await }).await?;
    done(PATH, note)
}
