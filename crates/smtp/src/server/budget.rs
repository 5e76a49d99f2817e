//! How much memory the messages under way may take, over all sessions of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The octets that messages under way may take together; clones share the count.
#[derive(Debug, Clone)]
pub struct MessageBudget(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    limit: usize,
    used: AtomicUsize,
}

/// What one message takes of a [`MessageBudget`]; given back when it is dropped, whichever way the message went.
#[derive(Debug, Default)]
pub struct Share {
    budget: Option<MessageBudget>,
    octets: usize,
}

impl MessageBudget {
    /// A budget of so many octets.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Counts { limit, used: AtomicUsize::new(0) }))
    }

    /// How many octets are taken.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Whether there is nothing left to begin another message with.
    pub fn is_used_up(&self) -> bool {
        self.used() >= self.0.limit
    }

    fn take(&self, octets: usize) -> bool {
        let within = |used: usize| used.checked_add(octets).filter(|sum| *sum <= self.0.limit);
        self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }
}

impl Share {
    /// Nothing yet, of a budget or of none, which is one without end.
    pub(super) fn of(budget: Option<MessageBudget>) -> Self {
        Self { budget, octets: 0 }
    }

    /// Takes so many octets more; false when they are not there.
    pub(super) fn grow(&mut self, octets: usize) -> bool {
        let taken = self.budget.as_ref().is_none_or(|budget| budget.take(octets));
        if taken {
            self.octets += octets;
        }
        taken
    }

    /// Gives everything back.
    pub(super) fn release(&mut self) {
        if let Some(budget) = &self.budget {
            budget.0.used.fetch_sub(self.octets, Ordering::Relaxed);
        }
        self.octets = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

/// A copy of a message is not counted.
impl Clone for Share {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// What a message takes is no part of what it is.
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
        assert_eq!(budget.used(), 10, "a copy has nothing to give back");
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
