//! Who submitted a message with a login.

use mailapi_model::{EmailAddress, QueueId, SubmittedMail, Timestamp};
use mailapi_store::StoreError;
use rusqlite::Row;

use crate::message_store::damaged;

/// The mailbox that a mail program logged in to, and the author of the message that it submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitter {
    /// The mailbox.
    pub mailbox: EmailAddress,
    /// The author; the mailbox may send as this address.
    pub from: EmailAddress,
}

impl Submitter {
    /// Reads two columns: the mailbox and the author. `None` if they are null, as for all other mail.
    pub(crate) fn read(row: &Row<'_>, first: usize) -> Result<Option<Self>, StoreError> {
        let (mailbox, from): (Option<String>, Option<String>) = (row.get(first)?, row.get(first + 1)?);
        let Some((mailbox, from)) = mailbox.zip(from) else { return Ok(None) };
        let address = |text: String| EmailAddress::as_given(&text).map_err(|_| damaged("an address"));
        Ok(Some(Self { mailbox: address(mailbox)?, from: address(from)? }))
    }

    /// Returns the values of the two columns.
    pub(crate) fn columns(of: Option<&Self>) -> (Option<String>, Option<String>) {
        of.map(|one| (one.mailbox.wire().into_owned(), one.from.wire().into_owned())).unzip()
    }

    pub(crate) fn mail(&self, queue_id: QueueId, accepted_at: Timestamp) -> SubmittedMail {
        let Self { mailbox, from } = self.clone();
        SubmittedMail { mailbox, from, queue_id, accepted_at }
    }
}
