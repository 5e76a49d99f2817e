//! A message at which the server closes the connection, as Dovecot does for some damaged messages.
//!
//! The cause may be the message, or a server that is stopping or has lost its disk. The message is the cause if the
//! same connection returned another message just before, and that several times. Only then is it skipped.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// A message that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) uid_validity: u32,
    pub(super) uid: u32,
    /// The number of attempts at which the connection ended at this message.
    pub(super) failures: usize,
    /// The number of all attempts, including those that ended before this message.
    pub(super) tries: usize,
}

impl Doubt {
    /// Returns the state after the connection ended at this message, given the state before.
    pub(super) fn after_failure(before: Option<Self>, uid_validity: u32, uid: u32) -> Self {
        let is_same = |doubt: &Self| (doubt.uid_validity, doubt.uid) == (uid_validity, uid);
        let before = before.filter(is_same).unwrap_or(Self { uid_validity, uid, failures: 0, tries: 0 });
        Self { failures: before.failures + 1, tries: before.tries + 1, ..before }
    }

    /// Returns the message to read first, as proof that the server returns any. Each attempt chooses another one of
    /// `others`.
    pub(super) fn other_to_read(&self, others: &[u32]) -> Option<u32> {
        others.get(self.tries.checked_rem(others.len())?).copied()
    }
}

/// The messages that were skipped, and when.
#[derive(Debug, Default)]
pub(super) struct SteppedOver(BTreeMap<(u32, u32), Instant>);

impl SteppedOver {
    pub(super) fn note(&mut self, uid_validity: u32, uid: u32) {
        self.0.entry((uid_validity, uid)).or_insert_with(Instant::now);
    }

    /// Describes the messages skipped within the last `memory`; `None` if there are none.
    pub(super) fn describe(&mut self, memory: Duration) -> Option<String> {
        self.0.retain(|_, at| at.elapsed() < memory);
        let uids: Vec<String> = self.0.keys().map(|(_, uid)| uid.to_string()).collect();
        (!uids.is_empty())
            .then(|| format!("the server could not read messages of the bounce mailbox: UID {}", uids.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_per_message_and_others_continue() {
        let first = Doubt::after_failure(None, 7, 12);
        let second = Doubt::after_failure(Some(first), 7, 12);
        assert_eq!((first.failures, second.failures), (1, 2));
        assert_eq!(Doubt::after_failure(Some(second), 8, 12).failures, 1, "another mailbox of the same name");
        assert_eq!(Doubt::after_failure(Some(second), 7, 13).failures, 1);
        assert_eq!((first.other_to_read(&[20, 30]), second.other_to_read(&[20, 30])), (Some(30), Some(20)));
        assert_eq!(first.other_to_read(&[]), None);
    }
}
