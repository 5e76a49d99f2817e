//! Events about mail of other servers that changes no status.

use mailapi_model::{DomainName, NoticeKind, QueueId, Timestamp};
use serde::Serialize;

use crate::message::{Message, MessageFacts};
use crate::{EventType, NewEvent};

/// What another server returned about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnedText<'a> {
    /// What it is about.
    pub kind: NoticeKind,
    /// The domain of its author.
    pub server: Option<&'a DomainName>,
    /// The beginning of its text.
    pub text: &'a str,
}

/// Returns `message.notice`. The same notice always has the same id.
#[must_use]
pub fn noticed(
    message: &MessageFacts,
    returned: ReturnedText<'_>,
    queue_id: Option<&QueueId>,
    at: Timestamp,
) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        #[serde(flatten)]
        message: Message<'a>,
        notice: Notice<'a>,
    }
    #[derive(Serialize)]
    struct Notice<'a> {
        kind: &'static str,
        server: Option<&'a str>,
        text: &'a str,
    }
    let (event_type, domain) = (EventType::MessageNotice, message.from.domain());
    let ReturnedText { kind, server, text } = returned;
    let notice = Notice { kind: kind.as_str(), server: server.map(DomainName::as_str), text };
    let source = [kind.as_str().as_bytes(), text.as_bytes()];
    let data = Data { message: Message::of(message, &domain, queue_id), notice };
    message.event(event_type, message.id_of(event_type, at, &source), &data)
}
