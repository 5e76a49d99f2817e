//! One page of a folder.

use std::collections::HashMap;
use std::sync::Arc;

use mailapi_backend::MessageSummary;
use mailapi_imap::client::{Command, FetchAttribute, FetchedMessage, Untagged};
use mailapi_model::{EmailAddress, FolderName, Listed, Page};

use super::settings::MailboxSettings;
use super::summaries::{self, FolderKey, Summaries};
use crate::imap_pool::{ImapConnection, ImapError, Job};

/// Lists the newest messages after an offset. Newest is highest UID is highest sequence number, so that the page is a
/// range of sequence numbers from the end, whatever the folder's size.
pub(super) struct ListPage<'a> {
    pub(super) mailbox: &'a EmailAddress,
    pub(super) folder: &'a FolderName,
    pub(super) page: Page,
    pub(super) summaries: &'a Summaries,
    pub(super) settings: &'a MailboxSettings,
}

impl Job for ListPage<'_> {
    type Output = Listed<MessageSummary>;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Listed<MessageSummary>, ImapError> {
        let open = connection.open(self.folder).await?;
        let total = u64::from(open.exists);
        let Some((first, last)) = range(open.exists, self.page) else {
            return Ok(Listed { total, items: Vec::new() });
        };
        let key = Arc::new(FolderKey {
            mailbox: self.mailbox.clone(),
            folder: self.folder.clone(),
            uid_validity: open.uid_validity,
        });
        let mut items = if self.summaries.knows(&key) {
            self.by_flags(connection, &key, first, last).await?
        } else {
            self.in_full(connection, &key, first, last).await?
        };
        items.sort_unstable_by_key(|item| std::cmp::Reverse(item.uid));
        // News told within the answer may name a message twice.
        items.dedup_by_key(|item| item.uid);
        Ok(Listed { total, items })
    }
}

/// The sequence numbers of a page.
fn range(exists: u32, page: Page) -> Option<(u32, u32)> {
    let last = u64::from(exists).checked_sub(page.offset()).filter(|&last| last > 0)?;
    let first = (last + 1).saturating_sub(u64::from(page.limit())).max(1);
    Some((u32::try_from(first).ok()?, u32::try_from(last).ok()?))
}

impl ListPage<'_> {
    async fn in_full(
        &self,
        connection: &mut ImapConnection,
        key: &Arc<FolderKey>,
        first: u32,
        last: u32,
    ) -> Result<Vec<MessageSummary>, ImapError> {
        let mut attributes = summaries::attributes(self.settings);
        attributes.push(FetchAttribute::Flags);
        let mut items = Vec::new();
        let fetched = connection.run(Command::fetch(first, last, &attributes), |untagged| {
            let Untagged::Fetch(message) = untagged else { return };
            items.extend(self.remember(key, &message, flags_of(&message).unwrap_or_default()));
        });
        fetched.await?;
        Ok(items)
    }

    /// Fetches the flags alone, and in full only what is not remembered.
    async fn by_flags(
        &self,
        connection: &mut ImapConnection,
        key: &Arc<FolderKey>,
        first: u32,
        last: u32,
    ) -> Result<Vec<MessageSummary>, ImapError> {
        let (mut items, mut missing) = (Vec::new(), HashMap::new());
        let fetched = connection.run(Command::fetch(first, last, &[FetchAttribute::Flags]), |untagged| {
            let Untagged::Fetch(message) = untagged else { return };
            let (Some(uid), Some(flags)) = (message.uid, flags_of(&message)) else { return };
            match self.summaries.get(key, uid, flags.clone()) {
                Some(item) => items.push(item),
                None => drop(missing.insert(uid, flags)),
            }
        });
        fetched.await?;
        let uids: Vec<u32> = missing.keys().copied().collect();
        for uids in uids.chunks(self.settings.uids_per_command.max(1)) {
            let command = Command::uid_fetch(uids, &summaries::attributes(self.settings));
            let fetched = connection.run(command, |untagged| {
                let Untagged::Fetch(message) = untagged else { return };
                let flags = message.uid.and_then(|uid| missing.get(&uid)).cloned().unwrap_or_default();
                items.extend(self.remember(key, &message, flags));
            });
            fetched.await?;
        }
        Ok(items)
    }

    fn remember(&self, key: &Arc<FolderKey>, message: &FetchedMessage, flags: Vec<String>) -> Option<MessageSummary> {
        let summary = summaries::summary(message, flags)?;
        self.summaries.put(key, &summary);
        Some(summary)
    }
}

fn flags_of(message: &FetchedMessage) -> Option<Vec<String>> {
    message.flags.as_deref().map(summaries::shown_flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_a_folder_from_its_end() {
        assert_eq!(range(0, Page::new(50, 0)), None);
        assert_eq!(range(5, Page::new(2, 5)), None);
        assert_eq!(range(5, Page::new(2, u64::MAX)), None);
        assert_eq!(range(5, Page::new(2, 0)), Some((4, 5)));
        assert_eq!(range(5, Page::new(2, 4)), Some((1, 1)));
        assert_eq!(range(5, Page::new(50, 1)), Some((1, 4)));
        assert_eq!(range(u32::MAX, Page::new(200, 0)), Some((u32::MAX - 199, u32::MAX)));
    }
}
