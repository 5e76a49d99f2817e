//! `GET /users/{email}/rules`.

use axum::extract::State;

use super::{RuleManager, RulesFound};
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::state::HttpState;

documented_errors!(Errors, documented, [AccessDenied, UserNotFound]);

/// Get the rules of a mailbox
///
/// For the user and for admins. Rules say what happens to messages that arrive.
#[utoipa::path(get, path = "/users/{email}/rules", tag = "users", operation_id = "get_rules",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    responses((status = 200, description = "The rules.", body = RulesFound), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    RuleManager { caller, email }: RuleManager,
) -> Result<Json<RulesFound>, ApiError> {
    let rules = state.service().get_rules(&caller, &email).await?;
    Ok(Json(RulesFound::new(&email, &rules)))
}
