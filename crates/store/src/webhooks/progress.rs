//! The results that a sender stores after its attempts.

use std::time::Duration;

use mailapi_events::{EventCursor, NewEvent};
use mailapi_model::{MessageId, Timestamp, WebhookDisabled, WebhookId};

use super::failures::{keep, settle};
use super::{COLUMNS, Webhook, WebhookFailure, Webhooks, read};
use crate::StoreError;
use crate::db::{DATABASE_TIME, Db, Stmt, exactly_one, millis, number};
use crate::events::Log;

/// The results of one group of attempts.
#[derive(Debug, Clone, Default)]
pub struct WebhookProgress {
    /// The node that made the attempts. Nothing is stored if another node has reserved the webhook since.
    pub node: String,
    /// The position before the attempts. Nothing is stored if the webhook's position is another one by now.
    pub from: EventCursor,
    /// The webhook's [`Webhook::revision`] before the attempts. Nothing is stored if a request has changed the webhook.
    pub revision: i64,
    /// The position after the events that no longer need a first attempt.
    pub to: EventCursor,
    /// Events with stored failures that were delivered now, or are no longer kept.
    pub settled: Vec<u64>,
    /// Events that the receiver did not get.
    pub failures: Vec<WebhookFailure>,
    /// Since when every attempt failed; `None` after a success.
    pub failing_since: Option<Timestamp>,
    /// Until when nothing is sent.
    pub paused_until: Option<Timestamp>,
    /// Whether there was an attempt.
    pub has_attempted: bool,
    /// Whether an attempt was successful.
    pub has_succeeded: bool,
    /// The latest failure; `None` after a success.
    pub last_error: Option<String>,
    /// Why the webhook is disabled now.
    pub disabled: Option<DisabledWebhook>,
}

/// A webhook is disabled.
#[derive(Debug, Clone)]
pub struct DisabledWebhook {
    /// The reason.
    pub because: WebhookDisabled,
    /// The event about it.
    pub event: NewEvent,
    /// The id of the mail to its owner, which is still to be sent.
    pub notice: MessageId,
}

/// Whether a node may send the events of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookClaim {
    /// This node may.
    Held(Box<Webhook>),
    /// Another node has the webhook for this time.
    Reserved(Duration),
    /// The webhook is disabled or deleted.
    Gone,
}

impl WebhookClaim {
    fn held(webhook: Webhook) -> Self {
        Self::Held(Box::new(webhook))
    }
}

/// A webhook that wants none of the events after its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassedWebhook {
    /// Its number.
    pub id: WebhookId,
    /// Its revision when the events were compared with what it wants.
    pub revision: i64,
    /// Its stored position.
    pub stored: EventCursor,
}

impl Webhooks<'_> {
    /// Reserves a webhook for this node for a while. A reservation that has three quarters of this time left is not
    /// renewed. Times are those of the database: the clocks of nodes differ. A SQLite file has one process, so it needs
    /// no reservation.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn claim(&self, id: WebhookId, node: &str, time: Duration) -> Result<WebhookClaim, StoreError> {
        if matches!(self.0, Db::Sqlite(_)) {
            let webhook = self.get(id).await?.filter(|webhook| webhook.enabled);
            return Ok(webhook.map_or(WebhookClaim::Gone, WebhookClaim::held));
        }
        // A webhook has a round for each batch of new events, so most rounds write nothing.
        let sql = format!(
            "SELECT COALESCE(claimed_by = $2, FALSE), claimed_until - {DATABASE_TIME}, {COLUMNS} FROM webhooks \
             WHERE id = $1 AND enabled"
        );
        let Some(mut row) = self.0.first(Stmt::new(sql).bind(id).bind(node)).await? else {
            return Ok(WebhookClaim::Gone);
        };
        let (is_own, left) = (row.bool()?, Duration::from_millis(u64::try_from(row.int()?).unwrap_or_default()));
        // A longer rest shows that the clock was set back.
        if is_own && (time * 3 / 4..=time).contains(&left) {
            return read(row).map(WebhookClaim::held);
        }
        if !is_own && !left.is_zero() && left <= time {
            return Ok(WebhookClaim::Reserved(left));
        }
        self.reserve(id, node, time).await
    }

    async fn reserve(&self, id: WebhookId, node: &str, time: Duration) -> Result<WebhookClaim, StoreError> {
        let sql = format!(
            "UPDATE webhooks SET claimed_by = $2, claimed_until = {DATABASE_TIME} + $3 \
             WHERE id = $1 AND enabled AND (claimed_by = $2 OR claimed_until <= {DATABASE_TIME} \
             OR claimed_until > {DATABASE_TIME} + $3) RETURNING {COLUMNS}"
        );
        let reserve = Stmt::new(sql).bind(id).bind(node).bind(millis(time));
        let row = self.0.execute(reserve).await?.rows.into_iter().next();
        // Without a row, another node was faster.
        row.map_or(Ok(WebhookClaim::Reserved(time)), |row| read(row).map(WebhookClaim::held))
    }

    /// Stores results. Returns false, with nothing changed, if the webhook was deleted, a request has changed it, or
    /// another node has reserved it: the events are then sent again.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn advance(&self, id: WebhookId, progress: &WebhookProgress, now: Timestamp) -> Result<bool, StoreError> {
        let mut statements = vec![advance(id, progress, now)];
        statements.extend(progress.settled.iter().map(|event| settle(id, *event)));
        statements.extend(progress.failures.iter().map(|failure| keep(id, failure, now)));
        if let Some(disabled) = &progress.disabled {
            statements.push(disable(id, disabled));
            statements.push(Log::of(self.0).insert(&disabled.event));
        }
        // Need not be durable: after a power failure, receivers get the latest events twice, and miss none.
        match self.0.batch_in_order(statements).await {
            Err(StoreError::Guard { .. }) => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Moves the position of a webhook back, so that later events are sent again. Returns whether it exists. Later
    /// events that were given up lose their rows, because they are sent as new ones.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn move_back(&self, id: WebhookId, to: EventCursor) -> Result<bool, StoreError> {
        // The row of the webhook first: the results of a round lock it first too.
        let moved = "UPDATE webhooks SET cursor = CASE WHEN cursor < $2 THEN cursor ELSE $2 END, \
                     revision = revision + 1 WHERE id = $1";
        let given_up = "DELETE FROM webhook_failures WHERE webhook_id = $1 AND number > $2 AND next_try_at IS NULL";
        let statements = [moved, given_up].map(|sql| Stmt::new(sql).bind(id).bind(number(to.number())));
        let effects = self.0.batch(statements.into()).await?;
        Ok(effects.first().is_some_and(|moved| moved.touched > 0))
    }

    /// Schedules all failures with numbers after `after` and up to `until` for `now`; returns their number.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn retry_failures(
        &self,
        id: WebhookId,
        after: EventCursor,
        until: EventCursor,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let sql = "UPDATE webhook_failures SET attempts = 0, next_try_at = $4 \
                   WHERE webhook_id = $1 AND number > $2 AND number <= $3";
        let retry = Stmt::new(sql).bind(id).bind(number(after.number())).bind(number(until.number())).bind(now);
        let changed = Stmt::new("UPDATE webhooks SET revision = revision + 1 WHERE id = $1").bind(id);
        // The row of the webhook first, as in the results of a round.
        let effects = self.0.batch(vec![changed, retry]).await?;
        Ok(effects.last().map_or(0, |retried| retried.touched))
    }

    /// Returns disabled webhooks whose owners have no mail about it yet, with the ids of the mails.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn notices(&self) -> Result<Vec<(Webhook, MessageId)>, StoreError> {
        let sql =
            format!("SELECT notice_id, {COLUMNS} FROM webhooks WHERE notice_id IS NOT NULL ORDER BY id LIMIT 100");
        let rows = self.0.query(Stmt::new(sql)).await?.into_iter();
        rows.map(|mut row| row.parsed().and_then(|id| Ok((read(row)?, id)))).collect()
    }

    /// Notes that the mail `from` about a disabled webhook was sent, or is replaced by the mail `to`.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn set_notice(&self, id: WebhookId, from: MessageId, to: Option<MessageId>) -> Result<(), StoreError> {
        let sql = "UPDATE webhooks SET notice_id = $3 WHERE id = $1 AND notice_id = $2";
        self.0.execute(Stmt::new(sql).bind(id).bind(from).bind(to)).await.map(drop)
    }

    /// Returns the webhooks with events to try again, and the time of the first of them.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn next_tries(&self) -> Result<Vec<(WebhookId, Timestamp)>, StoreError> {
        let sql = "SELECT webhook_id, MIN(next_try_at) FROM webhook_failures WHERE next_try_at IS NOT NULL \
                   GROUP BY webhook_id";
        let rows = exactly_one(self.0.scan(vec![Stmt::new(sql)]).await?)?;
        rows.into_iter().map(|mut row| Ok((WebhookId(row.int()?), row.time()?))).collect()
    }

    /// Moves the positions of webhooks past events that they do not want, up to `to`. Leaves out those that have
    /// changed, and those that another node has reserved. Returns the webhooks that were moved.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn pass(
        &self,
        webhooks: &[PassedWebhook],
        to: EventCursor,
        node: &str,
    ) -> Result<Vec<WebhookId>, StoreError> {
        /// Number of webhooks in one transaction, which other writers wait for.
        const AT_ONCE: usize = 500;
        let is_free = match self.0 {
            Db::Sqlite(_) => "$5 = $5".to_owned(),
            Db::Postgres(_) => format!("(claimed_by = $5 OR claimed_until <= {DATABASE_TIME})"),
        };
        let sql =
            format!("UPDATE webhooks SET cursor = $3 WHERE id = $1 AND cursor = $2 AND revision = $4 AND {is_free}");
        let mut moved = Vec::new();
        for some in webhooks.chunks(AT_ONCE) {
            let pass = |webhook: &PassedWebhook| {
                let (from, to) = (number(webhook.stored.number()), number(to.number()));
                Stmt::new(sql.clone()).bind(webhook.id).bind(from).bind(to).bind(webhook.revision).bind(node)
            };
            // Need not be durable: after a power failure, the events are looked up again.
            let effects = self.0.batch_in_order(some.iter().map(pass).collect()).await?;
            let done = some.iter().zip(effects).filter(|(_, effect)| effect.touched > 0);
            moved.extend(done.map(|(webhook, _)| webhook.id));
        }
        Ok(moved)
    }
}

fn advance(id: WebhookId, progress: &WebhookProgress, now: Timestamp) -> Stmt {
    let sql = "UPDATE webhooks SET cursor = $3, failing_since = $4, paused_until = $5, \
               last_attempt_at = CASE WHEN $6 THEN $8 ELSE last_attempt_at END, \
               last_success_at = CASE WHEN $7 THEN $8 ELSE last_success_at END, last_error = $9 \
               WHERE id = $1 AND cursor = $2 AND revision = $10 AND COALESCE(claimed_by, $11) = $11";
    Stmt::new(sql)
        .bind(id)
        .bind(number(progress.from.number()))
        .bind(number(progress.to.number()))
        .bind(progress.failing_since)
        .bind(progress.paused_until)
        .bind(progress.has_attempted)
        .bind(progress.has_succeeded)
        .bind(now)
        .bind(progress.last_error.clone())
        .bind(progress.revision)
        .bind(progress.node.as_str())
        .demand(1)
}

fn disable(id: WebhookId, disabled: &DisabledWebhook) -> Stmt {
    let sql = "UPDATE webhooks SET enabled = FALSE, disabled_because = $2, notice_id = $3 WHERE id = $1 AND enabled";
    Stmt::new(sql).bind(id).bind(disabled.because.as_str()).bind(disabled.notice).demand(1)
}
