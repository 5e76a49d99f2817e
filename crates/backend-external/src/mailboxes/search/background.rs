//! Indexes searched mailboxes in the background.

use std::time::{Duration, Instant};

use mailapi_backend::{MailboxError, Rounds};
use mailapi_imap::client::Command;
use mailapi_model::EmailAddress;

use super::catch_up::Effort;
use super::prepare::{Prepare, Standing};
use crate::imap_pool::{ImapConnection, ImapError, Job};
use crate::mailboxes::ImapMailboxes;
use crate::search_index::{IndexError, Request, SearchIndex};

/// Checks whether a mailbox exists.
struct LookAt;

impl Job for LookAt {
    type Output = ();

    async fn run(&self, connection: &mut ImapConnection) -> Result<(), ImapError> {
        connection.run(Command::noop(), |_| {}).await.map(drop)
    }
}

impl ImapMailboxes {
    /// Performs one indexing step: reads some messages of a searched mailbox, and makes room. Returns whether more
    /// may remain. Uses one connection to the server.
    pub async fn index_once(&self) -> bool {
        let Some(index) = &self.index else { return false };
        let Some(request) = index.next_request() else { return false };
        // Back to the end of the queue, so that a large mailbox does not delay the others.
        if self.step(index, &request).await {
            index.ask_for(request);
        }
        index.prune().await;
        true
    }

    /// Removes mailboxes from the index that were not searched for long, and some of those that the server no longer
    /// has. Closes unused files.
    pub async fn prune_index(&self) {
        if let Some(index) = &self.index {
            self.drop_unknown(index).await;
            index.prune().await;
        }
    }

    /// Checks whether the server still has the next mailboxes of the index. Stops at the first missing one: each
    /// refused login makes Dovecot slower for this address.
    async fn drop_unknown(&self, index: &SearchIndex) {
        for mailbox in index.next_to_look_at().await {
            // Before the request, so that a failing mailbox does not block those after it.
            index.note_look(&mailbox);
            match self.pool.run(&mailbox, None, &LookAt).await {
                Ok(()) => {}
                Err(MailboxError::NoSuchMailbox) => return index.erase(&mailbox).await,
                Err(error) => {
                    return tracing::debug!(%mailbox, %error, "could not check an indexed mailbox");
                }
            }
        }
    }

    /// Indexes for as long as it is polled. A pause after each step leaves most of the machine to readers.
    /// Cancel-safe.
    pub async fn keep_index(&self, mut rounds: Rounds) {
        let Some(index) = &self.index else { return };
        let mut prune = tokio::time::interval(index.settings().tidy_interval.max(Duration::from_secs(1)));
        loop {
            rounds.begin();
            tokio::select! {
                () = index.asked() => while self.index_and_rest(index).await {
                    rounds.begin();
                },
                _ = prune.tick() => self.prune_index().await,
            }
        }
    }

    async fn index_and_rest(&self, index: &SearchIndex) -> bool {
        let began = Instant::now();
        let more = self.index_once().await;
        if more {
            tokio::time::sleep(began.elapsed() * index.settings().rest).await;
        }
        more
    }

    /// Performs one step of a request, and returns whether more remains. After a failure, the next search requests it
    /// again.
    async fn step(&self, index: &SearchIndex, request: &Request) -> bool {
        let Request { mailbox, scope } = request;
        let job = Prepare { index, mailbox, scope, settings: &self.settings, effort: Effort::OneStep };
        match self.prepare(&job).await {
            Ok(Ok(Standing::Behind)) => true,
            Ok(Ok(Standing::NotIndexed)) => false,
            Ok(Ok(Standing::Whole { index: opened, .. })) => {
                let limit = index.settings().batch_messages;
                let collected = opened.write().await.collect_garbage(limit).await;
                match collected {
                    Ok(more) => more,
                    Err(error) => {
                        self.give_up_index(index, mailbox, &error).await;
                        false
                    }
                }
            }
            Ok(Err(error)) => {
                self.give_up_index(index, mailbox, &error).await;
                false
            }
            Err(MailboxError::NoSuchMailbox) => {
                index.erase(mailbox).await;
                false
            }
            Err(error) => {
                tracing::debug!(%mailbox, %error, "could not index a mailbox");
                false
            }
        }
    }

    /// Handles an index that failed: removes it if it is damaged, so that it is rebuilt, and otherwise keeps it.
    pub(super) async fn give_up_index(&self, index: &SearchIndex, mailbox: &EmailAddress, error: &IndexError) {
        if matches!(error, IndexError::Busy) {
            return tracing::debug!(%mailbox, %error, "the search index is busy; the IMAP server searches instead");
        }
        tracing::warn!(%mailbox, %error, "the search index of a mailbox failed");
        if matches!(error, IndexError::Damaged(_)) {
            index.erase(mailbox).await;
        }
    }
}
