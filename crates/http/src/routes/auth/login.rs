//! `POST /auth/login`.

use axum::extract::State;
use mailapi_model::{LoginProtocol, SecretText, Visitor};

use super::SessionBody;
use crate::answer::Json;
use crate::caller::Anybody;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::state::HttpState;

request_body! {
    /// Credentials.
    pub(crate) struct LoginBody as "Login" {
        /// Mailbox address.
        email: String,
        /// Password of the mailbox.
        password: SecretText,
    }
    example { "email": "alice@example.test", "password": "correct horse battery staple" }
}

documented_errors!(Errors, documented_public_with_body, [InvalidCredentials, AccountLocked]);

/// Log in
///
/// Creates a session for a mailbox. An unknown address, a wrong password and a disabled mailbox return the same error
/// in the same time. By default, five failures within 15 minutes lock the address for 15 minutes, whether it exists or
/// not.
#[utoipa::path(post, path = "/auth/login", tag = "auth", operation_id = "log_in", request_body = LoginBody, security(()),
    responses((status = 200, description = "The new session.", body = SessionBody), Errors))]
pub(crate) async fn login(
    State(state): State<HttpState>,
    Anybody { address }: Anybody,
    body: JsonBody<LoginBody>,
) -> Result<Json<SessionBody>, ApiError> {
    // Any text is accepted: an invalid address or password fails like wrong credentials.
    let LoginBody { email, password } = body.read()?;
    let session = state.service().login(&email, &password, Visitor { protocol: LoginProtocol::Http, address }).await?;
    Ok(Json(SessionBody::new(&session, state.service().settings().session_inactivity)))
}
