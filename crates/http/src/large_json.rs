//! Bodies of send requests, which may be large. Bodies beyond [`HttpSettings::long_work_bytes`] are split while they
//! arrive, so that only the part outside of long strings is in memory.

use std::io;
use std::sync::{Arc, Mutex};

use axum::extract::{FromRequest, Request};
use axum::http::HeaderValue;
use bytes::BytesMut;
use mailapi_model::Violations;
use mailapi_service::mail::{BodyHash, IdempotencyKey, IdempotencyKeyError};
use mailapi_service::{BufferWriter, Unavailable};
use serde_json::Value;

use crate::body::{Arriving, Incomplete, check_media_type, in_time};
use crate::bounded_json;
use crate::byte_budget::{BytePermit, Full, Share};
use crate::client_address::caller;
use crate::error::ApiError;
use crate::json::{object, parse};
use crate::long_strings::{LongStrings, Mistake, StringSplitter};
use crate::request_body::{Kind, Place};
use crate::settings::HttpSettings;
use crate::state::HttpState;

/// Maximum bytes of a large body outside of long strings: twenty times the default limit of recipients.
const MOST_TEXT: usize = 4 * 1024 * 1024;

/// A parsed send request. The original bytes are no longer in memory.
pub(crate) struct LargeJsonBody {
    /// The object.
    pub(crate) value: Value,
    /// Long strings in files, if any.
    pub(crate) long: Option<LongStrings>,
    /// Length of the body in bytes.
    pub(crate) length: usize,
    /// `Idempotency-Key` of the request, if any.
    pub(crate) idempotency: Option<Result<IdempotencyKey, IdempotencyKeyError>>,
    /// Room of the body; held until the message is freed too.
    pub(crate) permits: Option<BodyPermits>,
}

/// Room of a body on disk and in memory.
pub(crate) struct BodyPermits {
    _disk: BytePermit,
    _memory: Arc<Mutex<BytePermit>>,
}

/// A received body.
enum Arrived {
    /// A small body, complete.
    Whole(BytesMut, BytePermit),
    /// A large body, split into JSON and long strings.
    Apart(Box<Apart>, BytePermit),
}

impl LargeJsonBody {
    /// Reads the object. Blocks on files when the body is large.
    ///
    /// # Errors
    /// All violations, with those that are known already; [`Unavailable::Room`] if a long string was lost.
    pub(crate) fn read<K: Kind>(self, mut violations: Violations) -> Result<K::Read, ApiError> {
        let read = K::read(self.value, &Place::root(self.long.as_ref()), &mut violations);
        // Lost strings are empty, and would be reported as violations of the operation's rules.
        if let Some(error) = self.long.as_ref().and_then(LongStrings::lost) {
            return Err(Unavailable::Room(error).into());
        }
        Ok(violations.or(read)?)
    }
}

impl FromRequest<HttpState> for LargeJsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        let limit = state.settings().max_request_bytes;
        let mut disk = state.body_budget().hold(Share::of(caller(request.extensions())));
        check_media_type(request.headers())?;
        let name = request.headers().get("idempotency-key").cloned();
        let arrived = in_time(state, arrived(request, state, limit, name.is_some(), &mut disk)).await?;
        let permits = |memory| Some(BodyPermits { _disk: disk, _memory: memory });
        match arrived {
            Arrived::Whole(bytes, memory) => {
                let length = bytes.len();
                let key_of = move |bytes: &[u8]| name.map(|name| key(&name, BodyHash::of(bytes)));
                let (value, idempotency) = parse(bytes.freeze(), state, key_of).await?;
                Ok(Self {
                    value: object(value)?,
                    long: None,
                    length,
                    idempotency,
                    permits: permits(Arc::new(Mutex::new(memory))),
                })
            }
            Arrived::Apart(mut apart, memory) => {
                let length = apart.length;
                let idempotency = name.zip(apart.hash.take()).map(|(name, hash)| key(&name, hash));
                let read = on_thread(move || apart.finish()).await?;
                let (value, long) = read?;
                let memory = Arc::new(Mutex::new(memory));
                Ok(Self {
                    value: object(value)?,
                    long: Some(long.with_memory(Arc::clone(&memory))),
                    length,
                    idempotency,
                    permits: permits(memory),
                })
            }
        }
    }
}

/// Bytes beyond ASCII are kept, so that the rule of the key rejects them.
fn key(name: &HeaderValue, body: BodyHash) -> Result<IdempotencyKey, IdempotencyKeyError> {
    IdempotencyKey::new(name.to_str().unwrap_or_default(), body)
}

/// A small body takes no room on disk, so large ones cannot block it.
async fn arrived(
    request: Request,
    state: &HttpState,
    limit: usize,
    hashed: bool,
    disk: &mut BytePermit,
) -> Result<Arrived, Incomplete> {
    let batch = state.settings().long_work_bytes;
    let mut arriving = Arriving::new(request, state, limit)?;
    let mut bytes = BytesMut::new();
    if arriving.fill(&mut bytes, batch).await? {
        let memory = arriving.into_memory(bytes.len())?;
        return Ok(Arrived::Whole(bytes, memory));
    }
    let longest = state.settings().long_string_bytes.max(HttpSettings::LEAST_LONG_STRING_BYTES);
    let splitter = StringSplitter::new(longest, state.entropy(), state.service().buffer().writer());
    let mut apart = Box::new(Apart { splitter, hash: hashed.then(BodyHash::default), length: 0 });
    disk.grow(bytes.len()).map_err(|Full| Incomplete::Full)?;
    loop {
        let before = bytes.len();
        let ended = arriving.fill(&mut bytes, batch).await?;
        disk.grow(bytes.len() - before).map_err(|Full| Incomplete::Full)?;
        // The buffer ends with this step: a body that waits for its client needs none.
        let arrived = std::mem::take(&mut bytes);
        let taking_in = move || {
            apart.take(&arrived)?;
            Ok(apart)
        };
        apart = on_thread(taking_in).await?;
        let kept = apart.splitter.kept();
        arriving.keep(kept + apart.splitter.aside().bytes_in_memory());
        if kept > MOST_TEXT {
            return Err(Incomplete::TooManyValues(MOST_TEXT));
        }
        if ended {
            return Ok(Arrived::Apart(apart, arriving.into_memory(bounded_json::most_memory(kept))?));
        }
    }
}

/// A large body while it is split.
struct Apart {
    splitter: StringSplitter<BufferWriter>,
    hash: Option<BodyHash>,
    length: usize,
}

impl Apart {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len();
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        self.splitter.take(bytes)
    }

    fn finish(self) -> io::Result<Result<(Value, LongStrings), Mistake>> {
        self.splitter.finish(|aside| Ok(aside.finish()?))
    }
}

/// Runs blocking work on a blocking thread.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Incomplete> {
    tokio::task::spawn_blocking(work).await.map_err(Incomplete::Unforeseen)?.map_err(Incomplete::Room)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_no_lack_of_room() {
        let status = |error: Incomplete| ApiError::from(error).into_response().status();
        let panicked = on_thread(|| -> io::Result<()> { panic!("on purpose") }).await.unwrap_err();
        assert_eq!(status(panicked), StatusCode::INTERNAL_SERVER_ERROR);
        let full = on_thread(|| -> io::Result<()> { Err(io::ErrorKind::StorageFull.into()) }).await.unwrap_err();
        assert_eq!(status(full), StatusCode::SERVICE_UNAVAILABLE);
    }
}
