//! The transaction that accepts a message.
//!
//! The order of the writes does not matter for a crash, since they are one transaction. It follows the
//! references: bytes, entries (which count as references to them) with their events, queue rows, and last
//! the record for the API.

use std::collections::HashSet;

use mailapi_backend::{Accepted, Refusal};
use mailapi_events::{Received, ReceivedMessage, received, received_id, submitted};
use mailapi_model::{
    DeliveryEvent, EmailAddress, EnhancedCode, Evidence, FolderName, MessageId, Outcome, QueueId, Reply, SubmittedFact,
    SubmittedReport, Timestamp,
};
use mailapi_store::{StoreError, insert_event};
use rusqlite::{Connection, OptionalExtension, params};

use super::routing::{Route, route};
use super::{AcceptError, Prepared, Recipient, Submitter, Taken, returned};
use crate::message_store::{
    ContentId, FolderId, MailboxId, MessageStoreError, NewEntry, Touched, content, damaged, enqueue_for_index, entry,
    folder, mailbox, no_flags,
};
use crate::{MessageStoreSettings, feed, queue};

/// The recipients, by their route.
#[derive(Default)]
struct Routes<'a> {
    local: Vec<(&'a Recipient, MailboxId)>,
    remote: Vec<&'a Recipient>,
    refused: Vec<Refusal>,
}

/// Writes the whole message, or nothing. It refuses before its first write: a caller may keep what it wrote
/// before in the same transaction.
pub(crate) fn accept(
    connection: &Connection,
    mail: &Prepared,
    settings: &MessageStoreSettings,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<Taken, AcceptError> {
    // A repeated submission gets the first result. Its local deliveries are in the feed already.
    if let Some(earlier) = mail.incoming.message_id.map(|id| find(connection, id)).transpose()?.flatten() {
        let Accepted { queue_id, refused } = earlier;
        return Ok(Taken { queue_id, delivered: Vec::new(), queued: Vec::new(), refused });
    }
    let routes = routes(connection, mail, settings.recipient_delimiter)?;
    if routes.local.is_empty() && routes.remote.is_empty() {
        return Err(AcceptError::NoRecipients(routes.refused));
    }
    // A bounce that arrives during the delivery attempt gets a temporary failure until the attempt is recorded.
    for (recipient, _) in &routes.local {
        if returned::come_early(connection, recipient, &mail.failures, now)? {
            return Err(AcceptError::Refused(temporary_failure()));
        }
    }
    let content = content::insert(connection, &mail.content, settings).map_err(database)?;
    if let Some(submitter) = &mail.incoming.submitter {
        report_submission(connection, mail, submitter, &routes, now, touched)?;
    }
    deliver(connection, mail, &routes, content, now, touched)?;
    let waiting = queue::insert(connection, mail, content, &waiting(mail, &routes), now)?;
    if waiting {
        touched.queue();
    }
    if let Some(id) = mail.incoming.message_id {
        remember(connection, id, mail, &routes, now)?;
    }
    let address = |recipient: &Recipient| recipient.address.clone();
    Ok(Taken {
        queue_id: mail.queue_id.clone(),
        delivered: routes.local.iter().map(|(recipient, _)| address(recipient)).collect(),
        queued: routes.remote.iter().map(|recipient| address(recipient)).collect(),
        refused: routes.refused,
    })
}

/// Reports a message that a mail program submitted, and its recipients that were refused after RCPT.
fn report_submission(
    connection: &Connection,
    mail: &Prepared,
    submitter: &Submitter,
    routes: &Routes<'_>,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), StoreError> {
    let local = routes.local.iter().map(|(recipient, _)| *recipient);
    let recipients = local.chain(routes.remote.iter().copied()).map(|recipient| recipient.address.clone());
    let recipients: Vec<_> = recipients.collect();
    let (message, size) = (submitter.mail(mail.queue_id.clone(), now), mail.content.size());
    if mail.has_log() {
        let fact = SubmittedFact::Accepted { recipients, size };
        let event = submitted(&SubmittedReport { mail: message, fact }, &[]);
        event.map_or(Ok(()), |event| insert_event(connection, &event))?;
        // Readers of the events wait for the feed's signal; a message without local recipients has no report yet.
        touched.feed();
    } else {
        // The reader of the feed stores the event.
        feed::append_accepted(connection, &message, &recipients, size, touched)?;
    }
    for refusal in &routes.refused {
        feed::append(connection, &refused(mail, refusal, now), first_attempt(mail, now), touched)?;
    }
    Ok(())
}

/// Returns what the feed reports with the first outcome of each recipient.
fn first_attempt(mail: &Prepared, now: Timestamp) -> Option<feed::Submitted<'_>> {
    let submitter = mail.incoming.submitter.as_ref()?;
    Some(feed::Submitted { submitter, accepted_at: now, attempts: 0 })
}

/// Reply to a bounce that cannot be verified yet.
fn temporary_failure() -> Reply {
    Reply::new(
        451,
        EnhancedCode::new(4, 3, 0),
        "Delivery of the reported message is still in progress; try again later",
    )
}

fn routes<'a>(connection: &Connection, mail: &'a Prepared, delimiter: Option<char>) -> Result<Routes<'a>, StoreError> {
    let mut routes = Routes::default();
    let mut seen: HashSet<&EmailAddress> = HashSet::new();
    for recipient in mail.incoming.recipients.iter().filter(|recipient| seen.insert(&recipient.address)) {
        match route(connection, &recipient.address, mail.content.size(), mail.incoming.relaying, delimiter)? {
            Route::Local(mailbox) => routes.local.push((recipient, mailbox)),
            Route::Remote => routes.remote.push(recipient),
            Route::Refused(reply) => routes.refused.push(Refusal { recipient: recipient.address.clone(), reply }),
        }
    }
    Ok(routes)
}

/// Adds an entry and an event for each local recipient.
fn deliver(
    connection: &Connection,
    mail: &Prepared,
    routes: &Routes<'_>,
    content: ContentId,
    now: Timestamp,
    touched: &mut Touched,
) -> Result<(), AcceptError> {
    if routes.local.is_empty() {
        return Ok(());
    }
    let flags = no_flags();
    let entry = NewEntry { content, flags: &flags, internal_date: now, size: mail.content.size() };
    for (recipient, mailbox) in &routes.local {
        let (folder, name) = folder_for(connection, mail, *mailbox, now).map_err(database)?;
        let uid = entry::add(connection, folder, &entry).map_err(database)?;
        let address = mailbox::address(connection, *mailbox)?;
        let authentication = mail.incoming.authentication.as_ref();
        let place = feed::Place { mailbox: &address, folder: &name, uid, authentication };
        // If the log of events is in another database, the reader of the feed stores the event.
        let received = match &mail.snippet {
            Some(snippet) => {
                store_event(connection, mail, snippet, place, now)?;
                None
            }
            None => Some(place),
        };
        let event = delivered(mail, recipient, now);
        feed::append_received(connection, &event, first_attempt(mail, now), received, touched)?;
        returned::record(connection, recipient, &mail.failures, now, touched)?;
        touched.mailbox(*mailbox);
    }
    enqueue_for_index(connection, content)?;
    touched.chores();
    Ok(())
}

/// Returns the folder that receives a message.
fn folder_for(
    connection: &Connection,
    mail: &Prepared,
    mailbox: MailboxId,
    now: Timestamp,
) -> Result<(FolderId, FolderName), MessageStoreError> {
    if mail.incoming.is_junk {
        return folder::junk(connection, mailbox, now);
    }
    Ok((folder::inbox(connection, mailbox)?, FolderName::inbox()))
}

/// Stores the event of a received message.
fn store_event(
    connection: &Connection,
    mail: &Prepared,
    snippet: &str,
    place: feed::Place<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (structure, queue_id) = (mail.content.structure(), mail.queue_id.0.as_str());
    let feed::Place { mailbox, folder, uid, authentication } = place;
    let message = ReceivedMessage {
        folder: folder.as_str(),
        uid,
        from_name: &structure.from.name,
        from_email: &structure.from.email,
        subject: &structure.subject,
        snippet,
        size: mail.content.size(),
        has_attachments: !structure.attachments.is_empty(),
    };
    let id = received_id(mailbox, now, &[folder.as_str().as_bytes(), &uid.to_be_bytes(), queue_id.as_bytes()]);
    insert_event(connection, &received(Received { mailbox, queue_id, authentication, message: Some(message) }, id))
}

fn delivered(mail: &Prepared, recipient: &Recipient, now: Timestamp) -> DeliveryEvent {
    DeliveryEvent {
        at: now,
        message_id: mail.incoming.message_id,
        queue_id: mail.queue_id.clone(),
        sender: mail.incoming.sender.clone(),
        recipient: recipient.address.clone().folded(),
        final_recipient: None,
        outcome: Outcome::Sent,
        evidence: Evidence::MailServer,
        dsn: Some(EnhancedCode::new(2, 0, 0)),
        response: "delivered to the mailbox".to_owned(),
        relay: Some(DeliveryEvent::LOCAL_RELAY.to_owned()),
        delay: now.since(mail.incoming.received_at),
        next_attempt_at: None,
    }
}

/// Returns the report about a recipient that was accepted at RCPT and refused at the end of the message. Its sender gets
/// a notice.
fn refused(mail: &Prepared, Refusal { recipient, reply }: &Refusal, now: Timestamp) -> DeliveryEvent {
    DeliveryEvent {
        recipient: recipient.clone(),
        outcome: Outcome::of_refusal(reply),
        dsn: reply.enhanced_or_class(),
        response: reply.to_string(),
        relay: None,
        ..delivered(mail, &Recipient::from(recipient.clone()), now)
    }
}

/// Returns the recipients for the queue: remote ones, and local ones whose sender requested a success notice
/// (RFC 3461 section 4.1).
fn waiting<'a>(mail: &Prepared, routes: &Routes<'a>) -> Vec<(&'a Recipient, queue::Task)> {
    let wants_notice =
        |recipient: &Recipient| mail.incoming.sender.is_some() && recipient.notify.is_some_and(|notify| notify.success);
    let local = routes.local.iter().map(|(recipient, _)| *recipient).filter(|recipient| wants_notice(recipient));
    let local = local.map(|recipient| (recipient, queue::Task::NotifySuccess));
    routes.remote.iter().map(|recipient| (*recipient, queue::Task::Deliver)).chain(local).collect()
}

fn remember(
    connection: &Connection,
    id: MessageId,
    mail: &Prepared,
    routes: &Routes<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let id = id.to_string();
    let sql = "INSERT INTO drop_accepted (message_uuid, queue_id, accepted_at, sender, left_for)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let sender = mail.incoming.sender.as_ref().map(|sender| sender.as_str());
    let left = returned::to_column(routes.remote.iter().map(|recipient| &recipient.address));
    connection.prepare_cached(sql)?.execute(params![id, mail.queue_id.0, now.as_millis(), sender, left])?;
    let sql = "INSERT INTO drop_accepted_refusals (message_uuid, recipient, code, enhanced, text)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    for Refusal { recipient, reply } in &routes.refused {
        let (code, enhanced, text) = queue::reply_columns(reply);
        connection.prepare_cached(sql)?.execute(params![id, recipient.wire(), code, enhanced, text])?;
    }
    Ok(())
}

/// Returns the result with which the message was accepted.
pub(super) fn find(connection: &Connection, id: MessageId) -> Result<Option<Accepted>, StoreError> {
    let id = id.to_string();
    let sql = "SELECT queue_id FROM drop_accepted WHERE message_uuid = ?1";
    let queue_id = connection.prepare_cached(sql)?.query_row(params![id], |row| row.get(0)).optional()?;
    let Some(queue_id) = queue_id.map(QueueId) else { return Ok(None) };
    let sql = "SELECT code, enhanced, text, recipient FROM drop_accepted_refusals WHERE message_uuid = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let refused = statement.query_and_then(params![id], |row| {
        let recipient: String = row.get(3)?;
        let recipient = EmailAddress::as_given(&recipient).map_err(|_| damaged("an address"))?;
        let reply = queue::read_reply(row, 0)?.ok_or_else(|| damaged("a refusal"))?;
        Ok(Refusal { recipient, reply })
    })?;
    Ok(Some(Accepted { queue_id, refused: refused.collect::<Result<_, StoreError>>()? }))
}

/// A missing INBOX, or one without free UIDs, is a server error and not the sender's fault.
fn database(error: MessageStoreError) -> AcceptError {
    AcceptError::Store(error.into_store())
}
