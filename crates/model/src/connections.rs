//! How many connections there are, in all and of each client.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ClientNetwork;

/// Counts the connections of a listener; clones share the count. `C` identifies a client.
#[derive(Debug)]
pub struct Connections<C = ClientNetwork>(Arc<Inner<C>>);

impl<C> Clone for Connections<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Inner<C> {
    max: usize,
    max_per_client: usize,
    counts: Mutex<Counts<C>>,
}

#[derive(Debug)]
struct Counts<C> {
    all: usize,
    by_client: HashMap<C, usize>,
}

/// A connection that is counted until this value is dropped.
#[derive(Debug)]
pub struct CountedConnection<C: Copy + Eq + Hash = ClientNetwork> {
    connections: Connections<C>,
    client: Option<C>,
}

impl<C: Copy + Eq + Hash> Connections<C> {
    /// No connections yet.
    #[must_use]
    pub fn new(max: usize, max_per_client: usize) -> Self {
        let counts = Mutex::new(Counts { all: 0, by_client: HashMap::new() });
        Self(Arc::new(Inner { max, max_per_client, counts }))
    }

    /// Counts a connection of a client; `None` when there are too many. One without a client, from a trusted proxy,
    /// counts among all alone.
    #[must_use]
    pub fn count(&self, client: Option<C>) -> Option<CountedConnection<C>> {
        let mut counts = self.counts();
        if counts.all >= self.0.max {
            return None;
        }
        if let Some(client) = client {
            let of_client = counts.by_client.entry(client).or_default();
            if *of_client >= self.0.max_per_client {
                return None;
            }
            *of_client += 1;
        }
        counts.all += 1;
        Some(CountedConnection { connections: self.clone(), client })
    }

    fn counts(&self) -> MutexGuard<'_, Counts<C>> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Copy + Eq + Hash> CountedConnection<C> {
    /// The connection, counted without a client so far, turned out to be of this one. Returns `None` when the client
    /// has too many.
    #[must_use]
    pub fn of_client(mut self, client: C) -> Option<Self> {
        let connections = self.connections.clone();
        let mut counts = connections.counts();
        let of_client = counts.by_client.entry(client).or_default();
        if *of_client >= connections.0.max_per_client {
            // The lock is not reentrant, and dropping the connection takes it.
            drop(counts);
            return None;
        }
        *of_client += 1;
        drop(counts);
        self.client = Some(client);
        Some(self)
    }
}

impl<C: Copy + Eq + Hash> Drop for CountedConnection<C> {
    fn drop(&mut self) {
        let mut counts = self.connections.counts();
        counts.all -= 1;
        let Some(client) = self.client else { return };
        if let Some(count) = counts.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                counts.by_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Option<ClientNetwork> {
        Some(ClientNetwork::of(text.parse().unwrap()))
    }

    #[test]
    fn one_client_leaves_connections_to_others() {
        let connections = Connections::new(4, 2);
        let first = connections.count(client("2001:db8::1")).unwrap();
        let second = connections.count(client("2001:db8::2")).unwrap();
        assert!(connections.count(client("2001:db8::3")).is_none(), "a /64 is one client");
        let other = connections.count(client("192.0.2.1")).unwrap();
        let proxy = connections.count(None).unwrap();
        assert!(connections.count(client("192.0.2.2")).is_none() && connections.count(None).is_none());
        drop(first);
        let mapped = connections.count(client("::ffff:192.0.2.1")).unwrap();
        assert!(connections.count(client("192.0.2.1")).is_none());
        drop((second, other, proxy, mapped));
        let counts = connections.counts();
        assert_eq!((counts.all, counts.by_client.len()), (0, 0));
    }

    #[test]
    fn a_client_that_becomes_known_later_has_the_same_share() {
        let connections = Connections::new(4, 2);
        let announced = |text: &str| connections.count(None).unwrap().of_client(client(text).unwrap());
        let (first, second) = (announced("192.0.2.1").unwrap(), connections.count(client("192.0.2.1")).unwrap());
        assert!(announced("192.0.2.1").is_none());
        let other = announced("192.0.2.2").unwrap();
        assert_eq!(connections.counts().all, 3);
        drop((first, second, other));
        let counts = connections.counts();
        assert_eq!((counts.all, counts.by_client.len()), (0, 0));
    }
}
