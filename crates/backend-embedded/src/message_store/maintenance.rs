//! Background maintenance.

use std::time::{Duration, Instant};

use mailapi_backend::Rounds;
use mailapi_store::StoreError;

use super::{MessageStore, MessageStoreError};

/// Pause after a failure, unless a change comes first.
const RETRY: Duration = Duration::from_secs(5);

/// Time without a pause after which other processes get their turn. SQLite does not queue them: they look for the lock
/// again and again, and would find it only by chance.
const LONGEST_BUSY: Duration = Duration::from_secs(1);

/// Length of the pause for them. mailapi looks for the lock every millisecond, other programs every 100 ms.
const TURN: Duration = Duration::from_millis(120);

/// While others write, a pause is at least this multiple of the step before it: maintenance gets about a ninth of the
/// writer's time, enough to index some 150 messages a second.
const LEAST_REST: u32 = 8;

/// Each 100 writes a second make the pause one step longer: 16 steps at 1,600 a second. The index cannot keep up at such
/// rates anyway, and each step delays every write.
const WRITES_PER_STEP: u64 = 100;

/// The longest pause that depends on the rate, as a multiple of the step before it.
const MOST_REST: u32 = 64;

/// The longest pause that depends on the rate.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// A pause ends when no write was seen for this time. Those of other processes are seen within 250 ms.
const QUIET: Duration = Duration::from_millis(300);

impl MessageStore {
    /// Runs one step of all maintenance: remove, collect, reread, index, prune. Returns whether there may be
    /// more.
    ///
    /// # Errors
    /// If the database fails; no data is lost.
    pub async fn maintain_once(&self) -> Result<bool, MessageStoreError> {
        Ok(self.chores_once().await? > 0)
    }

    /// Like [`MessageStore::maintain_once`], but returns the number of transactions.
    async fn chores_once(&self) -> Result<u64, MessageStoreError> {
        let freed = [
            self.remove_entries_once().await?,
            self.collect_garbage_once().await?,
            self.forget_accepted_once().await?,
            self.forget_answered_once().await?,
        ];
        let freed = freed.iter().filter(|count| **count > 0).count() as u64;
        match self.derive_once().await {
            // What is removed makes the room that is missing.
            Err(MessageStoreError::Store(StoreError::DiskFull)) if freed > 0 => Ok(freed),
            derived => Ok(freed + derived?),
        }
    }

    /// Computes some of what follows from stored messages. Returns the number of transactions.
    async fn derive_once(&self) -> Result<u64, MessageStoreError> {
        let derived = [self.reread_once().await?, self.index_once().await?];
        Ok(derived.iter().filter(|count| **count > 0).count() as u64)
    }

    /// Runs [`MessageStore::maintain_once`] until no work is left.
    ///
    /// # Errors
    /// Those of [`MessageStore::maintain_once`].
    pub async fn maintain_until_done(&self) -> Result<(), MessageStoreError> {
        while self.maintain_once().await? {}
        Ok(())
    }

    /// Runs maintenance now and after each change. May be dropped at any time.
    pub async fn maintain(&self, mut rounds: Rounds) {
        loop {
            rounds.begin();
            let done = self.maintain_and_pause().await;
            let next_change = self.raised(|changes| &changes.chores);
            match done {
                Ok(()) => next_change.await,
                Err(error) => {
                    // The work remains in the database. On a full disk, no change may come before it is done.
                    tracing::warn!(%error, "message store maintenance failed; it is retried soon");
                    let _ = tokio::time::timeout(RETRY, next_change).await;
                }
            }
        }
    }

    /// Runs until no work is left, with pauses for other writers. There is one writer, and indexing a message
    /// takes longer than accepting it. Until then a search reads the message itself.
    async fn maintain_and_pause(&self) -> Result<(), MessageStoreError> {
        let mut busy = Duration::ZERO;
        let mut last = Writes::now(self);
        loop {
            let began = Instant::now();
            let own = self.chores_once().await?;
            if own == 0 {
                return Ok(());
            }
            let took = began.elapsed();
            // Waiting writers begin no new write, so the rate includes the pause before the step.
            let now = Writes::now(self);
            let rate = now.per_second_since(&last, own);
            last = now;
            busy += took;
            let pause = rest(took, busy, rate);
            if !pause.is_zero() {
                busy = Duration::ZERO;
                self.rest_for(pause).await;
            }
        }
    }

    /// Waits for this time, or until no write was seen for [`QUIET`].
    async fn rest_for(&self, pause: Duration) {
        let end = tokio::time::Instant::now() + pause;
        loop {
            let part = end.saturating_duration_since(tokio::time::Instant::now()).min(QUIET);
            let before = Writes::now(self).count;
            tokio::time::sleep(part).await;
            if part < QUIET || Writes::now(self).count == before {
                return;
            }
        }
    }
}

/// The number of all writes at one moment.
struct Writes {
    count: u64,
    at: Instant,
}

impl Writes {
    fn now(store: &MessageStore) -> Self {
        Self { count: store.writes_begun() + store.foreign_writes(), at: Instant::now() }
    }

    /// Returns how often others wrote per second, at least 1 if they did at all.
    fn per_second_since(&self, earlier: &Self, own: u64) -> u64 {
        let others = self.count - earlier.count - own;
        let milliseconds = u64::try_from((self.at - earlier.at).as_millis()).unwrap_or(u64::MAX);
        (others.saturating_mul(1000) / milliseconds.max(1)).max(others.min(1))
    }
}

/// Returns the pause after a step of duration `took`, while others write `rate` times per second. `busy` is the time since
/// the last pause.
fn rest(took: Duration, busy: Duration, rate: u64) -> Duration {
    let turn = if busy >= LONGEST_BUSY { TURN } else { Duration::ZERO };
    if rate == 0 {
        return turn;
    }
    let steps = u32::try_from(rate / WRITES_PER_STEP).unwrap_or(MOST_REST).min(MOST_REST);
    turn.max(took * LEAST_REST).max((took * steps).min(LONGEST_REST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(10);

    #[test]
    fn chores_rest_only_while_others_write() {
        assert_eq!(rest(STEP, STEP, 0), Duration::ZERO);
        assert_eq!(rest(STEP, STEP, 1), 8 * STEP);
    }

    #[test]
    fn the_more_others_write_the_longer_chores_rest() {
        assert_eq!(rest(STEP, STEP, 800), 8 * STEP);
        assert_eq!(rest(STEP, STEP, 1_600), 16 * STEP);
        assert_eq!(rest(STEP, STEP, 1_000_000), 64 * STEP);
        assert_eq!(rest(3 * STEP, STEP, 1_000_000), LONGEST_REST);
        assert_eq!(rest(50 * STEP, STEP, 1_000_000), 8 * 50 * STEP);
    }

    #[test]
    fn other_processes_get_their_turn() {
        assert_eq!(rest(STEP, LONGEST_BUSY, 0), TURN);
        assert_eq!(rest(STEP, LONGEST_BUSY, 3), TURN);
        assert_eq!(rest(LONGEST_BUSY, LONGEST_BUSY, 3), 8 * LONGEST_BUSY);
    }

    #[test]
    fn own_writes_are_not_those_of_others() {
        let at = Instant::now();
        let (earlier, later) = (Writes { count: 5, at }, Writes { count: 8, at: at + STEP });
        assert_eq!(later.per_second_since(&earlier, 3), 0);
        assert_eq!(later.per_second_since(&earlier, 1), 200);
        let much_later = Writes { count: 8, at: at + 1_000 * STEP };
        assert_eq!(much_later.per_second_since(&earlier, 1), 1, "seldom is not never");
        assert_eq!(Writes { count: 8, at }.per_second_since(&earlier, 1), 2_000);
    }
}
