//! Converts between the types of the port and those of SMTP.

use mailapi_backend::Refusal;
use mailapi_model::{EmailAddress, EnhancedCode, Envelope, MessageId, QueueId, Reply};
use mailapi_smtp::client::queue_id_in;
use mailapi_smtp::{MailFrom, RcptTo, Ret};

use crate::bounces::ReturnAddress;

/// Converts the envelope. The reverse-path is the message's own return address if configured. A null reverse-path
/// remains null, since a bounce must never cause another one. If the server supports DSN parameters (RFC 3461), a
/// bounce contains this service's identifier and the original recipient, and returns only the header.
pub(super) fn envelope(envelope: &Envelope, returns: Option<&ReturnAddress>) -> mailapi_smtp::Envelope {
    let reverse_path = match (&envelope.sender, returns) {
        (None, _) => String::new(),
        (Some(_), Some(returns)) => returns.of(envelope.message_id),
        (Some(sender), None) => sender.wire().into_owned(),
    };
    let mail = MailFrom {
        ret: Some(Ret::Headers),
        envid: Some(envelope.message_id.to_string()),
        // The client uses it only for a message that needs it, such as one with an international header.
        smtputf8: true,
        ..MailFrom::new(reverse_path)
    };
    // ORCPT: a later server that rewrites the recipient still reports the original one (RFC 3461 section 4.2).
    let recipient = |address: &EmailAddress| RcptTo::new(address.wire()).meaning(&address.wire());
    mailapi_smtp::Envelope { mail, recipients: envelope.recipients.iter().map(recipient).collect() }
}

/// Returns the recipients that were refused individually.
pub(super) fn refusals(envelope: &Envelope, replies: &[Option<mailapi_smtp::Reply>]) -> Vec<Refusal> {
    let pairs = envelope.recipients.iter().zip(replies);
    let refused = pairs.filter_map(|(recipient, reply)| Some((recipient, reply.as_ref()?)));
    let refused = refused.filter(|(_, reply)| !reply.is_positive());
    refused.map(|(recipient, said)| Refusal { recipient: recipient.clone(), reply: reply(said) }).collect()
}

/// Converts a reply; its lines are joined by spaces.
pub(super) fn reply(reply: &mailapi_smtp::Reply) -> Reply {
    let enhanced = reply.enhanced.map(|code| EnhancedCode::new(code.class, code.subject, code.detail));
    let text = reply.text.split('\n').filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    Reply { code: reply.code, enhanced, text }
}

/// Returns the queue id in the server's reply. A server that returns none is not Postfix; the message's identifier
/// then replaces it.
pub(super) fn queue_id(reply: &mailapi_smtp::Reply, message_id: MessageId) -> QueueId {
    queue_id_in(reply).map_or_else(|| QueueId::standing_in(message_id), |id| QueueId(id.to_owned()))
}
