//! The delivery log: events that mail servers reported, and the cursor of each feed.
//!
//! Each event is stored once, in one transaction with the advanced cursor and the recipient statuses that it
//! changes.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use mailapi_events::{Attempted, MessageFacts, Origin, delivery, submitted};
use mailapi_model::{
    DeliveryEvent, DeliveryLogEntry, EmailAddress, Evidence, FeedCursor, Listed, MessageId, Outcome, Page, QueueId,
    ReceivedMail, Reply, SubmittedReport, Timestamp,
};

use crate::StoreError;
use crate::db::{Db, Filter, List, Row, Stmt, Value, millis};
use crate::events::Log;
use crate::received_mail;
use crate::sent::subject::Subject;
use crate::statuses;

/// The delivery log.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryLog<'a>(pub(crate) &'a Db);

/// A batch of a mail server's reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reports<'a> {
    /// Deliveries, for the delivery log and the statuses.
    pub deliveries: &'a [DeliveryEvent],
    /// Messages that mailboxes received. They are stored until their events are complete ([`crate::WaitingMails`]).
    pub received: &'a [ReceivedMail],
    /// Reports about mail that mail programs submitted. They become events and change no status.
    pub submitted: &'a [SubmittedReport],
}

/// Result of [`DeliveryLog::append`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Appended {
    /// Number of events added.
    pub entries_added: u64,
    /// Number of messages in which at least one recipient changed.
    pub messages_updated: u64,
    /// Places of the events that changed a recipient.
    pub changes: Vec<usize>,
}

/// An address that a recipient expanded to: a member of an alias, or the target of a forwarding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The recipient that the sender named.
    pub of: EmailAddress,
    /// The address that delivery was attempted to.
    pub address: EmailAddress,
    /// Whether the message was reported as bounced for this address.
    pub has_bounced: bool,
}

/// Which entries to list; `None` means no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryLogFilter {
    /// Only entries of this message.
    pub message_id: Option<MessageId>,
    /// Only entries with this queue id.
    pub queue_id: Option<QueueId>,
    /// Only entries from this sender.
    pub sender: Option<EmailAddress>,
    /// Only entries to this recipient.
    pub recipient: Option<EmailAddress>,
    /// Only entries with this outcome.
    pub status: Option<Outcome>,
    /// Only entries at this time or later.
    pub start: Option<Timestamp>,
    /// Only entries before this time.
    pub end: Option<Timestamp>,
}

const COLUMNS: &str = "id, at, message_id, queue_id, sender, sender_given, recipient, recipient_given, outcome, \
                       returned_mail, dsn, response, relay, delay_millis, final_recipient, final_recipient_given";

pub(crate) const ENTRIES: List =
    List { table: "delivery_events", key: "id", order: "at DESC, id DESC", columns: COLUMNS };

impl DeliveryLog<'_> {
    /// Returns the cursor of a feed; `None` if it was never read.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn cursor(&self, feed: &str) -> Result<Option<FeedCursor>, StoreError> {
        let statement = Stmt::new("SELECT cursor FROM delivery_cursors WHERE feed = $1").bind(feed);
        let row = self.0.first(statement).await?;
        row.map(|mut row| row.text().map(FeedCursor)).transpose()
    }

    /// Stores the events of `feed` between the cursors `from` and `to`, and updates the statuses of their
    /// messages, in one transaction. `from` is empty if the feed was never read.
    ///
    /// # Errors
    /// A failed guard ([`StoreError::is_guard_failed`]) when the feed's cursor is no longer `from`: another
    /// reader has advanced it, and nothing was stored.
    pub async fn append(
        &self,
        feed: &str,
        events: &[DeliveryEvent],
        from: &FeedCursor,
        to: &FeedCursor,
    ) -> Result<Appended, StoreError> {
        self.append_reports(feed, Reports { deliveries: events, ..Reports::default() }, from, to).await
    }

    /// Like [`DeliveryLog::append`]; also stores the other reports of the batch.
    ///
    /// # Errors
    /// As [`DeliveryLog::append`].
    pub async fn append_reports(
        &self,
        feed: &str,
        reports: Reports<'_>,
        from: &FeedCursor,
        to: &FeedCursor,
    ) -> Result<Appended, StoreError> {
        let Reports { deliveries: events, received, submitted } = reports;
        let touched: BTreeSet<MessageId> = events.iter().filter_map(|event| event.message_id).collect();
        let known = self.known(events).await?;
        // The cursor comes first: its guard stops the batch before anything is stored twice.
        let mut statements = vec![move_cursor(feed, from, to)];
        // In id order, so that two nodes cannot deadlock.
        statements.extend(touched.iter().map(|message_id| statuses::lock(*message_id)));
        statements.extend(events.iter().map(insert_event));
        let mut moves = Vec::with_capacity(events.len());
        let mut attempts = HashMap::new();
        for ((place, event), known) in events.iter().enumerate().zip(known) {
            let Some(message_id) = event.message_id else { continue };
            // Before the status changes: the same condition decides about both.
            let source = Source { feed, to, place };
            let events = known.map(|known| events_of(Log::of(self.0), known, event, &mut attempts, source));
            statements.extend(events.into_iter().flatten().flatten());
            moves.push((place, message_id, statements.len()));
            statements.push(statuses::after_event(message_id, event));
        }
        // The overall status depends on all recipients, so it is computed last.
        statements.extend(touched.iter().map(|message_id| statuses::recompute(*message_id)));
        statements.extend(submitted_events(Log::of(self.0), submitted, feed, to));
        let mail = received.iter().enumerate();
        statements.extend(mail.map(|(place, mail)| received_mail::insert(mail, feed, to, place)));

        let effects = self.0.batch(statements).await?;
        let has_moved = |statement: usize| effects.get(statement).is_some_and(|effect| effect.touched > 0);
        let moved = moves.into_iter().filter(|(.., statement)| has_moved(*statement));
        let (changes, updated): (Vec<usize>, BTreeSet<MessageId>) =
            moved.map(|(place, message_id, _)| (place, message_id)).unzip();
        Ok(Appended {
            entries_added: u64::try_from(events.len()).unwrap_or(u64::MAX),
            messages_updated: u64::try_from(updated.len()).unwrap_or(u64::MAX),
            changes,
        })
    }

    /// Returns, for each event, the message and the recipient that it is about; `None` if they are not in the store.
    async fn known(&self, events: &[DeliveryEvent]) -> Result<Vec<Option<Known>>, StoreError> {
        /// On SQLite each group runs on the caller's thread, so it must be short.
        const GROUP: usize = 100;
        let mut known = Vec::with_capacity(events.len());
        for group in events.chunks(GROUP) {
            let about = group.iter().filter_map(|event| event.message_id.map(|id| select_known(id, event))).collect();
            let mut answers = self.0.read(about).await?.into_iter();
            for event in group {
                let row = event.message_id.and_then(|id| Some((id, answers.next()?.into_iter().next()?)));
                let mut about = row.map(|(id, row)| read_known(id, row)).transpose()?;
                if let Some(about) = about.as_mut().filter(|about| about.is_pending) {
                    about.subject = Subject::read(self.0, about.message_id).await?;
                }
                known.push(about);
            }
        }
        Ok(known)
    }

    /// Returns a page of the entries, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &DeliveryLogFilter, page: Page) -> Result<Listed<DeliveryLogEntry>, StoreError> {
        ENTRIES.page(self.0, conditions(filter), page, read_entry).await
    }

    /// Returns the addresses that a message's recipients expanded to, as far as events reported them.
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

    /// Returns the time of the newest event.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn last_event_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let newest = self.0.first(Stmt::new("SELECT MAX(at) FROM delivery_events")).await?;
        newest.map_or(Ok(None), |mut row| row.time_or_null())
    }
}

/// What an event of the log says about its message and its recipient, as they were before a batch.
struct Known {
    message_id: MessageId,
    message: MessageFacts,
    recipient: Attempted,
    /// Whether the end of the submission was not stored yet. A report may be faster.
    is_pending: bool,
    /// What the event of the submission says, if the message is pending.
    subject: Option<Subject>,
}

/// Where a delivery event came from.
#[derive(Clone, Copy)]
struct Source<'a> {
    feed: &'a str,
    to: &'a FeedCursor,
    place: usize,
}

/// Selects what an event says about its message and its recipient. Only the number of attempts ever changes, and only
/// the reader of the feed that reports them changes it.
fn select_known(message_id: MessageId, event: &DeliveryEvent) -> Stmt {
    Stmt::new(
        "SELECT mailbox, mailbox_given, sender, sender_given, created_at, email, email_given, kind, attempts, \
         EXISTS (SELECT 1 FROM accounts WHERE accounts.email = CAST($3 AS TEXT)), submitted_at IS NULL \
         FROM sent_messages JOIN sent_recipients ON sent_id = sent_messages.id \
         WHERE message_id = $1 AND sent_recipients.email = $2",
    )
    .bind(message_id)
    .bind(&event.recipient)
    .bind(event.final_recipient.as_ref().unwrap_or(&event.recipient))
}

fn read_known(message_id: MessageId, mut row: Row) -> Result<Known, StoreError> {
    let (mailbox, from, created_at) = (row.address_or_null()?, row.address()?, row.time()?);
    let message = MessageFacts { origin: Origin::Api(message_id), mailbox, from, created_at };
    let (email, kind) = (row.address()?, Some(row.parsed()?));
    let recipient = Attempted { email, kind, attempts: row.unsigned()?, is_mailbox: row.bool()? };
    Ok(Known { message_id, message, recipient, is_pending: row.bool()?, subject: None })
}

/// Returns statements that store the events of mail programs' messages.
fn submitted_events(log: Log, reports: &[SubmittedReport], feed: &str, to: &FeedCursor) -> impl Iterator<Item = Stmt> {
    reports.iter().enumerate().filter_map(move |(place, report)| {
        let source = [feed.as_bytes(), to.0.as_bytes(), &place.to_be_bytes()];
        submitted(report, &source).map(|event| log.insert(&event))
    })
}

/// Returns statements that store the event of a delivery report if the report changes its recipient's status. A report
/// also proves that the mail server accepted the message, so that event comes first if it is missing. `attempts` counts
/// the deferred attempts of the batch so far.
fn events_of<'a>(
    log: Log,
    known: Known,
    report: &'a DeliveryEvent,
    attempts: &mut HashMap<(MessageId, &'a EmailAddress), u64>,
    source: Source<'_>,
) -> Option<impl Iterator<Item = Stmt>> {
    let from = statuses::changes_from(report)?;
    let Known { message_id, message, mut recipient, is_pending: _, subject } = known;
    let earlier = attempts.entry((message_id, &report.recipient)).or_default();
    recipient.attempts += *earlier;
    // An address with a tag is a mailbox without an account of that name.
    recipient.is_mailbox |= report.is_local();
    *earlier += u64::from(report.outcome == Outcome::Deferred);
    let Source { feed, to, place } = source;
    let source = [feed.as_bytes(), to.0.as_bytes(), &place.to_be_bytes()];
    let event = delivery(&message, &recipient, report, &source)?;
    // The mail server's replies are not known yet.
    let accepted = subject.and_then(|subject| subject.accepted(&report.queue_id, report.at, &[]));
    let accepted = accepted.map(|event| log.insert_if_untouched(&event));
    Some(accepted.into_iter().chain([log.insert_if_status(&event, &report.recipient, from)]))
}

/// Advances the cursor, and fails if it is no longer at `from`. A feed without a cursor counts as being at
/// the empty one.
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

/// Inserts an event.
///
/// This server never submits with the null reverse-path. An event without a sender means that the mail server
/// used another envelope sender, so the message's author is stored. Addresses are stored in the message's
/// spelling, because mail servers may report them in lower case.
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

/// Inserts an entry for a recipient rejected at submission, unless the message is already submitted or
/// failed.
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
            next_attempt_at: None,
        },
    })
}
