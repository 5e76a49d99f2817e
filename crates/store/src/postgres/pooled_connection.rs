//! A connection in use.

use deadpool_postgres::{ClientWrapper, Object};

/// A connection of the pool. Unless it is given back explicitly it is closed, which makes the server roll
/// back.
///
/// The next user must not find the open transaction of a caller that was cancelled.
#[derive(Debug)]
pub(super) struct PooledConnection(Option<Object>);

impl PooledConnection {
    pub(super) const fn of(connection: Object) -> Self {
        Self(Some(connection))
    }

    /// Returns the connection; `None` only after it was given back.
    pub(super) fn client(&self) -> Option<&ClientWrapper> {
        self.0.as_deref()
    }

    /// Detaches the connection from the pool and returns it.
    pub(super) fn keep(mut self) -> Option<ClientWrapper> {
        self.0.take().map(Object::take)
    }

    /// Returns the connection to the pool: no work is left on it.
    pub(super) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(Object::take(connection));
        }
    }
}
