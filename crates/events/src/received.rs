//! Events about mail that a mailbox received.

use mailapi_model::{Authentication, EmailAddress, SecurityMark, Timestamp};
use serde::Serialize;

use crate::authentication::Results;
use crate::body::body;
use crate::{EventId, EventType, NewEvent};

/// Maximum characters of the beginning of the text.
const MAX_SNIPPET: usize = 200;
/// Maximum characters of the subject.
const MAX_SUBJECT: usize = 1_000;

/// A message that a mailbox received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// The mailbox.
    pub mailbox: &'a EmailAddress,
    /// The address that the message was sent to; `None` if it is not known.
    pub recipient: Option<&'a EmailAddress>,
    /// The mail server's queue id.
    pub queue_id: &'a str,
    /// Results of the checks; `None` if the mail server made none.
    pub authentication: Option<&'a Authentication>,
    /// The message; `None` if it could not be read.
    pub message: Option<ReceivedMessage<'a>>,
}

/// What the mailbox says about the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedMessage<'a> {
    /// The folder.
    pub folder: &'a str,
    /// The UID in the folder.
    pub uid: u32,
    /// The first author's name; empty if missing.
    pub from_name: &'a str,
    /// The first author's address; empty if missing.
    pub from_email: &'a str,
    /// The decoded subject; what exceeds 1,000 characters is cut off.
    pub subject: &'a str,
    /// The beginning of the text, on one line; what exceeds 200 characters is cut off.
    pub snippet: &'a str,
    /// Length in bytes.
    pub size: u64,
    /// Whether it has attachments.
    pub has_attachments: bool,
    /// What the security analysis found; `None` if the message was not analyzed.
    pub security: Option<&'a SecurityMark>,
}

/// Returns the id of `message.received`. `source` identifies the delivery.
#[must_use]
pub fn received_id(mailbox: &EmailAddress, at: Timestamp, source: &[&[u8]]) -> EventId {
    let subject = [EventType::MessageReceived.as_str().as_bytes(), mailbox.as_str().as_bytes()];
    EventId::of_fact(at, &[&subject[..], source].concat())
}

/// Returns `message.received`, without the text of the message.
#[must_use]
pub fn received(mail: Received<'_>, id: EventId) -> NewEvent {
    #[derive(Serialize)]
    struct EventRecipient<'a> {
        email: &'a str,
    }
    #[derive(Serialize)]
    struct FoundSigns<'a> {
        verdict: &'a str,
        signs: &'a [String],
    }
    #[derive(Serialize)]
    struct Data<'a> {
        mailbox: &'a str,
        domain: &'a str,
        recipient: Option<EventRecipient<'a>>,
        queue_id: &'a str,
        folder: Option<&'a str>,
        uid: Option<u32>,
        from: Option<&'a str>,
        from_name: Option<&'a str>,
        subject: Option<&'a str>,
        snippet: Option<&'a str>,
        size: Option<u64>,
        has_attachments: Option<bool>,
        authentication: Option<Results>,
        security: Option<FoundSigns<'a>>,
    }
    let Received { mailbox, recipient, queue_id, authentication, message } = mail;
    let (event_type, domain) = (EventType::MessageReceived, mailbox.domain());
    let data = Data {
        mailbox: mailbox.shown(),
        domain: domain.as_str(),
        recipient: recipient.map(|recipient| EventRecipient { email: recipient.shown() }),
        queue_id,
        folder: message.map(|message| message.folder),
        uid: message.map(|message| message.uid),
        from: message.map(|message| message.from_email),
        from_name: message.map(|message| message.from_name).filter(|name| !name.is_empty()),
        subject: message.map(|message| cut(message.subject, MAX_SUBJECT)),
        snippet: message.map(|message| cut(message.snippet, MAX_SNIPPET)),
        size: message.map(|message| message.size),
        has_attachments: message.map(|message| message.has_attachments),
        authentication: authentication.map(Results::of),
        security: message
            .and_then(|message| message.security)
            .map(|mark| FoundSigns { verdict: &mark.verdict, signs: &mark.signs }),
    };
    let body = body(id, event_type, &data);
    NewEvent {
        id,
        event_type,
        domain: Some(domain),
        mailbox: Some(mailbox.clone()),
        message_id: None,
        subject_at: id.at(),
        body,
    }
}

fn cut(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn data(message: Option<ReceivedMessage<'_>>) -> Value {
        let (mailbox, at) = ("ann@example.org".parse().unwrap(), Timestamp::from_seconds(1_790_000_000));
        let id = received_id(&mailbox, at, &[b"feed", b"1"]);
        let recipient = message.map(|_| "sales@example.org".parse().unwrap());
        let (recipient, queue_id) = (recipient.as_ref(), "Q1");
        let event = received(Received { mailbox: &mailbox, recipient, queue_id, authentication: None, message }, id);
        assert_eq!((event.mailbox, event.message_id, event.subject_at), (Some(mailbox), None, at));
        serde_json::from_str::<Value>(&event.body).unwrap()["data"].clone()
    }

    #[test]
    fn a_message_that_was_not_read_has_null_members() {
        let expected = json!({
            "mailbox": "ann@example.org", "domain": "example.org", "recipient": null, "queue_id": "Q1",
            "folder": null, "uid": null, "from": null, "from_name": null, "subject": null, "snippet": null, "size": null,
            "has_attachments": null, "authentication": null, "security": null,
        });
        assert_eq!(data(None), expected);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let (subject, snippet) = ("é".repeat(1_001), "ü".repeat(201));
        let message = ReceivedMessage {
            folder: "INBOX",
            uid: 7,
            from_name: "",
            from_email: "",
            subject: &subject,
            snippet: &snippet,
            size: 3,
            has_attachments: true,
            security: Some(&SecurityMark { verdict: "suspicious".to_owned(), signs: vec!["macros".to_owned()] }),
        };
        let data = data(Some(message));
        assert_eq!(data["subject"].as_str(), Some("é".repeat(1_000).as_str()));
        assert_eq!(data["snippet"].as_str(), Some("ü".repeat(200).as_str()));
        assert_eq!(data["security"], json!({ "verdict": "suspicious", "signs": ["macros"] }));
        assert_eq!(data["recipient"], json!({ "email": "sales@example.org" }));
        assert_eq!((&data["from"], &data["from_name"], &data["uid"]), (&json!(""), &Value::Null, &json!(7)));
    }
}
