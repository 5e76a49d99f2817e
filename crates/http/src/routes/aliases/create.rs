//! `POST /aliases`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::EmailAddress;
use mailapi_service::aliases::CreateAlias;
use serde::Serialize;
use utoipa::ToSchema;

use super::AliasRecord;
use crate::answer::Json;
use crate::caller::Caller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::{AtLeastOne, request_body};
use crate::routes::to_the_end;
use crate::state::HttpState;

request_body! {
    /// An alias to create.
    pub(crate) struct CreateAliasBody as "CreateAlias" {
        /// Address of the alias; its domain must exist. `*@example.test` is the catch-all of `example.test`: it receives
        /// mail for every address that is neither a user nor an alias.
        address: EmailAddress,
        /// Addresses that receive the mail, at most 1000: users, other aliases, or addresses at other servers. They must
        /// not lead back to the alias.
        members: AtLeastOne<EmailAddress>,
        /// Users who may send from the alias, at most 100; none by default. A catch-all has none.
        senders: Option<Vec<EmailAddress>>,
        /// Whether the alias accepts mail; true by default.
        active: Option<bool>,
    }
    example {
        "address": "team@example.test", "members": ["alice@example.test", "bob@example.test"],
        "senders": ["alice@example.test"]
    }
}

/// The new alias.
#[derive(Serialize, ToSchema)]
pub(crate) struct AliasCreated {
    /// Always true.
    success: bool,
    /// The new alias.
    alias: AliasRecord,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, DomainNotFound, AliasExists, ImapError]);

/// Create an alias
///
/// For admins and for callers with `manage_users` on the domain of the alias.
#[utoipa::path(post, path = "/aliases", tag = "aliases", operation_id = "create_alias", request_body = CreateAliasBody,
    responses((status = 201, description = "The alias was created.", body = AliasCreated), Errors))]
pub(crate) async fn create(
    State(state): State<HttpState>,
    Caller(caller): Caller,
    body: JsonBody<CreateAliasBody>,
) -> Result<(StatusCode, Json<AliasCreated>), ApiError> {
    let CreateAliasBody { address, members, senders, active } = body.read()?;
    let (senders, active) = (senders.unwrap_or_default(), active.unwrap_or(true));
    let new = CreateAlias { address, members, senders, active };
    let service = state.service().clone();
    let alias = to_the_end(async move { service.create_alias(&caller, new).await }).await??;
    Ok((StatusCode::CREATED, Json(AliasCreated { success: true, alias: alias.into() })))
}
