//! A memory limit for the messages being received, shared by all sessions of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit in bytes for all messages being received. Clones share the count.
#[derive(Debug, Clone)]
pub struct MessageBudget(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    limit: usize,
    used: AtomicUsize,
}

/// One message's part of a [`MessageBudget`]; returned on drop.
#[derive(Debug, Default)]
pub struct Share {
    budget: Option<MessageBudget>,
    bytes: usize,
}

impl MessageBudget {
    /// Returns a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Counts { limit, used: AtomicUsize::new(0) }))
    }

    /// Returns the number of bytes in use.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Returns whether the budget is exhausted, so that no further message can start.
    pub(crate) fn is_used_up(&self) -> bool {
        self.used() >= self.0.limit
    }

    fn take(&self, bytes: usize) -> bool {
        let within = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.0.limit);
        self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }
}

impl Share {
    /// Returns an empty share. Without a budget it is unlimited.
    pub(super) fn of(budget: Option<MessageBudget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Reserves more bytes. Returns false if the budget does not have them.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let taken = self.budget.as_ref().is_none_or(|budget| budget.take(bytes));
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    /// Returns all bytes to the budget.
    pub(super) fn release(&mut self) {
        if let Some(budget) = &self.budget {
            budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

/// The copy of a message is not counted.
impl Clone for Share {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Shares are always equal: memory use is not part of a message's identity.
impl PartialEq for Share {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Share {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_comes_back_on_every_way_out() {
        let budget = MessageBudget::new(10);
        let (mut one, mut two) = (Share::of(Some(budget.clone())), Share::of(Some(budget.clone())));
        assert!(one.grow(6) && !two.grow(5) && two.grow(4) && budget.is_used_up());
        drop(one.clone());
        assert_eq!(budget.used(), 10, "a clone has no bytes to release");
        drop(one);
        assert_eq!(budget.used(), 4);
        two.release();
        assert_eq!(budget.used(), 0);
        assert!(two.grow(10));
        drop(two);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn without_a_budget_there_is_no_end() {
        assert!(Share::default().grow(usize::MAX / 2));
    }
}
