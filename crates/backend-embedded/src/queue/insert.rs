//! Inserts messages into the queue.

use mailapi_model::{EmailAddress, Timestamp};
use mailapi_smtp::{Notify, RcptTo};
use mailapi_store::StoreError;
use rusqlite::{Connection, params};

use super::Task;
use super::columns::through_column;
use crate::accept::{Prepared, Recipient, Relaying};
use crate::message_store::ContentId;
use crate::submitter::Submitter;

/// A recipient for the queue.
pub(crate) struct Waiting<'a> {
    pub(crate) recipient: &'a Recipient,
    pub(crate) task: Task,
    /// The member at another server, if the recipient is an alias.
    pub(crate) member: Option<&'a EmailAddress>,
    /// The aliases and mailboxes that lead to the member.
    pub(crate) through: &'a [EmailAddress],
    /// Whether another member of the alias has the message.
    pub(crate) alias_has_it: bool,
    /// Whether the sender gets a notice about another member of the alias already.
    pub(crate) failure_notified: bool,
    /// Whether the sender gets no notices.
    pub(crate) is_silent: bool,
}

impl<'a> Waiting<'a> {
    /// Returns the address that another server gets the message for.
    pub(crate) fn address(&self) -> &'a EmailAddress {
        self.member.unwrap_or(&self.recipient.address)
    }

    /// Returns the aliases and mailboxes that lead to the member, without the recipient, which the queue stores anyway.
    fn through_others(&self) -> &'a [EmailAddress] {
        let recipient = &self.recipient.address;
        match self.through {
            [first, others @ ..] if first == recipient || recipient.without_tag().as_ref() == Some(first) => others,
            through => through,
        }
    }

    /// The next server reports what becomes of a member as that of the alias (RFC 3461 section 5.2.7.1). A later server that
    /// rewrites a recipient of an API message still reports the original one (section 4.2).
    fn orcpt(&self, is_of_api: bool) -> Option<String> {
        let is_named = is_of_api || self.member.is_some();
        let named = || RcptTo::default().meaning(&self.recipient.address.wire()).orcpt.filter(|_| is_named);
        self.recipient.orcpt.clone().or_else(named)
    }

    /// The sender gets no success notice about a member.
    fn notify(&self) -> Option<String> {
        if self.is_silent {
            return Some(Notify { success: false, failure: false, delay: false }.to_string());
        }
        let notify = self.recipient.notify?;
        Some(if self.member.is_some() { Notify { success: false, ..notify } } else { notify }.to_string())
    }
}

/// Inserts a message for the given recipients, due at once. Returns whether there are any.
pub(crate) fn insert(
    connection: &Connection,
    mail: &Prepared,
    content: ContentId,
    recipients: &[Waiting<'_>],
    now: Timestamp,
) -> Result<bool, StoreError> {
    if recipients.is_empty() {
        return Ok(false);
    }
    let queue = insert_message(connection, mail, content, now)?;
    let sql =
        "INSERT INTO drop_queue_recipients (queue, position, recipient, delivered, notify, orcpt, next_attempt_at,
            forwarded_by, alias_has_it, failure_notified, through)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let mut statement = connection.prepare_cached(sql)?;
    for (position, waiting) in recipients.iter().enumerate() {
        statement.execute(params![
            queue,
            position,
            waiting.address().wire(),
            matches!(waiting.task, Task::NotifySuccess),
            waiting.notify(),
            waiting.orcpt(mail.incoming.message_id.is_some()),
            now.as_millis(),
            waiting.member.map(|_| waiting.recipient.address.wire()),
            waiting.alias_has_it,
            waiting.failure_notified,
            through_column(waiting.through_others()),
        ])?;
    }
    Ok(true)
}

fn insert_message(
    connection: &Connection,
    mail: &Prepared,
    content: ContentId,
    now: Timestamp,
) -> Result<i64, StoreError> {
    let sql = "INSERT INTO drop_queue (queue_id, message_id, sender, message_uuid, accepted_at, expires_at, ret, envid,
            submitter, author, from_outside)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) RETURNING id";
    let incoming = &mail.incoming;
    let (submitter, author) = Submitter::columns(incoming.submitter.as_ref());
    let values = params![
        mail.queue_id.0,
        content,
        incoming.sender.as_ref().map(EmailAddress::wire),
        incoming.message_id.map(|id| id.to_string()),
        now.as_millis(),
        mail.expires_at.as_millis(),
        incoming.ret.map(|ret| ret.to_string()),
        incoming.envid,
        submitter,
        author,
        incoming.relaying == Relaying::Denied,
    ];
    Ok(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
}
