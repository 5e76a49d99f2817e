//! Memory for answers of the server, shared by all connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of all answers together, those within [`FREE`] aside. What is made of an answer takes up to twice as much.
const MOST: u64 = 64 * 1024 * 1024;
/// Bytes that any answer may have: a page of a list or a text, not a long message.
const FREE: u64 = 1024 * 1024;

/// How much of the room is taken.
#[derive(Debug, Default)]
pub(super) struct AnswerRoom(Mutex<u64>);

/// The room of one connection's answer; freed on drop.
#[derive(Debug)]
pub(super) struct Held {
    room: Arc<AnswerRoom>,
    bytes: u64,
}

/// Other answers take the room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl AnswerRoom {
    pub(super) fn hold(self: &Arc<Self>) -> Held {
        Held { room: Arc::clone(self), bytes: 0 }
    }

    fn taken(&self) -> MutexGuard<'_, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Reserves memory for an answer of `bytes`. Earlier reservations stay, since their answers may still be in use.
    /// An answer that is alone may be longer than the room.
    pub(super) fn grow_to(&mut self, bytes: u64) -> Result<(), Full> {
        let wanted = bytes.saturating_sub(FREE);
        if wanted <= self.bytes {
            return Ok(());
        }
        let mut taken = self.room.taken();
        let others = *taken - self.bytes;
        if others > 0 && others.saturating_add(wanted) > MOST {
            return Err(Full);
        }
        *taken = others + wanted;
        drop(taken);
        self.bytes = wanted;
        Ok(())
    }

    pub(super) fn release(&mut self) {
        *self.room.taken() -= std::mem::take(&mut self.bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_the_room_and_give_it_back() {
        let room = Arc::new(AnswerRoom::default());
        let [mut one, mut two] = [(); 2].map(|()| room.hold());
        assert_eq!((one.grow_to(MOST), two.grow_to(2 * FREE), two.grow_to(2 * FREE + 1)), (Ok(()), Ok(()), Err(Full)));
        assert_eq!(
            (one.grow_to(1), two.grow_to(2 * FREE + 1)),
            (Ok(()), Err(Full)),
            "a refused growth keeps what is held"
        );
        drop(two);
        assert_eq!(one.grow_to(2 * MOST), Ok(()), "one long answer takes all the room");
        one.release();
        assert_eq!(*room.taken(), 0);
    }
}
