//! What the events of a message say about it.

use std::collections::HashSet;

use mailapi_events::{MessageFacts, NewEvent, Origin, accepted, failed, refused};
use mailapi_model::{EmailAddress, MessageId, QueueId, RecipientKind, Reply, Timestamp};

use super::{Failure, NewSent};
use crate::StoreError;
use crate::db::{Db, Row, Stmt};
use crate::events::Log;
use crate::statuses;

/// The values of a message that its events contain. They never change, so they may be read before a transaction.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    message_id: MessageId,
    facts: MessageFacts,
    recipients: Vec<(EmailAddress, RecipientKind)>,
    size: Option<u64>,
}

impl Subject {
    pub(super) fn of_new(message: &NewSent) -> Self {
        let facts = MessageFacts {
            origin: Origin::Api(message.message_id),
            mailbox: message.mailbox.clone(),
            from: message.from.clone(),
            created_at: message.created_at,
        };
        Self { message_id: message.message_id, facts, recipients: message.recipients.clone(), size: message.size }
    }

    /// Reads the values of a stored message; `None` if it does not exist.
    pub(crate) async fn read(db: &Db, message_id: MessageId) -> Result<Option<Self>, StoreError> {
        let message = Stmt::new(
            "SELECT mailbox, mailbox_given, sender, sender_given, created_at, size \
             FROM sent_messages WHERE message_id = $1",
        );
        let recipients = Stmt::new(
            "SELECT position, email, email_given, kind FROM sent_recipients \
             WHERE sent_id = (SELECT id FROM sent_messages WHERE message_id = $1)",
        );
        let read_message = |mut row: Row| {
            let (mailbox, from, created_at) = (row.address_or_null()?, row.address()?, row.time()?);
            let size = row.int_or_null()?.and_then(|size| u64::try_from(size).ok());
            Ok((MessageFacts { origin: Origin::Api(message_id), mailbox, from, created_at }, size))
        };
        let read_recipient = |mut row: Row| Ok((row.int()?, (row.address()?, row.parsed()?)));
        let (message, recipients) = (message.bind(message_id), recipients.bind(message_id));
        let (found, mut recipients) = db.read_both((message, read_message), (recipients, read_recipient)).await?;
        recipients.sort_unstable_by_key(|(position, _)| *position);
        let recipients = recipients.into_iter().map(|(_, recipient)| recipient).collect();
        Ok(found.into_iter().next().map(|(facts, size)| Self { message_id, facts, recipients, size }))
    }

    pub(super) const fn message_id(&self) -> MessageId {
        self.message_id
    }

    /// Returns the event of the submission with the recipients that are not refused, unless all are. It must be stored
    /// before the message is marked as submitted and before any recipient changes: either keeps a second call from
    /// storing it again.
    pub(crate) fn accepted(
        &self,
        queue_id: &QueueId,
        at: Timestamp,
        refused: &[(EmailAddress, Reply)],
    ) -> Option<NewEvent> {
        let refused: HashSet<&EmailAddress> = refused.iter().map(|(email, _)| email).collect();
        let recipients = self.recipients.iter().filter(|(email, _)| !refused.contains(email));
        let recipients: Vec<_> = recipients.map(|(email, kind)| (email, *kind)).collect();
        (!recipients.is_empty()).then(|| accepted(&self.facts, &recipients, self.size, queue_id, at))
    }

    /// Returns the event of a recipient that the mail server refused. It must be stored before the recipient's status
    /// changes.
    pub(super) fn refused(
        &self,
        log: Log,
        queue_id: &QueueId,
        (email, reply): &(EmailAddress, Reply),
        at: Timestamp,
    ) -> Option<Stmt> {
        let (email, kind) = self.recipients.iter().find(|(known, _)| known == email)?;
        let event = refused(&self.facts, (email, *kind), reply, queue_id, at);
        Some(log.insert_if_status(&event, email, statuses::OPEN))
    }

    /// Returns the events of the recipients that fail with the message. They must be stored before the recipients'
    /// statuses change.
    pub(super) fn failed(&self, log: Log, failure: Failure<'_>, at: Timestamp) -> impl Iterator<Item = Stmt> {
        self.recipients.iter().map(move |(email, kind)| {
            let event = failed(&self.facts, (email, *kind), failure.reason, failure.reply, at);
            log.insert_if_status(&event, email, statuses::PENDING)
        })
    }
}
