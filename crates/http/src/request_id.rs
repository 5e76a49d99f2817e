//! Request ids, in the response and in every log line of the request.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::HttpBody as _;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use mailapi_model::{EmailAddress, Entropy, RequestId, Timestamp, TokenId};
use tracing::Span;
use tracing::level_filters::LevelFilter;

use crate::client_address::client_address;
use crate::state::HttpState;

/// The log target of request lines.
const ACCESS: &str = "mailapi::access";

const NAME: HeaderName = HeaderName::from_static("x-request-id");

/// A request in progress.
pub(crate) struct Named {
    id: RequestId,
    began: Timestamp,
}

impl Named {
    /// Takes the client's request id if it is valid, or creates one. Log lines of the request belong to the span.
    pub(crate) fn of(request: &Request, state: &HttpState) -> (Self, Span) {
        let began = state.clock().now();
        let own = request.headers().get(&NAME).and_then(|value| value.to_str().ok()).and_then(RequestId::from_caller);
        let id = own.unwrap_or_else(|| RequestId::random(began, state.name_entropy()));
        // The route pattern, because the path itself contains addresses.
        let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str);
        let client = client_address(request.extensions(), request.headers(), &state.settings().trusted_proxies);
        let span = tracing::info_span!(
            "request",
            id = id.as_str(),
            method = request.method().as_str(),
            route,
            client = %client,
            token = tracing::field::Empty,
            mailbox = tracing::field::Empty,
        );
        (Self { id, began }, span)
    }

    /// Logs the completed request and adds the id to the response. Call it within the span.
    pub(crate) fn answered(self, response: &mut Response, now: Timestamp, access: LevelFilter) {
        let millis = u64::try_from(now.since(self.began).as_millis()).unwrap_or(u64::MAX);
        let status = response.status().as_u16();
        // A streamed body has no known length before its end.
        let bytes = response.body().size_hint().exact().or_else(|| announced(response));
        if access == LevelFilter::ERROR {
            tracing::error!(target: ACCESS, status, bytes, millis, "request completed");
        } else if access == LevelFilter::WARN {
            tracing::warn!(target: ACCESS, status, bytes, millis, "request completed");
        } else if access == LevelFilter::INFO {
            tracing::info!(target: ACCESS, status, bytes, millis, "request completed");
        } else if access == LevelFilter::DEBUG {
            tracing::debug!(target: ACCESS, status, bytes, millis, "request completed");
        } else if access == LevelFilter::TRACE {
            tracing::trace!(target: ACCESS, status, bytes, millis, "request completed");
        }
        if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(self.id.into_text())) {
            response.headers_mut().insert(NAME, value);
        }
    }
}

/// The length in the `Content-Length` header of the response.
fn announced(response: &Response) -> Option<u64> {
    response.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Records the caller in the span of the request.
pub(crate) fn note_caller(token: Option<TokenId>, mailbox: Option<&EmailAddress>) {
    let span = Span::current();
    if let Some(token) = token {
        span.record("token", token.0);
    }
    if let Some(mailbox) = mailbox {
        span.record("mailbox", mailbox.as_str());
    }
}

/// Randomness for request ids, read in blocks, because one system call costs as much as the rest of an id. Request ids
/// are not secret, so future ones may be in memory.
pub(crate) struct NameEntropy {
    source: Arc<dyn Entropy>,
    block: Mutex<Block>,
}

struct Block {
    bytes: [u8; NameEntropy::BLOCK],
    used: usize,
}

impl NameEntropy {
    const BLOCK: usize = 1000;

    pub(crate) const fn new(source: Arc<dyn Entropy>) -> Self {
        Self { source, block: Mutex::new(Block { bytes: [0; Self::BLOCK], used: Self::BLOCK }) }
    }
}

impl Entropy for NameEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in buffer.chunks_mut(Self::BLOCK) {
            if Self::BLOCK - block.used < piece.len() {
                self.source.fill(&mut block.bytes);
                block.used = 0;
            }
            let end = block.used + piece.len();
            piece.copy_from_slice(&block.bytes[block.used..end]);
            block.used = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Gives 1, 2, 3 and so on, in eight bytes each.
    #[derive(Default)]
    struct Numbers(AtomicU64);

    impl Entropy for Numbers {
        fn fill(&self, buffer: &mut [u8]) {
            for piece in buffer.chunks_mut(8) {
                let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
                piece.copy_from_slice(&number.to_be_bytes()[..piece.len()]);
            }
        }
    }

    #[test]
    fn nothing_is_given_twice() {
        let numbers = Arc::new(Numbers::default());
        let entropy = NameEntropy::new(Arc::clone(&numbers) as Arc<dyn Entropy>);
        for expected in 1..=500 {
            let mut bytes = [0; 8];
            entropy.fill(&mut bytes);
            assert_eq!(u64::from_be_bytes(bytes), expected);
        }
        assert_eq!(numbers.0.load(Ordering::Relaxed), 500, "the source is asked for whole blocks");
        let mut many = [0; 2 * NameEntropy::BLOCK];
        entropy.fill(&mut many);
        let last: [u8; 8] = many[many.len() - 8..].try_into().unwrap();
        assert_eq!(u64::from_be_bytes(last), 750);
    }
}
