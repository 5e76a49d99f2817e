//! What SORT and THREAD compare of a message.

use jiff::Timestamp;
use mailapi_backend::mime::{AddressEntry, Header};
use mailapi_imap::server::{OrderFacts, Person};

use crate::message_store::{Inspected, MessageStoreError};

/// Length in bytes of a compared text. Longer ones differ within it, or not in a way that a reader sees.
const MOST_BYTES: usize = 256;

/// Ids in References of a message, the last ones. Mail programs shorten the list (RFC 5537 section 3.4.4).
const MOST_REFERENCES: usize = 50;

/// Reads the facts; those of the header only if they are needed.
pub(super) fn of(message: &Inspected<'_>, with_header: bool) -> Result<OrderFacts, MessageStoreError> {
    let meta = message.meta();
    let received = timestamp(meta.internal_date);
    let facts = OrderFacts { uid: meta.state.uid, received, size: meta.size, ..OrderFacts::default() };
    if !with_header {
        return Ok(facts);
    }
    let header = message.header()?;
    Ok(OrderFacts { sent: timestamp(message.sent()?), ..with_texts(facts, &Header::of(&header)) })
}

/// Memory of an id in References: the text, and what THREAD makes of it.
const REFERENCE_BYTES: usize = 160;

/// Returns about how much memory the facts take, with what THREAD makes of them.
pub(super) fn memory(facts: &OrderFacts) -> usize {
    let OrderFacts { from, to, cc, subject, message_id, references, .. } = facts;
    let people = [from, to].map(|person| person.local_part.len() + person.display.len());
    let texts = people.iter().sum::<usize>() + cc.len() + 2 * subject.len();
    let ids = references.iter().chain(message_id).map(|id| REFERENCE_BYTES + id.len());
    size_of::<OrderFacts>() + texts + ids.sum::<usize>()
}

pub(super) fn timestamp(at: mailapi_model::Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millis()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn with_texts(facts: OrderFacts, header: &Header<'_>) -> OrderFacts {
    let ids = |name| header.written(name).map(|value| message_ids(&value)).unwrap_or_default();
    let mut references = ids("References");
    if references.is_empty() {
        references.extend(ids("In-Reply-To").into_iter().next());
    }
    references.drain(..references.len().saturating_sub(MOST_REFERENCES));
    OrderFacts {
        from: first(header, "From"),
        to: first(header, "To"),
        cc: first(header, "Cc").local_part,
        subject: short(&header.text("Subject").unwrap_or_default()),
        message_id: ids("Message-ID").into_iter().next(),
        references,
        ..facts
    }
}

/// Returns the first address of a field. A group counts by its name (RFC 5256 section 3).
fn first(header: &Header<'_>, name: &str) -> Person {
    match header.addresses(name).into_iter().next() {
        Some(AddressEntry::Mailbox { name, local_part, domain, .. }) => {
            let display = if name.is_empty() { format!("{local_part}@{domain}") } else { name };
            // As in the envelope, several words without an address are a name.
            let sorted = if local_part.is_empty() { &display } else { &local_part };
            Person { local_part: short(sorted), display: short(&display) }
        }
        Some(AddressEntry::GroupStart(name)) => Person { local_part: short(&name), display: short(&name) },
        Some(AddressEntry::GroupEnd) | None => Person::default(),
    }
}

/// Returns the ids in angle brackets. Too long ones are no ids.
fn message_ids(value: &str) -> Vec<String> {
    let ids = value.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
    ids.map(|(id, _)| id.trim()).filter(|id| !id.is_empty() && id.len() <= MOST_BYTES).map(ToOwned::to_owned).collect()
}

fn short(text: &str) -> String {
    let end = (0..=MOST_BYTES.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text[..end.unwrap_or_default()].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts(header: &str) -> OrderFacts {
        with_texts(OrderFacts::default(), &Header::of(header.as_bytes()))
    }

    #[test]
    fn parents_come_from_references_or_in_reply_to() {
        assert_eq!(facts("References: <a@x>\r\n <b@x>\r\nIn-Reply-To: <c@x>\r\n\r\n").references, ["a@x", "b@x"]);
        assert_eq!(facts("In-Reply-To: text <c@x> <d@x>\r\n\r\n").references, ["c@x"]);
        assert_eq!(facts("Message-ID: <m@x>\r\n\r\n").message_id.as_deref(), Some("m@x"));
    }

    #[test]
    fn people_have_a_local_part_and_a_display_name() {
        let facts = facts("From: =?utf-8?q?J=C3=B6rg?= <j@x.org>, <k@x.org>\r\nTo: l@x.org\r\nCc: m@x.org\r\n\r\n");
        assert_eq!(facts.from, Person { local_part: "j".into(), display: "Jörg".into() });
        assert_eq!(facts.to, Person { local_part: "l".into(), display: "l@x.org".into() });
        assert_eq!(facts.cc, "m");
    }

    proptest! {
        #[test]
        fn any_header_has_bounded_facts(value in "(<|>|@|,|é|a| ){0,600}") {
            let facts = facts(&format!("Subject: {value}\r\nReferences: {value}\r\nFrom: {value}\r\n\r\n"));
            prop_assert!(facts.subject.len() <= MOST_BYTES && facts.references.len() <= MOST_REFERENCES);
        }
    }
}
