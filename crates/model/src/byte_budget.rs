//! Limits the total size of bytes in memory or on disk. Owners take room as bytes arrive. Without room they are rejected
//! at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The available room, shared by owners of type `K`.
#[derive(Debug)]
pub struct ByteBudget<K> {
    bytes: usize,
    shares: usize,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    bytes: usize,
    by_owner: HashMap<K, usize>,
}

/// The room that is taken for one purpose; freed on drop.
#[derive(Debug)]
pub struct BytePermit<K: Clone + Eq + Hash> {
    budget: Arc<ByteBudget<K>>,
    owner: K,
    bytes: usize,
}

/// No room is left.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl<K: Clone + Eq + Hash> ByteBudget<K> {
    /// Creates room for `bytes`. One owner takes at most this fraction (1/`shares`) of it.
    #[must_use]
    pub fn new(bytes: usize, shares: usize) -> Arc<Self> {
        Arc::new(Self { bytes, shares, taken: Mutex::new(Taken { bytes: 0, by_owner: HashMap::new() }) })
    }

    /// Starts with no room taken.
    #[must_use]
    pub fn hold(self: &Arc<Self>, owner: K) -> BytePermit<K> {
        BytePermit { budget: Arc::clone(self), owner, bytes: 0 }
    }

    /// Returns the bytes that are taken.
    #[must_use]
    pub fn bytes_taken(&self) -> usize {
        self.taken().bytes
    }

    fn taken(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> BytePermit<K> {
    /// Takes room for more bytes. The only permit may exceed its share, and even the whole room.
    ///
    /// # Errors
    /// Other permits take the room.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let mut taken = self.budget.taken();
        let mine = taken.by_owner.get(&self.owner).copied().unwrap_or_default();
        let fits = |before: usize, all: usize| before == self.bytes || before.saturating_add(bytes) <= all;
        if !fits(mine, self.budget.bytes / self.budget.shares) || !fits(taken.bytes, self.budget.bytes) {
            return Err(Full);
        }
        taken.bytes += bytes;
        *taken.by_owner.entry(self.owner.clone()).or_default() += bytes;
        drop(taken);
        self.bytes += bytes;
        Ok(())
    }

    /// Takes room so that it is for at least this many bytes.
    ///
    /// # Errors
    /// Other permits take the room.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Full> {
        match bytes.saturating_sub(self.bytes) {
            0 => Ok(()),
            more => self.grow(more),
        }
    }

    /// Takes or frees room so that it is for this many bytes.
    ///
    /// # Errors
    /// Other permits take the room. Freeing never fails.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes < self.bytes {
            self.free(self.bytes - bytes);
        }
        self.grow_to(bytes)
    }

    /// Frees all room.
    pub fn release(&mut self) {
        self.free(self.bytes);
    }

    fn free(&mut self, bytes: usize) {
        self.bytes -= bytes;
        let mut taken = self.budget.taken();
        taken.bytes -= bytes;
        if let Some(mine) = taken.by_owner.get_mut(&self.owner) {
            *mine -= bytes;
            if *mine == 0 {
                taken.by_owner.remove(&self.owner);
            }
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for BytePermit<K> {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_leaves_room_for_others_and_gives_back_what_it_took() {
        let budget = ByteBudget::new(100, 2);
        let [mut one, mut two] = [(); 2].map(|()| budget.hold("ann"));
        assert_eq!((one.grow(30), two.grow(20), two.grow(1)), (Ok(()), Ok(()), Err(Full)));
        let mut other = budget.hold("bob");
        assert_eq!((other.grow(50), other.grow(1)), (Ok(()), Err(Full)));
        drop(one);
        assert_eq!(two.grow(30), Ok(()));
        assert_eq!((two.resize(10), two.resize(50), two.resize(51)), (Ok(()), Ok(()), Err(Full)));
        drop((two, other));
        let taken = budget.taken();
        assert_eq!((taken.bytes, taken.by_owner.len()), (0, 0));
    }

    #[test]
    fn a_permit_for_more_than_all_the_room_is_alone_in_it() {
        let budget = ByteBudget::new(100, 2);
        let mut large = budget.hold("ann");
        assert_eq!((large.grow(80), large.grow(80)), (Ok(()), Ok(())));
        let mut other = budget.hold("bob");
        assert_eq!(other.grow(1), Err(Full));
        drop(large);
        assert_eq!(other.grow(1), Ok(()));
    }

    #[test]
    fn permits_of_one_owner_share_the_whole_room() {
        let budget = ByteBudget::new(100, 1);
        let [mut one, mut two] = [(); 2].map(|()| budget.hold(()));
        assert_eq!((one.grow_to(99), two.grow_to(1), two.grow_to(2)), (Ok(()), Ok(()), Err(Full)));
        assert_eq!((one.grow_to(1), two.grow_to(2)), (Ok(()), Err(Full)), "what was taken stays");
        drop(two);
        assert_eq!(one.grow_to(200), Ok(()), "a long answer is alone");
        one.release();
        assert_eq!(budget.bytes_taken(), 0);
    }
}
