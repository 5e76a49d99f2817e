//! A connection while somebody uses it.

use deadpool_postgres::{ClientWrapper, Object};

/// A connection of the pool. Unless it is given back it is closed, which makes the server undo what is half done: the
/// next user must not find a transaction of somebody who stopped waiting.
#[derive(Debug)]
pub(super) struct PooledConnection(Option<Object>);

impl PooledConnection {
    pub(super) const fn of(connection: Object) -> Self {
        Self(Some(connection))
    }

    /// The connection; nothing only after it was given back.
    pub(super) fn client(&self) -> Option<&ClientWrapper> {
        self.0.as_deref()
    }

    /// The connection, which is detached from the pool.
    pub(super) fn keep(mut self) -> Option<ClientWrapper> {
        self.0.take().map(Object::take)
    }

    /// Everything is done: the next user may have it.
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
