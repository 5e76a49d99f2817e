//! Search: uses the local index if the mailbox is completely indexed, otherwise the server.

mod background;
mod by_server;
mod catch_up;
mod prepare;
mod texts;

use mailapi_backend::{FolderScope, MailboxError, SearchHit, SearchQuery};
use mailapi_model::{EmailAddress, FolderName, Listed, Page};

use super::ImapMailboxes;
use crate::search_index::{IndexError, Request, SearchIndex};
use by_server::Search;
use catch_up::Effort;
use prepare::{Prepare, Standing};

/// Maximum number of messages of a folder that are listed for a search. A short answer may name four thousand million
/// UIDs.
const MOST_MESSAGES: u64 = 4_000_000;

impl ImapMailboxes {
    pub(super) async fn find(
        &self,
        mailbox: &EmailAddress,
        query: &SearchQuery,
    ) -> Result<Listed<SearchHit>, MailboxError> {
        if let Some(index) = &self.index
            && let Some(found) = self.find_in_index(index, mailbox, query).await?
        {
            return Ok(found);
        }
        self.pool.run(mailbox, folder_of(&query.scope), &Search { query, settings: &self.settings }).await
    }

    /// Searches the index; `None` if the server has to search.
    async fn find_in_index(
        &self,
        index: &SearchIndex,
        mailbox: &EmailAddress,
        query: &SearchQuery,
    ) -> Result<Option<Listed<SearchHit>>, MailboxError> {
        let effort = Effort::WhileWaiting(index.settings().catch_up_messages);
        let job = Prepare { index, mailbox, scope: &query.scope, settings: &self.settings, effort };
        let prepared = self.prepare(&job).await;
        if prepared.as_ref().err() == Some(&MailboxError::NoSuchMailbox) {
            index.erase(mailbox).await;
        }
        let searched = match prepared? {
            Ok(Standing::Whole { folders, .. }) if folders.is_empty() => {
                return Ok(Some(Listed { total: 0, items: Vec::new() }));
            }
            Ok(Standing::Whole { index: opened, folders, has_leavings }) => {
                if has_leavings {
                    index.ask_for(Request { mailbox: mailbox.clone(), scope: query.scope.clone() });
                }
                index.search(&opened, folders, query).await
            }
            Ok(Standing::Behind) => {
                index.ask_for(Request { mailbox: mailbox.clone(), scope: query.scope.clone() });
                return Ok(None);
            }
            Ok(Standing::NotIndexed) => return Ok(None),
            Err(error) => Err(error),
        };
        match searched {
            Ok(found) => Ok(Some(found)),
            Err(error) => {
                self.give_up_index(index, mailbox, &error).await;
                Ok(None)
            }
        }
    }
}

impl ImapMailboxes {
    /// Compares the index with the server. For INBOX this uses a connection that has it open. For other folders the
    /// connection must not have them open, because their status would be outdated.
    async fn prepare(&self, job: &Prepare<'_>) -> Result<Result<Standing, IndexError>, MailboxError> {
        match job.scope {
            FolderScope::One(folder) if *folder != FolderName::inbox() => {
                self.pool.run_beside(job.mailbox, folder, job).await
            }
            FolderScope::One(_) | FolderScope::All => self.pool.run(job.mailbox, Some(&FolderName::inbox()), job).await,
        }
    }
}

fn folder_of(scope: &FolderScope) -> Option<&FolderName> {
    match scope {
        FolderScope::One(folder) => Some(folder),
        FolderScope::All => None,
    }
}

fn page_of<T>(all: impl Iterator<Item = T>, page: Page) -> Vec<T> {
    let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    all.skip(offset).take(page.limit() as usize).collect()
}
