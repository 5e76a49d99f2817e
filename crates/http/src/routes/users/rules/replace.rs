//! `PUT /users/{email}/rules`.

use axum::extract::State;

use super::body::RulesBody;
use super::{RuleManager, RulesFound};
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::routes::to_the_end;
use crate::state::HttpState;

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound, ImapError]);

/// Replace the rules of a mailbox
///
/// For the user and for admins. All rules whose conditions hold apply, in their order, until one has the action `stop` or
/// `reject`. Only rules with the condition `verdict` apply to junk; they cannot forward, reject or answer it. Dovecot
/// applies rules if `mail.external.rules` is set.
#[utoipa::path(put, path = "/users/{email}/rules", tag = "users", operation_id = "replace_rules",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    request_body = RulesBody,
    responses((status = 200, description = "The new rules.", body = RulesFound), Errors))]
pub(crate) async fn replace(
    State(state): State<HttpState>,
    RuleManager { caller, email }: RuleManager,
    body: JsonBody<RulesBody>,
) -> Result<Json<RulesFound>, ApiError> {
    let (service, rules, of) = (state.service().clone(), body.read()?.into(), email.clone());
    let rules = to_the_end(async move { service.replace_rules(&caller, &of, rules).await }).await??;
    Ok(Json(RulesFound::new(&email, &rules)))
}
