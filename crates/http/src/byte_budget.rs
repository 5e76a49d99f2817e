//! Limits the total size of large bodies and responses, on disk and in memory. Bodies take room as they arrive,
//! responses before they are sent. Without room they are rejected at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mailapi_model::{ClientNetwork, EmailAddress, TokenId};
use mailapi_service::Caller;

/// A caller takes at most this fraction (1/n) of the room.
const SHARES: usize = 2;

/// The available room.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    bytes: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    by_caller: HashMap<Share, usize>,
}

/// The owner of a share of the room; a mailbox has one share, whichever of its tokens is used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Share {
    Mailbox(EmailAddress),
    Token(TokenId),
    /// A client whose request is not complete.
    Client(ClientNetwork),
    Nobody,
}

/// The room of one body or answer; freed on drop.
#[derive(Debug)]
pub(crate) struct BytePermit {
    budget: Arc<ByteBudget>,
    share: Share,
    bytes: usize,
}

/// No room is left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Share {
    pub(crate) fn of(caller: Option<&Caller>) -> Self {
        let Some(caller) = caller else { return Self::Nobody };
        match (caller.grants.mailbox(), &caller.token) {
            (Some(mailbox), _) => Self::Mailbox(mailbox.clone()),
            (None, Some(token)) => Self::Token(token.id),
            (None, None) => Self::Nobody,
        }
    }
}

impl ByteBudget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, taken: Mutex::default() })
    }

    /// Starts with no room taken.
    pub(crate) fn hold(self: &Arc<Self>, share: Share) -> BytePermit {
        BytePermit { budget: Arc::clone(self), share, bytes: 0 }
    }

    /// The bytes that are taken.
    #[cfg(test)]
    pub(crate) fn bytes_taken(&self) -> usize {
        self.taken().bytes
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BytePermit {
    /// Takes room for more bytes. The only body may exceed its share, and even the whole room.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let mut taken = self.budget.taken();
        let mine = taken.by_caller.get(&self.share).copied().unwrap_or_default();
        let fits = |before: usize, all: usize| before == self.bytes || before.saturating_add(bytes) <= all;
        if !fits(mine, self.budget.bytes / SHARES) || !fits(taken.bytes, self.budget.bytes) {
            return Err(Full);
        }
        taken.bytes += bytes;
        *taken.by_caller.entry(self.share.clone()).or_default() += bytes;
        drop(taken);
        self.bytes += bytes;
        Ok(())
    }
}

impl BytePermit {
    /// Takes or frees room so that it is for this many bytes.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), Full> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => Ok(()),
            Some(more) => self.grow(more),
            None => {
                self.free(self.bytes - bytes);
                Ok(())
            }
        }
    }

    fn free(&mut self, bytes: usize) {
        self.bytes -= bytes;
        let mut taken = self.budget.taken();
        taken.bytes -= bytes;
        if let Some(mine) = taken.by_caller.get_mut(&self.share) {
            *mine -= bytes;
            if *mine == 0 {
                taken.by_caller.remove(&self.share);
            }
        }
    }
}

impl Drop for BytePermit {
    fn drop(&mut self) {
        self.free(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Share {
        Share::Mailbox(name.parse().unwrap())
    }

    #[test]
    fn a_caller_leaves_room_for_others_and_gives_back_what_it_took() {
        let budget = ByteBudget::new(100);
        let [mut one, mut two] = [(); 2].map(|()| budget.hold(of("ann@example.org")));
        assert_eq!((one.grow(30), two.grow(20), two.grow(1)), (Ok(()), Ok(()), Err(Full)));
        let mut other = budget.hold(of("bob@example.org"));
        assert_eq!((other.grow(50), other.grow(1)), (Ok(()), Err(Full)));
        drop(one);
        assert_eq!(two.grow(30), Ok(()));
        assert_eq!((two.resize(10), two.resize(50), two.resize(51)), (Ok(()), Ok(()), Err(Full)));
        drop((two, other));
        let taken = budget.taken();
        assert_eq!((taken.bytes, taken.by_caller.len()), (0, 0));
    }

    #[test]
    fn a_body_larger_than_all_the_room_is_alone_in_it() {
        let budget = ByteBudget::new(100);
        let mut large = budget.hold(Share::Nobody);
        assert_eq!((large.grow(80), large.grow(80)), (Ok(()), Ok(())));
        let mut other = budget.hold(of("bob@example.org"));
        assert_eq!(other.grow(1), Err(Full));
        drop(large);
        assert_eq!(other.grow(1), Ok(()));
    }
}
