//! What is new in the mailbox.

use mailapi_imap::client::{Code, Command, FetchAttribute, Section, SectionText, StatusResponse, Untagged};
use mailapi_model::{FolderName, Timestamp};

use super::BounceLimits;
use super::doubt::Doubt;
use super::notice::Notice;
use super::place::Place;
use crate::imap_pool::{ImapConnection, ImapError, Job};
use mailapi_backend::ReturnAddress;

/// Reads the messages from a place on: in a step as large as the limits allow, and by EXAMINE and BODY.PEEK, which
/// leave no trace.
pub(super) struct ReadNewMail<'a> {
    pub(super) folder: &'a FolderName,
    /// None at the very beginning.
    pub(super) place: Option<Place>,
    /// The message that could not be read when that was last tried.
    pub(super) doubt: Option<Doubt>,
    pub(super) addresses: &'a ReturnAddress,
    pub(super) limits: &'a BounceLimits,
}

/// What was found.
#[derive(Debug)]
pub(super) struct NewMail {
    /// Where reading began: the place that was asked for, or the beginning when the folder is not the same any more.
    pub(super) from: Place,
    /// The messages, oldest first.
    pub(super) messages: Vec<ReadMessage>,
    /// Where to go on when all of these were taken in.
    pub(super) to: Place,
    /// Whether there is more at once.
    pub(super) more: bool,
    /// The message at which the connection ended, when it did.
    pub(super) stuck: Option<Stuck>,
}

/// A message at which the connection ended.
#[derive(Debug)]
pub(super) struct Stuck {
    pub(super) uid: u32,
    /// Why, as far as the server told.
    pub(super) reason: String,
    /// Whether the same connection gave out another message before.
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
        let newest = newest_uid(connection, folder.exists).await?.filter(|newest| *newest >= from.next_uid);
        let Some(newest) = newest else {
            return Ok(NewMail { from, messages: Vec::new(), to: from, more: false, stuck: None });
        };
        let last = from.next_uid.saturating_add(self.limits.uid_range.max(1) - 1).min(newest);
        let mut uids = uids_between(connection, from.next_uid, last).await?;
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
    /// One that cannot be read.
    pub(super) const fn unreadable(uid: u32) -> Self {
        Self { uid, arrived: Timestamp::from_seconds(0), notice: Notice::Unreadable }
    }

    fn was_read(&self) -> bool {
        self.notice != Notice::Unreadable
    }
}

impl ReadNewMail<'_> {
    /// Whether this connection gives out another message than the doubtful one, of those behind it; asked only when the
    /// doubtful one is next. One that nothing waits behind need not be stepped over.
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

    /// One message, unless it was removed in the meantime. One that the server cannot read is told as such: the others
    /// behind it are not to wait for it.
    async fn read(&self, connection: &mut ImapConnection, uid: u32) -> Result<Option<ReadMessage>, ImapError> {
        let slice = FetchAttribute::SectionSlice(Section::message(), 0, self.limits.message_octets);
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
                tracing::warn!(
                    uid,
                    said = refusal.text,
                    "a mail in the bounces' mailbox cannot be read and is left out"
                );
                Ok(Some(ReadMessage::unreadable(uid)))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether the server will say the same when it is asked for that message again: it does not say that it cannot read at
/// the moment (RFC 5530 section 3). A message that is damaged is a fault of the server to Dovecot.
const fn is_final(refusal: &StatusResponse) -> bool {
    !matches!(refusal.code, Some(Code::Unavailable | Code::InUse | Code::Limit))
}

/// The UID of the newest message: sequence numbers follow the UIDs (RFC 3501 section 2.3.1.2).
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

/// The UIDs of the messages between two, both included, in order.
async fn uids_between(connection: &mut ImapConnection, first: u32, last: u32) -> Result<Vec<u32>, ImapError> {
    let range: Vec<u32> = (first..=last).collect();
    let mut uids = Vec::new();
    let fetched = connection.run(Command::uid_fetch(&range, &[]), |untagged| {
        if let Untagged::Fetch(message) = untagged {
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
