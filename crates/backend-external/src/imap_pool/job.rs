//! Work that can be repeated.

use std::future::Future;

use super::connection::ImapConnection;
use super::error::ImapError;

/// Work on a connection. It may run twice, if an idle connection turns out to be dead.
pub(crate) trait Job: Sync {
    /// The result.
    type Output: Send;

    /// Runs the work.
    fn run(&self, connection: &mut ImapConnection) -> impl Future<Output = Result<Self::Output, ImapError>> + Send;
}
