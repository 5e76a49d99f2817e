//! The overview: what arrives, what waits, what fails, what needs attention, and the first steps on a new server.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use mailapi_http::{ApiError, HttpState};
use mailapi_model::{Listed, Page, Permission};
use mailapi_service::Service;
use mailapi_service::events::{EventQuery, EventType, TypePattern};
use mailapi_service::health::{Check, Health};
use mailapi_service::mail::SentQuery;
use mailapi_service::queue::QueueFilter;
use mailapi_service::stats::{DeliveryQuery, DeliveryStats, SentCounts, StatsError};
use mailapi_service::users::UserQuery;

use super::events::{EventRow, newest};
use super::messages::Row;
use super::statistics::sent_column;
use crate::answer::{Answer, render};
use crate::failure::Failure;
use crate::frame::Frame;
use crate::plot::Plot;
use crate::session::Session;
use crate::show::Moment;

/// Positions of the log in which received mail is looked for.
const LOOKED_AT: u64 = 1000;
/// Items in each short list.
const SHORT: usize = 8;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    steps: Vec<Step>,
    findings: Vec<Finding>,
    counts: SentCounts,
    days: Vec<Day>,
    plot: String,
    queue: Option<QueueState>,
    sent: Vec<Row>,
    received: Vec<EventRow>,
}

/// A step of the first visit.
struct Step {
    text: &'static str,
    link: &'static str,
    is_done: bool,
}

/// Something that needs attention, with what to do.
struct Finding {
    what: String,
    mend: &'static str,
    link: &'static str,
}

struct Day {
    date: String,
    counts: SentCounts,
}

/// What waits in the queue.
enum QueueState {
    Waiting { total: u64, oldest: Option<Moment> },
    Unknown(String),
}

/// `/console/` is the same page.
pub(crate) async fn redirect() -> Response {
    Redirect::permanent("/console").into_response()
}

/// The overview of what the caller may see.
pub(crate) async fn show(State(state): State<HttpState>, session: Session) -> Answer {
    let service = state.service();
    let is_admin = session.caller.grants.admin().is_ok();
    let stats = statistics(service, &session).await?;
    let days: Vec<Day> =
        stats.breakdown.into_iter().map(|entry| Day { date: entry.bucket.to_string(), counts: entry.counts }).collect();
    let latest = Page::new(u32::try_from(SHORT).unwrap_or(1), 0);
    let sent = service.list_sent(&session.caller, SentQuery::default(), latest).await?;
    let received = EventQuery { types: vec![TypePattern::One(EventType::MessageReceived)], ..EventQuery::default() };
    let received = newest(service, &session, received, None, LOOKED_AT).await?;
    let mut findings = domain_findings(service, &session).await?;
    if is_admin {
        findings.extend(health_findings(service.health().await.as_ref()));
    }
    render(&OverviewPage {
        frame: Frame::new(&session, "Overview")
            .call("GET /stats/delivery", "Every caller: their own mailbox. view_stats adds a domain. Admins: all.")
            .call("GET /queue", "Admins.")
            .call("GET /events?types=message.received", "The mailbox, view_mailbox on its domain, and admins.")
            .call("GET /health", "Everybody."),
        steps: if is_admin { first_steps(service, &session, sent.total).await? } else { Vec::new() },
        findings,
        counts: stats.summary,
        plot: plot(&days)?,
        days,
        queue: if is_admin { Some(queue(service, &session).await) } else { None },
        sent: sent.items.into_iter().map(Row::from).collect(),
        received: received.events.iter().rev().take(SHORT).map(EventRow::of).collect(),
    })
}

async fn statistics(service: &Service, session: &Session) -> Result<DeliveryStats, StatsError> {
    service.delivery_stats(&session.caller, DeliveryQuery::default()).await
}

fn plot(days: &[Day]) -> Result<String, Failure> {
    let label = |day: &Day| day.date.get("2026-".len()..).unwrap_or(&day.date).to_owned();
    let columns: Vec<_> = days.iter().map(|day| sent_column(label(day), day.counts)).collect();
    Plot::columns("Recipients for each day by their present status; the table has the figures", &columns)
        .render()
        .map_err(Failure::template)
}

async fn queue(service: &Service, session: &Session) -> QueueState {
    match service.list_queue(&session.caller, &QueueFilter::default(), Page::new(1, 0)).await {
        Ok(Listed { total, items }) => {
            QueueState::Waiting { total, oldest: items.first().map(|entry| entry.queued_at.into()) }
        }
        Err(error) => QueueState::Unknown(ApiError::from(error).message().to_owned()),
    }
}

/// Domains that wait for an admin, and those whose DNS was not verified.
async fn domain_findings(service: &Service, session: &Session) -> Result<Vec<Finding>, Failure> {
    let grants = &session.caller.grants;
    if grants.admin().is_err() && grants.domains_with(Permission::ManageDomains).next().is_none() {
        return Ok(Vec::new());
    }
    let domains = service.list_domains(&session.caller, Page::new(Page::MAX_LIMIT, 0)).await?;
    let pending = domains.items.iter().filter(|domain| !domain.approved).map(|domain| Finding {
        what: format!("{} waits for approval.", domain.name.shown()),
        mend: "Approve it, or delete it.",
        link: "/console/domains",
    });
    let unverified = domains.items.iter().filter(|domain| domain.approved && domain.verified_at.is_none());
    let unverified = unverified.map(|domain| Finding {
        what: format!("{}: the DNS records are not verified.", domain.name.shown()),
        mend: "Publish the records, then verify them.",
        link: "/console/domains",
    });
    Ok(pending.chain(unverified).take(SHORT).collect())
}

fn health_findings(health: &Health) -> Vec<Finding> {
    let failed = |name: &str, check: Option<Check>, mend: &'static str| {
        let why = check.and_then(Result::err)?;
        Some(Finding { what: format!("{name}: {why}."), mend, link: "/health" })
    };
    let whole = |is_whole: bool, what: &str| {
        (!is_whole).then(|| Finding {
            what: what.to_owned(),
            mend: "Some statuses may stay open. The command mailapi doctor names the cause.",
            link: "/console/events",
        })
    };
    let parts = [
        failed("Account database", Some(health.database), "Check that the database runs and is reachable."),
        failed("Submission of mail", Some(health.smtp), "Check that the mail server accepts mail from this host."),
        failed("Access to mailboxes", Some(health.imap), "Check that the mailbox server runs and is reachable."),
        failed("Log of the mail server", health.log, "Check that the log exists and is readable."),
        failed("Mailbox for bounces", health.bounces, "Check the settings of the bounce mailbox."),
        failed("User database", health.users, "Check that the user database runs and is reachable."),
        whole(health.log_is_whole, "Lines of the mail server's log were lost."),
        whole(health.bounces_are_whole, "Bounces could not be read."),
    ];
    parts.into_iter().flatten().collect()
}

/// The way from the first login to the first mail; empty once it was walked.
async fn first_steps(service: &Service, session: &Session, sent: u64) -> Result<Vec<Step>, Failure> {
    let one = Page::new(1, 0);
    let domains = service.list_domains(&session.caller, Page::new(Page::MAX_LIMIT, 0)).await?;
    let users = service.list_users(&session.caller, UserQuery::default(), one).await?;
    let is_verified = domains.items.iter().any(|domain| domain.verified_at.is_some());
    let step = |text, link, is_done| Step { text, link, is_done };
    let steps = [
        step("Log in as an admin", "/console", true),
        step("Create a mail domain", "/console/domains", domains.total > 0),
        step("Publish its DNS records", "/console/domains", is_verified),
        step("Create a mailbox", "/console/users", users.total > 0),
        step("Send a mail", "/console/write", sent > 0),
    ];
    let is_new = domains.total == 0 || users.total == 0 || sent == 0;
    Ok(if is_new { steps.into() } else { Vec::new() })
}
