//! Reads new messages of the bounce mailbox.

use mailapi_imap::client::{Code, Command, FetchAttribute, Section, SectionText, StatusResponse, Untagged};
use mailapi_model::{FolderName, Timestamp};

use super::BounceLimits;
use super::doubt::Doubt;
use super::notice::Notice;
use super::place::Place;
use crate::imap_pool::{ImapConnection, ImapError, Job};
use mailapi_backend::ReturnAddress;

/// Reads the messages after a position, as many as the limits allow. EXAMINE and BODY.PEEK leave flags unchanged.
pub(super) struct ReadNewMail<'a> {
    pub(super) folder: &'a FolderName,
    /// `None` for the first read.
    pub(super) place: Option<Place>,
    /// The message that could not be read at the last attempt.
    pub(super) doubt: Option<Doubt>,
    pub(super) addresses: &'a ReturnAddress,
    pub(super) limits: &'a BounceLimits,
}

/// The messages that were found.
#[derive(Debug)]
pub(super) struct NewMail {
    /// Where reading began: the requested position, or the beginning if the folder has a new UIDVALIDITY.
    pub(super) from: Place,
    /// The messages, oldest first.
    pub(super) messages: Vec<ReadMessage>,
    /// Where to continue after these messages.
    pub(super) to: Place,
    /// Whether more messages are available now.
    pub(super) more: bool,
    /// The message at which the connection ended, if any.
    pub(super) stuck: Option<Stuck>,
}

/// A message at which the connection ended.
#[derive(Debug)]
pub(super) struct Stuck {
    pub(super) uid: u32,
    /// The server's reason, or a description of the failure.
    pub(super) reason: String,
    /// Whether the same connection returned another message before.
    pub(super) others_can_be_read: bool,
}

/// One message.
#[derive(Debug)]
pub(super) struct ReadMessage {
    pub(super) uid: u32,
    pub(super) arrived: Timestamp,
    pub(super) notice: Notice,
}

impl Job for ReadNewMail<'_> {
    type Output = NewMail;

    async fn run(&self, connection: &mut ImapConnection) -> Result<NewMail, ImapError> {
        let folder = connection.open(self.folder).await?;
        let is_same = |place: &Place| place.uid_validity == folder.uid_validity;
        let from = self.place.filter(is_same).unwrap_or(Place::beginning_of(folder.uid_validity));
        let newest =
            newest_uid(connection, folder.exists).await?.filter(|newest| *newest >= from.next_uid && !from.is_end());
        let Some(newest) = newest else {
            return Ok(NewMail { from, messages: Vec::new(), to: from, more: false, stuck: None });
        };
        let last = from.next_uid.saturating_add(self.limits.uid_range.max(1) - 1).min(newest);
        let mut uids = uids_between(connection, from.next_uid, last).await?;
        // Before the doubtful message is read: that read may end the connection.
        let others_can_be_read = self.can_read_others(connection, &uids, newest).await?;
        let is_cut = uids.len() > self.limits.batch_messages.max(1);
        uids.truncate(self.limits.batch_messages.max(1));
        let last = if is_cut { uids.last().copied().unwrap_or(last) } else { last };
        let mut messages = Vec::with_capacity(uids.len());
        for uid in uids {
            match self.read(connection, uid).await {
                Ok(message) => messages.extend(message),
                Err(ImapError::Broken(reason)) => {
                    let others_can_be_read = others_can_be_read || messages.iter().any(ReadMessage::was_read);
                    let stuck = Some(Stuck { uid, reason, others_can_be_read });
                    // If it is the first message, `from` keeps the count of its reported failures.
                    let to = if uid == from.next_uid { from } else { Place::at(folder.uid_validity, uid) };
                    return Ok(NewMail { from, messages, to, more: false, stuck });
                }
                Err(error) => return Err(error),
            }
        }
        let (to, more) = (Place::behind(folder.uid_validity, last), last < newest);
        Ok(NewMail { from, messages, to, more, stuck: None })
    }
}

impl ReadMessage {
    /// Returns an entry for a message that cannot be read.
    pub(super) const fn unreadable(uid: u32) -> Self {
        Self { uid, arrived: Timestamp::from_seconds(0), notice: Notice::Unreadable }
    }

    fn was_read(&self) -> bool {
        self.notice != Notice::Unreadable
    }
}

impl ReadNewMail<'_> {
    /// Checks whether this connection can read a message after the doubtful one. Does so only if the doubtful message
    /// is next. The last message of the mailbox need not be skipped.
    async fn can_read_others(
        &self,
        connection: &mut ImapConnection,
        uids: &[u32],
        newest: u32,
    ) -> Result<bool, ImapError> {
        let Some(doubt) = self.doubt.filter(|doubt| uids.first() == Some(&doubt.uid)) else { return Ok(false) };
        let mut others = uids[1..].to_vec();
        others.extend((newest > *uids.last().unwrap_or(&newest)).then_some(newest));
        let Some(other) = doubt.other_to_read(&others) else { return Ok(false) };
        Ok(self.read(connection, other).await?.is_some_and(|message| message.was_read()))
    }

    /// Reads one message; `None` if it was removed meanwhile. A message that the server cannot read becomes an
    /// unreadable entry, so that it does not block those after it.
    async fn read(&self, connection: &mut ImapConnection, uid: u32) -> Result<Option<ReadMessage>, ImapError> {
        let slice = FetchAttribute::SectionSlice(Section::message(), 0, self.limits.message_bytes);
        let mut read = None;
        let fetched = connection.run(Command::uid_fetch(&[uid], &[FetchAttribute::Arrived, slice]), |untagged| {
            if let Untagged::Fetch(message) = untagged
                && message.uid == Some(uid)
                && let Some(raw) = message.section(&[], &SectionText::All)
            {
                let arrived = Timestamp::from_seconds(message.arrived.unwrap_or_default());
                read = Some(ReadMessage { uid, arrived, notice: Notice::of(raw, self.addresses) });
            }
        });
        match fetched.await {
            Ok(_) => Ok(read),
            Err(ImapError::Refused(refusal)) if is_final(&refusal) => {
                tracing::warn!(uid, said = refusal.text, "skipped an unreadable message in the bounce mailbox");
                Ok(Some(ReadMessage::unreadable(uid)))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether a retry would fail the same way: the code is none of the temporary ones (RFC 5530 section 3). For a
/// damaged message Dovecot reports a server bug.
const fn is_final(refusal: &StatusResponse) -> bool {
    !matches!(refusal.code, Some(Code::Unavailable | Code::InUse | Code::Limit))
}

/// Returns the UID of the newest message. Sequence numbers are in UID order (RFC 3501 section 2.3.1.2).
async fn newest_uid(connection: &mut ImapConnection, exists: u32) -> Result<Option<u32>, ImapError> {
    if exists == 0 {
        return Ok(None);
    }
    let mut newest = None;
    let fetched = connection.run(Command::fetch(exists, exists, &[]), |untagged| {
        if let Untagged::Fetch(message) = untagged
            && message.sequence == exists
        {
            newest = message.uid.or(newest);
        }
    });
    fetched.await?;
    Ok(newest)
}

/// Returns the UIDs between two, both included, in ascending order.
async fn uids_between(connection: &mut ImapConnection, first: u32, last: u32) -> Result<Vec<u32>, ImapError> {
    let range: Vec<u32> = (first..=last).collect();
    let mut uids = Vec::new();
    let fetched = connection.run(Command::uid_fetch(&range, &[]), |untagged| {
        if let Untagged::Fetch(message) = untagged {
            // The server may also send an unsolicited FETCH for another message (RFC 3501 section 7.4.2).
            uids.extend(message.uid.filter(|uid| (first..=last).contains(uid)));
        }
    });
    fetched.await?;
    uids.sort_unstable();
    uids.dedup();
    Ok(uids)
}

#[cfg(test)]
mod tests {
    use mailapi_imap::client::Status;

    use super::*;

    #[test]
    fn only_temporary_read_failures_are_retried() {
        let refusal = |code| StatusResponse { status: Status::No, code, text: String::new() };
        for passing in [Code::Unavailable, Code::InUse, Code::Limit] {
            assert!(!is_final(&refusal(Some(passing))));
        }
        assert!(is_final(&refusal(None)) && is_final(&refusal(Some(Code::ServerBug))));
    }
}
