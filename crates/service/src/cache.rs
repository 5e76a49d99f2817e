//! Caches whose entries are valid until the next change.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use mailapi_backend::Validator;
use mailapi_store::ForeignChanges;
use quick_cache::sync::Cache;

/// Counts changes of accounts, tokens, permissions and domains, by this process and by others. Values read in an
/// earlier epoch are not used: a revoked token is invalid before the response to its revocation is sent.
pub(crate) struct Epoch {
    own: AtomicU64,
    foreign: ForeignChanges,
}

impl Epoch {
    pub(crate) const fn new(foreign: ForeignChanges) -> Self {
        Self { own: AtomicU64::new(0), foreign }
    }

    /// The validator of values that are read from now on. Call this *before* reading: a change in between invalidates
    /// the value.
    pub(crate) fn validator(&self) -> Validator {
        Validator::new([self.own.load(Ordering::Acquire), self.foreign.count()])
    }

    /// Starts a new epoch. Call this after a change was stored.
    pub(crate) fn end(&self) {
        self.own.fetch_add(1, Ordering::Release);
    }
}

/// A cache of values of the current epoch.
pub(crate) struct EpochCache<K, V>(Cache<K, (Validator, V)>);

impl<K, V> EpochCache<K, V>
where
    K: Clone + Hash + Eq,
    V: Clone,
{
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Cache::new(capacity))
    }

    /// The value that was read in the current epoch; otherwise the one that `read` returns, which is then cached.
    pub(crate) async fn get_or_read<E>(
        &self,
        epoch: &Epoch,
        key: &K,
        read: impl AsyncFnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        let now = epoch.validator();
        if let Some((_, value)) = self.0.get(key).filter(|(validator, _)| *validator == now) {
            return Ok(value);
        }
        let value = read().await?;
        self.0.insert(key.clone(), (now, value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn a_value_read_before_a_change_is_not_used_after_it() {
        let (foreign, watched) = watch::channel(0);
        let (epoch, cache) = (Epoch::new(ForeignChanges::counted_by(watched)), EpochCache::new(10));
        let read = async |value, change: fn(&Epoch)| {
            let reading = async || {
                change(&epoch);
                Ok::<_, Infallible>(value)
            };
            let Ok(read) = cache.get_or_read(&epoch, &"token", reading).await;
            read
        };
        assert_eq!(read("old, revoked while it is read", Epoch::end).await, "old, revoked while it is read");
        assert_eq!(read("new", |_| {}).await, "new");
        assert_eq!(read("newer", |_| {}).await, "new", "nothing has changed");
        foreign.send_modify(|changes| *changes += 1);
        assert_eq!(read("newer", |_| {}).await, "newer", "another process has changed something");
    }

    #[tokio::test]
    async fn a_failed_reading_is_not_cached() {
        let (_foreign, watched) = watch::channel(0);
        let (epoch, cache) = (Epoch::new(ForeignChanges::counted_by(watched)), EpochCache::new(10));
        assert_eq!(cache.get_or_read(&epoch, &"token", async || Err("no database")).await, Err("no database"));
        assert_eq!(cache.get_or_read(&epoch, &"token", async || Ok::<_, Infallible>("read")).await, Ok("read"));
    }
}
