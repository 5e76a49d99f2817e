//! `POST /auth/lockouts/unlock`.

use axum::extract::State;
use mailapi_model::{ClientNetwork, EmailAddress, TokenId, Violations};
use mailapi_service::auth::Unlock;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::state::HttpState;

request_body! {
    /// What to unlock: a mailbox, a client, a token, or several of them.
    pub(crate) struct UnlockBody as "Unlock" {
        /// Mailbox whose failed logins are forgotten.
        mailbox: Option<EmailAddress>,
        /// Client whose failed logins are forgotten: an IP address, or a client of the list.
        client: Option<String>,
        /// Number of the API token whose wrong values at the console are forgotten.
        token_id: Option<u64>,
    }
    example { "mailbox": "alice@example.test" }
}

/// Failed logins were forgotten.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "success": true, "message": "Failed logins are forgotten.", "unlocked": 1 }))]
pub(crate) struct Unlocked {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
    /// Number of lock-outs that ended; 0 if there were none.
    unlocked: usize,
}

documented_errors!(Errors, documented_with_body, [AccessDenied]);

/// End lock-outs
///
/// For admins. Clears the failed logins of a mailbox (for all clients), of a client (for all mailboxes), or of a token.
/// Only the node that answers is affected.
#[utoipa::path(post, path = "/auth/lockouts/unlock", tag = "auth", operation_id = "end_lockout",
    request_body = UnlockBody,
    responses((status = 200, description = "Failed logins are forgotten.", body = Unlocked), Errors))]
pub(crate) async fn unlock(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    body: JsonBody<UnlockBody>,
) -> Result<Json<Unlocked>, ApiError> {
    let UnlockBody { mailbox, client, token_id } = body.read()?;
    if mailbox.is_none() && client.is_none() && token_id.is_none() {
        return Err(Violations::of("mailbox", "is required, or `client` or `token_id`").into());
    }
    let mut violations = Violations::none();
    let client = client.and_then(|client| violations.check("client", client.parse::<ClientNetwork>()));
    let client = violations.or(Some(client))?;
    let unlock = Unlock { mailbox, client, token: token_id.map(|id| TokenId(i64::try_from(id).unwrap_or(i64::MAX))) };
    let unlocked = state.service().unlock(&caller, &unlock)?;
    Ok(Json(Unlocked { success: true, message: "Failed logins are forgotten.", unlocked }))
}
