//! Fetches messages of an IMAP server. One that the server refuses, or that breaks the connection, is reported alone.

use std::collections::HashMap;

use mailapi_backend_embedded::message_store::ImportMessage;
use mailapi_backend_external::imap_pool::{RemoteError, RemoteMailbox, RemoteMessage};

use super::Target;
use super::folder::{Filled, LeftOut, MessageOrigin};
use super::from_imap::Source;
use super::report::Report;
use crate::failure::{Failure, Outcome};

/// Messages of one FETCH, and their bytes: less waiting for a server that is far away.
const FETCHED: usize = 50;
const FETCHED_BYTES: u64 = 4 * 1024 * 1024;

/// Connections that may fail one after another before a message is read. Dovecot closes one at each unreadable file.
const MOST_BREAKS: u32 = 20;

/// Fetches messages of one folder.
pub(super) struct Fetching<'a> {
    pub(super) target: &'a Target<'a>,
    pub(super) mailbox: &'a mut RemoteMailbox,
    pub(super) source: &'a Source<'a>,
    /// Connections that failed since the last message.
    pub(super) breaks: u32,
}

impl Fetching<'_> {
    /// Imports messages.
    pub(super) async fn import(&mut self, uids: &[u32], filled: &mut Filled<'_>, report: &mut Report) -> Outcome {
        // Without sizes, messages are fetched by their number.
        let sizes = self.mailbox.sizes(uids).await.unwrap_or_default().into_iter().collect();
        for group in groups(uids, &sizes, self.target.store.max_message_bytes() as u64) {
            let (left, refusal) = self.fetch(&group, filled, report).await?;
            match refusal {
                None => self.report(&left, &"the server did not return the message, which may be removed", report)?,
                Some(error) if group.len() == 1 => self.report(&left, &error, report)?,
                Some(_) => self.import_one_by_one(&left, filled, report).await?,
            }
        }
        Ok(())
    }

    async fn import_one_by_one(&mut self, uids: &[u32], filled: &mut Filled<'_>, report: &mut Report) -> Outcome {
        for uid in uids {
            let (left, refusal) = self.fetch(&[*uid], filled, report).await?;
            match refusal {
                None => self.report(&left, &"the server did not return the message, which may be removed", report)?,
                Some(error) => self.report(&left, &error, report)?,
            }
        }
        Ok(())
    }

    fn report(&self, uids: &[u32], reason: &dyn std::fmt::Display, report: &mut Report) -> Outcome {
        uids.iter().try_for_each(|uid| report.failed(&self.source.place(*uid), reason))
    }

    /// Fetches messages with one command. Returns those that did not come, and the error that ended the command.
    async fn fetch(
        &mut self,
        uids: &[u32],
        filled: &mut Filled<'_>,
        report: &mut Report,
    ) -> Outcome<(Vec<u32>, Option<RemoteError>)> {
        let mut messages = Vec::new();
        let refusal = self.read(uids, &mut messages).await?;
        let mut messages: HashMap<u32, _> = messages.into_iter().map(|message| (message.uid, message)).collect();
        let mut left = Vec::new();
        for uid in uids {
            match messages.remove(uid) {
                Some(message) => self.add(message, filled, report).await?,
                None => left.push(*uid),
            }
        }
        Ok((left, refusal))
    }

    async fn read(&mut self, uids: &[u32], messages: &mut Vec<RemoteMessage>) -> Outcome<Option<RemoteError>> {
        if !self.mailbox.is_usable() {
            self.breaks += 1;
            if self.breaks > MOST_BREAKS {
                return Err(self.source.failure(&"the connection failed too often"));
            }
            self.mailbox.reconnect().await.map_err(|error| self.source.failure(&error))?;
        }
        let buffer = (self.target.store.buffer(), self.target.store.max_message_bytes());
        let fetched = self.mailbox.fetch(uids, buffer, messages).await;
        if !messages.is_empty() {
            self.breaks = 0;
        }
        match fetched {
            Ok(()) => Ok(None),
            Err(RemoteError::Buffer(error)) => Err(Failure::new(error)),
            Err(error) => Ok(Some(error)),
        }
    }

    async fn add(&self, message: RemoteMessage, filled: &mut Filled<'_>, report: &mut Report) -> Outcome {
        let RemoteMessage { uid, flags, lost_flags, internal_date, content } = message;
        let place = self.source.place(uid);
        let Some(content) = content else { return report.failed(&place, &self.target.too_long()) };
        let left_out = LeftOut { flags: lost_flags, dates: u64::from(internal_date.is_none()) };
        let key = self.source.key(uid).0;
        let message = ImportMessage { key, uid: Some(uid), flags, internal_date, content };
        filled.add(MessageOrigin { place, left_out }, message, report).await
    }
}

/// Divides UIDs into those of one FETCH each. A message beyond the limit is alone.
fn groups(uids: &[u32], sizes: &HashMap<u32, u64>, max_message: u64) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut bytes = u64::MAX;
    for uid in uids {
        let size = sizes.get(uid).copied().unwrap_or_default().min(max_message);
        bytes = bytes.saturating_add(size);
        match groups.last_mut() {
            Some(group) if bytes <= FETCHED_BYTES && group.len() < FETCHED => group.push(*uid),
            _ => {
                groups.push(vec![*uid]);
                bytes = size;
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_fetched_together_up_to_a_size() {
        let sizes = HashMap::from([(1, 10), (2, FETCHED_BYTES), (3, 5), (4, FETCHED_BYTES - 5), (5, 1)]);
        assert_eq!(groups(&[1, 2, 3, 4, 5], &sizes, u64::MAX), [vec![1], vec![2], vec![3, 4], vec![5]]);
        let many: Vec<u32> = (1..=120).collect();
        let lengths: Vec<_> = groups(&many, &HashMap::new(), 10).iter().map(Vec::len).collect();
        assert_eq!(lengths, [50, 50, 20]);
    }
}
