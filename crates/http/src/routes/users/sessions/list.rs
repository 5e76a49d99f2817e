//! `GET /users/{email}/sessions`.

use axum::extract::State;
use mailapi_model::{TokenId, TokenRecord};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::query::{PageParameters, Query};
use crate::routes::users::MailboxManager;
use crate::shape::Moment;
use crate::state::HttpState;

/// A session, without the value.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenSession, example = json!({
    "id": 3, "created_at": "2026-11-20T10:15:30.123Z", "last_used_at": "2026-11-20T10:20:30.123Z",
    "expires_at": "2026-11-20T18:15:30.123Z", "is_current": false
}))]
pub(crate) struct SessionInfo {
    /// Session number.
    id: i64,
    /// Time of the login, or of the latest refresh.
    created_at: Moment,
    /// Time of the latest request; null if there was none.
    #[schema(required)]
    last_used_at: Option<Moment>,
    /// Time when the session expires even if it is used; null if it does not.
    #[schema(required)]
    expires_at: Option<Moment>,
    /// Whether it is the session of this request.
    is_current: bool,
}

impl SessionInfo {
    fn new(session: &TokenRecord, own: Option<TokenId>) -> Self {
        Self {
            id: session.id.0,
            created_at: session.created_at.into(),
            last_used_at: session.last_used_at.map(Moment),
            expires_at: session.expires_at.map(Moment),
            is_current: own == Some(session.id),
        }
    }
}

/// A page of sessions.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionsListed {
    /// Always true.
    success: bool,
    /// Total number of open sessions.
    total: u64,
    /// The `limit` that was applied.
    limit: u32,
    /// The `offset` that was applied.
    offset: u64,
    /// Sessions, newest first.
    sessions: Vec<SessionInfo>,
}

documented_errors!(Errors, documented, [AccessDenied, UserNotFound, ValidationError]);

/// List sessions
///
/// For the user, for callers with `manage_users` on the domain, and for admins. Returns the open sessions of logins with
/// the password, at the API and the console, newest first. Values are not returned. Mail programs have no sessions here;
/// revoke their app passwords instead.
#[utoipa::path(get, path = "/users/{email}/sessions", tag = "users", operation_id = "list_sessions",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test"),
        PageParameters),
    responses((status = 200, description = "A page of sessions.", body = SessionsListed), Errors))]
pub(crate) async fn list(
    State(state): State<HttpState>,
    MailboxManager { caller, email, .. }: MailboxManager,
    query: Query<PageParameters>,
) -> Result<Json<SessionsListed>, ApiError> {
    let page = query.read()?;
    let listed = state.service().list_sessions(&caller, &email, page).await?;
    let own = caller.token.as_ref().map(|token| token.id);
    Ok(Json(SessionsListed {
        success: true,
        total: listed.total,
        limit: page.limit(),
        offset: page.offset(),
        sessions: listed.items.iter().map(|session| SessionInfo::new(session, own)).collect(),
    }))
}
