//! Connection slots, limited in total and per client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use mailapi_model::ClientNetwork;

/// The connection slots of a listener. Clones share the count.
#[derive(Debug, Clone)]
pub(super) struct ConnectionSlots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max: usize,
    max_per_client: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_client: HashMap<ClientNetwork, usize>,
}

/// A connection slot; released on drop.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    slots: ConnectionSlots,
    client: ClientNetwork,
}

impl ConnectionSlots {
    pub(super) fn new(max: usize, max_per_client: usize) -> Self {
        Self(Arc::new(Inner { max, max_per_client, taken: Mutex::default() }))
    }

    /// Reserves a slot for a connection from `address`, if one is free.
    pub(super) fn take(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let client = ClientNetwork::of(address);
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = taken.by_client.get(&client).copied().unwrap_or_default();
        if taken.all >= self.0.max || of_client >= self.0.max_per_client {
            return None;
        }
        taken.all += 1;
        taken.by_client.insert(client, of_client + 1);
        Some(ConnectionPermit { slots: self.clone(), client })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.slots.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        if let Some(count) = taken.by_client.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                // Drop the counter, or every client ever seen would stay in memory.
                taken.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn slots_are_limited_per_client_and_in_total() {
        let slots = ConnectionSlots::new(3, 2);
        let first = slots.take(ip("2001:db8::1")).unwrap();
        let _second = slots.take(ip("2001:db8::2")).unwrap();
        assert!(slots.take(ip("2001:db8::3")).is_none());
        let _other = slots.take(ip("192.0.2.1")).unwrap();
        assert!(slots.take(ip("192.0.2.2")).is_none());
        drop(first);
        assert!(slots.take(ip("::ffff:192.0.2.1")).is_some());
    }
}
