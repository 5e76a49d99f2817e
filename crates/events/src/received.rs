//! Events about mail from outside.

use mailapi_model::{EmailAddress, Timestamp};
use serde::Serialize;

use crate::body::body;
use crate::{EventId, EventType, NewEvent};

/// A message that a mailbox received from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// The mailbox.
    pub mailbox: &'a EmailAddress,
    /// The folder.
    pub folder: &'a str,
    /// The UID in the folder.
    pub uid: u32,
    /// The mail server's queue id.
    pub queue_id: &'a str,
    /// The first author's name; empty if missing.
    pub from_name: &'a str,
    /// The first author's address; empty if missing.
    pub from_email: &'a str,
    /// The decoded subject.
    pub subject: &'a str,
    /// Length in bytes.
    pub size: u64,
    /// Whether it has attachments.
    pub has_attachments: bool,
}

/// Returns `message.received`, without the text of the message. `snippet` and `authentication` are reserved.
#[must_use]
pub fn received(message: Received<'_>, at: Timestamp) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        mailbox: &'a str,
        domain: &'a str,
        queue_id: &'a str,
        folder: &'a str,
        uid: u32,
        from: &'a str,
        from_name: Option<&'a str>,
        subject: &'a str,
        snippet: Option<&'a str>,
        size: u64,
        has_attachments: bool,
        authentication: Option<&'a str>,
    }
    let Received { mailbox, folder, uid, queue_id, from_name, from_email, subject, size, has_attachments } = message;
    let event_type = EventType::MessageReceived;
    let place = [folder.as_bytes(), &uid.to_be_bytes(), queue_id.as_bytes()].concat();
    let id = EventId::of_fact(at, &[event_type.as_str().as_bytes(), mailbox.as_str().as_bytes(), &place]);
    let domain = mailbox.domain();
    let data = Data {
        mailbox: mailbox.shown(),
        domain: domain.as_str(),
        queue_id,
        folder,
        uid,
        from: from_email,
        from_name: Some(from_name).filter(|name| !name.is_empty()),
        subject,
        snippet: None,
        size,
        has_attachments,
        authentication: None,
    };
    let body = body(id, event_type, &data);
    NewEvent {
        id,
        event_type,
        domain: Some(domain),
        mailbox: Some(mailbox.clone()),
        message_id: None,
        subject_at: at,
        body,
    }
}
