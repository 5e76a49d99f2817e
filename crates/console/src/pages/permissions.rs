//! The matrix of delegated permissions.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use mailapi_http::HttpState;
use mailapi_model::{DomainName, EmailAddress, Page, Permission, PermissionId, PermissionRecord, Violations};
use mailapi_service::permissions::{PermissionError, PermissionQuery};

use crate::answer::{Answer, change, done, render};
use crate::fields::{Fields, Form, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::pager::Pager;
use crate::session::Session;

const PATH: &str = "/console/permissions";
const ADMINS: &str = "Admins.";

#[derive(Template)]
#[template(path = "permissions.html")]
struct PermissionsPage {
    frame: Frame,
    filters: Fields,
    permissions: &'static [Permission],
    rows: Vec<Row>,
    pager: Pager,
}

/// What one user holds on one domain, in the order of [`Permission::ALL`].
struct Row {
    email: String,
    domain: String,
    cells: Vec<Option<Cell>>,
}

struct Cell {
    id: String,
    granted_by: String,
}

/// `GET /permissions`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(filters): Query) -> Answer {
    session.caller.grants.admin()?;
    let mut violations = Violations::none();
    let wanted = PermissionQuery {
        email: filters.parsed("email", &mut violations),
        domain: filters.parsed("domain", &mut violations),
    };
    let wanted = violations.or(Some(wanted))?;
    let page = Page::new(Page::MAX_LIMIT, filters.page().offset());
    let listed = state.service().list_permissions(&session.caller, wanted, page).await?;
    let pager = Pager::new(PATH, &filters, page, listed.items.len(), listed.total);
    let frame = Frame::new(&session, "Permissions")
        .call("GET /permissions", ADMINS)
        .call("POST /permissions/bulk", ADMINS)
        .call("DELETE /permissions/{id}", ADMINS);
    render(&PermissionsPage { frame, filters, permissions: &Permission::ALL, rows: matrix(listed.items), pager })
}

fn matrix(records: Vec<PermissionRecord>) -> Vec<Row> {
    let mut rows: BTreeMap<(String, String), Vec<Option<Cell>>> = BTreeMap::new();
    for record in records {
        let key = (record.email.shown().to_owned(), record.domain.shown().to_owned());
        let empty = || Permission::ALL.iter().map(|_| None).collect();
        let cells = rows.entry(key).or_insert_with(empty);
        let place = Permission::ALL.iter().position(|known| *known == record.permission);
        if let Some(cell) = place.and_then(|place| cells.get_mut(place)) {
            *cell = Some(Cell { id: record.id.0.to_string(), granted_by: record.granted_by });
        }
    }
    rows.into_iter().map(|((email, domain), cells)| Row { email, domain, cells }).collect()
}

/// `POST /permissions/bulk` and `DELETE /permissions/{id}`.
pub(crate) async fn act(State(state): State<HttpState>, session: Session, Form(fields): Form) -> Answer {
    session.caller.grants.admin()?;
    let service = state.service().clone();
    if !fields.text("revoke").is_empty() {
        let id = fields.text("revoke").parse().map(PermissionId).map_err(|_| PermissionError::NotFound)?;
        change(async move { service.revoke_permission(&session.caller, id).await }).await?;
        return done(PATH, Note::Granted);
    }
    let (email, domain): (EmailAddress, DomainName) = (fields.required("email")?, fields.required("domain")?);
    let mut violations = Violations::none();
    let named = fields.all("permission").map(|name| violations.check("permission", name.parse()));
    let wanted: Vec<Permission> = named.flatten().collect();
    if wanted.is_empty() {
        violations.add("permission", "at least one is required");
    }
    let wanted = violations.or(Some(wanted))?;
    session.proved(&state, &fields).await?;
    change(async move { service.grant_permissions(&session.caller, &email, wanted, &domain).await }).await?;
    done(PATH, Note::Granted)
}
