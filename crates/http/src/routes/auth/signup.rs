//! `POST /auth/signup`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{DomainName, EmailAddress, LoginProtocol, Visitor};
use mailapi_service::auth::{SignUp, SignUpError, SignedUp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Anybody;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::json::JsonBody;
use crate::request_body::request_body;
use crate::routes::to_the_end;
use crate::shape::{Moment, NewPassword, ShortText, TokenType};
use crate::state::HttpState;

request_body! {
    /// A new domain and its first user.
    pub(crate) struct SignUpBody as "SignUp" {
        /// Domain name; must not be registered yet.
        domain: DomainName,
        /// Address of the first user, in this domain.
        email: EmailAddress,
        /// Password of the first user: at least 8 characters.
        password: NewPassword,
        /// Display name of the first user: one line of at most 200 characters.
        name: Option<ShortText>,
    }
    example {
        "domain": "example.test", "email": "alice@example.test", "password": "correct horse battery staple",
        "name": "Alice Lee"
    }
}

/// The new domain, pending approval, and a session of its first user.
#[derive(Serialize, ToSchema)]
#[schema(as = SignedUp, example = json!({
        "success": true, "token": "maps_3pQz9aBv…", "token_type": "user", "email": "alice@example.test", "name": "Alice Lee",
        "domain": "example.test", "domain_status": "pending", "expires_at": "2026-11-20T18:15:30.123Z",
        "message": "The mailbox is ready. The domain can send mail after an admin approves it."
}))]
pub(crate) struct SignedUpBody {
    /// Always true.
    success: bool,
    /// Session token of the new user. It is returned only once.
    token: String,
    /// Always `user`.
    #[schema(value_type = TokenType)]
    token_type: &'static str,
    /// Address of the new user.
    email: String,
    /// Display name of the new user; may be empty.
    name: String,
    /// Name of the new domain.
    domain: String,
    /// Always `pending`.
    domain_status: &'static str,
    /// Time when the session expires even if it is used; null if it does not.
    #[schema(required)]
    expires_at: Option<Moment>,
    /// Next steps.
    message: &'static str,
}

impl From<SignedUp> for SignedUpBody {
    fn from(SignedUp { session, domain }: SignedUp) -> Self {
        Self {
            success: true,
            token: session.value.expose().to_owned(),
            token_type: session.record.kind.as_str(),
            email: session.record.email.map_or_else(String::new, |email| email.shown().to_owned()),
            name: session.record.name,
            domain: domain.shown().to_owned(),
            domain_status: "pending",
            expires_at: session.record.expires_at.map(Moment),
            message: "The mailbox is ready. The domain can send mail after an admin approves it.",
        }
    }
}

documented_errors!(Errors, documented_public_with_body, [AccessDenied, DomainExists]);

/// Sign up
///
/// Registers a domain and its first user, who gets `manage_domains` on it. The mailbox works at once; the domain can
/// send after an admin approves it. By default, each domain and each client address has three attempts an hour. If the
/// operator disabled sign-ups, the response is `ACCESS_DENIED`.
#[utoipa::path(post, path = "/auth/signup", tag = "auth", operation_id = "sign_up", request_body = SignUpBody,
    security(()), responses((status = 201, description = "The domain is pending approval.", body = SignedUpBody), Errors))]
pub(crate) async fn signup(
    State(state): State<HttpState>,
    Anybody { address }: Anybody,
    body: JsonBody<SignUpBody>,
) -> Result<(StatusCode, Json<SignedUpBody>), ApiError> {
    let SignUpBody { domain, email, password, name } = body.read()?;
    let request = SignUp { domain, email, password, name: name.unwrap_or_default() };
    let (service, from) = (state.service().clone(), Visitor { protocol: LoginProtocol::Http, address });
    let signed_up = to_the_end(async move { service.sign_up(request, from).await }).await??;
    Ok((StatusCode::CREATED, Json(signed_up.into())))
}

impl From<SignUpError> for ApiError {
    fn from(error: SignUpError) -> Self {
        match error {
            SignUpError::Closed => Self::new(ErrorCode::AccessDenied, "Sign-ups are disabled."),
            SignUpError::Invalid(violations) => violations.into(),
            SignUpError::DomainExists => ErrorCode::DomainExists.into(),
            SignUpError::TooMany { retry_after } => Self::rate_limited(retry_after),
            SignUpError::Unavailable(error) => error.into(),
        }
    }
}
