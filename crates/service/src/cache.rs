//! Caches whose entries are valid until the next change.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use mailapi_store::ForeignChanges;
use moka::sync::Cache;

/// Counts changes of accounts, tokens, permissions and domains, by this process and by others. Values read in an
/// earlier epoch are not used: a revoked token is invalid before the response to its revocation is sent.
pub(crate) struct Epoch {
    own: AtomicU64,
    foreign: ForeignChanges,
}

/// A point between two changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct EpochMark(u64, u64);

impl EpochMark {
    /// The counts, for use outside of this crate.
    pub(crate) const fn counts(self) -> (u64, u64) {
        (self.0, self.1)
    }
}

impl Epoch {
    pub(crate) const fn new(foreign: ForeignChanges) -> Self {
        Self { own: AtomicU64::new(0), foreign }
    }

    /// The current epoch. Call this *before* reading the value to cache.
    pub(crate) fn mark(&self) -> EpochMark {
        EpochMark(self.own.load(Ordering::Acquire), self.foreign.count())
    }

    /// Starts a new epoch. Call this after a change was stored.
    pub(crate) fn end(&self) {
        self.own.fetch_add(1, Ordering::Release);
    }
}

/// A cache of values of the current epoch.
pub(crate) struct EpochCache<K, V>(Cache<K, (EpochMark, V)>);

impl<K, V> EpochCache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(crate) fn new(capacity: u64) -> Self {
        Self(Cache::new(capacity))
    }

    /// The value, if it was read in the current epoch.
    pub(crate) fn get(&self, key: &K, now: EpochMark) -> Option<V> {
        self.0.get(key).filter(|(mark, _)| *mark == now).map(|(_, value)| value)
    }

    /// Stores a value that was read after `mark` was taken.
    pub(crate) fn put(&self, key: K, mark: EpochMark, value: V) {
        self.0.insert(key, (mark, value));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    #[test]
    fn a_value_read_before_a_change_is_not_used_after_it() {
        let (foreign, watched) = watch::channel(0);
        let (epoch, cache) = (Epoch::new(ForeignChanges::counted_by(watched)), EpochCache::new(10));
        let before = epoch.mark();
        epoch.end();
        cache.put("token", before, "read before the revocation, remembered after it");
        assert_eq!(cache.get(&"token", epoch.mark()), None);

        cache.put("token", epoch.mark(), "fresh");
        assert_eq!(cache.get(&"token", epoch.mark()), Some("fresh"));
        foreign.send_modify(|changes| *changes += 1);
        assert_eq!(cache.get(&"token", epoch.mark()), None, "another process has changed something");
    }
}
