//! What mail servers reported, and how far their feeds were read.
//!
//! An event is kept once, in the same transaction as the cursor behind it and the statuses that it changes.

use std::collections::BTreeSet;
use std::time::Duration;

use mailapi_model::{
    DeliveryEvent, DeliveryLogEntry, EmailAddress, Evidence, FeedCursor, Listed, MessageId, Outcome, Page, QueueId,
    Reply, Timestamp,
};

use crate::StoreError;
use crate::db::{Db, Effect, Filter, List, Row, Stmt, Value, millis};
use crate::statuses;

/// The delivery log.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryLog<'a>(pub(crate) &'a Db);

/// What appending did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended {
    /// How many events were added.
    pub entries_added: u64,
    /// Of how many messages at least one recipient changed.
    pub messages_updated: u64,
}

/// An address that stands behind a recipient: a member of an alias, the target of a forwarding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The recipient that the sender named.
    pub of: EmailAddress,
    /// The address that was tried.
    pub address: EmailAddress,
    /// Whether it was told that the message bounced there.
    pub has_bounced: bool,
}

/// Which entries to list; what is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryLogFilter {
    /// Only those of this message.
    pub message_id: Option<MessageId>,
    /// Only those under this name in the mail server's queue.
    pub queue_id: Option<QueueId>,
    /// Only those from this address.
    pub sender: Option<EmailAddress>,
    /// Only those to this address.
    pub recipient: Option<EmailAddress>,
    /// Only those that ended so.
    pub status: Option<Outcome>,
    /// Only those at this moment or later.
    pub start: Option<Timestamp>,
    /// Only those before this moment.
    pub end: Option<Timestamp>,
}

const COLUMNS: &str = "id, at, message_id, queue_id, sender, sender_given, recipient, recipient_given, outcome, \
                       returned_mail, dsn, response, relay, delay_millis, final_recipient, final_recipient_given";

pub(crate) const ENTRIES: List =
    List { table: "delivery_events", key: "id", order: "at DESC, id DESC", columns: COLUMNS };

impl DeliveryLog<'_> {
    /// How far a feed was read; none when it never was.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn cursor(&self, feed: &str) -> Result<Option<FeedCursor>, StoreError> {
        let statement = Stmt::new("SELECT cursor FROM delivery_cursors WHERE feed = $1").bind(feed);
        let row = self.0.first(statement).await?;
        row.map(|mut row| row.text().map(FeedCursor)).transpose()
    }

    /// Keeps what was read of `feed` between the cursors `from` and `to`, and moves the statuses of the messages
    /// concerned: all or nothing. `from` is empty when the feed was never read.
    ///
    /// # Errors
    /// A failed guard ([`StoreError::is_guard_failed`]) when the feed's cursor is no longer `from`: somebody else has
    /// read on, and nothing was kept.
    pub async fn append(
        &self,
        feed: &str,
        events: &[DeliveryEvent],
        from: &FeedCursor,
        to: &FeedCursor,
    ) -> Result<Appended, StoreError> {
        let touched: BTreeSet<MessageId> = events.iter().filter_map(|event| event.message_id).collect();
        let mut statements = vec![move_cursor(feed, from, to)];
        statements.extend(touched.iter().map(|message_id| statuses::lock(*message_id)));
        statements.extend(events.iter().map(insert_event));
        let moves_begin = statements.len();
        let moves = || events.iter().filter_map(|event| event.message_id.map(|message_id| (message_id, event)));
        statements.extend(moves().map(|(message_id, event)| statuses::after_event(message_id, event)));
        statements.extend(touched.iter().map(|message_id| statuses::recompute(*message_id)));

        let effects = self.0.batch(statements).await?;
        let moved = moves().map(|(message_id, _)| message_id).zip(effects.iter().skip(moves_begin));
        let changed = |(message_id, effect): (MessageId, &Effect)| (effect.touched > 0).then_some(message_id);
        let updated: BTreeSet<MessageId> = moved.filter_map(changed).collect();
        Ok(Appended {
            entries_added: u64::try_from(events.len()).unwrap_or(u64::MAX),
            messages_updated: u64::try_from(updated.len()).unwrap_or(u64::MAX),
        })
    }

    /// A page of the entries, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &DeliveryLogFilter, page: Page) -> Result<Listed<DeliveryLogEntry>, StoreError> {
        ENTRIES.page(self.0, conditions(filter), page, read_entry).await
    }

    /// The addresses that were tried in place of recipients of a message, as far as events have told of them.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn members(&self, message_id: MessageId) -> Result<Vec<Member>, StoreError> {
        let statement = Stmt::new(
            "SELECT recipient, final_recipient, CAST(MAX(CASE WHEN outcome IN ('bounced', 'expired') THEN 1 ELSE 0 END) AS BIGINT) \
             FROM delivery_events WHERE message_id = $1 AND final_recipient IS NOT NULL \
             GROUP BY recipient, final_recipient ORDER BY recipient, final_recipient",
        );
        let rows = self.0.query(statement.bind(message_id)).await?;
        let read = |mut row: Row| Ok(Member { of: row.parsed()?, address: row.parsed()?, has_bounced: row.int()? > 0 });
        rows.into_iter().map(read).collect()
    }

    /// When the newest event happened.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn last_event_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let newest = self.0.first(Stmt::new("SELECT MAX(at) FROM delivery_events")).await?;
        newest.map_or(Ok(None), |mut row| row.time_or_null())
    }
}

/// Moves the cursor from one place to the next, and fails when it is at another. A feed without a cursor is at the
/// empty one.
fn move_cursor(feed: &str, from: &FeedCursor, to: &FeedCursor) -> Stmt {
    Stmt::new(
        "INSERT INTO delivery_cursors (feed, cursor) SELECT CAST($1 AS TEXT), CAST($3 AS TEXT) \
         WHERE CAST($2 AS TEXT) = '' OR EXISTS (SELECT 1 FROM delivery_cursors WHERE feed = $1) \
         ON CONFLICT (feed) DO UPDATE SET cursor = EXCLUDED.cursor WHERE delivery_cursors.cursor = $2",
    )
    .bind(feed)
    .bind(from.0.as_str())
    .bind(to.0.as_str())
    .demand(1)
}

/// A message of ours never leaves with the null reverse-path: where an event names none, the mail server was given
/// another than the author's. Addresses are shown as in the message, because a mail server may report them folded.
fn insert_event(event: &DeliveryEvent) -> Stmt {
    Stmt::new(
        "INSERT INTO delivery_events (at, message_id, queue_id, sender, recipient, outcome, returned_mail, dsn, \
         response, relay, delay_millis, final_recipient, final_recipient_given, recipient_given, sender_given) \
         VALUES ($1, $2, $3, \
         COALESCE($4, (SELECT sender FROM sent_messages WHERE message_id = $2)), $5, $6, $7, $8, $9, $10, $11, $12, $13, \
         COALESCE((SELECT email_given FROM sent_recipients \
         WHERE sent_id = (SELECT id FROM sent_messages WHERE message_id = $2) AND email = $5), $14), \
         COALESCE((SELECT sender_given FROM sent_messages WHERE message_id = $2 AND sender = COALESCE($4, sender)), $15))",
    )
    .bind(event.at)
    .bind(event.message_id)
    .bind(&event.queue_id)
    .bind(event.sender.as_ref())
    .bind(&event.recipient)
    .bind(event.outcome)
    .bind(event.evidence == Evidence::ReturnedMail)
    .bind(event.dsn)
    .bind(event.response.as_str())
    .bind(event.relay.clone())
    .bind(millis(event.delay))
    .bind(event.final_recipient.as_ref())
    .bind(event.final_recipient.as_ref().and_then(EmailAddress::given))
    .bind(event.recipient.given())
    .bind(event.sender.as_ref().and_then(EmailAddress::given))
}

/// An entry for a recipient that the mail server refused at submission; none once the message is submitted or failed.
pub(crate) fn insert_refusal(
    message_id: MessageId,
    queue_id: &QueueId,
    recipient: &EmailAddress,
    reply: &Reply,
    at: Timestamp,
) -> Stmt {
    Stmt::new(
        "INSERT INTO delivery_events (at, message_id, queue_id, sender, recipient, outcome, returned_mail, dsn, \
         response, delay_millis, recipient_given, sender_given) \
         SELECT CAST($2 AS BIGINT), message_id, CAST($3 AS TEXT), sender, CAST($4 AS TEXT), CAST($5 AS TEXT), FALSE, \
         CAST($6 AS TEXT), CAST($7 AS TEXT), 0, \
         (SELECT email_given FROM sent_recipients WHERE sent_id = sent_messages.id AND email = $4), sender_given \
         FROM sent_messages WHERE message_id = $1 AND submitted_at IS NULL AND failed_at IS NULL",
    )
    .bind(message_id)
    .bind(at)
    .bind(queue_id)
    .bind(recipient)
    .bind(Outcome::of_refusal(reply))
    .bind(reply.enhanced_or_class())
    .bind(reply.to_string())
}

pub(crate) fn conditions(filter: &DeliveryLogFilter) -> Filter {
    Filter::all()
        .equal([
            ("message_id", filter.message_id.map(Value::from)),
            ("queue_id", filter.queue_id.as_ref().map(Value::from)),
            ("recipient", filter.recipient.as_ref().map(Value::from)),
            ("sender", filter.sender.as_ref().map(Value::from)),
            ("outcome", filter.status.map(Value::from)),
        ])
        .when("at >= ?", filter.start)
        .when("at < ?", filter.end)
}

fn read_entry(mut row: Row) -> Result<DeliveryLogEntry, StoreError> {
    Ok(DeliveryLogEntry {
        id: row.int()?,
        event: DeliveryEvent {
            at: row.time()?,
            message_id: row.parsed_or_null()?,
            queue_id: QueueId(row.text()?),
            sender: row.address_or_null()?,
            recipient: row.address()?,
            outcome: row.parsed()?,
            evidence: if row.bool()? { Evidence::ReturnedMail } else { Evidence::MailServer },
            dsn: row.parsed_or_null()?,
            response: row.text()?,
            relay: row.text_or_null()?,
            delay: Duration::from_millis(row.unsigned()?),
            final_recipient: row.address_or_null()?,
        },
    })
}
