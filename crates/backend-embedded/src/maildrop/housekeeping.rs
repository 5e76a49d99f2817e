//! What is done in the background.

use super::{Maildrop, MaildropError};

impl Maildrop {
    /// One step of everything that waits in the background: sweep, index, forget. Answers whether there may be more.
    ///
    /// # Errors
    /// Only those of the database; nothing is lost by them.
    pub async fn keep_house_once(&self) -> Result<bool, MaildropError> {
        let swept = self.sweep_once().await?;
        let indexed = self.index_once().await?;
        let forgotten = self.forget_accepted_once().await?;
        Ok(swept + indexed + forgotten > 0)
    }

    /// Runs [`Maildrop::keep_house_once`] until nothing waits.
    ///
    /// # Errors
    /// As [`Maildrop::keep_house_once`].
    pub async fn keep_house_until_done(&self) -> Result<(), MaildropError> {
        while self.keep_house_once().await? {}
        Ok(())
    }

    /// Keeps house for as long as it is polled: now, and whenever something changed. May be dropped at any time.
    pub async fn keep_house(&self) {
        let mut foreign = self.foreign_changes();
        loop {
            if let Err(error) = self.keep_house_until_done().await {
                // What waits is kept in the database and is tried again with the next change.
                tracing::warn!(%error, "the maildrop's housekeeping failed");
            }
            tokio::select! {
                () = self.changes().chores.raised() => {}
                changed = foreign.changed() => if changed.is_err() { return },
            }
        }
    }
}
