//! Background maintenance.

use std::time::{Duration, Instant};

use mailapi_backend::Rounds;

use super::{MessageStore, MessageStoreError};

/// Time without a pause after which other processes get their turn. SQLite does not queue them: they look for the lock
/// again and again, and would find it only by chance.
const LONGEST_BUSY: Duration = Duration::from_secs(1);

/// Length of the pause for them, longer than SQLite waits between two looks (100 ms).
const TURN: Duration = Duration::from_millis(120);

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
        let done = [
            self.remove_entries_once().await?,
            self.collect_garbage_once().await?,
            self.reread_once().await?,
            self.index_once().await?,
            self.forget_accepted_once().await?,
            self.forget_answered_once().await?,
        ];
        Ok(done.iter().filter(|count| **count > 0).count() as u64)
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
            if let Err(error) = self.maintain_and_pause().await {
                // The work remains in the database and is retried after the next change.
                tracing::warn!(%error, "message store maintenance failed; it is retried after the next change");
            }
            self.raised(|changes| &changes.chores).await;
        }
    }

    /// Runs until no work is left, with pauses for other writers. There is one writer, and indexing a message
    /// takes longer than accepting it. Until then a search reads the message itself.
    async fn maintain_and_pause(&self) -> Result<(), MessageStoreError> {
        let mut busy = Duration::ZERO;
        loop {
            let (writes, foreign, began) = (self.writes_begun(), self.foreign_writes(), Instant::now());
            let own = self.chores_once().await?;
            if own == 0 {
                return Ok(());
            }
            let others = self.writes_begun() - writes - own + self.foreign_writes() - foreign;
            let took = began.elapsed();
            busy += took;
            let pause = rest(took, busy, others, self.settings().chores_rest);
            if !pause.is_zero() {
                busy = Duration::ZERO;
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Returns the pause after a step of duration `took`, during which others wrote `others` times. `busy` is the time since
/// the last pause.
fn rest(took: Duration, busy: Duration, others: u64, factor: u32) -> Duration {
    let turn = if busy >= LONGEST_BUSY { TURN } else { Duration::ZERO };
    if others == 0 { turn } else { turn.max(took * factor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chores_rest_only_while_others_write() {
        let took = Duration::from_millis(10);
        assert_eq!(rest(took, took, 3, 4), Duration::from_millis(40));
        assert_eq!(rest(took, took, 0, 4), Duration::ZERO);
        assert_eq!(rest(took, took, 3, 0), Duration::ZERO);
    }

    #[test]
    fn other_processes_get_their_turn() {
        let took = Duration::from_millis(10);
        assert_eq!(rest(took, LONGEST_BUSY, 0, 4), TURN);
        assert_eq!(rest(took, LONGEST_BUSY, 3, 4), TURN);
        assert_eq!(rest(LONGEST_BUSY, LONGEST_BUSY, 3, 4), 4 * LONGEST_BUSY);
    }
}
