//! `PUT /tokens/{id}`.

use axum::extract::State;
use mailapi_model::Violations;
use mailapi_service::tokens::UpdateToken;
use utoipa::ToSchema;

use super::get::TokenFound;
use super::token_in;
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::{JsonBody, Members};
use crate::path::PathParameters;
use crate::routes::to_the_end;
use crate::shape::{DateOrTime, TokenName};
use crate::state::HttpState;

/// Changes to a token. Absent members stay unchanged.
#[derive(ToSchema)]
#[schema(as = UpdateToken, example = json!({ "name": "Old newsletter", "is_active": false, "expires_at": null }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct UpdateTokenBody {
    /// Display name: 1 to 200 characters.
    #[schema(value_type = Option<TokenName>)]
    name: Option<String>,
    /// Whether the token is active.
    is_active: Option<bool>,
    /// Expiry time in the future; null means never.
    expires_at: Option<DateOrTime>,
}

documented_errors!(Errors, documented_with_body, [AccessDenied, TokenNotFound]);

/// Update a token
///
/// For admins. Session tokens cannot be updated. The last active admin token cannot be disabled or expired unless
/// `auth.admins` is set (`VALIDATION_ERROR`). A revoked token stays revoked.
#[utoipa::path(put, path = "/tokens/{id}", tag = "tokens", operation_id = "update_token", request_body = UpdateTokenBody,
    params(("id" = i64, Path, description = "Token number.", example = 2)),
    responses((status = 200, description = "The updated token.", body = TokenFound), Errors))]
pub(crate) async fn update(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    body: JsonBody,
) -> Result<Json<TokenFound>, ApiError> {
    let id = token_in(&path, &caller)?;
    let change = read(body.members)?;
    let service = state.service().clone();
    let token = to_the_end(async move { service.update_token(&caller, id, change).await }).await??;
    Ok(Json(TokenFound { success: true, info: token.into() }))
}

fn read(mut members: Members) -> Result<UpdateToken, Violations> {
    let mut violations = Violations::none();
    let name = members.text("name", &mut violations);
    let is_active = members.flag("is_active", &mut violations);
    let expires_at = members.change("expires_at", &mut violations, Members::time);
    violations.or(Some(UpdateToken { name, is_active, expires_at }))
}
