//! A counter of changes made by other processes and nodes.

use tokio::sync::watch;

/// Counts the changes made by other processes and nodes.
///
/// A clone stores no position; each reader passes the count that it has seen. A channel's receiver would
/// store the position itself, and a clone that is never read would report a change forever.
#[derive(Debug, Clone)]
pub struct ForeignChanges(watch::Receiver<u64>);

impl ForeignChanges {
    /// Wraps the receiver of a channel whose sender counts the changes.
    #[must_use]
    pub const fn counted_by(count: watch::Receiver<u64>) -> Self {
        Self(count)
    }

    /// Returns the number of changes so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the count differs from `seen`, and returns it. If the database is closed it waits forever,
    /// because nothing will change. Cancel-safe.
    pub async fn after(&self, seen: u64) -> u64 {
        let changed = self.0.clone().wait_for(|count| *count != seen).await.map(|count| *count);
        match changed {
            Ok(count) => count,
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_that_was_seen_is_not_reported_again() {
        let (sender, receiver) = watch::channel(0);
        let changes = ForeignChanges::counted_by(receiver);
        sender.send_modify(|count| *count += 1);
        let seen = changes.clone().after(0).await;
        assert_eq!(seen, 1);
        let again = timeout(Duration::from_secs(60), changes.clone().after(seen)).await;
        assert!(again.is_err(), "the copy reports a change that its reader has already seen");
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_database_reports_no_change() {
        let (sender, receiver) = watch::channel(0);
        let changes = ForeignChanges::counted_by(receiver);
        drop(sender);
        assert!(timeout(Duration::from_secs(60), changes.after(0)).await.is_err());
    }
}
