//! Time limits and deadlines.

use std::io;
use std::time::Duration;

use mailapi_smtp::client::Cause;
use tokio::time::{Instant, timeout_at};

/// Time limits of a connection (RFC 5321 section 4.5.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// Limit of a TCP connection attempt.
    pub connect: Duration,
    /// Limit of each reply until the connection is ready, and of the TLS handshake.
    pub greeting: Duration,
    /// Limit of all steps together until the connection is ready.
    pub setup: Duration,
    /// Limit of one write: some commands, or one piece of a message.
    pub write: Duration,
    /// Limit of a reply to a command.
    pub reply: Duration,
    /// Limit of the reply to the final dot. Beyond it the outcome of the message is unknown.
    pub final_reply: Duration,
    /// Limit of a whole message.
    pub message: Duration,
}

/// A point in time, with the limit that set it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit }
    }

    /// Does the work, unless the deadline passes before.
    pub(crate) async fn bound<T>(self, work: impl Future<Output = io::Result<T>>) -> Result<T, Cause> {
        match timeout_at(self.at, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(Cause::Io(error.to_string())),
            Err(_) => Err(Cause::TimedOut(self.limit)),
        }
    }
}
