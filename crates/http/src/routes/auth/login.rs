//! `POST /auth/login`.

use axum::extract::State;
use mailapi_model::{LoginProtocol, Secret, SecretText, Violations, Visitor};
use utoipa::ToSchema;

use super::SessionBody;
use crate::answer::Json;
use crate::caller::Anybody;
use crate::error::{ApiError, documented_errors};
use crate::json::{JsonBody, Members};
use crate::state::HttpState;

/// Credentials.
#[derive(ToSchema)]
#[schema(as = Login, example = json!({ "email": "alice@example.test", "password": "correct horse battery staple" }))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct LoginBody {
    /// Mailbox address.
    email: String,
    /// Password of the mailbox.
    password: String,
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
    body: JsonBody,
) -> Result<Json<SessionBody>, ApiError> {
    let (email, password) = read(body.members)?;
    let session = state.service().login(&email, &password, Visitor { protocol: LoginProtocol::Http, address }).await?;
    Ok(Json(SessionBody::new(&session, state.service().settings().session_inactivity)))
}

/// Accepts any text: an invalid address or password fails like wrong credentials.
fn read(mut members: Members) -> Result<(String, SecretText), Violations> {
    let mut violations = Violations::none();
    let email = members.required_text("email", &mut violations);
    let password = members.required_text("password", &mut violations).map(Secret::new);
    violations.or(email.zip(password))
}
