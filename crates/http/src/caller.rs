//! Authenticates requests. A handler that takes one of these extractors runs only for such callers.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;
use mailapi_model::TokenValue;
use mailapi_service::auth::AuthenticateError;

use crate::client_address::{Arrival, client_address};
use crate::error::{ApiError, ErrorCode};
use crate::limits::{LimitKey, take};
use crate::request_id::note_caller;
use crate::state::HttpState;

/// The header that carries the token.
pub(crate) const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-mailapi-token");

/// A caller with a valid token and requests left.
pub(crate) struct Caller(pub(crate) mailapi_service::Caller);

impl FromRequestParts<HttpState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let mut values = parts.headers.get_all(&TOKEN_HEADER).iter();
        let value = values.next().ok_or(ErrorCode::NoApiToken)?;
        let has_second = values.next().is_some();
        if value.is_empty() && !has_second {
            return Err(ErrorCode::NoApiToken.into());
        }
        let known = match value.to_str() {
            // With two tokens, a proxy and this server could mean different callers.
            _ if has_second => Err(AuthenticateError::Unknown),
            Ok(value) => state.service().authenticate(&TokenValue::from_caller(value)).await,
            // Tokens are visible ASCII only.
            Err(_) => Err(AuthenticateError::Unknown),
        };
        counted(parts, state, known).map(Self)
    }
}

/// Counts a request, notes its caller, and returns it with its address.
pub(crate) fn counted(
    parts: &Parts,
    state: &HttpState,
    known: Result<mailapi_service::Caller, AuthenticateError>,
) -> Result<mailapi_service::Caller, ApiError> {
    match &known {
        Ok(caller) => note_caller(caller.token.as_ref().map(|token| token.id), caller.grants.mailbox()),
        Err(AuthenticateError::Expired { token }) => note_caller(Some(*token), None),
        Err(_) => {}
    }
    // Existing tokens have their own windows, even when expired. Unknown tokens count against the client's
    // address, so guessing never uses up the windows of a token.
    let key = match &known {
        Ok(caller) => caller.token.as_ref().map(|token| LimitKey::Token(token.id)),
        Err(AuthenticateError::Expired { token }) => Some(LimitKey::Token(*token)),
        Err(AuthenticateError::Unknown) => Some(client_key(parts, state)),
        Err(AuthenticateError::Unavailable(_)) => None,
    };
    if let Some(key) = key {
        count(parts, state, key)?;
    }
    let caller = known?.at(address(parts, state));
    if let Some(arrival) = parts.extensions.get::<Arrival>() {
        // A second extractor would find the same caller.
        let _ = arrival.noted.caller.set(caller.clone());
    }
    Ok(caller)
}

/// A caller whose request outlasts the check of its token.
pub(crate) struct LastingCaller {
    pub(crate) caller: mailapi_service::Caller,
    token: TokenValue,
}

impl FromRequestParts<HttpState> for LastingCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let Caller(caller) = Caller::from_request_parts(parts, state).await?;
        let token = parts.headers.get(&TOKEN_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Ok(Self { caller, token: TokenValue::from_caller(token) })
    }
}

impl LastingCaller {
    /// Checks the token again, without a use of it. Returns whether its rights changed; the caller has the new ones.
    ///
    /// # Errors
    /// 401 if the token has ended.
    pub(crate) async fn check(&mut self, state: &HttpState) -> Result<bool, ApiError> {
        let caller = state.service().authenticate_again(&self.token).await?;
        let has_other_rights = caller.grants != self.caller.grants;
        if has_other_rights {
            self.caller.grants = caller.grants;
        }
        Ok(has_other_rights)
    }
}

/// An admin. The body is read only after this check.
pub(crate) struct AdminCaller(pub(crate) mailapi_service::Caller);

impl FromRequestParts<HttpState> for AdminCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let Caller(caller) = Caller::from_request_parts(parts, state).await?;
        caller.grants.admin()?;
        Ok(Self(caller))
    }
}

/// A caller without a token whose address has requests left.
pub(crate) struct Anybody {
    pub(crate) address: IpAddr,
}

impl FromRequestParts<HttpState> for Anybody {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let address = address(parts, state);
        count(parts, state, LimitKey::of_client(address))?;
        Ok(Self { address })
    }
}

fn client_key(parts: &Parts, state: &HttpState) -> LimitKey {
    LimitKey::of_client(address(parts, state))
}

fn address(parts: &Parts, state: &HttpState) -> IpAddr {
    client_address(&parts.extensions, &parts.headers, &state.settings().trusted_proxies)
}

fn count(parts: &Parts, state: &HttpState, key: LimitKey) -> Result<(), ApiError> {
    let note = parts.extensions.get::<Arrival>().map(|arrival| &arrival.noted.limit);
    take(state.limits(), state.settings().limits, key, state.clock().now(), note)
}

impl From<AuthenticateError> for ApiError {
    fn from(error: AuthenticateError) -> Self {
        match error {
            AuthenticateError::Unknown => ErrorCode::InvalidToken.into(),
            AuthenticateError::Expired { .. } => ErrorCode::TokenExpired.into(),
            AuthenticateError::Unavailable(error) => error.into(),
        }
    }
}
