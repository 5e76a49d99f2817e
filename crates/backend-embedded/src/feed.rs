//! The delivery feed: delivery events in commit order.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Awaited, DeliveryFeed, FeedBatch, FeedError, QueueSize, ReturnedNotice};
use mailapi_events::{authentication_from_json, authentication_to_json};
use mailapi_model::{
    Authentication, DeliveryEvent, DomainName, EmailAddress, Evidence, FeedCursor, FolderName, QueueId, ReceivedMail,
    SubmittedFact, SubmittedMail, SubmittedReport, Timestamp,
};
use mailapi_store::StoreError;
use rusqlite::{Connection, Row, params};

use crate::MessageStore;
use crate::message_store::{Touched, damaged};
use crate::queue;
use crate::submitter::Submitter;

/// Returns the name under which readers store their position. The positions of several nodes are those of different
/// files, so each node has a name of its own.
pub(crate) fn name(node: Option<&str>) -> String {
    const NAME: &str = "embedded";
    node.map_or_else(|| NAME.to_owned(), |node| format!("{NAME}@{node}"))
}

/// The outcome in the row that reports the acceptance of a message from a mail program. No delivery has it.
const ACCEPTED: &str = "accepted";

/// The outcome in the row of a notice that changes no status. Its recipient is empty.
const NOTICE: &str = "notice";

/// Separator of the addresses in the column `recipients`; no address contains it.
const SEPARATOR: &str = "\n";

/// What a row reports.
#[derive(Default)]
struct Reported {
    event: Option<DeliveryEvent>,
    /// The message that a mailbox received.
    received: Option<ReceivedMail>,
    /// The report for the mail program that submitted the message.
    submitted: Option<SubmittedReport>,
    /// The mail of another server.
    notice: Option<ReturnedNotice>,
}

/// Where a message was stored.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) mailbox: &'a EmailAddress,
    pub(crate) folder: &'a FolderName,
    pub(crate) uid: u32,
    /// Results of the checks of the message.
    pub(crate) authentication: Option<&'a Authentication>,
}

/// A message that a mail program submitted.
#[derive(Clone, Copy)]
pub(crate) struct Submitted<'a> {
    pub(crate) submitter: &'a Submitter,
    pub(crate) accepted_at: Timestamp,
    /// Number of earlier attempts for the recipient.
    pub(crate) attempts: u32,
}

/// Appends an event in the transaction of the change that it reports.
pub(crate) fn append(
    connection: &Connection,
    event: &DeliveryEvent,
    submitted: Option<Submitted<'_>>,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    append_received(connection, event, submitted, None, touched)
}

/// Appends an event, and the place of the message that it delivered.
pub(crate) fn append_received(
    connection: &Connection,
    event: &DeliveryEvent,
    submitted: Option<Submitted<'_>>,
    received: Option<Place<'_>>,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO drop_feed (at, message_uuid, queue_id, sender, recipient, outcome, returned_mail, dsn,
            response, relay, delay_ms, final_recipient, mailbox, folder, uid,
            next_attempt_at, authentication, submitter, author, accepted_at, attempts)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";
    let (submitter, author) = Submitter::columns(submitted.map(|submitted| submitted.submitter));
    connection.prepare_cached(sql)?.execute(params![
        event.at.as_millis(),
        event.message_id.map(|id| id.to_string()),
        event.queue_id.0,
        event.sender.as_ref().map(EmailAddress::wire),
        event.recipient.wire(),
        event.outcome.as_str(),
        event.evidence == Evidence::ReturnedMail,
        event.dsn.map(|dsn| dsn.to_string()),
        event.response,
        event.relay,
        i64::try_from(event.delay.as_millis()).unwrap_or(i64::MAX),
        event.final_recipient.as_ref().map(EmailAddress::wire),
        received.map(|place| place.mailbox.wire()),
        received.map(|place| place.folder.as_str()),
        received.map(|place| place.uid),
        event.next_attempt_at.map(Timestamp::as_millis),
        received.and_then(|place| place.authentication).map(authentication_to_json),
        submitter,
        author,
        submitted.map(|submitted| submitted.accepted_at.as_millis()),
        submitted.map(|submitted| submitted.attempts),
    ])?;
    touched.feed();
    Ok(())
}

/// Appends the acceptance of a message from a mail program.
pub(crate) fn append_accepted(
    connection: &Connection,
    mail: &SubmittedMail,
    recipients: &[EmailAddress],
    size: u64,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO drop_feed (at, queue_id, recipient, outcome, returned_mail, response, delay_ms,
            submitter, author, accepted_at, recipients, size)
        VALUES (?1, ?2, '', ?3, 0, '', 0, ?4, ?5, ?1, ?6, ?7)";
    let recipients: Vec<_> = recipients.iter().map(EmailAddress::wire).collect();
    let (at, queue_id) = (mail.accepted_at.as_millis(), mail.queue_id.0.as_str());
    let (mailbox, from) = (mail.mailbox.wire(), mail.from.wire());
    let values = params![at, queue_id, ACCEPTED, mailbox, from, recipients.join(SEPARATOR), size];
    connection.prepare_cached(sql)?.execute(values)?;
    touched.feed();
    Ok(())
}

/// Appends mail of another server about a message.
pub(crate) fn append_notice(
    connection: &Connection,
    notice: &ReturnedNotice,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    // `relay` has the domain of the author, and `author` the kind.
    let sql =
        "INSERT INTO drop_feed (at, message_uuid, queue_id, recipient, outcome, returned_mail, response, delay_ms,
            relay, author, recipients)
        VALUES (?1, ?2, '', '', ?3, 1, ?4, 0, ?5, ?6, ?7)";
    let failed: Vec<_> = notice.failed.iter().map(EmailAddress::wire).collect();
    let (id, server) = (notice.message_id.to_string(), notice.server.as_ref().map(DomainName::as_str));
    let (at, kind) = (notice.at.as_millis(), notice.kind.as_str());
    let values = params![at, id, NOTICE, notice.text, server, kind, failed.join(SEPARATOR)];
    connection.prepare_cached(sql)?.execute(values)?;
    touched.feed();
    Ok(())
}

#[async_trait]
impl DeliveryFeed for MessageStore {
    fn name(&self) -> &str {
        self.feed_name()
    }

    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError> {
        let after = position(cursor)?;
        let max = max.clamp(1, self.settings().feed_batch);
        // One more row than requested shows whether there are more.
        let mut rows = self.read(|connection| read_rows(connection, after, max + 1)).await.map_err(unreadable)?;
        if !rows.is_empty() {
            // The rows must be durable before a reader stores the cursor. After a power loss, lost row
            // numbers are assigned again, and a reader with a later cursor would skip the new rows.
            self.until_durable().await.map_err(unreadable)?;
        }
        let more = rows.len() > max;
        rows.truncate(max);
        let last = rows.last().map_or(after, |(id, _)| *id);
        let (lines_read, cursor) = (rows.len() as u64, FeedCursor(last.to_string()));
        let mut batch = FeedBatch { lines_read, cursor, more, ..FeedBatch::default() };
        for (_, Reported { event, received, submitted, notice }) in rows {
            batch.events.extend(event);
            batch.received.extend(received);
            batch.submitted.extend(submitted);
            batch.notices.extend(notice);
        }
        Ok(batch)
    }

    async fn forget_until(&self, cursor: &FeedCursor) -> Result<(), FeedError> {
        let until = position(cursor)?;
        self.write(move |connection, _| -> Result<(), StoreError> {
            connection.prepare_cached("DELETE FROM drop_feed WHERE id <= ?1")?.execute(params![until])?;
            Ok(())
        })
        .await
        .map_err(unreadable)
    }

    async fn changed(&self) {
        self.raised(|changes| &changes.feed).await;
    }

    async fn are_awaited(&self, recipients: &[Awaited]) -> Result<Vec<bool>, FeedError> {
        // One snapshot: a recipient leaves the queue in the transaction that adds its report.
        self.read(|connection| are_awaited(connection, recipients)).await.map_err(unreadable)
    }

    async fn queue(&self, limit: usize) -> Result<Option<QueueSize>, FeedError> {
        let size: Result<_, StoreError> = self.read(|connection| queue::size(connection, limit)).await;
        size.map(Some).map_err(unreadable)
    }
}

fn are_awaited(connection: &Connection, recipients: &[Awaited]) -> Result<Vec<bool>, StoreError> {
    let sql = "SELECT message_uuid, recipient FROM drop_feed
        WHERE message_uuid IS NOT NULL AND outcome != 'notice'";
    let mut statement = connection.prepare_cached(sql)?;
    let reports = statement.query_and_then([], |row| Ok((row.get(0)?, read_address(row, 1)?)))?;
    let reports: HashSet<(String, EmailAddress)> = reports.collect::<Result<_, StoreError>>()?;
    let is_awaited = |awaited: &Awaited| {
        // Another node has a queue of its own.
        if !awaited.by_this_node || reports.contains(&(awaited.message_id.to_string(), awaited.recipient.clone())) {
            return Ok(true);
        }
        let Some(queue_id) = &awaited.queue_id else { return Ok(false) };
        Ok(queue::recipients(connection, queue_id)?.contains(&awaited.recipient))
    };
    recipients.iter().map(is_awaited).collect()
}

/// Returns the number of the last event read; 0 for the beginning.
fn position(cursor: &FeedCursor) -> Result<i64, FeedError> {
    if cursor.0.is_empty() {
        return Ok(0);
    }
    cursor.0.parse().map_err(|_| FeedError("the cursor belongs to another feed".to_owned()))
}

fn unreadable(error: StoreError) -> FeedError {
    FeedError(error.to_string())
}

fn read_rows(connection: &Connection, after: i64, max: usize) -> Result<Vec<(i64, Reported)>, StoreError> {
    let sql = "SELECT id, at, message_uuid, queue_id, sender, recipient, outcome, returned_mail, dsn, response, relay,
            delay_ms, final_recipient, mailbox, folder, uid, next_attempt_at, authentication, submitter, author,
            accepted_at, attempts, recipients, size
        FROM drop_feed WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(params![after, max], |row| Ok((row.get(0)?, read_reported(row)?)))?;
    rows.collect()
}

fn read_reported(row: &Row<'_>) -> Result<Reported, StoreError> {
    if row.get_ref(6)?.as_str().is_ok_and(|outcome| outcome == ACCEPTED) {
        return Ok(Reported { submitted: read_accepted(row)?, ..Reported::default() });
    }
    if row.get_ref(6)?.as_str().is_ok_and(|outcome| outcome == NOTICE) {
        return Ok(Reported { notice: Some(read_notice(row)?), ..Reported::default() });
    }
    let event = read_event(row)?;
    let (received, submitted) = (read_received(row, &event)?, read_attempted(row, &event)?);
    Ok(Reported { event: Some(event), received, submitted, notice: None })
}

fn read_notice(row: &Row<'_>) -> Result<ReturnedNotice, StoreError> {
    let text = |column: usize| -> Result<String, StoreError> { Ok(row.get(column)?) };
    let server: Option<String> = row.get(10)?;
    let address = |text: &str| EmailAddress::as_given(text).map_err(|_| damaged("an address"));
    Ok(ReturnedNotice {
        at: Timestamp::from_millis(row.get(1)?),
        message_id: text(2)?.parse().map_err(|_| damaged("an identifier"))?,
        kind: text(19)?.parse().map_err(|_| damaged("a kind of notice"))?,
        server: server.and_then(|server| server.parse().ok()),
        text: text(9)?,
        failed: text(22)?.split_terminator(SEPARATOR).map(address).collect::<Result<_, _>>()?,
    })
}

/// Reads the message that a mail program submitted; `None` for other mail.
fn read_submitted(row: &Row<'_>) -> Result<Option<SubmittedMail>, StoreError> {
    let submitter = Submitter::read(row, 18)?;
    let Some((submitter, accepted_at)) = submitter.zip(row.get::<_, Option<i64>>(20)?) else { return Ok(None) };
    Ok(Some(submitter.mail(QueueId(row.get(3)?), Timestamp::from_millis(accepted_at))))
}

fn read_accepted(row: &Row<'_>) -> Result<Option<SubmittedReport>, StoreError> {
    let Some(mail) = read_submitted(row)? else { return Ok(None) };
    let recipients: String = row.get(22)?;
    let address = |text| EmailAddress::as_given(text).map_err(|_| damaged("an address"));
    let recipients = recipients.split_terminator(SEPARATOR).map(address).collect::<Result<_, _>>()?;
    Ok(Some(SubmittedReport { mail, fact: SubmittedFact::Accepted { recipients, size: row.get(23)? } }))
}

fn read_attempted(row: &Row<'_>, event: &DeliveryEvent) -> Result<Option<SubmittedReport>, StoreError> {
    let Some(mail) = read_submitted(row)? else { return Ok(None) };
    let (report, attempts, is_mailbox) = (Box::new(event.clone()), row.get(21)?, event.is_local());
    Ok(Some(SubmittedReport { mail, fact: SubmittedFact::Attempted { report, attempts, is_mailbox } }))
}

fn read_received(row: &Row<'_>, event: &DeliveryEvent) -> Result<Option<ReceivedMail>, StoreError> {
    let (mailbox, folder, uid): (Option<String>, Option<String>, Option<u32>) =
        (row.get(13)?, row.get(14)?, row.get(15)?);
    let Some(((mailbox, folder), uid)) = mailbox.zip(folder).zip(uid) else { return Ok(None) };
    let mailbox = EmailAddress::as_given(&mailbox).map_err(|_| damaged("an address"))?;
    let folder = folder.parse().map_err(|_| damaged("a folder's name"))?;
    let (queue_id, place) = (event.queue_id.clone(), Some((folder, uid)));
    let authentication: Option<String> = row.get(17)?;
    let authentication = authentication.as_deref().and_then(authentication_from_json);
    let (at, recipient) = (event.at, Some(event.recipient.clone()));
    Ok(Some(ReceivedMail { at, mailbox, recipient, queue_id, header_id: None, place, authentication }))
}

fn read_address(row: &Row<'_>, column: usize) -> Result<EmailAddress, StoreError> {
    let text = row.get_ref(column)?.as_str().map_err(|_| damaged("an address"))?;
    EmailAddress::as_given(text).map_err(|_| damaged("an address"))
}

fn read_event(row: &Row<'_>) -> Result<DeliveryEvent, StoreError> {
    let text = |column: usize| -> Result<Option<String>, StoreError> { Ok(row.get(column)?) };
    let message_id = text(2)?.map(|id| id.parse().map_err(|_| damaged("an identifier"))).transpose()?;
    let address = |text: &str| EmailAddress::as_given(text).map_err(|_| damaged("an address"));
    let sender = text(4)?.map(|sender| address(&sender)).transpose()?;
    let final_recipient = text(12)?.map(|tried| address(&tried)).transpose()?;
    let dsn = text(8)?.map(|dsn| dsn.parse().map_err(|_| damaged("a status code"))).transpose()?;
    let returned_mail: bool = row.get(7)?;
    Ok(DeliveryEvent {
        at: Timestamp::from_millis(row.get(1)?),
        message_id,
        queue_id: QueueId(row.get(3)?),
        sender,
        recipient: read_address(row, 5)?,
        final_recipient,
        outcome: row
            .get_ref(6)?
            .as_str()
            .map_err(|_| damaged("an outcome"))?
            .parse()
            .map_err(|_| damaged("an outcome"))?,
        evidence: if returned_mail { Evidence::ReturnedMail } else { Evidence::MailServer },
        dsn,
        response: row.get(9)?,
        relay: row.get(10)?,
        delay: Duration::from_millis(row.get(11)?),
        next_attempt_at: row.get::<_, Option<i64>>(16)?.map(Timestamp::from_millis),
    })
}
