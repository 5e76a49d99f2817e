//! Path parameters, each percent-decoded once: `Projects%2F2026` is one folder's name.
//!
//! A parameter that cannot be what its place stands for names nothing that exists. So none of these is an error by
//! itself; the operation answers as for everything else that does not exist, after it asked for the caller's rights.

use std::str::FromStr;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use crate::error::ErrorCode;

/// The parameters of a path, by their names.
pub(crate) struct PathParameters(RawPathParams);

impl<S: Send + Sync> FromRequestParts<S> for PathParameters {
    type Rejection = crate::error::ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        match RawPathParams::from_request_parts(parts, state).await {
            Ok(parameters) => Ok(Self(parameters)),
            // Octets that are no UTF-8 name nothing.
            Err(RawPathParamsRejection::InvalidUtf8InPathParam(_)) => Err(ErrorCode::NotFound.into()),
            Err(rejection) => Err(crate::error::ApiError::internal(rejection)),
        }
    }
}

impl PathParameters {
    /// The text of a parameter.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
    }

    /// A parameter as what its place stands for; none when it cannot be that.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name).parse().ok()
    }

    /// A message's UID. What is no number is taken for 0, which no message has (RFC 3501 section 2.3.1.1).
    pub(crate) fn uid(&self) -> u32 {
        self.digits("uid").unwrap_or(0)
    }

    /// An attachment's index. What is no number is taken for one that no message reaches.
    pub(crate) fn index(&self) -> u32 {
        self.digits("index").unwrap_or(u32::MAX)
    }

    /// A number of digits alone.
    pub(crate) fn digits<T: FromStr>(&self, name: &str) -> Option<T> {
        let text = self.text(name);
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    }
}
