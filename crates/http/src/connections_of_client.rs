//! How many connections each client has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client_address::{Network, is_trusted};
use crate::limits::LimitKey;

/// Maximum number of connections of one client. Programs and browsers hold a handful; a network behind one address,
/// some dozens.
const MOST: usize = 1024;

/// Counts the connections of each client; an IPv6 /64 network is one client. Trusted proxies are not counted.
#[derive(Debug, Default)]
pub(crate) struct ConnectionsOfClients(Mutex<HashMap<LimitKey, usize>>);

/// A connection that is counted until this value is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    all: Arc<ConnectionsOfClients>,
    client: Option<LimitKey>,
}

impl ConnectionsOfClients {
    /// Counts a connection; `None` when the client has too many.
    pub(crate) fn count(self: &Arc<Self>, address: IpAddr, trusted: &[Network]) -> Option<Counted> {
        let client = (!is_trusted(address.to_canonical(), trusted)).then(|| LimitKey::of_client(address));
        if let Some(client) = &client {
            let mut counts = self.counts();
            let count = counts.entry(*client).or_default();
            if *count >= MOST {
                return None;
            }
            *count += 1;
        }
        Some(Counted { all: Arc::clone(self), client })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<LimitKey, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(client) = &self.client else { return };
        let mut counts = self.all.counts();
        if let Some(count) = counts.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_limited_connections() {
        let all = Arc::new(ConnectionsOfClients::default());
        let proxy: Network = "10.0.0.0/8".parse().unwrap();
        let count = |address: &str| all.count(address.parse().unwrap(), &[proxy]);
        let mut held: Vec<_> = (0..MOST).map(|n| count(&format!("2001:db8::{n:x}")).unwrap()).collect();
        assert!(count("2001:db8::ffff").is_none(), "a /64 is one client");
        assert!(count("2001:db8:0:1::1").is_some() && count("192.0.2.1").is_some());
        held.pop();
        held.push(count("2001:db8::ffff").unwrap());
        let proxied: Vec<_> = (0..=MOST).map(|_| count("10.1.2.3")).collect();
        assert!(proxied.iter().all(Option::is_some));
        drop((held, proxied));
        assert!(all.counts().is_empty());
    }
}
