//! Between the words of the port and those of SMTP.

use mailapi_backend::Refusal;
use mailapi_model::{EnhancedCode, Envelope, MessageId, QueueId, Reply};
use mailapi_smtp::client::queue_id_in;
use mailapi_smtp::{MailFrom, RcptTo, Ret};

/// The envelope as SMTP says it. Where the server takes DSN parameters (RFC 3461), a bounce names our identifier and
/// returns no more than the header.
pub(super) fn envelope(envelope: &Envelope) -> mailapi_smtp::Envelope {
    let reverse_path = envelope.sender.as_ref().map_or("", |sender| sender.as_str());
    let mail = MailFrom {
        ret: Some(Ret::Headers),
        envid: Some(envelope.message_id.to_string()),
        // Announced only for a message that needs it, an international header for example.
        smtputf8: true,
        ..MailFrom::new(reverse_path)
    };
    let recipients = envelope.recipients.iter().map(|recipient| RcptTo::new(recipient.as_str())).collect();
    mailapi_smtp::Envelope { mail, recipients }
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
    QueueId(queue_id_in(reply).map_or_else(|| message_id.to_string(), str::to_owned))
}
