//! API tokens.

use askama::Template;
use axum::extract::State;
use mailapi_http::HttpState;
use mailapi_model::{TokenId, TokenKind, TokenRecord, Violations};
use mailapi_service::tokens::{CreateToken, TokenError, UpdateToken};

use super::secret;
use crate::answer::{Answer, change, done, render};
use crate::failure::Failure;
use crate::fields::{Fields, Form, Query};
use crate::frame::Frame;
use crate::note::Note;
use crate::pager::Pager;
use crate::session::Session;
use crate::show::Moment;

const PATH: &str = "/console/tokens";
const OWN: &str = "Every caller: those of their own mailbox. Admins: all.";
const ADMINS: &str = "Admins.";

#[derive(Template)]
#[template(path = "tokens.html")]
struct TokensPage {
    frame: Frame,
    rows: Vec<Row>,
    pager: Pager,
    is_admin: bool,
}

struct Row {
    id: String,
    name: String,
    prefix: String,
    kind: &'static str,
    email: Option<String>,
    is_this: bool,
    is_usable: bool,
    created_at: Moment,
    last_used_at: Option<Moment>,
    expires_at: Option<Moment>,
}

/// `GET /tokens`.
pub(crate) async fn list(State(state): State<HttpState>, session: Session, Query(query): Query) -> Answer {
    let page = query.page();
    let (service, now) = (state.service(), state.service().clock().now());
    let listed = service.list_tokens(&session.caller, page).await?;
    let own = session.caller.token.as_ref().map(|token| token.id);
    let row = |token: TokenRecord| Row {
        id: token.id.to_string(),
        is_this: own == Some(token.id),
        is_usable: token.is_active && token.expires_at.is_none_or(|end| end > now),
        name: token.name,
        prefix: token.prefix,
        kind: token.kind.as_str(),
        email: token.email.map(|email| email.shown().to_owned()),
        created_at: token.created_at.into(),
        last_used_at: token.last_used_at.map(Moment),
        expires_at: token.expires_at.map(Moment),
    };
    let pager = Pager::new(PATH, &query, page, listed.items.len(), listed.total);
    let frame = Frame::new(&session, "Tokens")
        .call("GET /tokens", OWN)
        .call("POST /tokens", OWN)
        .call("PUT /tokens/{id}", ADMINS)
        .call("DELETE /tokens/{id}", OWN);
    let rows = listed.items.into_iter().map(row).collect();
    render(&TokensPage { frame, rows, pager, is_admin: session.caller.grants.admin().is_ok() })
}

/// `POST /tokens`, `PUT /tokens/{id}` and `DELETE /tokens/{id}`.
pub(crate) async fn act(State(state): State<HttpState>, session: Session, Form(fields): Form) -> Answer {
    let (service, caller) = (state.service().clone(), session.caller.clone());
    match fields.text("act") {
        "create" => {
            let new = new_token(&fields)?;
            session.proved(&state, &fields).await?;
            let (_, value) = change(async move { service.create_token(&caller, new).await }).await?;
            let frame = Frame::new(&session, "New token").call("POST /tokens", OWN);
            secret::show(frame, "The token", Some(value.expose().to_owned()), PATH.to_owned())
        }
        "revoke" => {
            let id = id_in(&fields)?;
            if service.get_token(&caller, id).await?.kind == TokenKind::Admin {
                session.proved(&state, &fields).await?;
            }
            change(async move { service.revoke_token(&caller, id).await }).await?;
            done(PATH, Note::TokenRevoked)
        }
        "disable" | "enable" => {
            let (id, is_active) = (id_in(&fields)?, Some(fields.text("act") == "enable"));
            let update = UpdateToken { is_active, ..UpdateToken::default() };
            change(async move { service.update_token(&caller, id, update).await }).await?;
            done(PATH, Note::TokenChanged)
        }
        _ => Err(Failure::not_found()),
    }
}

fn id_in(fields: &Fields) -> Result<TokenId, TokenError> {
    fields.text("id").parse().map(TokenId).map_err(|_| TokenError::NotFound)
}

fn new_token(fields: &Fields) -> Result<CreateToken, Violations> {
    let mut violations = Violations::none();
    let kind = fields.parsed("kind", &mut violations).unwrap_or(TokenKind::User);
    let email = fields.parsed("email", &mut violations);
    let expires_at = fields
        .optional("expires_at")
        .and_then(|text| violations.check("expires_at", mailapi_model::Timestamp::parse_end(&text)));
    violations.or(Some(CreateToken { name: fields.text("name").to_owned(), kind, email, expires_at }))
}
