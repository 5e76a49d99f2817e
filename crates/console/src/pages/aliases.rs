//! Aliases.

use askama::Template;
use axum::extract::State;
use mailapi_http::HttpState;
use mailapi_model::{Alias, AliasChange, EmailAddress, Permission, Violations};
use mailapi_service::aliases::{AliasQuery, CreateAlias};

use crate::answer::{Answer, change, done, render};
use crate::failure::Failure;
use crate::fields::{Fields, Form, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::pager::Pager;
use crate::session::Session;

const PATH: &str = "/console/aliases";
const RIGHT: &str = "manage_users on the domain, and admins.";

#[derive(Template)]
#[template(path = "aliases.html")]
struct AliasesPage {
    frame: Frame,
    filters: Fields,
    rows: Vec<Row>,
    pager: Pager,
}

struct Row {
    address: String,
    members: String,
    senders: String,
    count: usize,
    is_active: bool,
}

impl From<Alias> for Row {
    fn from(alias: Alias) -> Self {
        let lines = |all: &[EmailAddress]| all.iter().map(EmailAddress::shown).collect::<Vec<_>>().join("\n");
        Self {
            address: alias.address.shown().to_owned(),
            count: alias.members.len(),
            members: lines(&alias.members),
            senders: lines(&alias.senders),
            is_active: alias.active,
        }
    }
}

/// `GET /aliases`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(filters): Query) -> Answer {
    session.may_open(Permission::ManageUsers)?;
    let mut violations = Violations::none();
    let wanted = AliasQuery { domain: filters.parsed("domain", &mut violations), q: filters.optional("q") };
    let wanted = violations.or(Some(wanted))?;
    let page = filters.page();
    let listed = state.service().list_aliases(&session.caller, wanted, page).await?;
    let pager = Pager::new(PATH, &filters, page, listed.items.len(), listed.total);
    let rows = listed.items.into_iter().map(Row::from).collect();
    let frame = Frame::new(&session, "Aliases")
        .call("GET /aliases", RIGHT)
        .call("POST /aliases", RIGHT)
        .call("PUT /aliases/{address}", RIGHT)
        .call("DELETE /aliases/{address}", RIGHT);
    render(&AliasesPage { frame, filters, rows, pager })
}

/// `POST /aliases`, `PUT /aliases/{address}` and `DELETE /aliases/{address}`.
pub(crate) async fn act(State(state): State<HttpState>, session: Session, Form(fields): Form) -> Answer {
    session.may_open(Permission::ManageUsers)?;
    let (service, address) = (state.service().clone(), fields.required::<EmailAddress>("address")?);
    let caller = session.caller;
    match fields.text("act") {
        "create" => {
            let (members, senders) = (addresses(&fields, "members")?, addresses(&fields, "senders")?);
            let new = CreateAlias { address, members, senders, active: true };
            change(async move { service.create_alias(&caller, new).await }).await?;
            done(PATH, Note::AliasCreated)
        }
        "update" => {
            let (members, senders) = (addresses(&fields, "members")?, addresses(&fields, "senders")?);
            let active = Some(!fields.text("active").is_empty());
            let update = AliasChange { members: Some(members), senders: Some(senders), active };
            change(async move { service.update_alias(&caller, &address, update).await }).await?;
            done(PATH, Note::AliasChanged)
        }
        "delete" => {
            change(async move { service.delete_alias(&caller, &address).await }).await?;
            done(PATH, Note::AliasDeleted)
        }
        _ => Err(Failure::not_found()),
    }
}

/// Addresses, separated by spaces, commas or line ends.
fn addresses(fields: &Fields, name: &str) -> Result<Vec<EmailAddress>, Violations> {
    let mut violations = Violations::none();
    let words = fields.text(name).split(|c: char| c.is_whitespace() || c == ',' || c == ';');
    let words = words.filter(|word| !word.is_empty()).enumerate();
    let parsed = words.map(|(place, word)| violations.check(&format!("{name}[{place}]"), word.parse()));
    let addresses: Vec<_> = parsed.flatten().collect();
    violations.or(Some(addresses))
}
