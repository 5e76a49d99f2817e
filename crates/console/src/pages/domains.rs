//! Mail domains, their DNS records and their keys.

use askama::Template;
use axum::extract::{Path, State};
use mailapi_http::HttpState;
use mailapi_model::{DkimAlgorithm, DkimState, Domain, DomainKey, DomainName, Page};
use mailapi_service::domains::{DnsSetup, DomainChange, DomainError, DomainPosture, DomainProtection, WantedRecord};

use crate::answer::{Answer, change, done, render};
use crate::failure::Failure;
use crate::fields::{Form, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::pager::Pager;
use crate::session::Session;
use crate::show::{self, Moment};

const PATH: &str = "/console/domains";
pub(super) const ADMINS: &str = "Admins.";
const MANAGERS: &str = "manage_domains on the domain, and admins.";

#[derive(Template)]
#[template(path = "domains.html")]
struct DomainsPage {
    frame: Frame,
    rows: Vec<Row>,
    pager: Pager,
    is_admin: bool,
}

struct Row {
    name: String,
    path: String,
    state: &'static str,
    is_verified: bool,
    description: String,
    users: u64,
    created_at: Moment,
    creator: Option<String>,
}

impl From<Domain> for Row {
    fn from(domain: Domain) -> Self {
        Self {
            name: domain.name.shown().to_owned(),
            path: show::segment(domain.name.as_str()),
            state: match (domain.approved, domain.active) {
                (false, _) => "waits",
                (true, true) => "active",
                (true, false) => "disabled",
            },
            is_verified: domain.verified_at.is_some(),
            description: domain.description.unwrap_or_default(),
            users: domain.user_count,
            created_at: domain.created_at.into(),
            creator: domain.creator_email.map(|email| email.shown().to_owned()),
        }
    }
}

/// `GET /domains`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(query): Query) -> Answer {
    session.may_open(mailapi_model::Permission::ManageDomains)?;
    let page: Page = query.page();
    let listed = state.service().list_domains(&session.caller, page).await?;
    let pager = Pager::new(PATH, &query, page, listed.items.len(), listed.total);
    let frame = Frame::new(&session, "Domains")
        .call("GET /domains", "manage_domains: its domains. Admins: all.")
        .call("POST /domains", ADMINS);
    let rows = listed.items.into_iter().map(Row::from).collect();
    render(&DomainsPage { frame, rows, pager, is_admin: session.caller.grants.admin().is_ok() })
}

/// `POST /domains`.
pub(crate) async fn create(State(state): State<HttpState>, session: Session, Form(fields): Form) -> Answer {
    session.caller.grants.admin()?;
    let name: DomainName = fields.required("domain")?;
    let (service, path) = (state.service().clone(), path_of(&name));
    let description = fields.optional("description");
    change(async move { service.create_domain(&session.caller, name, description).await }).await?;
    done(&path, Note::DomainCreated)
}

#[derive(Template)]
#[template(path = "domain.html")]
struct DomainPage {
    frame: Frame,
    row: Row,
    records: Vec<Record>,
    zone_file: String,
    checked_at: Moment,
    keys: Vec<Key>,
    protections: Vec<DomainProtection>,
    next_step: Option<String>,
    is_admin: bool,
}

struct Record {
    id: String,
    kind: &'static str,
    purpose: &'static str,
    name: String,
    value: Option<String>,
    status: &'static str,
    required: bool,
    found: Vec<String>,
    hint: String,
}

struct Key {
    selector: String,
    algorithm: &'static str,
    state: &'static str,
    since: Moment,
    /// What the state means, and what to do.
    hint: &'static str,
}

impl From<DomainKey> for Key {
    fn from(key: DomainKey) -> Self {
        let (state, DomainKey { key, steps }) = (key.state(), key);
        let (since, hint) = match state {
            DkimState::Pending => (None, "Publish its record; it signs when the record is found."),
            DkimState::Published => (steps.published_at, "It signs when every name server of the zone has its record."),
            DkimState::Active => (steps.active_at, "It signs outgoing mail."),
            DkimState::Retiring => (steps.retiring_at, "Keep its record: mail that it signed is under way."),
            DkimState::Retired => (steps.retired_at, "Its record can be removed."),
        };
        let since = since.unwrap_or(key.created_at).into();
        Self { selector: key.selector, algorithm: key.algorithm.as_str(), state: state.as_str(), since, hint }
    }
}

impl Record {
    fn of((place, record): (usize, WantedRecord)) -> Self {
        Self {
            id: format!("record-{place}"),
            kind: record.record_type,
            purpose: record.purpose,
            name: record.name,
            value: record.value,
            status: record.status.as_str(),
            required: record.required,
            found: record.found,
            hint: record.hint,
        }
    }
}

/// `GET /domains/{domain}`, `/dns` and `/dkim`.
pub(crate) async fn show(State(state): State<HttpState>, session: Session, Path(name): Path<String>) -> Answer {
    let name = named(&name)?;
    let (service, caller) = (state.service(), &session.caller);
    let domain = service.get_domain(caller, &name).await?;
    let (setup, posture) = tokio::join!(service.get_dns(caller, &name), service.domain_posture(caller, &name));
    let DnsSetup { checked_at, records, zone_file, .. } = setup?;
    let DomainPosture { protections, next_step, .. } = posture?;
    let keys = service.list_dkim_keys(caller, &name).await?;
    let frame = Frame::new(&session, domain.name.shown())
        .call("GET /domains/{domain}/dns", MANAGERS)
        .call("GET /domains/{domain}/security", MANAGERS)
        .call("GET /domains/{domain}/verify", MANAGERS)
        .call("PUT /domains/{domain}", MANAGERS)
        .call("POST /domains/{domain}/approve", ADMINS)
        .call("POST /domains/{domain}/dkim", ADMINS)
        .call("DELETE /domains/{domain}", ADMINS);
    render(&DomainPage {
        frame,
        row: domain.into(),
        records: records.into_iter().enumerate().map(Record::of).collect(),
        zone_file,
        checked_at: checked_at.into(),
        keys: keys.into_iter().map(Key::from).collect(),
        protections,
        next_step,
        is_admin: caller.grants.admin().is_ok(),
    })
}

#[derive(Template)]
#[template(path = "verified.html")]
struct VerifiedPage {
    frame: Frame,
    path: String,
    is_verified: bool,
    records: Vec<Checked>,
}

struct Checked {
    kind: &'static str,
    status: &'static str,
    required: bool,
    expected: String,
    found: Vec<String>,
    hint: String,
}

/// Changes of one domain: `verify`, `enable`, `disable`, `approve`, `dkim`, `delete`.
pub(crate) async fn act(
    State(state): State<HttpState>,
    session: Session,
    Path(name): Path<String>,
    Form(fields): Form,
) -> Answer {
    let name = named(&name)?;
    let (service, path) = (state.service().clone(), path_of(&name));
    let set = |active| DomainChange { active: Some(active), description: None };
    match fields.text("act") {
        "verify" => verify(&state, &session, &name, path).await,
        "enable" | "disable" => {
            let set = set(fields.text("act") == "enable");
            change(async move { service.update_domain(&session.caller, &name, set).await }).await?;
            done(&path, Note::DomainChanged)
        }
        "approve" => {
            change(async move { service.approve_domain(&session.caller, &name).await }).await?;
            done(&path, Note::DomainApproved)
        }
        "dkim" => {
            session.proved(&state, &fields).await?;
            let algorithm = fields.required::<DkimAlgorithm>("algorithm")?;
            change(async move { service.rotate_dkim(&session.caller, &name, algorithm).await }).await?;
            done(&path, Note::KeyCreated)
        }
        "delete" => {
            session.confirmed(&fields, name.as_str())?;
            session.proved(&state, &fields).await?;
            change(async move { service.delete_domain(&session.caller, &name, false).await }).await?;
            done(PATH, Note::DomainDeleted)
        }
        _ => Err(Failure::not_found()),
    }
}

/// `GET /domains/{domain}/verify`, which stores its result.
async fn verify(state: &HttpState, session: &Session, name: &DomainName, path: String) -> Answer {
    let report = state.service().verify_domain(&session.caller, name).await?;
    let records = report.records.into_iter().map(|check| Checked {
        kind: check.kind,
        status: check.status.as_str(),
        required: check.required,
        expected: check.expected,
        found: check.found,
        hint: check.hint,
    });
    let frame = Frame::new(session, format!("DNS of {}", name.shown())).call("GET /domains/{domain}/verify", MANAGERS);
    render(&VerifiedPage { frame, path, is_verified: report.verified, records: records.collect() })
}

/// Returns the path of the page of a domain.
pub(super) fn path_of(name: &DomainName) -> String {
    format!("{PATH}/{}", show::segment(name.as_str()))
}

pub(super) fn named(text: &str) -> Result<DomainName, Failure> {
    text.parse().map_err(|_| DomainError::NotFound.into())
}
