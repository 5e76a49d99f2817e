//! Taking over the message at the end of a session.

use std::net::IpAddr;

use mailapi_backend::Refusal;
use mailapi_model::{EmailAddress, MessageId, QueueId, Timestamp};
use mailapi_smtp::server::{Answer, Message};
use mailapi_smtp::{Notify, Reply};

use super::{Trace, forward_path, reverse_path};
use crate::Maildrop;
use crate::accept::{AcceptError, Incoming, Recipient, Relaying};
use crate::dsn::{self, Action, Fate, Report, Returned};
use crate::replies::to_wire;

/// How messages of a session are taken over.
pub(crate) struct Delivery<'a> {
    pub(crate) maildrop: &'a Maildrop,
    pub(crate) hostname: &'a str,
    pub(crate) postmaster: Option<&'a EmailAddress>,
    pub(crate) peer: IpAddr,
    pub(crate) relaying: Relaying,
    /// How much of the header block a notice of failure returns, in octets.
    pub(crate) max_returned_bytes: usize,
}

/// Puts a Received header in front of the message and takes it over. The queue id goes into the reply.
///
/// A recipient that was taken at RCPT may be refused now, because its mailbox is full or was removed meanwhile. When
/// all are, the reply says so. When some are, the message is theirs no more than before, but the client has been told
/// otherwise: the sender gets a notification (RFC 5321 section 4.2.5).
pub(crate) async fn take_over(delivery: &Delivery<'_>, message: Message) -> Answer {
    let queue_id = delivery.maildrop.new_queue_id();
    let now = delivery.maildrop.clock().now();
    let trace = Trace { hostname: delivery.hostname, peer: delivery.peer, queue_id: &queue_id, now };
    let header = trace.header(&message);
    let incoming = match incoming(delivery, message, &header, &queue_id, now) {
        Ok(incoming) => incoming,
        Err(refusal) => return Answer::Refuse(refusal),
    };
    match delivery.maildrop.accept(incoming.clone()).await {
        Ok(taken) => {
            tracing::info!(
                queue_id = %taken.queue_id, octets = incoming.message.len(), delivered = taken.delivered.len(),
                queued = taken.queued.len(), refused = taken.refused.len(), "a message was taken over"
            );
            if !taken.refused.is_empty() {
                give_back(delivery, &incoming, &taken.queue_id, &taken.refused, now).await;
            }
            Answer::Queued(taken.queue_id.0)
        }
        Err(AcceptError::Refused(reply)) => Answer::Refuse(to_wire(&reply)),
        Err(AcceptError::NoRecipients(refused)) => Answer::Refuse(of_all(&refused)),
        Err(AcceptError::Store(error)) => {
            tracing::error!(%error, "a message could not be taken over");
            Answer::Refuse(Reply::new(451, (4, 3, 0), "The message cannot be stored at the moment"))
        }
    }
}

fn incoming(
    delivery: &Delivery<'_>,
    message: Message,
    header: &str,
    queue_id: &QueueId,
    now: Timestamp,
) -> Result<Incoming, Reply> {
    let envelope = message.envelope;
    let recipients = envelope.recipients.into_iter().map(|recipient| {
        let address = forward_path(&recipient, delivery.hostname, delivery.postmaster)?;
        Ok(Recipient { address, notify: recipient.notify, orcpt: recipient.orcpt })
    });
    Ok(Incoming {
        sender: reverse_path(&envelope.mail)?,
        recipients: recipients.collect::<Result<_, Reply>>()?,
        message: [header.as_bytes(), &message.data].concat().into(),
        message_id: None,
        received_at: now,
        relaying: delivery.relaying,
        ret: envelope.mail.ret,
        envid: envelope.mail.envid,
        queue_id: Some(queue_id.clone()),
    })
}

/// One reply for all recipients: the first, unless another one gives more hope.
fn of_all(refused: &[Refusal]) -> Reply {
    let hopeful = refused.iter().find(|refusal| refusal.reply.is_transient());
    let refusal = hopeful.or(refused.first());
    refusal.map_or_else(|| Reply::new(554, (5, 5, 1), "No valid recipients"), |refusal| to_wire(&refusal.reply))
}

/// Tells the sender who will not get the message.
async fn give_back(
    delivery: &Delivery<'_>,
    incoming: &Incoming,
    queue_id: &QueueId,
    refused: &[Refusal],
    now: Timestamp,
) {
    let Some(sender) = &incoming.sender else { return };
    let asked = |refusal: &Refusal| incoming.recipients.iter().find(|one| one.address == refusal.recipient);
    let wants = |notify: Option<Notify>| notify.is_none_or(|notify| notify.failure);
    let told = refused.iter().filter_map(|refusal| {
        let recipient = asked(refusal).filter(|recipient| wants(recipient.notify))?;
        Some(Fate {
            recipient: &refusal.recipient,
            original: recipient.orcpt.as_deref(),
            reply: Some(refusal.reply.clone()),
            relay: None,
            will_retry_until: None,
        })
    });
    let recipients: Vec<_> = told.collect();
    if recipients.is_empty() {
        return;
    }
    let headers = dsn::header_block(&incoming.message, delivery.max_returned_bytes);
    let report = Report {
        hostname: delivery.hostname,
        queue_id,
        arrived_at: now,
        envelope_id: incoming.envid.as_deref(),
        sender,
        action: Action::Failed,
        recipients,
        returned: Returned::Headers(&incoming.message[headers]),
        id: MessageId::random(delivery.maildrop.entropy()),
        now,
    };
    match dsn::compose(&report) {
        Ok(message) => {
            let notice = Incoming::new(None, [sender.clone()], message.into(), now, Relaying::Allowed);
            if let Err(error) = delivery.maildrop.accept(notice).await {
                tracing::warn!(%queue_id, %error, "a notice of failure could not be delivered");
            }
        }
        Err(error) => tracing::error!(%queue_id, %error, "a notice of failure could not be written"),
    }
}
