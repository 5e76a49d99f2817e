//! How far events have their numbers.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// Number of looks for new events after which one begins at the first transaction again. A server that takes the place
/// of another one may assign transaction numbers again.
const LOOKS: u32 = 100;

/// The transaction before which no event waits for its number, as far as this node knows.
#[derive(Debug, Default)]
pub(crate) struct Numbered {
    until: AtomicI64,
    looks: AtomicU32,
}

impl Numbered {
    /// Returns the first transaction whose events may wait; sometimes the first of all.
    pub(crate) fn begin(&self) -> i64 {
        if self.looks.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOKS) {
            0
        } else {
            self.until.load(Ordering::Relaxed)
        }
    }

    /// Notes that all events of transactions before this one have their numbers.
    pub(crate) fn reached(&self, from: i64, transaction: i64) {
        if from == 0 {
            self.until.store(transaction, Ordering::Relaxed);
        } else {
            self.until.fetch_max(transaction, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_of_many_begins_at_the_first_transaction() {
        let numbered = Numbered::default();
        assert_eq!(numbered.begin(), 0);
        numbered.reached(0, 70);
        numbered.reached(70, 60);
        for _ in 1..LOOKS {
            assert_eq!(numbered.begin(), 70);
        }
        assert_eq!(numbered.begin(), 0);
        numbered.reached(0, 5);
        assert_eq!(numbered.begin(), 5, "the server counts anew");
    }
}
