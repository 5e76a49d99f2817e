//! A memory limit for the messages and envelopes being received, shared by all sessions of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A client takes at most this fraction (1/8) of the limit, but always one message.
const SHARES: usize = 8;

/// A limit in bytes for all messages being received. Clones share the count.
#[derive(Debug, Clone)]
pub struct MessageBudget {
    counts: Arc<Counts>,
    /// Whose messages these are. Without a client, they have no share of their own.
    client: Option<Arc<str>>,
}

#[derive(Debug)]
struct Counts {
    limit: usize,
    used: Mutex<Used>,
}

/// Bytes in use.
#[derive(Debug, Default)]
struct Used {
    all: usize,
    by_client: HashMap<Arc<str>, usize>,
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
        Self { counts: Arc::new(Counts { limit, used: Mutex::default() }), client: None }
    }

    /// Returns the same budget for a client, whose sessions share a part of it.
    #[must_use]
    pub fn for_client(&self, client: &str) -> Self {
        Self { counts: Arc::clone(&self.counts), client: Some(client.into()) }
    }

    /// Returns the number of bytes in use.
    pub fn used(&self) -> usize {
        self.counts.used().all
    }

    /// Returns whether the budget or the client's share is exhausted, so that no further message can start.
    pub(crate) fn is_used_up(&self) -> bool {
        let used = self.counts.used();
        used.all >= self.counts.limit || (self.used_by_client(&used) >= self.share() && self.client.is_some())
    }

    fn share(&self) -> usize {
        self.counts.limit / SHARES
    }

    fn used_by_client(&self, used: &Used) -> usize {
        self.client.as_ref().and_then(|client| used.by_client.get(client)).copied().unwrap_or_default()
    }

    /// Takes bytes for a message that has `before` already.
    fn take(&self, bytes: usize, before: usize) -> bool {
        let mut used = self.counts.used();
        let Some(all) = used.all.checked_add(bytes).filter(|all| *all <= self.counts.limit) else { return false };
        if let Some(client) = &self.client {
            let others = self.used_by_client(&used).saturating_sub(before);
            if others > 0 && bytes > 0 && others + before + bytes > self.share() {
                return false;
            }
            *used.by_client.entry(Arc::clone(client)).or_default() += bytes;
        }
        used.all = all;
        true
    }

    fn give_back(&self, bytes: usize) {
        let mut used = self.counts.used();
        used.all -= bytes;
        if let Some(client) = &self.client
            && let Some(by_client) = used.by_client.get_mut(client)
        {
            *by_client -= bytes;
            if *by_client == 0 {
                used.by_client.remove(client);
            }
        }
    }
}

impl Counts {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Returns an empty share. Without a budget it is unlimited.
    pub(super) fn of(budget: Option<MessageBudget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Reserves more bytes. Returns false if the budget does not have them.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let taken = self.budget.as_ref().is_none_or(|budget| budget.take(bytes, self.bytes));
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    /// Returns some bytes to the budget.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if let Some(budget) = &self.budget {
            budget.give_back(bytes);
        }
        self.bytes -= bytes;
    }

    /// Adds the bytes of another share of the same budget.
    pub(super) fn absorb(&mut self, mut other: Self) {
        self.budget = self.budget.take().or_else(|| other.budget.clone());
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Returns all bytes to the budget.
    pub(super) fn release(&mut self) {
        self.shrink(self.bytes);
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
    fn a_client_leaves_room_and_always_has_room_for_one_message() {
        let budget = MessageBudget::new(200);
        let [ann, bob] = ["192.0.2.1", "192.0.2.2"].map(|client| budget.for_client(client));
        let [mut one, mut two] = [(); 2].map(|()| Share::of(Some(ann.clone())));
        let mut other = Share::of(Some(bob.clone()));
        assert!(one.grow(20) && !ann.is_used_up());
        assert!(!two.grow(6) && two.grow(5) && ann.is_used_up());
        assert!(two.grow(0), "nothing needs no room");
        assert!(!bob.is_used_up() && other.grow(25) && bob.is_used_up());
        drop(two);
        assert!(one.grow(155), "the only message of a client may have more");
        assert!(!one.grow(1), "but no more than all room");
        drop((one, other));
        let used = budget.counts.used();
        assert_eq!((used.all, used.by_client.len()), (0, 0));
    }

    #[test]
    fn without_a_budget_there_is_no_end() {
        assert!(Share::default().grow(usize::MAX / 2));
    }
}
