//! Accepts the messages of a session.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use mailapi_backend::{InboundAction, Judgement, Refusal, read_bytes};
use mailapi_model::{Blob, ClientNetwork, EmailAddress, MessageId, QueueId, Timestamp};
use mailapi_smtp::server::{Answer, Message};
use mailapi_smtp::{Notify, Reply};
use mailapi_store::StoreError;

use super::{Body, TraceFields, forward_path, is_mailer_daemon, not_looked_up, reverse_path};
use crate::MessageStore;
use crate::accept::{
    AcceptError, Expanded, Incoming, NotTogether, PreparedNotice, Recipient, RecipientCheck, Relaying, Submitter,
    Taken, to_client,
};
use crate::dsn::{self, Action, RecipientOutcome, Report, Returned};
use crate::replies::to_wire;

/// Parameters of accepting a session's messages.
pub(crate) struct Delivery<'a> {
    pub(crate) message_store: &'a MessageStore,
    pub(crate) hostname: &'a str,
    pub(crate) postmaster: Option<&'a EmailAddress>,
    pub(crate) peer: IpAddr,
    pub(crate) relaying: Relaying,
    /// Maximum size in bytes of the header block in a failure notice.
    pub(crate) max_returned_bytes: usize,
}

/// Where a session's message comes from.
pub(crate) enum Source {
    /// From another server, checked under this queue id.
    Outside { judgement: Judgement, queue_id: QueueId },
    /// From a mail program that logged in to a mailbox.
    MailProgram(Option<Submitter>),
}

impl Source {
    /// Returns the queue id of the message.
    fn queue_id(&self, message_store: &MessageStore) -> QueueId {
        match self {
            Self::Outside { queue_id, .. } => queue_id.clone(),
            Self::MailProgram(_) => message_store.new_queue_id(),
        }
    }

    /// Returns the results of the checks as header fields; empty without checks.
    fn fields(&self) -> &str {
        match self {
            Self::Outside { judgement, .. } => &judgement.fields,
            Self::MailProgram(_) => "",
        }
    }

    fn complete(self, incoming: &mut Incoming) {
        match self {
            Self::Outside { judgement, .. } => {
                incoming.is_junk = judgement.action == InboundAction::Junk;
                incoming.authentication = judgement.authentication;
                incoming.security = judgement.security;
            }
            Self::MailProgram(submitter) => incoming.submitter = submitter,
        }
    }
}

/// Maximum number of attempts to accept a message while the set of failed recipients changes.
const TRIES: usize = 3;

/// Prepends the results of its checks and a Received header field to a message, and accepts it. The reply contains
/// the queue id.
///
/// A recipient that was accepted at RCPT may be refused now, because its mailbox is full or was removed. If
/// all are refused, so is the message. If some are, the sender gets a notification, because the client got a
/// positive reply (RFC 5321 section 4.2.5). So it does for members of aliases that cannot receive the message (section
/// 3.9.1). Message and notification are stored in one transaction.
pub(crate) async fn accept_message(
    delivery: &Delivery<'_>,
    mut message: Message,
    body: Body,
    source: Source,
) -> Answer {
    // The memory stays reserved until the message is stored.
    let _room = std::mem::take(&mut message.room);
    // The Received field contains the queue id, so it is chosen in advance.
    let queue_id = source.queue_id(delivery.message_store);
    let now = delivery.message_store.clock().now();
    let trace = TraceFields { hostname: delivery.hostname, peer: delivery.peer, queue_id: &queue_id, now };
    // The results are above the Received field of the server that made them (RFC 8601 section 5).
    let header = format!("{}{}", source.fields(), trace.header(&message));
    let mut incoming = match incoming(delivery, message, in_front(header, body), &queue_id, now) {
        Ok(incoming) => incoming,
        Err(refusal) => return Answer::Refuse(refusal),
    };
    source.complete(&mut incoming);
    let settled = async {
        leave_out_mailer_daemon(delivery, &mut incoming).await?;
        resolve_return_addresses(delivery, &mut incoming).await
    };
    if let Err(error) = settled.await {
        return Answer::Refuse(not_looked_up(&error));
    }
    if incoming.recipients.is_empty() {
        tracing::info!(%queue_id, "reply to a delivery notice discarded");
        return Answer::Queued(queue_id.0);
    }
    match accept(delivery, incoming, &queue_id, now).await {
        Ok(taken) => {
            tracing::info!(
                queue_id = %taken.queue_id, delivered = taken.delivered.len(), queued = taken.queued.len(),
                refused = taken.refused.len(), "message accepted"
            );
            Answer::Queued(taken.queue_id.0)
        }
        Err(NotTaken::Accept(AcceptError::Refused(reply))) => Answer::Refuse(to_wire(&reply)),
        Err(NotTaken::Accept(AcceptError::NoRecipients(refused))) => Answer::Refuse(of_all(refused, delivery.relaying)),
        Err(error) => {
            tracing::error!(%error, "message could not be accepted");
            Answer::Refuse(not_stored(&error))
        }
    }
}

fn not_stored(error: &NotTaken) -> Reply {
    match error {
        // RFC 5321 section 4.2.3: insufficient system storage; RFC 3463 section 3.4: the mail system is full.
        NotTaken::Accept(AcceptError::Store(StoreError::DiskFull)) => {
            Reply::new(452, (4, 3, 1), "There is no room for the message at the moment, try again later")
        }
        _ => Reply::new(451, (4, 3, 0), "The message cannot be stored at the moment, try again later"),
    }
}

/// Removes the author of our notices from the recipients, unless that address is a local mailbox.
async fn leave_out_mailer_daemon(delivery: &Delivery<'_>, incoming: &mut Incoming) -> Result<(), StoreError> {
    let place =
        incoming.recipients.iter().position(|recipient| is_mailer_daemon(&recipient.address, delivery.hostname));
    let Some(place) = place else { return Ok(()) };
    let daemon = incoming.recipients[place].address.clone();
    let mut expanded = Expanded::none(Relaying::Denied);
    let check = delivery.message_store.check_recipient(&daemon, 0, Relaying::Denied, &mut expanded).await?;
    if check != RecipientCheck::Local {
        incoming.recipients.retain(|recipient| recipient.address != daemon);
    }
    Ok(())
}

/// Redirects bounces from outside to the mailbox of the message's sender, or to the sender of forwarded mail.
async fn resolve_return_addresses(delivery: &Delivery<'_>, incoming: &mut Incoming) -> Result<(), StoreError> {
    if delivery.relaying == Relaying::Allowed {
        return Ok(());
    }
    let is_notice = incoming.sender.is_none() && incoming.unanswerable.is_none();
    for recipient in &mut incoming.recipients {
        if let Some((id, mailbox)) = delivery.message_store.returned_to(&recipient.address).await? {
            (recipient.address, recipient.returned) = (mailbox, Some(id));
        }
        // The listener has refused all other return addresses at RCPT.
        if is_notice
            && let Some(Ok(sender)) = delivery.message_store.forwarded_for(&recipient.address)
            && !delivery.message_store.is_local_domain(&sender.domain()).await?
        {
            (recipient.address, recipient.comes_back) = (sender, true);
        }
    }
    Ok(())
}

/// Nothing of the message was stored.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error(transparent)]
    Accept(#[from] AcceptError),
    #[error(transparent)]
    NoNotice(#[from] dsn::ComposeError),
    #[error("cannot read the message: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error(transparent)]
    NoLookup(#[from] StoreError),
    #[error("the set of failed recipients keeps changing")]
    Unsettled,
}

async fn accept(
    delivery: &Delivery<'_>,
    incoming: Incoming,
    queue_id: &QueueId,
    now: Timestamp,
) -> Result<Taken, NotTaken> {
    let message = Arc::new(delivery.message_store.prepare(incoming.clone()).await?);
    let mut failures: Vec<Refusal> = Vec::new();
    // Each attempt prepares the notice for the recipients that failed in the last transaction.
    for _ in 0..TRIES {
        let notice = match notice(delivery, &incoming, queue_id, &failures, now).await? {
            Some(notice) => {
                let (mail, client) = (delivery.message_store.prepare(notice).await?, ClientNetwork::of(delivery.peer));
                Some(PreparedNotice { mail, client })
            }
            None => None,
        };
        match delivery.message_store.accept_with_notice(message.clone(), failures, notice).await {
            Ok(taken) => return Ok(taken),
            Err(NotTogether::Accept(error)) => return Err(error.into()),
            Err(NotTogether::Failed(others)) => failures = others,
        }
    }
    Err(NotTaken::Unsettled)
}

/// Prepends the header field, within the spare capacity of the buffer. Only a signed message may briefly need
/// twice its memory, while its pieces are joined.
fn in_front(header: String, mut body: Body) -> Blob {
    body.replace_beginning(0, header.into_bytes());
    body.into()
}

fn incoming(
    delivery: &Delivery<'_>,
    message: Message,
    bytes: Blob,
    queue_id: &QueueId,
    now: Timestamp,
) -> Result<Incoming, Reply> {
    let envelope = message.envelope;
    let (sender, unanswerable) = match (reverse_path(&envelope.mail), delivery.relaying) {
        (Ok(sender), _) => (sender, None),
        // Inbound senders may have addresses that are invalid here; they get no notices.
        (Err(_), Relaying::Denied) => (None, Some(envelope.mail.reverse_path)),
        (Err(refusal), Relaying::Allowed) => return Err(refusal),
    };
    let recipients = envelope.recipients.into_iter().map(|recipient| {
        let address = forward_path(&recipient, delivery.postmaster)?;
        Ok(Recipient { notify: recipient.notify, orcpt: recipient.orcpt, ..address.into() })
    });
    Ok(Incoming {
        sender,
        unanswerable,
        recipients: recipients.collect::<Result<_, Reply>>()?,
        message: bytes,
        message_id: None,
        received_at: now,
        relaying: delivery.relaying,
        ret: envelope.mail.ret,
        envid: envelope.mail.envid,
        queue_id: Some(queue_id.clone()),
        is_junk: false,
        authentication: None,
        security: None,
        submitter: None,
        client: (delivery.relaying == Relaying::Denied).then(|| ClientNetwork::of(delivery.peer)),
    })
}

/// Returns one reply for all recipients: the first temporary failure, or else the first reply.
fn of_all(refused: Vec<Refusal>, relaying: Relaying) -> Reply {
    let mut replies: Vec<_> = refused.into_iter().map(|refusal| to_client(refusal.reply, relaying)).collect();
    let chosen = replies.iter().position(|reply| reply.is_transient()).unwrap_or_default();
    if replies.is_empty() {
        Reply::new(554, (5, 5, 1), "No valid recipients")
    } else {
        to_wire(&replies.swap_remove(chosen))
    }
}

/// Returns the notice about the failed recipients; `None` if there are none or the sender gets no notice. A sender of
/// a local domain gets one only if the client logged in.
async fn notice(
    delivery: &Delivery<'_>,
    incoming: &Incoming,
    queue_id: &QueueId,
    failures: &[Refusal],
    now: Timestamp,
) -> Result<Option<Incoming>, NotTaken> {
    let Some(sender) = &incoming.sender else { return Ok(None) };
    // Without a login, the sender may be forged: a user of this server would get notices about a stranger's mail.
    if delivery.relaying == Relaying::Denied
        && !failures.is_empty()
        && delivery.message_store.is_local_domain(&sender.domain()).await?
    {
        tracing::info!(%queue_id, "no failure notice: the sender is local, and the client did not log in");
        return Ok(None);
    }
    let asked = |refusal: &Refusal| incoming.recipients.iter().find(|one| one.address == refusal.recipient);
    let wants = |notify: Option<Notify>| notify.is_none_or(|notify| notify.failure);
    // An alias is named once, whatever the number of its members that failed.
    let mut named = HashSet::new();
    let failures = failures.iter().filter(|refusal| named.insert(&refusal.recipient));
    let outcomes = failures.filter_map(|refusal| {
        let recipient = asked(refusal).filter(|recipient| wants(recipient.notify))?;
        Some(RecipientOutcome {
            recipient: &refusal.recipient,
            original: recipient.orcpt.as_deref(),
            reply: Some(refusal.reply.clone()),
            relay: None,
            said_before: None,
            will_retry_until: None,
        })
    });
    let recipients: Vec<_> = outcomes.collect();
    if recipients.is_empty() {
        return Ok(None);
    }
    let message = read_bytes(&incoming.message, 0..delivery.max_returned_bytes).await?;
    let headers = dsn::header_block(&message, delivery.max_returned_bytes);
    let report = Report {
        hostname: delivery.hostname,
        queue_id,
        arrived_at: now,
        envelope_id: incoming.envid.as_deref(),
        sender,
        action: Action::Failed,
        recipients,
        returned: Returned::Headers(&message[headers]),
        id: MessageId::random(now, delivery.message_store.entropy()),
        now,
    };
    let notice = dsn::compose(&report)?;
    Ok(Some(Incoming::new(None, [sender.clone()], notice, now, Relaying::Allowed)))
}
