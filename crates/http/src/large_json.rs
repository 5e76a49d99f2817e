//! A body that may be large: a message to be sent. What is beyond [`HttpSettings::long_work_bytes`] is taken apart
//! while it arrives, so that no more of it is in memory than what is not in long strings.

use std::io;
use std::sync::{Arc, Mutex};

use axum::extract::{FromRequest, Request};
use axum::http::HeaderValue;
use bytes::BytesMut;
use mailapi_service::BufferWriter;
use mailapi_service::mail::{BodyHash, IdempotencyKey, IdempotencyKeyError};
use serde_json::Value;

use crate::body::{Arriving, Incomplete, check_media_type, in_time};
use crate::bounded_json;
use crate::client_address::caller;
use crate::error::ApiError;
use crate::json::{Members, parse};
use crate::long_strings::{LongStrings, Mistake, StringSplitter};
use crate::octet_budget::{Full, OctetPermit, Share};
use crate::settings::HttpSettings;
use crate::state::HttpState;

/// Maximum octets of a large body outside of long strings. The default limit of recipients fits twenty times.
const MOST_TEXT: usize = 4 * 1024 * 1024;

/// A message to be sent. The octets that it was read from are gone.
pub(crate) struct LargeJsonBody {
    /// Its members.
    pub(crate) members: Members,
    /// The strings that were put aside, if any were.
    pub(crate) long: Option<Arc<LongStrings>>,
    /// How many octets it had.
    pub(crate) length: usize,
    /// What names the request, if it has a name.
    pub(crate) idempotency: Option<Result<IdempotencyKey, IdempotencyKeyError>>,
    /// The room that it takes; to be kept until the message is gone as well.
    pub(crate) permits: Option<BodyPermits>,
}

/// The room of a body on disk and in memory.
pub(crate) struct BodyPermits {
    _disk: OctetPermit,
    _memory: Arc<Mutex<OctetPermit>>,
}

/// What arrived.
enum Arrived {
    /// All of a body that is not large.
    Whole(BytesMut, OctetPermit),
    /// A large one, taken apart.
    Apart(Box<Apart>, OctetPermit),
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
            Arrived::Whole(octets, memory) => {
                let length = octets.len();
                let key_of = move |octets: &[u8]| name.map(|name| key(&name, BodyHash::of(octets)));
                let (value, idempotency) = parse(octets.freeze(), state, key_of).await?;
                Ok(Self {
                    members: Members::of(value, None)?,
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
                let long = Some(Arc::new(long.with_memory(Arc::clone(&memory))));
                Ok(Self {
                    members: Members::of(value, long.clone())?,
                    long,
                    length,
                    idempotency,
                    permits: permits(memory),
                })
            }
        }
    }
}

/// Octets beyond ASCII break the key's rule, which is the one to say so.
fn key(name: &HeaderValue, body: BodyHash) -> Result<IdempotencyKey, IdempotencyKeyError> {
    IdempotencyKey::new(name.to_str().unwrap_or_default(), body)
}

/// A small body takes no room on disk, so large ones cannot block it.
async fn arrived(
    request: Request,
    state: &HttpState,
    limit: usize,
    hashed: bool,
    disk: &mut OctetPermit,
) -> Result<Arrived, Incomplete> {
    let batch = state.settings().long_work_bytes;
    let mut arriving = Arriving::new(request, state, limit)?;
    let mut octets = BytesMut::new();
    if arriving.fill(&mut octets, batch).await? {
        let memory = arriving.into_memory(octets.len())?;
        return Ok(Arrived::Whole(octets, memory));
    }
    let longest = state.settings().long_string_bytes.max(HttpSettings::LEAST_LONG_STRING_BYTES);
    let splitter = StringSplitter::new(longest, state.entropy(), state.service().buffer().writer());
    let mut apart = Box::new(Apart { splitter, hash: hashed.then(BodyHash::default), length: 0 });
    disk.grow(octets.len()).map_err(|Full| Incomplete::Full)?;
    loop {
        let before = octets.len();
        let ended = arriving.fill(&mut octets, batch).await?;
        disk.grow(octets.len() - before).map_err(|Full| Incomplete::Full)?;
        let taking_in = move || {
            apart.take(&octets)?;
            octets.clear();
            Ok((apart, octets))
        };
        (apart, octets) = on_thread(taking_in).await?;
        let kept = apart.splitter.kept();
        arriving.keep(kept);
        if kept > MOST_TEXT {
            return Err(Incomplete::TooManyValues(MOST_TEXT));
        }
        if ended {
            return Ok(Arrived::Apart(apart, arriving.into_memory(bounded_json::most_memory(kept))?));
        }
    }
}

/// A body that is being taken apart.
struct Apart {
    splitter: StringSplitter<BufferWriter>,
    hash: Option<BodyHash>,
    length: usize,
}

impl Apart {
    fn take(&mut self, octets: &[u8]) -> io::Result<()> {
        self.length += octets.len();
        if let Some(hash) = &mut self.hash {
            hash.update(octets);
        }
        self.splitter.take(octets)
    }

    fn finish(self) -> io::Result<Result<(Value, LongStrings), Mistake>> {
        self.splitter.finish(|aside| Ok(aside.finish()?))
    }
}

/// Work that blocks, on a thread that may.
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
