//! Limits the number of open event streams.

use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{Connections, CountedConnection, TokenId};
use mailapi_service::Caller;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, ErrorCode};

/// Maximum number of open streams in all. Each one takes some kilobytes and a connection.
const MOST: usize = 1000;
/// Maximum number of open streams of one token.
const MOST_OF_TOKEN: usize = 5;

/// The open event streams.
pub(crate) struct EventStreams {
    all: Arc<Semaphore>,
    by_token: Connections<TokenId>,
    /// The stream of a client that disconnected ends with the next comment at the latest.
    retry_after: Duration,
}

/// An open stream, which is counted until this value is dropped.
pub(super) struct OpenStream {
    _of_all: OwnedSemaphorePermit,
    _of_token: CountedConnection<TokenId>,
}

impl EventStreams {
    /// No streams yet.
    pub(crate) fn new(comment_interval: Duration) -> Self {
        let (all, by_token) = (Arc::new(Semaphore::new(MOST)), Connections::new(MOST, MOST_OF_TOKEN));
        Self { all, by_token, retry_after: comment_interval }
    }

    /// Counts a stream of the caller.
    ///
    /// # Errors
    /// 429 if the token has too many, 503 if the server has.
    pub(super) fn open(&self, caller: &Caller) -> Result<OpenStream, ApiError> {
        let of_all = Arc::clone(&self.all).try_acquire_owned();
        let of_all = of_all.map_err(|_| ApiError::later(ErrorCode::ServiceUnavailable, self.retry_after))?;
        let of_token = self.by_token.count(caller.token.as_ref().map(|token| token.id)).ok_or_else(|| {
            let message = format!("The token has {MOST_OF_TOKEN} open event streams, the maximum.");
            ApiError::new(ErrorCode::RateLimitExceeded, message).after(self.retry_after)
        })?;
        Ok(OpenStream { _of_all: of_all, _of_token: of_token })
    }
}
