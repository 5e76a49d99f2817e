//! `PUT /users/{email}/preferences`.

use axum::extract::State;

use super::PreferencesFound;
use crate::answer::Json;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::routes::to_the_end;
use crate::routes::users::MailboxManager;
use crate::shape::SaveSentName;
use crate::state::HttpState;

request_body! {
    /// The preferences of a mailbox.
    pub(crate) struct PreferencesBody as "UpdatePreferences" {
        /// Which messages of the user are copied to the folder `Sent`: none (`off`), those sent through the API (`api`),
        /// or also those that mail programs send (`all`).
        save_sent: SaveSentName,
    }
    example { "save_sent": "api" }
}

documented_errors!(Errors, documented_with_body, [AccessDenied, UserNotFound, ImapError]);

/// Update the preferences of a mailbox
///
/// For the user, for admins, and for callers with `manage_users` on the domain, except for admins' mailboxes. A copy in
/// `Sent` is stored together with the message, with the flag `\Seen`, and left out if the mailbox is full. An external
/// mail server stores no copies.
#[utoipa::path(put, path = "/users/{email}/preferences", tag = "users", operation_id = "update_preferences",
    params(("email" = String, Path, format = IdnEmail, description = "User's address.", example = "alice@example.test")),
    request_body = PreferencesBody,
    responses((status = 200, description = "The new preferences.", body = PreferencesFound), Errors))]
pub(crate) async fn update(
    State(state): State<HttpState>,
    MailboxManager { caller, email, .. }: MailboxManager,
    body: JsonBody<PreferencesBody>,
) -> Result<Json<PreferencesFound>, ApiError> {
    let PreferencesBody { save_sent } = body.read()?;
    let (service, of) = (state.service().clone(), email.clone());
    to_the_end(async move { service.set_preferences(&caller, &of, save_sent).await }).await??;
    Ok(Json(PreferencesFound::new(&email, save_sent)))
}
