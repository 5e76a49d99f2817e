//! A message's record in a transaction of the mail server that has its mail in the same SQLite file.

use mailapi_model::{EmailAddress, QueueId, Reply, Timestamp};
use rusqlite::Connection;

use super::{Answer, NewSent, Subject, begin};
use crate::StoreError;
use crate::db::{Stmt, sqlite_batch};
use crate::events::Log;
use crate::sqlite::Sqlite;

/// The record of one message, for a job of [`Sqlite::write`]. The job must fail if one of its steps fails.
#[derive(Debug)]
pub struct EnlistedRecord {
    engine: Sqlite,
    subject: Subject,
    begin: Vec<Stmt>,
}

impl EnlistedRecord {
    pub(super) fn new(engine: Sqlite, message: &NewSent) -> Self {
        Self { engine, subject: Subject::of_new(message), begin: begin::statements(message) }
    }

    /// Returns whether the record belongs into the file of this handle, so that one job can write both.
    #[must_use]
    pub fn is_in(&self, file: &Sqlite) -> bool {
        self.engine.is_same(file)
    }

    /// Stores the message as pending, like [`super::Sent::begin`].
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the message or the key of its request exists.
    pub fn begin(&self, connection: &Connection) -> Result<(), StoreError> {
        sqlite_batch(connection, &self.begin).map(drop)
    }

    /// Stores that the mail server accepted the message, and its events, like [`super::Sent::submitted`].
    ///
    /// # Errors
    /// A failed guard unless [`EnlistedRecord::begin`] ran before.
    pub fn submitted(
        &self,
        connection: &Connection,
        queue_id: &QueueId,
        at: Timestamp,
        refused: &[(EmailAddress, Reply)],
    ) -> Result<(), StoreError> {
        let (message_id, subject) = (self.subject.message_id(), Some(&self.subject));
        let answer = Answer { log: Log::Numbered, message_id, subject, queue_id, refused, at };
        // The same transaction has just stored the message, so nothing has happened to it yet.
        sqlite_batch(connection, &answer.submitted(Log::insert)).map(drop)
    }
}
