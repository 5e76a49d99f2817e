//! Webhooks and their failed deliveries.

use askama::Template;
use axum::extract::{Path, State};
use mailapi_http::HttpState;
use mailapi_model::{Page, Secret, Violations};
use mailapi_service::events::{EventCursor, EventType, TypePattern};
use mailapi_service::webhooks::{
    CreateWebhook, Replay, ReplayedEvents, UpdateWebhook, Webhook, WebhookError, WebhookFailure, WebhookId,
    WebhookSigning,
};

use super::secret;
use crate::answer::{Answer, change, done, render};
use crate::failure::Failure;
use crate::fields::{Fields, Form, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::pager::Pager;
use crate::session::Session;
use crate::show::Moment;

const PATH: &str = "/console/webhooks";
const RIGHT: &str = "The mailbox that registered it, and admins.";

#[derive(Template)]
#[template(path = "webhooks.html")]
struct WebhooksPage {
    frame: Frame,
    rows: Vec<Row>,
    pager: Pager,
    types: Vec<String>,
    is_admin: bool,
}

struct Row {
    id: i64,
    url: String,
    types: String,
    of: String,
    description: String,
    signing: &'static str,
    state: &'static str,
    why: Option<&'static str>,
    last_success_at: Option<Moment>,
    failing_since: Option<Moment>,
    last_error: Option<String>,
}

impl Row {
    fn of(webhook: Webhook, is_admin: bool) -> Self {
        let of =
            [webhook.domain.map(|domain| domain.shown().to_owned()), webhook.mailbox.map(|m| m.shown().to_owned())];
        let types: Vec<_> = webhook.types.iter().map(TypePattern::to_string).collect();
        Self {
            id: webhook.id.0,
            url: webhook.url,
            types: types.join(", "),
            of: of.into_iter().flatten().collect::<Vec<_>>().join(", "),
            description: webhook.description,
            signing: webhook.signing.as_str(),
            state: match (webhook.enabled, webhook.failing_since) {
                (false, _) => "disabled",
                (true, Some(_)) => "failing",
                (true, None) => "enabled",
            },
            why: webhook.disabled_because.map(|why| why.as_str()),
            last_success_at: webhook.last_success_at.map(Moment),
            failing_since: webhook.failing_since.map(Moment),
            // The receiver's answer is for admins, as in the API.
            last_error: webhook.last_error.filter(|_| is_admin),
        }
    }
}

/// `GET /webhooks`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(query): Query) -> Answer {
    let (page, is_admin) = (query.page(), session.caller.grants.admin().is_ok());
    let listed = state.service().list_webhooks(&session.caller, page).await?;
    let pager = Pager::new(PATH, &query, page, listed.items.len(), listed.total);
    let rows = listed.items.into_iter().map(|webhook| Row::of(webhook, is_admin)).collect();
    let all = EventType::ALL.iter().map(|event_type| event_type.as_str().to_owned());
    let types = std::iter::once("message.*".to_owned()).chain(all).collect();
    let frame = Frame::new(&session, "Webhooks").call("GET /webhooks", RIGHT).call("POST /webhooks", "Every caller.");
    render(&WebhooksPage { frame, rows, pager, types, is_admin })
}

/// `POST /webhooks`.
pub(crate) async fn create(State(state): State<HttpState>, session: Session, Form(fields): Form) -> Answer {
    let new = new_webhook(&fields)?;
    let (service, caller) = (state.service().clone(), session.caller.clone());
    let (webhook, value) = change(async move { service.create_webhook(&caller, new).await }).await?;
    let frame = Frame::new(&session, "New webhook").call("POST /webhooks", "Every caller.");
    secret::show(frame, "The secret", value.map(Secret::into_inner), format!("{PATH}/{}", webhook.id))
}

fn new_webhook(fields: &Fields) -> Result<CreateWebhook, Violations> {
    let mut violations = Violations::none();
    let types = fields.all("type").map(|name| violations.check("type", name.parse()));
    let types: Vec<TypePattern> = types.flatten().collect();
    let new = CreateWebhook {
        url: fields.text("url").to_owned(),
        types,
        domain: fields.parsed("domain", &mut violations),
        mailbox: fields.parsed("mailbox", &mut violations),
        description: fields.text("description").to_owned(),
        signing: fields.parsed("signing", &mut violations).unwrap_or(WebhookSigning::V1),
        secret: None,
        enabled: true,
    };
    violations.or(Some(new))
}

#[derive(Template)]
#[template(path = "webhook.html")]
struct WebhookPage {
    frame: Frame,
    row: Row,
    failures: Vec<FailureRow>,
    pager: Pager,
}

struct FailureRow {
    event_id: String,
    event_type: &'static str,
    attempts: u32,
    next_try_at: Option<Moment>,
    last_at: Option<Moment>,
    last: String,
}

impl From<WebhookFailure> for FailureRow {
    fn from(failure: WebhookFailure) -> Self {
        let last_at = failure.last.as_ref().map(|last| last.at.into());
        let last = failure.last.map(|last| {
            let status = last.status.map(|status| format!("status {status}"));
            [status, last.error, last.answer].into_iter().flatten().collect::<Vec<_>>().join(": ")
        });
        Self {
            event_id: failure.event_id.to_string(),
            event_type: failure.event_type.as_str(),
            attempts: failure.attempts,
            next_try_at: failure.next_try_at.map(Moment),
            last_at,
            last: last.unwrap_or_default(),
        }
    }
}

/// `GET /webhooks/{id}` and `GET /webhooks/{id}/deliveries`.
pub(crate) async fn show(
    State(state): State<HttpState>,
    session: Session,
    Path(id): Path<String>,
    Query(query): Query,
) -> Answer {
    let (id, service) = (numbered(&id)?, state.service());
    let webhook = service.get_webhook(&session.caller, id).await?;
    let page: Page = query.page();
    let listed = service.webhook_deliveries(&session.caller, id, page).await?;
    let path = format!("{PATH}/{id}");
    let pager = Pager::new(&path, &query, page, listed.items.len(), listed.total);
    let frame = Frame::new(&session, format!("Webhook {id}"))
        .call("GET /webhooks/{id}/deliveries", RIGHT)
        .call("POST /webhooks/{id}/test, /enable, /rotate, /replay", RIGHT)
        .call("PUT /webhooks/{id}", RIGHT)
        .call("DELETE /webhooks/{id}", RIGHT);
    let row = Row::of(webhook, session.caller.grants.admin().is_ok());
    render(&WebhookPage { frame, row, failures: listed.items.into_iter().map(FailureRow::from).collect(), pager })
}

#[derive(Template)]
#[template(path = "tested.html")]
struct TestedPage {
    frame: Frame,
    id: i64,
    delivered: bool,
    status: Option<u16>,
    millis: u128,
    error: Option<String>,
    answer: Option<String>,
}

/// Changes of one webhook.
pub(crate) async fn act(
    State(state): State<HttpState>,
    session: Session,
    Path(id): Path<String>,
    Form(fields): Form,
) -> Answer {
    let (id, service, caller) = (numbered(&id)?, state.service().clone(), session.caller.clone());
    let path = format!("{PATH}/{id}");
    match fields.text("act") {
        "test" => test(&state, &session, id).await,
        "enable" => {
            change(async move { service.enable_webhook(&caller, id).await }).await?;
            done(&path, Note::WebhookChanged)
        }
        "disable" => {
            let update = UpdateWebhook { enabled: Some(false), ..UpdateWebhook::default() };
            change(async move { service.update_webhook(&caller, id, update).await }).await?;
            done(&path, Note::WebhookChanged)
        }
        "rotate" => {
            let (_, value) = change(async move { service.rotate_webhook(&caller, id).await }).await?;
            let frame = Frame::new(&session, "New secret").call("POST /webhooks/{id}/rotate", RIGHT);
            secret::show(frame, "The secret", value.map(Secret::into_inner), path)
        }
        "replay" => {
            let replay = Replay { after: EventCursor::default(), before: None, only: ReplayedEvents::Failed };
            change(async move { service.replay_webhook(&caller, id, replay).await }).await?;
            done(&path, Note::Replayed)
        }
        "delete" => {
            change(async move { service.delete_webhook(&caller, id).await }).await?;
            done(PATH, Note::WebhookDeleted)
        }
        _ => Err(Failure::not_found()),
    }
}

/// `POST /webhooks/{id}/test`.
async fn test(state: &HttpState, session: &Session, id: WebhookId) -> Answer {
    let result = state.service().test_webhook(&session.caller, id).await?;
    render(&TestedPage {
        frame: Frame::new(session, format!("Test of webhook {id}")).call("POST /webhooks/{id}/test", RIGHT),
        id: id.0,
        delivered: result.delivered,
        status: result.status,
        millis: result.duration.as_millis(),
        error: result.error,
        answer: result.answer,
    })
}

fn numbered(text: &str) -> Result<WebhookId, WebhookError> {
    text.parse().map(WebhookId).map_err(|_| WebhookError::NotFound)
}
