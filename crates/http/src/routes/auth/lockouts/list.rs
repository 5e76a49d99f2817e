//! `GET /auth/lockouts`.

use axum::extract::State;
use mailapi_service::auth::Lockout;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query};
use crate::shape::Moment;
use crate::state::HttpState;

/// Logins that are rejected without a check.
#[derive(Serialize, ToSchema)]
#[schema(as = Lockout, example = json!({
    "mailbox": "alice@example.test", "token_id": null, "client": null, "until": "2026-11-20T10:30:30.123Z"
}))]
pub(crate) struct LockoutInfo {
    /// Mailbox that is locked; null if the client may log in to none, or for a token. The mailbox need not exist.
    #[schema(required)]
    mailbox: Option<String>,
    /// API token whose value was typed wrong when the console asked for it again. It still works, but the console makes
    /// no dangerous changes with it.
    #[schema(required)]
    token_id: Option<i64>,
    /// Client that is rejected: an IPv4 address, or the /64 network of an IPv6 address. Null for a token, and if the
    /// mailbox is locked at the API for all clients.
    #[schema(required)]
    client: Option<String>,
    /// Time when logins are checked again.
    until: Moment,
}

impl From<Lockout> for LockoutInfo {
    fn from(Lockout { mailbox, token, client, until }: Lockout) -> Self {
        Self {
            mailbox: mailbox.map(|mailbox| mailbox.shown().to_owned()),
            token_id: token.map(|token| token.0),
            client: client.map(|client| client.to_string()),
            until: until.into(),
        }
    }
}

/// A page of lock-outs.
#[derive(Serialize, ToSchema)]
pub(crate) struct LockoutsListed {
    /// Always true.
    success: bool,
    /// Total number of lock-outs.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Lock-outs, the longest remaining time first.
    lockouts: Vec<LockoutInfo>,
}

documented_errors!(Errors, documented, [AccessDenied, ValidationError]);

/// List lock-outs
///
/// For admins. Returns mailboxes, clients and tokens that are locked out after failed logins. They are in the memory of
/// the node that answers: other nodes have their own, and a restart clears them.
#[utoipa::path(get, path = "/auth/lockouts", tag = "auth", operation_id = "list_lockouts", params(PageParameters),
    responses((status = 200, description = "A page of lock-outs.", body = LockoutsListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    query: Query<PageParameters>,
) -> Result<Json<LockoutsListed>, ApiError> {
    let page = query.read()?;
    let listed = state.service().list_lockouts(&caller, page)?;
    Ok(Json(LockoutsListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        lockouts: listed.items.into_iter().map(Into::into).collect(),
    }))
}
