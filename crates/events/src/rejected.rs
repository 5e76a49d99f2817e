//! Events about refused mail from outside.

use mailapi_model::{EmailAddress, InboundRefusal};
use serde::Serialize;

use crate::body::body;
use crate::message::Smtp;
use crate::{EventId, EventType, FactNumber, NewEvent};

/// Returns `message.rejected`. `left_out` is the number of refusals since the last such event that have none.
#[must_use]
pub fn rejected(refusal: &InboundRefusal, left_out: u64, fact: FactNumber) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        mailbox: &'a str,
        domain: &'a str,
        from: Option<&'a str>,
        client: Option<String>,
        stage: &'static str,
        smtp: Smtp<'a>,
        left_out: u64,
    }
    let InboundRefusal { at, client, sender, recipient, stage, reply } = refusal;
    let (event_type, domain, text) = (EventType::MessageRejected, recipient.domain(), reply.to_string());
    let id = EventId::of_fact(*at, &[event_type.as_str().as_bytes(), recipient.as_str().as_bytes(), &fact.to_bytes()]);
    let data = Data {
        mailbox: recipient.shown(),
        domain: domain.as_str(),
        from: sender.as_ref().map(EmailAddress::shown),
        client: client.map(|client| client.to_canonical().to_string()),
        stage: stage.as_str(),
        smtp: Smtp::of_reply(reply, &text),
        left_out,
    };
    let body = body(id, event_type, &data);
    NewEvent {
        id,
        event_type,
        domain: Some(domain),
        mailbox: Some(recipient.clone()),
        message_id: None,
        subject_at: id.at(),
        body,
    }
}
