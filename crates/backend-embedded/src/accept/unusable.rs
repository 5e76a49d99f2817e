//! Mailboxes that cannot take a message for a reason of their own, such as a damaged row. They are refused alone: other
//! recipients get the message.

use std::collections::HashSet;

use mailapi_model::{EnhancedCode, Reply, Timestamp};
use mailapi_store::StoreError;
use rusqlite::Connection;

use super::AcceptError;
use crate::message_store::{MailboxId, MessageStoreError, Touched, renumber};

/// Mailboxes of one message that are refused before the message itself is. Each costs another attempt to store it.
const MOST: usize = 20;

/// The mailboxes that have failed to take a message.
#[derive(Debug, Default)]
pub(super) struct Unusable {
    mended: HashSet<MailboxId>,
    refused: HashSet<MailboxId>,
}

/// Why an attempt to store a message failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// A row of this mailbox.
    Mailbox(MailboxId, StoreError),
    /// Anything else.
    Message(AcceptError),
}

impl From<AcceptError> for Failed {
    fn from(error: AcceptError) -> Self {
        Self::Message(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Message(error.into())
    }
}

impl Failed {
    /// Returns whether the error is that of a row, and not of the whole database.
    pub(super) const fn is_of_row(error: &StoreError) -> bool {
        matches!(error, StoreError::Unexpected(_) | StoreError::Conflict(_) | StoreError::Reference)
    }

    /// Blames a mailbox for an error, unless the whole database fails.
    pub(super) fn at(mailbox: MailboxId, error: AcceptError) -> Self {
        match error {
            AcceptError::Store(error) if Self::is_of_row(&error) => Self::Mailbox(mailbox, error),
            error => Self::Message(error),
        }
    }

    /// Blames a mailbox for an error of the message store.
    pub(super) fn in_store(mailbox: MailboxId) -> impl Fn(MessageStoreError) -> Self {
        move |error| Self::at(mailbox, error.into_store().into())
    }
}

impl Unusable {
    pub(super) fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    pub(super) fn contains(&self, mailbox: MailboxId) -> bool {
        self.refused.contains(&mailbox)
    }

    /// Mends a mailbox that failed, or refuses it from now on.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        mailbox: MailboxId,
        error: StoreError,
        now: Timestamp,
        touched: &mut Touched,
    ) -> Result<(), AcceptError> {
        let mend = || renumber::mend(connection, mailbox, now, touched);
        if self.mended.insert(mailbox) && in_savepoint(connection, mend).is_ok_and(|changes| changes > 0) {
            return Ok(());
        }
        tracing::error!(mailbox = mailbox.0, %error, "mailbox cannot take mail; `mailapi doctor` names it");
        if !self.refused.insert(mailbox) || self.refused.len() > MOST {
            return Err(error.into());
        }
        Ok(())
    }
}

/// Runs a part of a transaction whose changes are undone if it fails.
pub(super) fn in_savepoint<T, E: From<StoreError>>(
    connection: &Connection,
    job: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let execute = |sql| -> Result<(), StoreError> {
        connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    };
    execute("SAVEPOINT part")?;
    let outcome = job();
    // A full disk makes SQLite undo the whole transaction, so that there may be no savepoint any more.
    if outcome.is_err() && !connection.is_autocommit() {
        execute("ROLLBACK TO part")?;
    }
    if !connection.is_autocommit() {
        execute("RELEASE part")?;
    }
    outcome
}

/// The reply for a mailbox that cannot take mail (RFC 3463 section 3.3).
pub(super) fn unusable() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 2, 0), "The mailbox cannot take mail because of an error of this server")
}

/// The same for other servers, which try again while the operator mends the mailbox.
pub(super) fn unusable_for_now() -> Reply {
    Reply::new(451, EnhancedCode::new(4, 2, 0), "The mailbox cannot take mail at the moment, try again later")
}
