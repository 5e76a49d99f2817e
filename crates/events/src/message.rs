//! Events about sent messages: from the API, or from mail programs.

use std::collections::BTreeMap;

use mailapi_model::{
    DeliveryEvent, DomainName, EmailAddress, EnhancedCode, Evidence, MessageId, Outcome, QueueId, RecipientKind, Reply,
    Scope, Timestamp,
};
use serde::Serialize;

use crate::body::body;
use crate::{EventId, EventType, NewEvent};

/// Maximum length of a reply in characters; the rest is cut off.
const MAX_RESPONSE: usize = 500;

/// The subject of the enhanced status codes for policy and security (RFC 3463 section 3.8).
const POLICY: u16 = 7;

/// How a message came to the mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Through the API.
    Api(MessageId),
    /// From a mail program that logged in. Only the mail server's queue id identifies the message.
    MailProgram(QueueId),
}

/// The properties of a sent message that never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageFacts {
    /// How it came to the mail server.
    pub origin: Origin,
    /// The mailbox of the token or the login that sent it; `None` for an admin's token.
    pub mailbox: Option<EmailAddress>,
    /// The From address.
    pub from: EmailAddress,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// The state of a recipient before a delivery event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempted {
    /// The address, as given.
    pub email: EmailAddress,
    /// To, Cc or Bcc; `None` for mail of a mail program, whose envelope does not have it.
    pub kind: Option<RecipientKind>,
    /// Number of deferred attempts so far.
    pub attempts: u64,
    /// Whether the address that was attempted is a mailbox of this installation.
    pub is_mailbox: bool,
}

/// Returns `message.accepted`: the message is durable at the mail server. `size` is in bytes, `None` if unknown.
#[must_use]
pub fn accepted(
    message: &MessageFacts,
    recipients: &[(&EmailAddress, RecipientKind)],
    size: Option<u64>,
    queue_id: &QueueId,
    at: Timestamp,
) -> NewEvent {
    let recipients = recipients.iter().map(|(email, kind)| (*email, Some(*kind)));
    accepted_by(message, recipients, size, queue_id, at)
}

/// Like [`accepted`], for a message of any origin.
pub(crate) fn accepted_by<'a>(
    message: &MessageFacts,
    recipients: impl Iterator<Item = (&'a EmailAddress, Option<RecipientKind>)>,
    size: Option<u64>,
    queue_id: &QueueId,
    at: Timestamp,
) -> NewEvent {
    #[derive(Serialize)]
    struct Data<'a> {
        #[serde(flatten)]
        message: Message<'a>,
        recipients: Vec<Recipient<'a>>,
        size: Option<u64>,
    }
    let domain = message.from.domain();
    let data = Data {
        message: Message::of(message, &domain, Some(queue_id)),
        recipients: recipients.map(|(email, kind)| Recipient::of(email, kind)).collect(),
        size,
    };
    let event_type = EventType::MessageAccepted;
    message.event(event_type, message.id_of(event_type, at, &[]), &data)
}

/// Returns the event of a recipient that the mail server refused at submission: `message.bounced` for a permanent
/// refusal, `message.failed` for a temporary one.
#[must_use]
pub fn refused(
    message: &MessageFacts,
    (email, kind): (&EmailAddress, RecipientKind),
    reply: &Reply,
    queue_id: &QueueId,
    at: Timestamp,
) -> NewEvent {
    let domain = message.from.domain();
    let text = reply.to_string();
    let attempt = AtSubmission {
        message: Message::of(message, &domain, Some(queue_id)),
        recipient: Recipient::of(email, Some(kind)),
        smtp: Some(Smtp::of_reply(reply, &text)),
        evidence: "submission",
    };
    let named = |event_type| message.id_of(event_type, at, &[email.as_str().as_bytes()]);
    if Outcome::of_refusal(reply) == Outcome::Failed {
        let event_type = EventType::MessageFailed;
        message.event(event_type, named(event_type), &Failed { attempt, reason: shortened(&text) })
    } else {
        let bounce = Bounce { class: BounceClass::of(reply.enhanced_or_class(), false), via: "smtp" };
        let event_type = EventType::MessageBounced;
        message.event(event_type, named(event_type), &Bounced { attempt, bounce })
    }
}

/// Returns `message.failed`: the mail server did not accept the message as a whole, so this recipient does not
/// receive it. `reason` is text for people; `reply` is the mail server's reply, if there was one.
#[must_use]
pub fn failed(
    message: &MessageFacts,
    (email, kind): (&EmailAddress, RecipientKind),
    reason: &str,
    reply: Option<&Reply>,
    at: Timestamp,
) -> NewEvent {
    let domain = message.from.domain();
    let text = reply.map(Reply::to_string).unwrap_or_default();
    let attempt = AtSubmission {
        message: Message::of(message, &domain, None),
        recipient: Recipient::of(email, Some(kind)),
        smtp: reply.map(|reply| Smtp::of_reply(reply, &text)),
        evidence: "submission",
    };
    let event_type = EventType::MessageFailed;
    let id = message.id_of(event_type, at, &[email.as_str().as_bytes()]);
    message.event(event_type, id, &Failed { attempt, reason: shortened(reason) })
}

/// Returns the event of a delivery report: delivered, deferred, bounced or failed. `None` for a bounce of one of
/// several addresses that the recipient expanded to, because the recipient may still receive the message.
///
/// `source` identifies the report: its feed, the feed's cursor, and its place in the batch.
#[must_use]
pub fn delivery(
    message: &MessageFacts,
    recipient: &Attempted,
    report: &DeliveryEvent,
    source: &[&[u8]],
) -> Option<NewEvent> {
    let domain = message.from.domain();
    let attempt = Attempt {
        message: Message::of(message, &domain, Some(&report.queue_id)),
        recipient: Recipient {
            last: report.final_recipient.as_ref().map(EmailAddress::shown),
            ..Recipient::of(&recipient.email, recipient.kind)
        },
        smtp: Smtp::of_report(report),
        relay: report.relay.as_deref().map(shortened),
        delay_ms: u64::try_from(report.delay.as_millis()).unwrap_or(u64::MAX),
        evidence: match report.evidence {
            Evidence::MailServer => "mail_server",
            Evidence::ReturnedMail => "returned_mail",
        },
    };
    let id = |event_type| message.id_of(event_type, report.at, source);
    Some(match report.outcome {
        Outcome::Sent => {
            let delivered_to = if recipient.is_mailbox { "mailbox" } else { "next_hop" };
            let event_type = EventType::MessageDelivered;
            message.event(event_type, id(event_type), &Delivered { attempt, delivered_to })
        }
        Outcome::Deferred => {
            let number = recipient.attempts.saturating_add(1);
            let event_type = EventType::MessageDeferred;
            let next_attempt_at = report.next_attempt_at.map(|at| at.to_string());
            let deferred = Deferred { report: attempt, attempt: number, next_attempt_at };
            message.event(event_type, id(event_type), &deferred)
        }
        Outcome::Bounced | Outcome::Expired if report.scope() == Scope::Member => return None,
        Outcome::Bounced | Outcome::Expired => {
            let via = if report.evidence == Evidence::ReturnedMail { "returned_mail" } else { "smtp" };
            let bounce = Bounce { class: BounceClass::of(report.dsn, report.outcome == Outcome::Expired), via };
            let event_type = EventType::MessageBounced;
            message.event(event_type, id(event_type), &Bounced { attempt, bounce })
        }
        Outcome::Failed => {
            let event_type = EventType::MessageFailed;
            let reason = shortened(&report.response);
            message.event(event_type, id(event_type), &Failed { attempt, reason })
        }
    })
}

impl MessageFacts {
    const fn message_id(&self) -> Option<MessageId> {
        match self.origin {
            Origin::Api(message_id) => Some(message_id),
            Origin::MailProgram(_) => None,
        }
    }

    pub(crate) fn id_of(&self, event_type: EventType, at: Timestamp, source: &[&[u8]]) -> EventId {
        let name = match &self.origin {
            Origin::Api(message_id) => message_id.to_string(),
            Origin::MailProgram(queue_id) => queue_id.0.clone(),
        };
        let subject = [name.as_bytes(), event_type.as_str().as_bytes()];
        EventId::of_fact(at, &[&subject[..], source].concat())
    }

    pub(crate) fn event(&self, event_type: EventType, id: EventId, data: &impl Serialize) -> NewEvent {
        NewEvent {
            id,
            event_type,
            domain: Some(self.from.domain()),
            mailbox: self.mailbox.clone(),
            message_id: self.message_id(),
            subject_at: self.created_at,
            body: body(id, event_type, data),
        }
    }
}

/// The members that all events about sent messages have.
#[derive(Serialize)]
pub(crate) struct Message<'a> {
    message_id: Option<String>,
    mailbox: Option<&'a str>,
    domain: &'a str,
    from: &'a str,
    tags: [&'a str; 0],
    metadata: BTreeMap<&'a str, &'a str>,
    queue_id: Option<&'a str>,
}

impl<'a> Message<'a> {
    pub(crate) fn of(message: &'a MessageFacts, domain: &'a DomainName, queue_id: Option<&'a QueueId>) -> Self {
        Self {
            message_id: message.message_id().map(|id| id.to_string()),
            mailbox: message.mailbox.as_ref().map(EmailAddress::shown),
            domain: domain.as_str(),
            from: message.from.shown(),
            tags: [],
            metadata: BTreeMap::new(),
            queue_id: queue_id.map(|queue_id| queue_id.0.as_str()),
        }
    }
}

#[derive(Serialize)]
struct Recipient<'a> {
    email: &'a str,
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    /// The address that was attempted, if it differs (RFC 3464 section 2.3.2).
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    last: Option<&'a str>,
}

impl<'a> Recipient<'a> {
    fn of(email: &'a EmailAddress, kind: Option<RecipientKind>) -> Self {
        Self { email: email.shown(), kind: kind.map(RecipientKind::as_str), last: None }
    }
}

#[derive(Serialize)]
pub(crate) struct Smtp<'a> {
    /// Three digits, if the mail server reported them.
    code: Option<u16>,
    enhanced: Option<String>,
    response: &'a str,
}

impl<'a> Smtp<'a> {
    pub(crate) fn of_reply(reply: &Reply, text: &'a str) -> Self {
        let enhanced = reply.enhanced.map(|enhanced| enhanced.to_string());
        Self { code: Some(reply.code), enhanced, response: shortened(text) }
    }

    fn of_report(report: &'a DeliveryEvent) -> Self {
        let enhanced = report.dsn.map(|dsn| dsn.to_string());
        Self { code: code_of(&report.response), enhanced, response: shortened(&report.response) }
    }
}

/// The members of an event about a recipient that was refused at submission.
#[derive(Serialize)]
struct AtSubmission<'a> {
    #[serde(flatten)]
    message: Message<'a>,
    recipient: Recipient<'a>,
    smtp: Option<Smtp<'a>>,
    evidence: &'static str,
}

/// The members of an event about a delivery attempt.
#[derive(Serialize)]
struct Attempt<'a> {
    #[serde(flatten)]
    message: Message<'a>,
    recipient: Recipient<'a>,
    smtp: Smtp<'a>,
    relay: Option<&'a str>,
    delay_ms: u64,
    evidence: &'static str,
}

#[derive(Serialize)]
struct Delivered<'a> {
    #[serde(flatten)]
    attempt: Attempt<'a>,
    delivered_to: &'static str,
}

#[derive(Serialize)]
struct Deferred<'a> {
    #[serde(flatten)]
    report: Attempt<'a>,
    attempt: u64,
    next_attempt_at: Option<String>,
}

#[derive(Serialize)]
struct Bounced<A> {
    #[serde(flatten)]
    attempt: A,
    bounce: Bounce,
}

#[derive(Serialize)]
struct Failed<'a, A> {
    #[serde(flatten)]
    attempt: A,
    reason: &'a str,
}

#[derive(Serialize)]
struct Bounce {
    class: BounceClass,
    via: &'static str,
}

#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum BounceClass {
    Permanent,
    Expired,
    Policy,
}

impl BounceClass {
    fn of(status: Option<EnhancedCode>, is_expired: bool) -> Self {
        match status {
            _ if is_expired => Self::Expired,
            Some(status) if status.subject == POLICY => Self::Policy,
            _ => Self::Permanent,
        }
    }
}

/// Cuts the text after [`MAX_RESPONSE`] characters.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(MAX_RESPONSE).map_or(text, |(end, _)| &text[..end])
}

/// Returns the code of the reply (RFC 5321 section 4.2) that a response begins with. Postfix's smtp(8) names the server
/// before the reply: `host mx.example[192.0.2.1] said: 450 4.2.0 later`.
fn code_of(response: &str) -> Option<u16> {
    let of_host = response.strip_prefix("host ").and_then(|rest| {
        let said = rest.split_once(" said: ").or_else(|| rest.split_once(" refused to talk to me: "))?;
        // A space inside the name: the words stand in the server's own text.
        (!said.0.contains(' ')).then_some(said.1)
    });
    let (digits, rest) = of_host.unwrap_or(response).split_at_checked(3)?;
    let is_code = digits.bytes().all(|byte| byte.is_ascii_digit())
        && !rest.starts_with(|next: char| next.is_alphanumeric() || next == '.');
    digits.parse().ok().filter(|code| is_code && (200..=599).contains(code))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const MESSAGE_ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    fn message() -> MessageFacts {
        MessageFacts {
            origin: Origin::Api(MESSAGE_ID.parse().unwrap()),
            mailbox: None,
            from: "ann@example.org".parse().unwrap(),
            created_at: Timestamp::from_seconds(1_790_000_000),
        }
    }

    fn recipient() -> Attempted {
        let email = EmailAddress::as_given("Bob@example.net").unwrap();
        Attempted { email, kind: Some(RecipientKind::Cc), attempts: 2, is_mailbox: false }
    }

    fn report(outcome: Outcome, dsn: &str, response: &str) -> DeliveryEvent {
        DeliveryEvent {
            at: Timestamp::from_seconds(1_790_000_009),
            message_id: MESSAGE_ID.parse().ok(),
            queue_id: QueueId("Q1".to_owned()),
            sender: None,
            recipient: "bob@example.net".parse().unwrap(),
            final_recipient: None,
            outcome,
            evidence: Evidence::MailServer,
            dsn: dsn.parse().ok(),
            response: response.to_owned(),
            relay: None,
            delay: Duration::from_secs(9),
            next_attempt_at: None,
        }
    }

    fn data(report: &DeliveryEvent) -> Value {
        let event = delivery(&message(), &recipient(), report, &[b"feed", b"1"]).unwrap();
        let body: Value = serde_json::from_str(&event.body).unwrap();
        assert_eq!(
            (body["id"].as_str(), body["type"].as_str()),
            (Some(&*event.id.to_string()), Some(event.event_type.as_str()))
        );
        assert_eq!(body["timestamp"], event.id.at().to_string());
        body["data"].clone()
    }

    #[test]
    fn a_bounce_of_one_address_of_a_recipient_is_no_event() {
        let mut report = report(Outcome::Bounced, "5.1.1", "550 5.1.1 no");
        report.final_recipient = Some("member@example.net".parse().unwrap());
        assert_eq!(delivery(&message(), &recipient(), &report, &[]), None);
    }

    #[test]
    fn a_bounce_has_its_class_and_how_it_was_reported() {
        let bounce = |outcome, dsn, evidence| {
            let report = DeliveryEvent { evidence, ..report(outcome, dsn, "no") };
            data(&report)["bounce"].clone()
        };
        let server = Evidence::MailServer;
        assert_eq!(bounce(Outcome::Bounced, "5.1.1", server), json!({"class": "permanent", "via": "smtp"}));
        assert_eq!(bounce(Outcome::Bounced, "5.7.26", server), json!({"class": "policy", "via": "smtp"}));
        assert_eq!(bounce(Outcome::Expired, "4.7.0", server), json!({"class": "expired", "via": "smtp"}));
        let returned = bounce(Outcome::Bounced, "", Evidence::ReturnedMail);
        assert_eq!(returned, json!({"class": "permanent", "via": "returned_mail"}));
    }

    #[test]
    fn a_deferral_counts_its_attempts() {
        let data = data(&report(Outcome::Deferred, "4.2.0", "450-4.2.0 later"));
        assert_eq!((&data["attempt"], &data["next_attempt_at"]), (&json!(3), &Value::Null));
        assert_eq!(data["smtp"], json!({"code": 450, "enhanced": "4.2.0", "response": "450-4.2.0 later"}));
        assert_eq!(data["recipient"], json!({"email": "Bob@example.net", "type": "cc"}));
        assert_eq!((&data["mailbox"], &data["relay"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_deferral_names_its_next_attempt_if_it_is_known() {
        let next_attempt_at = Some(Timestamp::from_seconds(1_790_000_300));
        let report = DeliveryEvent { next_attempt_at, ..report(Outcome::Deferred, "4.2.0", "450 later") };
        assert_eq!(data(&report)["next_attempt_at"], "2026-09-21T14:18:20.000Z");
    }

    #[test]
    fn a_response_without_a_code_has_none() {
        for response in ["", "25", "2500 x", "199 x", "600 x", "250x", "250.1", "no", "é50 x", "+25 x"] {
            assert_eq!(code_of(response), None, "{response}");
        }
        for response in ["250", "250 ok", "250-ok"] {
            assert_eq!(code_of(response), Some(250), "{response}");
        }
    }

    #[test]
    fn the_code_behind_the_name_of_a_server_is_found() {
        for response in [
            "host mx.example[192.0.2.1] said: 450 4.2.0 later (in reply to RCPT TO command)",
            "host mx.example[2001:db8::1] refused to talk to me: 450 too busy",
        ] {
            assert_eq!(code_of(response), Some(450), "{response}");
        }
        for response in ["host mx.example[192.0.2.1] said nothing", "host a b said: 450 x", "connect: a said: 450 x"] {
            assert_eq!(code_of(response), None, "{response}");
        }
    }

    #[test]
    fn a_program_can_tell_what_a_server_answered() {
        let smtp = |dsn, response| data(&report(Outcome::Deferred, dsn, response))["smtp"].clone();
        let own = "cannot connect to mx.example[192.0.2.1]:25: refused";
        assert_eq!(smtp("4.4.1", own), json!({"code": null, "enhanced": "4.4.1", "response": own}));
        let answered = json!({"code": 421, "enhanced": "4.4.1", "response": "421 4.4.1 too busy"});
        assert_eq!(smtp("4.4.1", "421 4.4.1 too busy"), answered);
    }

    #[test]
    fn two_reports_alike_are_two_events() {
        let report = report(Outcome::Deferred, "4.2.0", "450 later");
        let id = |source: &[&[u8]]| delivery(&message(), &recipient(), &report, source).unwrap().id;
        assert_ne!(id(&[b"feed", b"1", b"0"]), id(&[b"feed", b"1", b"1"]));
        assert_eq!(id(&[b"feed", b"1", b"0"]), id(&[b"feed", b"1", b"0"]));
    }

    proptest! {
        #[test]
        fn any_response_is_cut_and_read_back(response in "\\PC{0,600}|[0-9]{3}[ -]\\PC{0,20}") {
            let data = data(&report(Outcome::Deferred, "4.2.0", &response));
            let expected: String = response.chars().take(MAX_RESPONSE).collect();
            prop_assert_eq!(data["smtp"]["response"].as_str(), Some(expected.as_str()));
        }
    }
}
