//! What all copies of one message have in common, whatever way they took.
//!
//! Servers on the way must not change the Message-ID and the Date (RFC 5322 section 3.6.4), but some rewrite them, or add
//! a second field. So the identifier counts in the form in which two can be compared, and the date as the moment that it
//! means. All identifiers and moments of a message count, each pair as one identity, and messages with one common
//! identity are copies of each other.
//!
//! Not the identifier alone: some printers and alarm systems give all their messages the same one. Their dates or their
//! bodies differ. The body counts beside the date, since a server on the way may also replace or remove the date.
//!
//! Without an identifier, the date, the author, and the subject or the body count instead. So a server that replaces the
//! identifier makes another message.

use std::collections::BTreeSet;
use std::io;

use mailapi_backend::mime::{AddressEntry, Header};
use mailapi_model::Blob;
use sha2::{Digest, Sha256};

use crate::message_store::expanded::MessageIdentity;

/// Number of different identifiers, moments, authors or subjects of a message that count. A message has one of each (RFC
/// 5322 section 3.6), and some programs add another one. Messages with more are not forwarded: they would lose what they
/// have in common with their copies.
const MOST: usize = 2;

/// Bytes of a body that are read at once.
const PIECE: usize = 64 * 1024;

/// The identities of a message. Two copies have at least one in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CommonIdentities {
    /// At least one.
    all: Vec<MessageIdentity>,
    /// Whether the message has an identifier or a date. The alarms of some devices have neither, so they differ from others
    /// of the same author with the same subject in nothing that is known.
    pub(super) is_known: bool,
    /// Whether the message has more fields than count.
    pub(super) is_unclear: bool,
}

impl CommonIdentities {
    /// Reads them from a header, and the hash of the body if that counts.
    pub(super) fn of(header: &Header<'_>, body: Option<&MessageIdentity>) -> Self {
        let mut distinct = Distinct::default();
        let kind = |values: Vec<String>, of: fn(String) -> Fact| values.into_iter().map(of).collect::<Vec<_>>();
        let ids = distinct.of(header.identifiers("Message-ID", MOST + 1).into_iter());
        let dates = distinct.of(header.moments("Date").map(|moment| moment.to_string()));
        let is_known = !ids.is_empty() || !dates.is_empty();
        let (ids, mut dates) = (kind(ids, Fact::Id), kind(dates, Fact::Date));
        let body = body.copied().map(Fact::Body);
        let all = if ids.is_empty() {
            let authors = kind(distinct.of(header.all_addresses("From").filter_map(author)), Fact::Author);
            let subjects = distinct.of(header.texts("Subject").map(|text| in_one_form(&text)));
            let mut texts = kind(subjects, Fact::Subject);
            texts.extend(body.filter(|_| is_known));
            products(&[dates, authors, texts])
        } else {
            dates.extend(body);
            products(&[ids, dates])
        };
        Self { all, is_known, is_unclear: distinct.are_too_many || header.is_cut() }
    }

    pub(super) fn all(&self) -> &[MessageIdentity] {
        &self.all
    }

    /// Returns what the copies that come to one address have in common.
    pub(super) fn at(&self, address: &str) -> Vec<MessageIdentity> {
        let at = |identity: &MessageIdentity| {
            let mut hash = Sha256::new();
            hash.update(identity);
            hash.update(address);
            first_half(hash)
        };
        self.all.iter().map(at).collect()
    }
}

/// Returns the hash of a body. May block.
pub(super) fn hash_of(body: &Blob) -> io::Result<MessageIdentity> {
    let mut hash = Sha256::new();
    for piece in body.pieces(PIECE) {
        hash.update(piece?);
    }
    Ok(first_half(hash))
}

/// Returns the same of a body in memory.
pub(super) fn hash_of_bytes(body: &[u8]) -> MessageIdentity {
    first_half(Sha256::new_with_prefix(body))
}

/// Something that copies have in common.
#[derive(Debug, Clone)]
enum Fact {
    Id(String),
    Date(String),
    Author(String),
    Subject(String),
    Body(MessageIdentity),
}

impl Fact {
    fn add_to(&self, hash: &mut Sha256) {
        let (kind, bytes): (u8, &[u8]) = match self {
            Self::Id(id) => (1, id.as_bytes()),
            Self::Date(date) => (2, date.as_bytes()),
            Self::Author(author) => (3, author.as_bytes()),
            Self::Subject(subject) => (4, subject.as_bytes()),
            Self::Body(body) => (5, body),
        };
        hash.update([kind]);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
}

/// Returns a hash for each choice of one fact of each kind. A kind without facts has no part in it.
fn products(kinds: &[Vec<Fact>]) -> Vec<MessageIdentity> {
    let mut hashes = vec![Sha256::new()];
    for kind in kinds.iter().filter(|kind| !kind.is_empty()) {
        let with = |hash: &Sha256, fact: &Fact| {
            let mut hash = hash.clone();
            fact.add_to(&mut hash);
            hash
        };
        hashes = hashes.iter().flat_map(|hash| kind.iter().map(|fact| with(hash, fact)).collect::<Vec<_>>()).collect();
    }
    hashes.into_iter().map(first_half).collect()
}

/// Selects the different values of each kind.
#[derive(Debug, Default)]
struct Distinct {
    are_too_many: bool,
}

impl Distinct {
    fn of(&mut self, values: impl Iterator<Item = String>) -> Vec<String> {
        let mut found = BTreeSet::new();
        for value in values {
            if found.len() == MOST && !found.contains(&value) {
                self.are_too_many = true;
                break;
            }
            found.insert(value);
        }
        found.into_iter().collect()
    }
}

/// Returns the address of an author without its name, which servers decode and encode again.
fn author(entry: AddressEntry) -> Option<String> {
    let AddressEntry::Mailbox { local_part, domain, .. } = entry else { return None };
    Some(format!("{local_part}@{}", domain.to_ascii_lowercase()))
}

/// Returns a text as it is before and after it was folded.
fn in_one_form(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn first_half(hash: Sha256) -> MessageIdentity {
    let hash: [u8; 32] = hash.finalize().into();
    let (first, _) = hash.split_at(size_of::<MessageIdentity>());
    first.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SENT: &str = "Date: Fri, 20 Nov 2026 10:15:30 +0000\r\nMessage-ID: <1.A@far.example>\r\nFrom: z@far.example\r\n\
                        Subject: Hi all\r\n";

    fn of_copy(header: &str, body: &str) -> CommonIdentities {
        let body = hash_of(&Blob::from(body.to_owned())).unwrap();
        CommonIdentities::of(&Header::of(header.as_bytes()), Some(&body))
    }

    fn is_copy(one: &CommonIdentities, other: &CommonIdentities) -> bool {
        one.all.iter().any(|identity| other.all.contains(identity))
    }

    #[test]
    fn a_copy_is_recognized_whatever_servers_write_into_its_header() {
        let (id, date) = ("<1.A@far.example>", "Fri, 20 Nov 2026 10:15:30 +0000");
        for header in [
            SENT.replace(id, "<1.A@FAR.example> (a comment)"),
            SENT.replace(id, "(a)\r\n <1.A@far.example>"),
            SENT.replace(date, "Fri, 20 Nov 2026 12:15:30 +0200 (CEST)"),
            SENT.replace(date, "20 (of) Nov 26 05:15:30 EST"),
            SENT.replace(date, "Sat, 21 Nov 2026 00:00:00 +0000"),
            SENT.replace("Date:", "X-Date:"),
            format!("Message-ID: <2@other.example>\r\nReceived: x\r\n{SENT}"),
            format!("{SENT}Message-Id: <2@other.example>\r\n"),
            format!("Date: Sat, 21 Nov 2026 00:00:00 +0000\r\n{SENT}"),
            format!("Date: yesterday\r\n{SENT}Date: tomorrow\r\nDate:\r\nSubject: [list] Hi\r\n"),
        ] {
            let copy = of_copy(&header, "x");
            assert!(is_copy(&copy, &of_copy(SENT, "x")) && copy.is_known && !copy.is_unclear, "{header}");
        }
        assert!(is_copy(&of_copy(SENT, "x\r\n-- \r\nA list"), &of_copy(SENT, "x")));
    }

    #[test]
    fn without_an_identifier_the_author_and_the_text_identify() {
        let sent = SENT.replace("Message-ID: <1.A@far.example>\r\n", "");
        for (header, body) in [
            (sent.replace("z@far.example", "Zoe <z@FAR.example> (she)"), "y"),
            (sent.replace("Hi all", "Hi\r\n\tall"), "y"),
            (sent.replace("Hi all", "[list] Hi all"), "x"),
            (format!("From: list@other.example\r\n{sent}"), "y"),
        ] {
            assert!(is_copy(&of_copy(&header, body), &of_copy(&sent, "x")), "{header}");
        }
        let later = sent.replace("10:15:30", "10:15:31");
        for (header, body) in [(later, "x"), (sent.replace("z@", "y@"), "x"), (sent.replace("Hi", "Ho"), "y")] {
            assert!(!is_copy(&of_copy(&header, body), &of_copy(&sent, "x")), "{header}");
        }
    }

    #[test]
    fn other_messages_with_the_same_identifier_are_no_copies() {
        for (header, body) in [
            (SENT.replace("10:15:30", "10:15:31"), "y"),
            (SENT.replace("<1.A@", "<1.a@"), "x"),
            (SENT.replace("Message-ID", "X-Id"), "x"),
        ] {
            assert!(!is_copy(&of_copy(&header, body), &of_copy(SENT, "x")), "{header}");
        }
        let device = "Message-ID: <printer@far.example>\r\nSubject: Status\r\n";
        assert!(!is_copy(&of_copy(device, "No paper"), &of_copy(device, "No toner")));
        assert!(of_copy(device, "No paper").is_known && !of_copy("Subject: Status\r\n", "No paper").is_known);
    }

    #[test]
    fn a_message_with_many_fields_is_unclear() {
        for added in ["Message-ID: <2@x> <3@x>\r\n", "Date: 1 Nov 2026 10:00\r\nDate: 2 Nov 2026 10:00\r\n"] {
            for header in [format!("{added}{SENT}"), format!("{SENT}{added}")] {
                assert!(of_copy(&header, "x").is_unclear, "{header}");
            }
        }
        assert!(of_copy(&("X: y\r\n".repeat(20_000) + SENT), "x").is_unclear);
        assert!(!of_copy(&SENT.repeat(50), "x").is_unclear, "the same ones");
    }

    proptest! {
        #[test]
        fn any_header_has_a_few_identities(fields in prop::collection::vec(
            ("(Message-ID|Date|From|Subject)", "([<>@(),. a-c]|2[0-9] Nov 2026|10:0[0-9]|\\PC){0,12}"), 0..12,
        )) {
            let header: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let found = of_copy(&header, "x");
            prop_assert!((1..=MOST * MOST * (MOST + 1)).contains(&found.all.len()));
        }
    }
}
