//! The log of events.
//!
//! Each event is written in the transaction of its fact, by the code that writes the fact. On SQLite the writer
//! numbers it at once. On PostgreSQL, transactions commit in another order than they begin. So events are stored
//! without a number, and [`Events::number_new`] numbers the committed ones. Readers see numbered events only.

use std::sync::Arc;

use mailapi_events::{EventCursor, EventId, EventType, FactNumber, NewEvent, TypePattern};
use mailapi_model::{DomainName, EmailAddress, MessageId, Timestamp};
use rusqlite::Connection;

use crate::StoreError;
use crate::db::{BatchLock, Db, Row, Stmt, Value, count, exactly_one, number, sqlite_batch};

/// The log of events.
#[derive(Debug, Clone, Copy)]
pub struct Events<'a>(pub(crate) &'a Db);

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The position in the log; the next event has the next number.
    pub number: u64,
    /// The id.
    pub id: EventId,
    /// The type.
    pub event_type: EventType,
    /// The time of the event.
    pub at: Timestamp,
    /// The domain whose owners may read the event.
    pub domain: Option<DomainName>,
    /// The mailbox whose owner may read the event.
    pub mailbox: Option<EmailAddress>,
    /// The message, if it was sent through the API.
    pub message_id: Option<MessageId>,
    /// Creation time of the event's subject.
    pub subject_at: Timestamp,
    /// The JSON text `{"id", "type", "timestamp", "data"}`, exactly as every channel sends it.
    pub body: Arc<str>,
}

impl StoredEvent {
    /// Returns the position after this event.
    #[must_use]
    pub const fn cursor(&self) -> EventCursor {
        EventCursor::after(self.number, self.id)
    }
}

/// The events that a reader may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventScope {
    /// All of them.
    All,
    /// Those about messages that concern the reader.
    Own(OwnEvents),
}

/// The events about messages of some mailbox and some domains. A name was created at the given time; events whose
/// subject is older belong to an earlier owner of the name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnEvents {
    /// The reader's mailbox: all its `message.*`.
    pub mailbox: Option<(EmailAddress, Timestamp)>,
    /// Domains with `message.*` except `message.received`.
    pub statistics_of: Vec<(DomainName, Timestamp)>,
    /// Domains with `message.received`.
    pub mailboxes_of: Vec<(DomainName, Timestamp)>,
}

/// Which events to read; `None` and an empty list mean no condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter {
    /// What the reader may see.
    pub scope: EventScope,
    /// Only events of these types.
    pub types: Vec<TypePattern>,
    /// Only events of this domain.
    pub domain: Option<DomainName>,
    /// Only events of this mailbox.
    pub mailbox: Option<EmailAddress>,
    /// Only events of this message.
    pub message_id: Option<MessageId>,
}

impl EventFilter {
    /// Returns a filter for everything in `scope`.
    #[must_use]
    pub const fn of(scope: EventScope) -> Self {
        Self { scope, types: Vec::new(), domain: None, mailbox: None, message_id: None }
    }

    /// Returns whether the event passes the filter.
    #[must_use]
    pub fn includes(&self, event: &StoredEvent) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none() || wanted == found
        }
        is(self.message_id.as_ref(), event.message_id.as_ref())
            && is(self.domain.as_ref(), event.domain.as_ref())
            && is(self.mailbox.as_ref(), event.mailbox.as_ref())
            && (self.types.is_empty() || self.types.iter().any(|pattern| pattern.includes(event.event_type)))
            && self.scope.includes(event)
    }
}

impl EventScope {
    /// Returns whether the reader may see the event.
    #[must_use]
    pub fn includes(&self, event: &StoredEvent) -> bool {
        match self {
            Self::All => true,
            Self::Own(own) => own.includes(event),
        }
    }
}

impl OwnEvents {
    fn includes(&self, event: &StoredEvent) -> bool {
        fn holds<T: PartialEq>(names: &[(T, Timestamp)], found: Option<&T>, subject_at: Timestamp) -> bool {
            found.is_some_and(|found| names.iter().any(|(name, since)| name == found && subject_at >= *since))
        }
        let of_domains = match event.event_type {
            EventType::MessageReceived => &self.mailboxes_of,
            event_type if event_type.group() == "message" => &self.statistics_of,
            // The rest is for admins.
            _ => return false,
        };
        holds(self.mailbox.as_slice(), event.mailbox.as_ref(), event.subject_at)
            || holds(of_domains, event.domain.as_ref(), event.subject_at)
    }
}

/// Some events after a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The events, oldest first. May be empty although there are more: a read examines a bounded part of the log.
    pub events: Vec<StoredEvent>,
    /// The position to resume at.
    pub cursor: EventCursor,
    /// Whether the log has events after [`EventPage::cursor`], which may pass the filter.
    pub has_more: bool,
    /// Whether events after the reader's cursor are no longer kept, or the cursor is of another log.
    pub truncated: bool,
}

impl EventPage {
    /// Returns whether the page says something, so that a reader does not wait for more.
    #[must_use]
    pub const fn is_answer(&self) -> bool {
        !self.events.is_empty() || self.has_more || self.truncated
    }
}

/// Maximum number of events that one read examines.
const EXAMINED: u64 = 10_000;

/// Number of events per query. A body can have the names of 1,000 recipients.
const CHUNK: u64 = 250;

/// The length of bodies in bytes after which a page has no further events.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of events that get their numbers in one transaction.
const NUMBERED_AT_ONCE: usize = 10_000;

const COLUMNS: &str = "number, id, type, at, domain, mailbox, message_id, subject_at, body";

impl Events<'_> {
    /// Returns the position after the newest event.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn newest(&self) -> Result<EventCursor, StoreError> {
        Ok(self.bounds(EventCursor::default()).await?.newest)
    }

    /// Returns the position before the oldest event that is kept.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn oldest(&self) -> Result<EventCursor, StoreError> {
        Ok(self.bounds(EventCursor::default()).await?.oldest)
    }

    /// Returns whether the position is one of this log: the log has its event, or may have had it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn contains(&self, cursor: EventCursor) -> Result<bool, StoreError> {
        Ok(self.bounds(cursor).await?.contain(cursor))
    }

    /// Returns at most `limit` events after the cursor that pass the filter, oldest first. A cursor of another log begins
    /// at the oldest event.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn after(
        &self,
        cursor: EventCursor,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        let bounds = self.bounds(cursor).await?;
        self.within(&bounds, cursor, filter, limit).await
    }

    /// Like [`Events::after`], but a cursor before the oldest event that is kept is no loss.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn kept_after(
        &self,
        cursor: EventCursor,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        let bounds = self.bounds(cursor).await?;
        self.within(&bounds, cursor.max(bounds.oldest), filter, limit).await
    }

    async fn within(
        &self,
        bounds: &Bounds,
        cursor: EventCursor,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        let truncated = cursor < bounds.oldest || !bounds.contain(cursor);
        // The events of another log are unknown to the reader, so it gets all that are kept.
        let mut cursor = if truncated { bounds.oldest } else { bounds.named(cursor) };
        let mut events = Vec::new();
        if let Some(message_id) = filter.message_id {
            let found = self.of_message_after(message_id, cursor, limit).await?;
            let has_more = found.len() == limit;
            let last = found.last().map_or(cursor, StoredEvent::cursor);
            // An event that was stored after `bounds` was read must not come again.
            cursor = if has_more { last } else { last.max(bounds.newest) };
            events.extend(found.into_iter().filter(|event| filter.includes(event)));
            return Ok(EventPage { events, cursor, has_more, truncated });
        }
        let end = bounds.newest.number().min(cursor.number().saturating_add(EXAMINED));
        let mut bytes = 0;
        let is_full = |events: &[StoredEvent], bytes: usize| events.len() >= limit || bytes >= MOST_BYTES;
        while cursor.number() < end && !is_full(&events, bytes) {
            let until = end.min(cursor.number().saturating_add(CHUNK));
            for event in self.between(cursor.number(), until).await? {
                if is_full(&events, bytes) {
                    break;
                }
                cursor = event.cursor();
                if filter.includes(&event) {
                    bytes += event.body.len();
                    events.push(event);
                }
            }
            // The last event is missing only if it was removed meanwhile.
            if !is_full(&events, bytes) && cursor.number() < until {
                cursor = EventCursor::after_number(until);
            }
        }
        Ok(EventPage { events, cursor, has_more: cursor < bounds.newest, truncated })
    }

    /// Returns the event with this id; `None` if it does not exist or is no longer kept.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn find(&self, id: EventId) -> Result<Option<StoredEvent>, StoreError> {
        let statement = Stmt::new(format!("SELECT {COLUMNS} FROM events WHERE id = $1 LIMIT 1")).bind(id.to_string());
        self.0.first(statement).await?.map(read_event).transpose()
    }

    /// Returns all events of a message, oldest first, up to `limit`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn of_message(&self, message_id: MessageId, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.of_message_after(message_id, EventCursor::default(), limit).await
    }

    /// Deletes at most `limit` of the oldest events before `before`; returns their number. The newest event stays. An
    /// event later than `now` is from a clock that was ahead: it goes with the next expired event.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn prune(&self, before: Timestamp, now: Timestamp, limit: u64) -> Result<u64, StoreError> {
        // In the order of the log, so that the kept events have no gaps.
        let oldest = Stmt::new("SELECT number, at FROM events ORDER BY number LIMIT $1").bind(number(limit));
        let oldest = self.0.query(oldest).await?;
        let read = |mut row: Row| Ok::<_, StoreError>((row.unsigned()?, row.time()?));
        let oldest: Vec<_> = oldest.into_iter().map(read).collect::<Result<_, _>>()?;
        let is_early = |at: Timestamp| at > now;
        let passed = oldest.iter().take_while(|(_, at)| *at < before || is_early(*at)).collect::<Vec<_>>();
        let expired = passed.iter().rfind(|(_, at)| !is_early(*at)).map(|(last, _)| *last);
        let last = match (expired, passed.last()) {
            (Some(last), _) => last,
            // All of them have wrong times, so the first one after them decides.
            (None, Some((last, _)))
                if passed.len() as u64 == limit && self.has_expired_after(*last, before, now).await? =>
            {
                *last
            }
            _ => return Ok(0),
        };
        let sql = "DELETE FROM events WHERE number <= $1 AND number < (SELECT MAX(number) FROM events)";
        Ok(self.0.execute(Stmt::new(sql).bind(number(last))).await?.touched)
    }

    /// Returns whether the first event after a number that is not later than `now` is before `before`.
    async fn has_expired_after(&self, last: u64, before: Timestamp, now: Timestamp) -> Result<bool, StoreError> {
        let sql = "SELECT at FROM events WHERE number > $1 AND at <= $2 ORDER BY number LIMIT 1";
        let row = self.0.first(Stmt::new(sql).bind(number(last)).bind(now)).await?;
        Ok(row.map(|mut row| row.time()).transpose()?.is_some_and(|at| at < before))
    }

    /// Numbers committed events, so that readers see them; returns how many. Does nothing on SQLite, whose writer
    /// numbers events when they are stored.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn number_new(&self) -> Result<u64, StoreError> {
        let Db::Postgres(engine) = self.0 else { return Ok(0) };
        let (from, mut numbered) = (engine.numbered().begin(), 0);
        loop {
            // Usually there are none, and this check costs less than the lock.
            let any = "SELECT 1 FROM new_events WHERE writer >= $1 ORDER BY writer, key LIMIT 1";
            if self.0.query(Stmt::new(any).bind(from)).await?.is_empty() {
                return Ok(numbered);
            }
            // The lock comes before the snapshot, so each batch sees the numbers of the one before.
            let statements = vec![by_index(), number_statement(from)];
            let mut effects = self.0.batch_with_lock(BatchLock::Events, statements).await?;
            let mut row = exactly_one(effects.pop().map(|effect| effect.rows).unwrap_or_default())?;
            let (batch, oldest_writer) = (row.unsigned()?, row.int()?);
            numbered += batch;
            if batch < NUMBERED_AT_ONCE as u64 {
                // The snapshot had all events of the transactions before the oldest running one.
                engine.numbered().reached(from, oldest_writer);
                return Ok(numbered);
            }
        }
    }

    /// Returns the number of a fact that this handle stores. No other one has it.
    #[must_use]
    pub fn next_fact(&self) -> FactNumber {
        self.0.next_fact()
    }

    /// Stores an event whose fact is not stored elsewhere.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn record(&self, event: &NewEvent) -> Result<(), StoreError> {
        self.0.execute(Log::of(self.0).insert(event)).await.map(drop)
    }

    /// Like [`Events::record`], for several events in one transaction.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn record_all(&self, events: &[NewEvent]) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        let log = Log::of(self.0);
        self.0.batch(events.iter().map(|event| log.insert(event)).collect()).await.map(drop)
    }

    /// Like [`Events::record`], unless an event with this id is stored.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn record_once(&self, event: &NewEvent) -> Result<(), StoreError> {
        self.0.execute(Log::of(self.0).insert_if_new(event)).await.map(drop)
    }

    /// Like [`Events::record_once`], unless its message has `most` events of this type.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn record_once_below(&self, event: &NewEvent, most: u64) -> Result<(), StoreError> {
        self.0.execute(Log::of(self.0).insert_if_new_below(event, most)).await.map(drop)
    }

    /// Returns the ends of the log, and the event at a cursor.
    async fn bounds(&self, cursor: EventCursor) -> Result<Bounds, StoreError> {
        // Scalar queries: each reads one place of the index.
        let sql = "SELECT COALESCE((SELECT MIN(number) FROM events), 1), COALESCE((SELECT MAX(number) FROM events), 0), \
                   (SELECT id FROM events ORDER BY number DESC LIMIT 1), (SELECT id FROM events WHERE number = $1)";
        let mut row = exactly_one(self.0.query(Stmt::new(sql).bind(number(cursor.number()))).await?)?;
        let (oldest, newest) = (row.unsigned()?, row.unsigned()?);
        let after = |number, id: Option<EventId>| {
            id.map_or(EventCursor::after_number(number), |id| EventCursor::after(number, id))
        };
        let (newest, at) = (after(newest, row.parsed_or_null()?), after(cursor.number(), row.parsed_or_null()?));
        Ok(Bounds { oldest: EventCursor::after_number(oldest.saturating_sub(1)), newest, at })
    }

    /// Returns the events after the number `after`, up to and including `until`.
    async fn between(&self, after: u64, until: u64) -> Result<Vec<StoredEvent>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM events WHERE number > $1 AND number <= $2 ORDER BY number");
        let rows = self.0.query(Stmt::new(sql).bind(number(after)).bind(number(until))).await?;
        rows.into_iter().map(read_event).collect()
    }

    async fn of_message_after(
        &self,
        message_id: MessageId,
        cursor: EventCursor,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let of_message = of_message(message_id, cursor, limit);
        self.0.query(of_message).await?.into_iter().map(read_event).collect()
    }
}

/// Stores an event in a transaction of the built-in mail server, whose mail is in the same SQLite file as the log.
///
/// # Errors
/// When the database cannot be written, or has no log.
pub fn insert_event(connection: &Connection, event: &NewEvent) -> Result<(), StoreError> {
    sqlite_batch(connection, &[Log::Numbered.insert(event)]).map(drop)
}

/// The ends of the log.
struct Bounds {
    /// The position before the oldest event.
    oldest: EventCursor,
    newest: EventCursor,
    /// The reader's position with the event that the log has there, if it is kept.
    at: EventCursor,
}

impl Bounds {
    /// Returns whether the position can be one of this log. That of a removed event can.
    fn contain(&self, cursor: EventCursor) -> bool {
        cursor <= self.newest && (cursor != self.at || cursor.agrees_with(self.at))
    }

    /// Returns the position with its event, if that is kept.
    fn named(&self, cursor: EventCursor) -> EventCursor {
        if cursor == self.at && self.at.names_event() { self.at } else { cursor }
    }
}

/// Where a fact's event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// The log itself.
    Numbered,
    /// The events that wait for their numbers.
    Unnumbered,
}

impl Log {
    pub(crate) const fn of(db: &Db) -> Self {
        match db {
            Db::Sqlite(_) => Self::Numbered,
            Db::Postgres(_) => Self::Unnumbered,
        }
    }

    const fn table(self) -> &'static str {
        match self {
            Self::Numbered => "events",
            Self::Unnumbered => "new_events",
        }
    }

    /// Returns a statement that stores an event.
    pub(crate) fn insert(self, event: &NewEvent) -> Stmt {
        let table = self.table();
        let sql = format!(
            "INSERT INTO {table} (id, type, at, domain, mailbox, message_id, subject_at, body) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
        );
        bound(sql, event)
    }

    /// Returns a statement that stores an event if nothing has happened to its message yet: it was not submitted, and
    /// each recipient is pending.
    pub(crate) fn insert_if_untouched(self, event: &NewEvent) -> Stmt {
        let condition = "EXISTS (SELECT 1 FROM sent_messages WHERE message_id = $6 AND submitted_at IS NULL \
                         AND NOT EXISTS (SELECT 1 FROM sent_recipients \
                         WHERE sent_id = sent_messages.id AND status <> 'pending'))";
        bound(self.insert_if(condition), event)
    }

    /// Returns a statement that stores an event if the status of this recipient of its message is one of `from`.
    pub(crate) fn insert_if_status(self, event: &NewEvent, recipient: &EmailAddress, from: &str) -> Stmt {
        let condition = format!(
            "EXISTS (SELECT 1 FROM sent_recipients \
             WHERE sent_id = (SELECT id FROM sent_messages WHERE message_id = $6) AND email = $9 AND ({from}))"
        );
        bound(self.insert_if(&condition), event).bind(recipient)
    }

    /// Returns a statement that stores an event if a row with this key exists: `found` is `SELECT 1 FROM … WHERE … $9`.
    pub(crate) fn insert_if_found(self, event: &NewEvent, found: &str, key: impl Into<Value>) -> Stmt {
        bound(self.insert_if(&format!("EXISTS ({found})")), event).bind(key)
    }

    /// Returns a statement that stores an event whose body continues with an id that the database has just assigned,
    /// and with `rest`: `found` is `SELECT id FROM … WHERE … $9`.
    pub(crate) fn insert_with_id(self, event: &NewEvent, found: &str, key: impl Into<Value>, rest: &str) -> Stmt {
        let table = self.table();
        let sql = format!(
            "INSERT INTO {table} (id, type, at, domain, mailbox, message_id, subject_at, body) \
             SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS BIGINT), CAST($4 AS TEXT), CAST($5 AS TEXT), \
             CAST($6 AS TEXT), CAST($7 AS BIGINT), CAST($8 AS TEXT) || CAST(found.id AS TEXT) || CAST($10 AS TEXT) \
             FROM ({found}) AS found"
        );
        bound(sql, event).bind(key).bind(rest)
    }

    /// Returns a statement that stores an event unless one with this id is stored.
    fn insert_if_new(self, event: &NewEvent) -> Stmt {
        bound(self.insert_if(self.is_new()), event)
    }

    /// Like [`Self::insert_if_new`], unless its message has `most` events of this type.
    fn insert_if_new_below(self, event: &NewEvent, most: u64) -> Stmt {
        let counts: Vec<String> = self
            .tables()
            .iter()
            .map(|table| format!("(SELECT COUNT(*) FROM {table} WHERE message_id = $6 AND type = $2)"))
            .collect();
        let condition = format!("{} AND {} < $9", self.is_new(), counts.join(" + "));
        bound(self.insert_if(&condition), event).bind(number(most))
    }

    /// The tables that may have an event.
    const fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Numbered => &["events"],
            Self::Unnumbered => &["events", "new_events"],
        }
    }

    /// The condition that no event with this id is stored.
    const fn is_new(self) -> &'static str {
        match self {
            Self::Numbered => "NOT EXISTS (SELECT 1 FROM events WHERE id = $1)",
            Self::Unnumbered => {
                "NOT EXISTS (SELECT 1 FROM events WHERE id = $1) AND NOT EXISTS (SELECT 1 FROM new_events WHERE id = $1)"
            }
        }
    }

    fn insert_if(self, condition: &str) -> String {
        let table = self.table();
        format!(
            "INSERT INTO {table} (id, type, at, domain, mailbox, message_id, subject_at, body) \
             SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS BIGINT), CAST($4 AS TEXT), CAST($5 AS TEXT), \
             CAST($6 AS TEXT), CAST($7 AS BIGINT), CAST($8 AS TEXT) WHERE {condition}"
        )
    }
}

fn bound(sql: String, event: &NewEvent) -> Stmt {
    Stmt::new(sql)
        .bind(event.id.to_string())
        .bind(event.event_type.as_str())
        .bind(event.id.at())
        .bind(event.domain.as_ref())
        .bind(event.mailbox.as_ref())
        .bind(event.message_id)
        .bind(event.subject_at)
        .bind(event.body.as_str())
}

pub(crate) fn of_message(message_id: MessageId, cursor: EventCursor, limit: usize) -> Stmt {
    let sql = format!("SELECT {COLUMNS} FROM events WHERE message_id = $1 AND number > $2 ORDER BY number LIMIT $3");
    Stmt::new(sql).bind(message_id).bind(number(cursor.number())).bind(count(limit))
}

/// Prevents a plan that reads the whole table. Deleted rows stay in it while any snapshot may need them.
fn by_index() -> Stmt {
    Stmt::new("SELECT set_config('enable_seqscan', 'off', TRUE)")
}

/// Moves events into the log, with the next numbers, and notifies the other nodes once. Only transactions from `from`
/// on can have stored them. Also returns the oldest transaction that was running.
fn number_statement(from: i64) -> Stmt {
    Stmt::new(
        "WITH moved AS (DELETE FROM new_events \
         WHERE ctid = ANY(ARRAY(SELECT ctid FROM new_events WHERE writer >= $2 ORDER BY key LIMIT $1)) RETURNING *), \
         numbered AS (INSERT INTO events (number, id, type, at, domain, mailbox, message_id, subject_at, body) \
         SELECT (SELECT COALESCE(MAX(number), 0) FROM events) + ROW_NUMBER() OVER (ORDER BY key), \
         id, type, at, domain, mailbox, message_id, subject_at, body FROM moved RETURNING number) \
         SELECT moved_now, CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT), \
         CASE WHEN moved_now > 0 THEN CAST(pg_notify('mailapi_events', \
         COALESCE(current_setting('mailapi.node', TRUE), '')) AS TEXT) END \
         FROM (SELECT COUNT(*) AS moved_now FROM numbered) AS done",
    )
    .bind(count(NUMBERED_AT_ONCE))
    .bind(from)
}

fn read_event(mut row: Row) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        number: row.unsigned()?,
        id: row.parsed()?,
        event_type: row.parsed()?,
        at: row.time()?,
        domain: row.parsed_or_null()?,
        mailbox: row.parsed_or_null()?,
        message_id: row.parsed_or_null()?,
        subject_at: row.time()?,
        body: row.text()?.into(),
    })
}
