//! Between the words of the port and those of SMTP.

use mailapi_backend::Refusal;
use mailapi_model::{EmailAddress, EnhancedCode, Envelope, MessageId, QueueId, Reply};
use mailapi_smtp::client::queue_id_in;
use mailapi_smtp::{MailFrom, RcptTo, Ret};

use crate::bounces::ReturnAddress;

/// The envelope as SMTP says it. Bounces go to the message's own return address, where there are such; what came with
/// the null reverse-path goes with it, since a bounce must never lead to another. Where the server takes DSN
/// parameters (RFC 3461), a bounce names our identifier and the recipient that the author named, and returns no more
/// than the header.
pub(super) fn envelope(envelope: &Envelope, returns: Option<&ReturnAddress>) -> mailapi_smtp::Envelope {
    let reverse_path = match (&envelope.sender, returns) {
        (None, _) => String::new(),
        (Some(_), Some(returns)) => returns.of(envelope.message_id),
        (Some(sender), None) => sender.wire().into_owned(),
    };
    let mail = MailFrom {
        ret: Some(Ret::Headers),
        envid: Some(envelope.message_id.to_string()),
        // Announced only for a message that needs it, an international header for example.
        smtputf8: true,
        ..MailFrom::new(reverse_path)
    };
    // A server further on that rewrites the recipient still tells us whom we meant (RFC 3461 section 4.2).
    let recipient = |address: &EmailAddress| RcptTo::new(address.wire()).meaning(&address.wire());
    mailapi_smtp::Envelope { mail, recipients: envelope.recipients.iter().map(recipient).collect() }
}

/// The recipients that were refused on their own.
pub(super) fn refusals(envelope: &Envelope, replies: &[Option<mailapi_smtp::Reply>]) -> Vec<Refusal> {
    let pairs = envelope.recipients.iter().zip(replies);
    let refused = pairs.filter_map(|(recipient, reply)| Some((recipient, reply.as_ref()?)));
    let refused = refused.filter(|(_, reply)| !reply.is_positive());
    refused.map(|(recipient, said)| Refusal { recipient: recipient.clone(), reply: reply(said) }).collect()
}

/// A reply in the words of the port.
pub(super) fn reply(reply: &mailapi_smtp::Reply) -> Reply {
    let enhanced = reply.enhanced.map(|code| EnhancedCode::new(code.class, code.subject, code.detail));
    let text = reply.text.split('\n').filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    Reply { code: reply.code, enhanced, text }
}

/// The id in the server's reply. A server that names none is not Postfix; our own identifier then stands in for it.
pub(super) fn queue_id(reply: &mailapi_smtp::Reply, message_id: MessageId) -> QueueId {
    queue_id_in(reply).map_or_else(|| QueueId::standing_in(message_id), |id| QueueId(id.to_owned()))
}
