//! From a request's head to whoever asks. A handler that takes one of these runs for nobody else.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::TokenValue;
use mailapi_service::auth::AuthenticateError;

use crate::client_address::client_address;
use crate::error::{ApiError, ErrorCode};
use crate::limits::{LimitKey, RateLimitNote, take};
use crate::state::HttpState;

/// The header that carries the token.
pub(crate) const TOKEN_HEADER: &str = "x-mailapi-token";

/// Whoever shows a token that works and has requests left.
pub(crate) struct Caller(pub(crate) mailapi_service::Caller);

impl FromRequestParts<HttpState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let caller = state.service().authenticate(&token_value(parts)?).await?;
        if let Some(token) = &caller.token {
            count(parts, state, LimitKey::Token(token.id)).await?;
        }
        Ok(Self(caller))
    }
}

/// An admin; the request's body is not read for anybody else.
pub(crate) struct AdminCaller(pub(crate) mailapi_service::Caller);

impl FromRequestParts<HttpState> for AdminCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let Caller(caller) = Caller::from_request_parts(parts, state).await?;
        caller.grants.admin()?;
        Ok(Self(caller))
    }
}

/// Anybody whose address has requests left.
pub(crate) struct Anybody;

impl FromRequestParts<HttpState> for Anybody {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let address = client_address(&parts.extensions, &parts.headers, &state.settings().trusted_proxies);
        count(parts, state, LimitKey::of_client(address)).await?;
        Ok(Self)
    }
}

fn token_value(parts: &Parts) -> Result<TokenValue, ApiError> {
    let value = parts.headers.get(TOKEN_HEADER).filter(|value| !value.is_empty()).ok_or(ErrorCode::NoApiToken)?;
    // What is not visible ASCII was never given out.
    Ok(TokenValue::from_caller(value.to_str().map_err(|_| ErrorCode::InvalidToken)?))
}

async fn count(parts: &Parts, state: &HttpState, key: LimitKey) -> Result<(), ApiError> {
    let note = parts.extensions.get::<RateLimitNote>();
    take(state.limits(), state.settings().limits, key, state.clock().now(), note).await
}

impl From<AuthenticateError> for ApiError {
    fn from(error: AuthenticateError) -> Self {
        match error {
            AuthenticateError::Unknown => ErrorCode::InvalidToken.into(),
            AuthenticateError::Expired => ErrorCode::TokenExpired.into(),
            AuthenticateError::Unavailable(error) => error.into(),
        }
    }
}
