//! Limits the number of open event streams.

use std::hash::{DefaultHasher, Hash, Hasher};
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
/// Maximum number of open streams of all tokens of one mailbox. Each login creates a token, so without this limit one
/// user could take all streams.
const MOST_OF_MAILBOX: usize = 50;

/// The open event streams.
pub(crate) struct EventStreams {
    all: Arc<Semaphore>,
    by_token: Connections<TokenId>,
    /// By the hash of the address.
    by_mailbox: Connections<u64>,
    /// The stream of a client that disconnected ends with the next comment at the latest.
    retry_after: Duration,
}

/// An open stream, which is counted until this value is dropped.
pub(super) struct OpenStream {
    _of_all: OwnedSemaphorePermit,
    _of_token: CountedConnection<TokenId>,
    _of_mailbox: CountedConnection<u64>,
}

impl EventStreams {
    /// No streams yet.
    pub(crate) fn new(comment_interval: Duration) -> Self {
        let (all, by_token) = (Arc::new(Semaphore::new(MOST)), Connections::new(MOST, MOST_OF_TOKEN));
        Self { all, by_token, by_mailbox: Connections::new(MOST, MOST_OF_MAILBOX), retry_after: comment_interval }
    }

    /// Counts a stream of the caller.
    ///
    /// # Errors
    /// 429 if the token has too many, 503 if the server has.
    pub(super) fn open(&self, caller: &Caller) -> Result<OpenStream, ApiError> {
        let of_all = Arc::clone(&self.all).try_acquire_owned();
        let of_all = of_all.map_err(|_| ApiError::later(ErrorCode::ServiceUnavailable, self.retry_after))?;
        let too_many = |message: String| ApiError::new(ErrorCode::RateLimitExceeded, message).after(self.retry_after);
        let of_token = self.by_token.count(caller.token.as_ref().map(|token| token.id));
        let of_token = of_token
            .ok_or_else(|| too_many(format!("The token has {MOST_OF_TOKEN} open event streams, the maximum.")))?;
        let mailbox = caller.grants.mailbox().map(|mailbox| {
            let mut hasher = DefaultHasher::new();
            mailbox.as_str().hash(&mut hasher);
            hasher.finish()
        });
        let of_mailbox = self.by_mailbox.count(mailbox);
        let of_mailbox = of_mailbox
            .ok_or_else(|| too_many(format!("The mailbox has {MOST_OF_MAILBOX} open event streams, the maximum.")))?;
        Ok(OpenStream { _of_all: of_all, _of_token: of_token, _of_mailbox: of_mailbox })
    }
}
