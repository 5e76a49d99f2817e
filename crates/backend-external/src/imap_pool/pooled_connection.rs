//! A connection in use.

use std::sync::Arc;

use super::connection::ImapConnection;
use super::connection_slots::ConnectionPermit;
use super::pool::Shared;

/// A connection in use. On drop, it returns to the pool if its last response was read to the end. Otherwise it is
/// closed, so that no other request receives the rest.
pub(crate) struct PooledConnection {
    /// `Some` until the lease is dropped.
    held: Option<(ImapConnection, ConnectionPermit)>,
    shared: Arc<Shared>,
    was_kept: bool,
}

impl PooledConnection {
    pub(super) const fn new(
        shared: Arc<Shared>,
        connection: ImapConnection,
        permit: ConnectionPermit,
        was_kept: bool,
    ) -> Self {
        Self { held: Some((connection, permit)), shared, was_kept }
    }

    /// Returns the connection.
    pub(crate) fn connection(&mut self) -> &mut ImapConnection {
        match &mut self.held {
            Some((connection, _)) => connection,
            None => unreachable!("the connection is present until the value is dropped"),
        }
    }

    /// Whether it was idle in the pool, where the server may have closed it.
    pub(super) const fn was_kept(&self) -> bool {
        self.was_kept
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if let Some((mut connection, permit)) = self.held.take()
            && connection.is_ready()
        {
            connection.rest();
            self.shared.keep(connection, permit);
        }
    }
}
