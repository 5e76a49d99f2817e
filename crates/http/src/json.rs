//! Reads request bodies in JSON.

use std::marker::PhantomData;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use mailapi_model::Violations;
use serde_json::{Map, Value};

use crate::body::{self, check_media_type};
use crate::bounded_json::{self, Refused};
use crate::error::{ApiError, ErrorCode};
use crate::long_strings::Mistake;
use crate::request_body::{Kind, Place};
use crate::state::HttpState;

/// A JSON object that is read as a `B`, after the checks of the operation that come first.
pub(crate) struct JsonBody<B>(Value, PhantomData<fn() -> B>);

impl<B> FromRequest<HttpState> for JsonBody<B> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        Ok(Self(object(value_of(request, state, small(state)).await?)?, PhantomData))
    }
}

impl<B: Kind<Read = B>> JsonBody<B> {
    /// Reads the members.
    ///
    /// # Errors
    /// 422 with every invalid member.
    pub(crate) fn read(self) -> Result<B, ApiError> {
        let mut violations = Violations::none();
        let read = B::read(self.0, &Place::root(None), &mut violations);
        Ok(violations.or(read)?)
    }
}

/// Checks that a body is an object.
///
/// # Errors
/// A violation of the whole body.
pub(crate) fn object(value: Value) -> Result<Value, Violations> {
    if value.is_object() { Ok(value) } else { Err(Violations::of("", "must be a JSON object")) }
}

fn small(state: &HttpState) -> usize {
    state.settings().max_small_request_bytes.min(state.settings().max_request_bytes)
}

/// A JSON object; one without members if the body is empty or `null`.
pub(crate) struct OptionalJsonBody<B>(pub(crate) JsonBody<B>);

impl<B> FromRequest<HttpState> for OptionalJsonBody<B> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        let value = match request.body().is_end_stream() {
            true => Value::Null,
            false => value_of(request, state, small(state)).await?,
        };
        let value = if value.is_null() { Value::Object(Map::new()) } else { object(value)? };
        Ok(Self(JsonBody(value, PhantomData)))
    }
}

/// The parsed body of a request.
async fn value_of(request: Request, state: &HttpState, limit: usize) -> Result<Value, ApiError> {
    check_media_type(request.headers())?;
    let bytes = body::read(request, state, limit).await?;
    Ok(parse(bytes, state, |_| ()).await?.0)
}

/// The JSON in these bytes, which are gone then, and what `look` makes of them before.
pub(crate) async fn parse<T: Send + 'static>(
    bytes: Bytes,
    state: &HttpState,
    look: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<(Value, T), ApiError> {
    let (length, work) = (bytes.len(), move || (bounded_json::read(&bytes), look(&bytes)));
    let (parsed, seen) = offload(length, state, work).await?;
    Ok((parsed.map_err(|(error, refused)| Mistake::from((&error, refused)))?, seen))
}

/// Position and reason of a syntax error; never a part of the text.
impl From<Mistake> for ApiError {
    fn from(Mistake { too_short, refused, line, column }: Mistake) -> Self {
        let (code, what) = match refused {
            Some(Refused::TooMuch) => (ErrorCode::PayloadTooLarge, "has too many values"),
            Some(Refused::TooDeep) => (ErrorCode::InvalidJson, "is nested too deeply"),
            Some(Refused::Duplicate) => (ErrorCode::InvalidJson, "has a duplicate member name"),
            None if too_short => (ErrorCode::InvalidJson, "ends too early"),
            None => (ErrorCode::InvalidJson, "is not valid JSON"),
        };
        Self::new(code, format!("The body {what} at line {line}, column {column}."))
    }
}

/// Runs `work` on this thread if `bytes` are few, otherwise on a blocking thread.
pub(crate) async fn offload<T: Send + 'static>(
    bytes: usize,
    state: &HttpState,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    if bytes <= state.settings().long_work_bytes {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(ApiError::internal)
}
