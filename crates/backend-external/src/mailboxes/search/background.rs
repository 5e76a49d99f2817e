//! Indexing what was searched, in the background.

use std::time::{Duration, Instant};

use mailapi_backend::{MailboxError, Rounds};
use mailapi_imap::client::Command;
use mailapi_model::EmailAddress;

use super::catch_up::Effort;
use super::prepare::{Prepare, Standing};
use crate::imap_pool::{ImapConnection, ImapError, Job};
use crate::mailboxes::ImapMailboxes;
use crate::search_index::{IndexError, Request, SearchIndex};

/// Whether there is such a mailbox.
struct LookAt;

impl Job for LookAt {
    type Output = ();

    async fn run(&self, connection: &mut ImapConnection) -> Result<(), ImapError> {
        connection.run(Command::noop(), |_| {}).await.map(drop)
    }
}

impl ImapMailboxes {
    /// One step of indexing: reads some messages of a mailbox that was searched, and makes room. Answers whether there
    /// may be more to do. It needs one connection to the server.
    pub async fn index_once(&self) -> bool {
        let Some(index) = &self.index else { return false };
        let Some(request) = index.next_request() else { return false };
        if self.step(index, &request).await {
            index.ask_for(request);
        }
        index.prune().await;
        true
    }

    /// Removes from the index what nobody searched for long and some of what the server does not know any longer, and
    /// closes files that nobody needs.
    pub async fn prune_index(&self) {
        if let Some(index) = &self.index {
            self.drop_unknown(index).await;
            index.prune().await;
        }
    }

    /// Asks the server about the next mailboxes that have an index. It ends at the first that the server does not know:
    /// each refused log-in makes Dovecot slower for our address.
    async fn drop_unknown(&self, index: &SearchIndex) {
        for mailbox in index.next_to_look_at().await {
            index.note_look(&mailbox);
            match self.pool.run(&mailbox, None, &LookAt).await {
                Ok(()) => {}
                Err(MailboxError::NoSuchMailbox) => return index.erase(&mailbox).await,
                Err(error) => {
                    return tracing::debug!(%mailbox, %error, "nothing is told of a mailbox at the moment");
                }
            }
        }
    }

    /// Indexes for as long as it is polled. Each step is followed by a rest, so that readers of the mail server and
    /// of ours have the most of the machine. May be dropped at any time.
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

    /// Whether there is more to do for the request. What fails is asked for again by the next search.
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
                tracing::debug!(%mailbox, %error, "a mailbox cannot be indexed at the moment");
                false
            }
        }
    }

    /// What may be damaged is made again; what only took too long or cannot be reached stays.
    pub(super) async fn give_up_index(&self, index: &SearchIndex, mailbox: &EmailAddress, error: &IndexError) {
        if matches!(error, IndexError::Busy) {
            return tracing::debug!(%mailbox, %error, "a search is left to the server");
        }
        tracing::warn!(%mailbox, %error, "the search index of a mailbox is of no use");
        if matches!(error, IndexError::Damaged(_)) {
            index.erase(mailbox).await;
        }
    }
}
