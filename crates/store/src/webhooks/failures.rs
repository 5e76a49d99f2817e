//! Events that a receiver did not get at the first attempt.

use mailapi_events::{EventId, EventType};
use mailapi_model::{Listed, MessageId, Page, Timestamp, WebhookId};

use super::Webhooks;
use crate::StoreError;
use crate::db::{Filter, List, Row, Stmt, number};

/// An event that a receiver did not get yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookFailure {
    /// The number of the event.
    pub number: u64,
    /// The id of the event.
    pub event_id: EventId,
    /// The type of the event.
    pub event_type: EventType,
    /// The message of the event. Events of one message are sent in their order.
    pub message_id: Option<MessageId>,
    /// The number of attempts so far; 0 while the event waits for an earlier one of its message, and after a replay.
    pub attempts: u32,
    /// When it is tried again; `None` after the last attempt.
    pub next_try_at: Option<Timestamp>,
    /// The latest attempt.
    pub last: Option<FailedAttempt>,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// When it began.
    pub at: Timestamp,
    /// The receiver's HTTP status; `None` without an answer.
    pub status: Option<u16>,
    /// Why there was no answer.
    pub error: Option<String>,
    /// The beginning of the receiver's answer.
    pub answer: Option<String>,
}

const COLUMNS: &str = "number, event_id, event_type, message_id, attempts, next_try_at, last_attempt_at, status, \
                       error, answer";

pub(crate) const FAILURES: List = List { table: "webhook_failures", key: "id", order: "id DESC", columns: COLUMNS };

impl Webhooks<'_> {
    /// Returns at most `most` events of a webhook that will be tried again, in the order of the log.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open_failures(&self, id: WebhookId, most: u32) -> Result<Vec<WebhookFailure>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM webhook_failures WHERE webhook_id = $1 AND next_try_at IS NOT NULL \
             ORDER BY number LIMIT $2"
        );
        self.0.query(Stmt::new(sql).bind(id).bind(i64::from(most))).await?.into_iter().map(read).collect()
    }

    /// Returns a page of the events that the receiver of a webhook did not get, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn failures(&self, id: WebhookId, page: Page) -> Result<Listed<WebhookFailure>, StoreError> {
        FAILURES.page(self.0, failure_conditions(id), page, read).await
    }

    /// Deletes at most `limit` failures that were first stored before `moment`; returns their number.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn forget_failures(&self, moment: Timestamp, limit: u64) -> Result<u64, StoreError> {
        let sql = "DELETE FROM webhook_failures WHERE id IN (SELECT id FROM webhook_failures WHERE created_at < $1 \
                   ORDER BY created_at LIMIT $2)";
        Ok(self.0.execute(Stmt::new(sql).bind(moment).bind(number(limit))).await?.touched)
    }
}

pub(crate) fn failure_conditions(id: WebhookId) -> Filter {
    Filter::all().when("webhook_id = ?", Some(id))
}

/// Stores the state of a failure.
pub(super) fn keep(id: WebhookId, failure: &WebhookFailure, now: Timestamp) -> Stmt {
    let sql = format!(
        "INSERT INTO webhook_failures (webhook_id, created_at, {COLUMNS}) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
         ON CONFLICT (webhook_id, number) DO UPDATE SET attempts = excluded.attempts, \
         next_try_at = excluded.next_try_at, last_attempt_at = excluded.last_attempt_at, status = excluded.status, \
         error = excluded.error, answer = excluded.answer"
    );
    let last = failure.last.as_ref();
    Stmt::new(sql)
        .bind(id)
        .bind(now)
        .bind(number(failure.number))
        .bind(failure.event_id.to_string())
        .bind(failure.event_type.as_str())
        .bind(failure.message_id)
        .bind(i64::from(failure.attempts))
        .bind(failure.next_try_at)
        .bind(last.map(|last| last.at))
        .bind(last.and_then(|last| last.status).map(i64::from))
        .bind(last.and_then(|last| last.error.clone()))
        .bind(last.and_then(|last| last.answer.clone()))
}

/// Deletes a failure after a success.
pub(super) fn settle(id: WebhookId, event: u64) -> Stmt {
    let sql = "DELETE FROM webhook_failures WHERE webhook_id = $1 AND number = $2";
    Stmt::new(sql).bind(id).bind(number(event))
}

fn read(mut row: Row) -> Result<WebhookFailure, StoreError> {
    let number = row.unsigned()?;
    let (event_id, event_type, message_id) = (row.parsed()?, row.parsed()?, row.parsed_or_null()?);
    let attempts = u32::try_from(row.unsigned()?).unwrap_or(u32::MAX);
    let next_try_at = row.time_or_null()?;
    let (at, status) = (row.time_or_null()?, row.int_or_null()?.and_then(|status| u16::try_from(status).ok()));
    let (error, answer) = (row.text_or_null()?, row.text_or_null()?);
    let last = at.map(|at| FailedAttempt { at, status, error, answer });
    Ok(WebhookFailure { number, event_id, event_type, message_id, attempts, next_try_at, last })
}
