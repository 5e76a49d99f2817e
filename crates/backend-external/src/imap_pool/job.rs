//! Work that can be run again.

use std::future::Future;

use super::connection::ImapConnection;
use super::error::ImapError;

/// Work on a connection. It may run twice: a kept connection can turn out to be dead in the middle of it.
pub(crate) trait Job: Sync {
    /// What it finds out.
    type Output: Send;

    /// Does it.
    fn run(&self, connection: &mut ImapConnection) -> impl Future<Output = Result<Self::Output, ImapError>> + Send;
}
