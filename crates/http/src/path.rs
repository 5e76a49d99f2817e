//! Path parameters, percent-decoded once: `Projects%2F2026` is one folder name.
//!
//! An invalid parameter names nothing that exists. It is therefore not an error of its own: the operation checks the
//! caller's permissions first and then returns the same error as for anything else that does not exist.

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
            // Nothing has a name that is not valid UTF-8.
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

    /// A parameter, parsed; `None` if it is invalid.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name).parse().ok()
    }

    /// The UID; 0, which no message has (RFC 3501 section 2.3.1.1), if it is not a number.
    pub(crate) fn uid(&self) -> u32 {
        self.digits("uid").unwrap_or(0)
    }

    /// The index of an attachment; a number beyond any attachment if it is not a number.
    pub(crate) fn index(&self) -> u32 {
        self.digits("index").unwrap_or(u32::MAX)
    }

    /// A number that consists of digits only.
    pub(crate) fn digits<T: FromStr>(&self, name: &str) -> Option<T> {
        let text = self.text(name);
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    }
}
