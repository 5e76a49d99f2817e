//! Publishing the DNS records of a domain: the provider, the plan, and the changes that were made.

use askama::Template;
use axum::extract::{Path, State};
use mailapi_http::HttpState;
use mailapi_model::{
    ChangeState, DnsProvider, DomainName, Page, RecordSet, RecordedChange, SecretText, TsigAlgorithm, UpdateServer,
    Violations,
};
use mailapi_service::domains::{
    AccountFields, AppliedPlan, AttemptedChange, CredentialField, DnsPlan, PROVIDERS, PlanConflict, PlanOptions,
    PlannedChange, ProviderFields, ProviderInfo, PublishError, ServerView, hosted_provider,
};

use super::domains::{self, ADMINS, named};
use crate::answer::{Answer, change, done, render};
use crate::failure::{Failure, in_words};
use crate::fields::{Fields, Form, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::pager::Pager;
use crate::session::Session;
use crate::show::Moment;

#[derive(Template)]
#[template(path = "publishing.html")]
struct PublishingPage {
    frame: Frame,
    /// The path of this page.
    path: String,
    /// The path of the domain's page.
    domain: String,
    provider: Option<Provider>,
    plan: Option<Plan>,
    /// Why the plan could not be made.
    unplanned: Option<String>,
    changes: Vec<Made>,
    pager: Pager,
    algorithms: [&'static str; TsigAlgorithm::ALL.len()],
    hosted: &'static [ProviderInfo],
    /// The hosted provider whose form is shown.
    chosen: Option<&'static ProviderInfo>,
}

enum Provider {
    NameServer { server: String, key_name: String, algorithm: &'static str },
    Hosted { title: &'static str },
}

impl From<DnsProvider> for Provider {
    fn from(provider: DnsProvider) -> Self {
        match provider {
            DnsProvider::NameServer(UpdateServer { server, key }) => {
                Self::NameServer { server, key_name: key.name, algorithm: key.algorithm.as_str() }
            }
            DnsProvider::Hosted(account) => {
                Self::Hosted { title: hosted_provider(&account.provider).map_or("unknown provider", |info| info.title) }
            }
        }
    }
}

struct Plan {
    id: String,
    zone: String,
    name_servers: Vec<String>,
    changes: Vec<Planned>,
    conflicts: Vec<PlanConflict>,
    /// The purposes of records that the plan replaces.
    replace: Vec<String>,
}

impl Plan {
    fn new(plan: DnsPlan, options: PlanOptions) -> Self {
        Self {
            id: plan.plan_id,
            zone: plan.zone,
            name_servers: plan.name_servers,
            changes: plan.changes.into_iter().map(Planned::from).collect(),
            conflicts: plan.conflicts,
            replace: options.replace,
        }
    }
}

struct Planned {
    purpose: &'static str,
    action: &'static str,
    name: String,
    kind: &'static str,
    before: Vec<String>,
    after: Vec<String>,
    reason: String,
}

impl From<PlannedChange> for Planned {
    fn from(PlannedChange { purpose, action, change, reason }: PlannedChange) -> Self {
        Self {
            purpose,
            action: action.as_str(),
            name: change.name,
            kind: change.kind.as_str(),
            before: lines(&change.before),
            after: lines(&change.after),
            reason,
        }
    }
}

struct Made {
    state: &'static str,
    name: String,
    kind: &'static str,
    before: Vec<String>,
    after: Vec<String>,
    at: Moment,
    plan: String,
    /// Whether its plan can be undone here: the first row of the newest applied plan.
    is_undoable: bool,
}

fn lines(set: &RecordSet) -> Vec<String> {
    set.records.iter().map(ToString::to_string).collect()
}

/// Shows the changes. The first one that is applied offers to undo its plan.
fn made(changes: Vec<RecordedChange>, is_first_page: bool) -> Vec<Made> {
    let newest = changes.iter().position(|change| change.state == ChangeState::Applied);
    let undoable = newest.filter(|_| is_first_page);
    let shown = |(place, RecordedChange { plan, change, state, at, .. }): (usize, RecordedChange)| Made {
        state: state.as_str(),
        name: change.name,
        kind: change.kind.as_str(),
        before: lines(&change.before),
        after: lines(&change.after),
        at: at.into(),
        plan,
        is_undoable: undoable == Some(place),
    };
    changes.into_iter().enumerate().map(shown).collect()
}

/// `GET /domains/{domain}/dns/provider`, `/plan` and `/history`.
pub(crate) async fn show(
    State(state): State<HttpState>,
    session: Session,
    Path(name): Path<String>,
    Query(query): Query,
) -> Answer {
    let name = named(&name)?;
    let (service, caller) = (state.service(), &session.caller);
    let provider = match service.get_dns_provider(caller, &name).await {
        Ok(provider) => Some(provider),
        Err(PublishError::NoProvider) => None,
        Err(error) => return Err(error.into()),
    };
    let options = PlanOptions::replacing(query.all("replace"));
    let (plan, unplanned) = match &provider {
        None => (None, None),
        Some(_) => match service.plan_dns(caller, &name, &options).await {
            Ok(plan) => (Some(Plan::new(plan, options)), None),
            Err(error) => (None, Some(in_words(&error.into()))),
        },
    };
    let page: Page = query.page();
    let listed = service.dns_history(caller, &name, page).await?;
    let path = path_of(&name);
    let pager = Pager::new(&path, &query, page, listed.items.len(), listed.total);
    let frame = Frame::new(&session, format!("Publish the DNS of {}", name.shown()))
        .call("GET /domains/{domain}/dns/provider", ADMINS)
        .call("PUT /domains/{domain}/dns/provider", ADMINS)
        .call("GET /domains/{domain}/dns/plan", ADMINS)
        .call("POST /domains/{domain}/dns/apply", ADMINS)
        .call("POST /domains/{domain}/dns/rollback", ADMINS)
        .call("GET /domains/{domain}/dns/history", ADMINS);
    let provider = provider.map(Provider::from);
    render(&PublishingPage {
        frame,
        domain: domains::path_of(&name),
        path,
        provider,
        plan,
        unplanned,
        changes: made(listed.items, query.text("offset").parse::<u64>().unwrap_or(0) == 0),
        pager,
        algorithms: TsigAlgorithm::ALL.map(TsigAlgorithm::as_str),
        hosted: PROVIDERS,
        chosen: hosted_provider(query.text("provider")),
    })
}

#[derive(Template)]
#[template(path = "published.html")]
struct PublishedPage {
    frame: Frame,
    path: String,
    domain: String,
    /// Whether records were changed back.
    is_rollback: bool,
    changes: Vec<Attempted>,
    servers: Vec<ServerView>,
    is_verified: bool,
}

struct Attempted {
    /// What became of the change; `not tried` after one whose result is open.
    state: &'static str,
    name: String,
    kind: &'static str,
    error: Option<String>,
}

impl From<AttemptedChange> for Attempted {
    fn from(AttemptedChange { change, state, error }: AttemptedChange) -> Self {
        Self {
            state: state.map_or("not tried", ChangeState::as_str),
            name: change.name,
            kind: change.kind.as_str(),
            error,
        }
    }
}

/// Changes: `provider`, `forget`, `apply`, `rollback`.
pub(crate) async fn act(
    State(state): State<HttpState>,
    session: Session,
    Path(name): Path<String>,
    Form(fields): Form,
) -> Answer {
    session.caller.grants.admin()?;
    let name = named(&name)?;
    let (service, path) = (state.service().clone(), path_of(&name));
    let page = |frame: Frame, is_rollback, changes: Vec<AttemptedChange>| PublishedPage {
        frame,
        path: path_of(&name),
        domain: domains::path_of(&name),
        is_rollback,
        changes: changes.into_iter().map(Attempted::from).collect(),
        servers: Vec::new(),
        is_verified: false,
    };
    match fields.text("act") {
        // Who knows the key can change the records anyway, so no proof is asked for. The page of a wrong proof would show
        // the secret.
        "provider" => {
            let (caller, domain, provider) = (session.caller, name.clone(), provider_in(&fields)?);
            change(async move { service.set_dns_provider(&caller, &domain, provider).await }).await?;
            done(&path, Note::ProviderSet)
        }
        "forget" => {
            session.proved(&state, &fields).await?;
            let (caller, domain) = (session.caller, name.clone());
            change(async move { service.remove_dns_provider(&caller, &domain).await }).await?;
            done(&path, Note::ProviderForgotten)
        }
        "apply" => {
            session.proved(&state, &fields).await?;
            let frame = Frame::new(&session, "Records were changed").call("POST /domains/{domain}/dns/apply", ADMINS);
            let (caller, domain, plan) = (session.caller, name.clone(), fields.text("plan").to_owned());
            let options = PlanOptions::replacing(fields.all("replace"));
            let applied = change(async move { service.apply_dns(&caller, &domain, &plan, &options).await }).await?;
            let AppliedPlan { changes, servers, verified, .. } = applied;
            render(&PublishedPage { servers, is_verified: verified, ..page(frame, false, changes) })
        }
        "rollback" => {
            session.proved(&state, &fields).await?;
            let title = "Records were changed back";
            let frame = Frame::new(&session, title).call("POST /domains/{domain}/dns/rollback", ADMINS);
            let (caller, domain, plan) = (session.caller, name.clone(), fields.text("plan").to_owned());
            let undone = change(async move { service.roll_back_dns(&caller, &domain, &plan).await }).await?;
            render(&page(frame, true, undone))
        }
        _ => Err(Failure::not_found()),
    }
}

fn provider_in(fields: &Fields) -> Result<DnsProvider, Violations> {
    if let Some(info) = hosted_provider(fields.text("provider")) {
        let value =
            |field: &CredentialField| (field.name.to_owned(), SecretText::from(fields.text(field.name).to_owned()));
        let credentials = info.fields.iter().map(value).collect();
        return AccountFields { provider: info.name.to_owned(), credentials }.parse();
    }
    let algorithm = fields.required::<TsigAlgorithm>("algorithm")?;
    ProviderFields {
        server: fields.text("server").to_owned(),
        key_name: fields.text("key_name").to_owned(),
        algorithm: Some(algorithm),
        secret: SecretText::from(fields.text("secret").to_owned()),
    }
    .parse()
}

fn path_of(name: &DomainName) -> String {
    format!("{}/dns", domains::path_of(name))
}
