//! What is done in the background.

use std::time::{Duration, Instant};

use mailapi_backend::Rounds;

use super::{MessageStore, MessageStoreError};

impl MessageStore {
    /// One step of everything that waits in the background: remove, sweep, reread, index, forget. Answers whether there may be more.
    ///
    /// # Errors
    /// Only those of the database; nothing is lost by them.
    pub async fn maintain_once(&self) -> Result<bool, MessageStoreError> {
        Ok(self.chores_once().await? > 0)
    }

    /// The same; answers how many transactions it took.
    async fn chores_once(&self) -> Result<u64, MessageStoreError> {
        let done = [
            self.remove_entries_once().await?,
            self.collect_garbage_once().await?,
            self.reread_once().await?,
            self.index_once().await?,
            self.forget_accepted_once().await?,
        ];
        Ok(done.iter().filter(|count| **count > 0).count() as u64)
    }

    /// Runs [`MessageStore::maintain_once`] until nothing waits.
    ///
    /// # Errors
    /// As [`MessageStore::maintain_once`].
    pub async fn maintain_until_done(&self) -> Result<(), MessageStoreError> {
        while self.maintain_once().await? {}
        Ok(())
    }

    /// Keeps house for as long as it is polled: now, and whenever something changed. May be dropped at any time.
    pub async fn maintain(&self, mut rounds: Rounds) {
        loop {
            rounds.begin();
            if let Err(error) = self.maintain_and_pause().await {
                // What waits is kept in the database and is tried again with the next change.
                tracing::warn!(%error, "the maildrop's housekeeping failed");
            }
            self.raised(|changes| &changes.chores).await;
        }
    }

    /// Until nothing waits, and with room for those who wait for an answer: there is one writer, and a message takes
    /// longer to be indexed than to be taken over. Meanwhile a search reads what is not indexed.
    async fn maintain_and_pause(&self) -> Result<(), MessageStoreError> {
        loop {
            let (writes, began) = (self.writes_begun(), Instant::now());
            let own = self.chores_once().await?;
            if own == 0 {
                return Ok(());
            }
            let others = self.writes_begun() - writes - own;
            let pause = rest(began.elapsed(), others, self.settings().chores_rest);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// The pause after a step that took so long, while others wrote so many times.
fn rest(took: Duration, others: u64, factor: u32) -> Duration {
    if others == 0 { Duration::ZERO } else { took * factor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chores_rest_only_while_others_write() {
        let took = Duration::from_millis(10);
        assert_eq!(rest(took, 3, 4), Duration::from_millis(40));
        assert_eq!(rest(took, 0, 4), Duration::ZERO);
        assert_eq!(rest(took, 3, 0), Duration::ZERO);
    }
}
