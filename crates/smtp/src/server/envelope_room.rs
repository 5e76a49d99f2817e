//! The memory of an envelope being received.

use super::budget::{MessageBudget, Share};
use crate::envelope::RcptTo;

/// Bytes of an envelope that take no room, so that a usual message never depends on others.
const FREE: usize = 8 * 1024;

/// Maximum memory of an envelope. A thousand recipients with usual addresses and ORCPT need half of it.
const MOST: usize = 256 * 1024;

/// Why a recipient is not added to an envelope.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EnvelopeFull {
    /// The rest belongs in another transaction.
    TooLong,
    /// The message budget is exhausted.
    NoRoom,
}

/// Counts the recipients of one transaction in the [`MessageBudget`]. Their number alone bounds little, since each may
/// have an ORCPT of 500 characters.
#[derive(Debug, Default)]
pub(super) struct EnvelopeRoom {
    bytes: usize,
    share: Share,
}

impl EnvelopeRoom {
    pub(super) fn of(budget: Option<MessageBudget>) -> Self {
        Self { bytes: 0, share: Share::of(budget) }
    }

    /// Takes room for a recipient.
    pub(super) fn take(&mut self, recipient: &RcptTo) -> Result<(), EnvelopeFull> {
        let bytes = self.bytes + memory(recipient);
        if bytes > MOST {
            return Err(EnvelopeFull::TooLong);
        }
        if !self.share.grow(bytes.saturating_sub(FREE) - self.bytes.saturating_sub(FREE)) {
            return Err(EnvelopeFull::NoRoom);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Gives the room of a recipient back that the host has refused.
    pub(super) fn give_back(&mut self, recipient: &RcptTo) {
        let bytes = self.bytes.saturating_sub(memory(recipient));
        self.share.shrink(self.bytes.saturating_sub(FREE) - bytes.saturating_sub(FREE));
        self.bytes = bytes;
    }

    /// Gives the room to the message, which has the envelope from now on.
    pub(super) fn join(&mut self, message: &mut Share) {
        message.absorb(std::mem::take(self).share);
    }
}

fn memory(recipient: &RcptTo) -> usize {
    let orcpt = recipient.orcpt.as_ref().map_or(0, String::len);
    size_of::<RcptTo>() + recipient.forward_path.len() + orcpt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipient(length: usize) -> RcptTo {
        RcptTo { orcpt: Some("x".repeat(length)), ..RcptTo::new("ann@example.org") }
    }

    #[test]
    fn usual_recipients_are_free_and_all_room_comes_back() {
        let budget = MessageBudget::new(10_000);
        let mut room = EnvelopeRoom::of(Some(budget.clone()));
        for _ in 0..40 {
            assert_eq!(room.take(&RcptTo::new("ann@example.org")), Ok(()));
        }
        assert_eq!(budget.used(), 0);
        while room.take(&recipient(500)) == Ok(()) {}
        let used = budget.used();
        assert!((9_000..=10_000).contains(&used), "{used}");
        room.give_back(&recipient(500));
        assert_eq!((room.take(&recipient(500)), budget.used()), (Ok(()), used));
        let mut message = Share::of(Some(budget.clone()));
        room.join(&mut message);
        assert_eq!(budget.used(), used);
        drop((room, message));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn one_envelope_has_an_end_without_a_budget() {
        let mut room = EnvelopeRoom::default();
        let taken = (0..1000).take_while(|_| room.take(&recipient(500)) == Ok(())).count();
        assert!((400..500).contains(&taken), "{taken}");
        assert_eq!(room.take(&recipient(500)), Err(EnvelopeFull::TooLong));
    }
}
