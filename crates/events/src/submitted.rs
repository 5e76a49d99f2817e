//! Events about messages that mail programs submitted.

use mailapi_model::{EmailAddress, SubmittedFact, SubmittedMail, SubmittedReport};

use crate::NewEvent;
use crate::message::{Attempted, MessageFacts, Origin, accepted_by, delivery};

/// Returns the event of a report: accepted, delivered, deferred, bounced or failed. `None` for a bounce of one of
/// several addresses that the recipient expanded to.
///
/// `source` identifies a report about a delivery: its feed, the feed's cursor, and its place in the batch.
#[must_use]
pub fn submitted(report: &SubmittedReport, source: &[&[u8]]) -> Option<NewEvent> {
    let SubmittedReport { mail, fact } = report;
    let SubmittedMail { mailbox, from, queue_id, accepted_at } = mail;
    let message = MessageFacts {
        origin: Origin::MailProgram(queue_id.clone()),
        mailbox: Some(canonical(mailbox)),
        from: canonical(from),
        created_at: *accepted_at,
    };
    match fact {
        SubmittedFact::Accepted { recipients, size } => {
            let recipients: Vec<_> = recipients.iter().map(canonical).collect();
            let named = recipients.iter().map(|recipient| (recipient, None));
            Some(accepted_by(&message, named, Some(*size), queue_id, *accepted_at))
        }
        SubmittedFact::Attempted { report, attempts, is_mailbox } => {
            let email = canonical(&report.recipient);
            let recipient = Attempted { email, kind: None, attempts: u64::from(*attempts), is_mailbox: *is_mailbox };
            delivery(&message, &recipient, report, source)
        }
    }
}

/// Returns the address in its canonical spelling: reports do not keep that of the mail program.
fn canonical(address: &EmailAddress) -> EmailAddress {
    address.clone().with_given(None)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mailapi_model::{DeliveryEvent, Evidence, Outcome, QueueId, Timestamp};
    use serde_json::{Value, json};

    use super::*;

    fn address(text: &str) -> EmailAddress {
        EmailAddress::as_given(text).unwrap()
    }

    fn event_of(queue_id: &str, fact: SubmittedFact, source: &[&[u8]]) -> NewEvent {
        let (queue_id, accepted_at) = (QueueId(queue_id.to_owned()), Timestamp::from_seconds(1_790_000_000));
        let (mailbox, from) = (address("ann@example.org"), address("Team@example.com"));
        submitted(&SubmittedReport { mail: SubmittedMail { mailbox, from, queue_id, accepted_at }, fact }, source)
            .unwrap()
    }

    fn data(event: &NewEvent) -> Value {
        serde_json::from_str::<Value>(&event.body).unwrap()["data"].take()
    }

    fn accepted() -> SubmittedFact {
        SubmittedFact::Accepted { recipients: vec![address("Bob@example.net")], size: 3 }
    }

    fn deferred(attempts: u32) -> SubmittedFact {
        let report = DeliveryEvent {
            at: Timestamp::from_seconds(1_790_000_009),
            message_id: None,
            queue_id: QueueId("Q1".to_owned()),
            sender: None,
            recipient: address("BOB@example.net"),
            final_recipient: None,
            outcome: Outcome::Deferred,
            evidence: Evidence::MailServer,
            dsn: None,
            response: "450 later".to_owned(),
            relay: None,
            delay: Duration::from_secs(9),
            next_attempt_at: None,
        };
        SubmittedFact::Attempted { report: Box::new(report), attempts, is_mailbox: false }
    }

    #[test]
    fn an_event_names_the_mailbox_and_the_authors_domain() {
        let event = event_of("Q1", accepted(), &[]);
        assert_eq!((event.mailbox, event.message_id), (Some(address("ann@example.org")), None));
        assert_eq!(event.domain.unwrap().as_str(), "example.com");
        assert_eq!(event.subject_at, Timestamp::from_seconds(1_790_000_000));
        let expected = json!({
            "message_id": null, "mailbox": "ann@example.org", "domain": "example.com", "from": "team@example.com",
            "tags": [], "metadata": {}, "queue_id": "Q1",
            "recipients": [{"email": "bob@example.net", "type": null}], "size": 3,
        });
        assert_eq!(data(&event_of("Q1", accepted(), &[])), expected);
    }

    #[test]
    fn a_recipient_has_the_same_spelling_in_all_events() {
        let data = data(&event_of("Q1", deferred(2), &[b"feed", b"1"]));
        assert_eq!(data["recipient"], json!({"email": "bob@example.net", "type": null}));
        assert_eq!((&data["attempt"], &data["message_id"]), (&json!(3), &Value::Null));
    }

    #[test]
    fn messages_and_reports_have_different_ids() {
        let of = |queue_id, fact, source: &[&[u8]]| event_of(queue_id, fact, source).id;
        assert_eq!(of("Q1", accepted(), &[b"feed"]).at(), Timestamp::from_seconds(1_790_000_000));
        assert_ne!(of("Q1", accepted(), &[]), of("Q2", accepted(), &[]));
        assert_ne!(of("Q1", deferred(0), &[b"1"]), of("Q2", deferred(0), &[b"1"]));
        assert_ne!(of("Q1", deferred(0), &[b"1"]), of("Q1", deferred(0), &[b"2"]));
        assert_eq!(of("Q1", deferred(0), &[b"1"]), of("Q1", deferred(0), &[b"1"]), "a report that is read again");
    }
}
