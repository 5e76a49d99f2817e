//! `POST /auth/signup`.

use axum::extract::State;
use axum::http::StatusCode;
use mailapi_model::{LoginProtocol, PasswordRule, Violations, Visitor};
use mailapi_service::auth::{SignUp, SignUpError, SignedUp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::Anybody;
use crate::error::{ApiError, ErrorCode, documented_errors};
use crate::json::{JsonBody, Members};
use crate::routes::to_the_end;
use crate::shape::{Moment, NewPassword, ShortText, TokenType};
use crate::state::HttpState;

/// A domain and its first user.
#[derive(ToSchema)]
#[schema(as = SignUp, example = json!({
    "domain": "example.org", "email": "ann@example.org", "password": "correct horse battery staple", "name": "Ann Lee"
}))]
#[expect(dead_code, reason = "describes the body in the document; the body is read member by member")]
pub(crate) struct SignUpBody {
    /// The domain; nobody may have it already.
    #[schema(format = IdnHostname)]
    domain: String,
    /// The first user's address, in that domain.
    #[schema(format = IdnEmail)]
    email: String,
    /// The first user's password: at least 8 characters.
    #[schema(value_type = NewPassword)]
    password: String,
    /// What the first user is called: one line of at most 200 characters.
    #[schema(value_type = Option<ShortText>)]
    name: Option<String>,
}

/// The domain waits for approval; its first user is there.
#[derive(Serialize, ToSchema)]
#[schema(as = SignedUp, example = json!({
    "success": true, "token": "maps_3pQz9aBv…", "token_type": "user", "email": "ann@example.org", "name": "Ann Lee",
    "domain": "example.org", "domain_status": "pending", "expires_at": "2026-11-20T18:15:30.123Z",
    "message": "The mailbox is ready. Mail can be sent from the domain when an admin has approved it."
}))]
pub(crate) struct SignedUpBody {
    /// Always true.
    success: bool,
    /// The new user's session token. It is told here and never again.
    token: String,
    /// Always `user`.
    #[schema(value_type = TokenType)]
    token_type: &'static str,
    /// The new user's address.
    email: String,
    /// What the new user is called; may be empty.
    name: String,
    /// The new domain.
    domain: String,
    /// Always `pending`.
    domain_status: &'static str,
    /// When the session ends, used or not; null when it does not.
    #[schema(required)]
    expires_at: Option<Moment>,
    /// What comes next.
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
            message: "The mailbox is ready. Mail can be sent from the domain when an admin has approved it.",
        }
    }
}

documented_errors!(Errors, documented_public_with_body, [AccessDenied, DomainExists]);

/// Sign up
///
/// Brings a new domain and becomes its first user, with `manage_domains` on it. The mailbox works at once; the domain
/// may send when an admin has approved it. At most three tries an hour for each domain by default; where the operator
/// allows none, the answer is `ACCESS_DENIED`.
#[utoipa::path(post, path = "/auth/signup", tag = "auth", operation_id = "sign_up", request_body = SignUpBody,
    security(()), responses((status = 201, description = "The domain waits for approval.", body = SignedUpBody), Errors))]
pub(crate) async fn signup(
    State(state): State<HttpState>,
    Anybody { address }: Anybody,
    body: JsonBody,
) -> Result<(StatusCode, Json<SignedUpBody>), ApiError> {
    let request = read(body.members)?;
    let (service, from) = (state.service().clone(), Visitor { protocol: LoginProtocol::Http, address });
    let signed_up = to_the_end(async move { service.sign_up(request, from).await }).await??;
    Ok((StatusCode::CREATED, Json(signed_up.into())))
}

fn read(mut members: Members) -> Result<SignUp, Violations> {
    let mut violations = Violations::none();
    let domain = members.required_parsed("domain", &mut violations);
    let email = members.required_parsed("email", &mut violations);
    let password = members.required_text("password", &mut violations);
    let password = password.and_then(|text| violations.merge(PasswordRule::parse("password", text)));
    let name = members.one_line("name", &mut violations).unwrap_or_default();
    let ((domain, email), password) = violations.or(domain.zip(email).zip(password))?;
    Ok(SignUp { domain, email, password, name })
}

impl From<SignUpError> for ApiError {
    fn from(error: SignUpError) -> Self {
        match error {
            SignUpError::Closed => Self::new(ErrorCode::AccessDenied, "Sign-ups are switched off here."),
            SignUpError::Invalid(violations) => violations.into(),
            SignUpError::DomainExists => ErrorCode::DomainExists.into(),
            SignUpError::TooMany { retry_after } => Self::rate_limited(retry_after),
            SignUpError::Unavailable(error) => error.into(),
        }
    }
}
