//! Ends loops of aliases and rules that forward to each other, or to a server that forwards back.
//!
//! Each forwarded copy names what forwarded it in fields Delivered-To (RFC 9228): the recipient, and every alias,
//! catch-all and mailbox through which the message reached the next server. The names are those of the aliases, and not
//! the addresses that they stand for: a catch-all would otherwise take each of its addresses for another alias. A message
//! that comes to an alias it names already has been forwarded by it before.
//!
//! Aliases on two servers may lead to each other in more ways than any header names. So a message is also not forwarded
//! after it has passed this server some times. A server on the way may even remove all trace fields, but its copies are
//! still recognized ([`super::identity`]). So [`super::bounds`] also counts how often each alias forwards a message, and
//! limits all copies of a message together.
//!
//! A sender can forge all these fields, and thereby only prevents that the own message is forwarded. Mailboxes do not get
//! forged ones ([`super::contents`]): the address to which a mailbox received a message is above the message.

use std::fmt::Write;
use std::io;
use std::sync::LazyLock;

use bytes::Bytes;
use mailapi_backend::mime::{Header, MessageStructure};
use mailapi_model::{Blob, EmailAddress, EnhancedCode, Reply};

use super::Relaying;
use super::contents::{self, ForeignField};
use super::identity::{CommonIdentities, hash_of, hash_of_bytes};
use crate::message_store::expanded::MessageIdentity;

pub(super) const FIELD: &str = "Delivered-To";

/// Maximum number of fields that are read. This server adds its own at the top, so that the last aliases are among them.
pub(super) const MOST: usize = 100;

/// How often a message may have passed this server to be forwarded by aliases or rules: once from its author here to a
/// list, and once from the list.
const MOST_PASSES: usize = 2;

/// What a message says about its way so far. It is read when it is first asked for: most messages are forwarded by
/// nothing.
#[derive(Debug)]
pub(crate) struct EarlierHops(LazyLock<TraceFields, Box<dyn FnOnce() -> TraceFields + Send>>);

#[derive(Debug)]
struct TraceFields {
    /// What has forwarded it, without tags.
    forwarders: Vec<EmailAddress>,
    /// How often it has passed this server, now included.
    passes: usize,
    identities: CommonIdentities,
}

impl EarlierHops {
    /// Of a message in memory, with its fields Delivered-To.
    pub(super) fn in_memory(
        message: &Bytes,
        structure: &MessageStructure,
        relaying: Relaying,
    ) -> (Self, Vec<ForeignField>) {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(message.len());
        let header = message.slice(..place(structure.header().length));
        let body = has_body(relaying).then(|| message.slice(place(structure.header_len)..));
        let (fields, is_cut) = (contents::fields(&header), is_cut(structure));
        let read = move || TraceFields::of(&header, body.map(|body| hash_of_bytes(&body)).as_ref(), is_cut);
        (Self(LazyLock::new(Box::new(read))), fields)
    }

    /// The same of a message in a file. May block.
    pub(super) fn read(
        message: &Blob,
        structure: &MessageStructure,
        relaying: Relaying,
    ) -> io::Result<(Self, Vec<ForeignField>)> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(message.len());
        let header = message.slice(0..place(structure.header().length)).to_bytes()?;
        let body = has_body(relaying).then(|| hash_of(&message.slice(place(structure.header_len)..message.len())));
        let trace = TraceFields::of(&header, body.transpose()?.as_ref(), is_cut(structure));
        Ok((Self(LazyLock::new(Box::new(|| trace))), contents::fields(&header)))
    }

    /// Returns whether the alias or the mailbox has forwarded the message before.
    pub(super) fn name(&self, forwarder: &EmailAddress) -> bool {
        !self.0.forwarders.is_empty() && self.0.forwarders.contains(&without_tag(forwarder.clone()))
    }

    /// Returns whether the message has passed this server too often to be forwarded again.
    pub(super) fn are_too_many(&self) -> bool {
        self.0.passes > MOST_PASSES
    }

    /// Returns whether the message was here before.
    pub(super) fn lead_back(&self) -> bool {
        self.0.passes > 1
    }

    pub(super) fn identities(&self) -> &[MessageIdentity] {
        self.0.identities.all()
    }

    /// Returns whether the message differs from others of the same author with the same subject.
    pub(super) fn are_identified(&self) -> bool {
        self.0.identities.is_known
    }

    /// Returns whether copies of the message may come back that are not recognized.
    pub(super) fn are_unclear(&self) -> bool {
        self.0.identities.is_unclear
    }

    /// Returns what the copies of the message that come to this address, alias or mailbox have in common.
    pub(super) fn identities_at(&self, forwarder: &EmailAddress) -> Vec<MessageIdentity> {
        self.0.identities.at(without_tag(forwarder.clone()).as_str())
    }
}

impl TraceFields {
    fn of(header: &[u8], body: Option<&MessageIdentity>, is_cut: bool) -> Self {
        let header = Header::of(header);
        let values: Vec<_> = header.texts(FIELD).take(MOST).collect();
        let addresses = values.iter().filter_map(|value| address(value));
        let forwarders = addresses.map(without_tag).collect();
        let mut identities = CommonIdentities::of(&header, body);
        identities.is_unclear |= is_cut;
        Self { forwarders, passes: passes(&header), identities }
    }
}

/// Returns whether the body identifies the message. The mail of authors here does not come back yet.
fn has_body(relaying: Relaying) -> bool {
    relaying == Relaying::Denied
}

/// Returns whether the header is longer than what is read of it.
fn is_cut(structure: &MessageStructure) -> bool {
    structure.header().length < structure.header_len
}

/// Returns the address that a field Delivered-To names.
pub(super) fn delivered_to(field: &[u8]) -> Option<EmailAddress> {
    address(&Header::of(field).text(FIELD)?)
}

fn address(value: &str) -> Option<EmailAddress> {
    let value = value.trim();
    value.strip_prefix('<').and_then(|value| value.strip_suffix('>')).unwrap_or(value).parse().ok()
}

/// Returns how often a message has passed this server, which wrote its first Received field.
fn passes(header: &Header<'_>) -> usize {
    let hosts: Vec<String> = header.texts("Received").filter_map(|field| receiving_host(&field)).collect();
    hosts.first().map_or(0, |first| hosts.iter().filter(|host| *host == first).count())
}

/// Returns the host that wrote a Received field (RFC 5321 section 4.4).
fn receiving_host(field: &str) -> Option<String> {
    let mut words = field.split_whitespace();
    // A client may call itself `by`.
    if words.clone().next()?.eq_ignore_ascii_case("from") {
        words.nth(1)?;
    }
    words.find(|word| word.eq_ignore_ascii_case("by"))?;
    // The date may follow at once.
    words.next().map(|host| host.trim_end_matches(';').to_ascii_lowercase())
}

/// Returns the fields of a copy that the recipient's alias or rules forward through these aliases and mailboxes, with
/// their line ends. The last one is first, as of all trace fields.
pub(crate) fn fields(recipient: &EmailAddress, through: &[EmailAddress]) -> String {
    let named = [recipient].into_iter().chain(through);
    named.rev().map(|address| format!("{FIELD}: {}\r\n", in_ascii(address.as_str()))).collect()
}

/// Returns an address without characters for which the next server would need SMTPUTF8: as an encoded word (RFC 2047).
fn in_ascii(address: &str) -> String {
    if address.is_ascii() {
        return address.to_owned();
    }
    let mut word = "=?utf-8?Q?".to_owned();
    for byte in address.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(word, "={byte:02X}");
    }
    word + "?="
}

/// The reply for a message that has been forwarded before.
pub(super) fn looping() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 4, 6), "The alias has forwarded this message before; it is in a loop")
}

/// The reply for a message whose copies would not be recognized.
pub(super) fn unclear() -> Reply {
    let text = "The alias does not forward a message with several fields Message-ID or Date";
    Reply::new(550, EnhancedCode::new(5, 6, 0), text)
}

/// Returns whether a reply ends a loop. The sender gets no notice: each copy would cause one.
pub(super) fn ends_loop(reply: &Reply) -> bool {
    *reply == looping() || *reply == unclear()
}

fn without_tag(address: EmailAddress) -> EmailAddress {
    address.without_tag().unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> EmailAddress {
        text.parse().unwrap()
    }

    fn of(header: &str) -> EarlierHops {
        let message = Bytes::copy_from_slice(header.as_bytes());
        let structure = MessageStructure::of(&message);
        EarlierHops::in_memory(&message, &structure, Relaying::Denied).0
    }

    #[test]
    fn a_forwarded_copy_names_its_aliases() {
        let international = "équipe@here.example";
        let catch_all = EmailAddress::catch_all_of(&"here.example".parse().unwrap());
        let header = fields(&address("any+x@here.example"), &[catch_all.clone(), address(international)]);
        assert!(header.is_ascii());
        assert!(header.ends_with("Delivered-To: *@here.example\r\nDelivered-To: any+x@here.example\r\n"), "{header}");
        let earlier = of(&format!("{header}Subject: team@there.example\r\n\r\n"));
        for forwarder in [international, "any@here.example", "any+y@here.example"] {
            assert!(earlier.name(&address(forwarder)), "{forwarder}");
        }
        assert!(earlier.name(&catch_all));
        assert!(!earlier.name(&address("team@there.example")) && !earlier.name(&address("other@here.example")));
        assert!(of("Delivered-To: nobody\r\n\r\n").0.forwarders.is_empty());
    }

    #[test]
    fn the_host_of_a_received_field_is_found() {
        for (field, host) in [
            ("from by (mx.far.example [192.0.2.1]) by MX.here.example with ESMTP id 1; date", Some("mx.here.example")),
            ("by mx.here.example id 1", Some("mx.here.example")),
            ("from a by mx.here.example; date", Some("mx.here.example")),
            ("from a.example", None),
            ("from", None),
            ("", None),
            ("from a by", None),
        ] {
            assert_eq!(receiving_host(field).as_deref(), host, "{field}");
        }
    }

    #[test]
    fn passes_of_this_server_are_counted() {
        let (ours, others) = ("Received: from a by mx.a.example; x\r\n", "Received: from b by mx.b.example; x\r\n");
        for (header, passes) in [(String::new(), 0), (ours.repeat(2) + others, 2), (others.to_owned() + ours, 1)] {
            assert_eq!(of(&format!("{header}\r\n")).0.passes, passes, "{header}");
        }
    }

    proptest! {
        #[test]
        fn any_header_can_be_read(header in prop::collection::vec(any::<u8>(), 0..200), value in "\\PC{0,60}") {
            let _ = TraceFields::of(&header, None, false);
            let _ = of(&format!("Delivered-To: {value}\r\nReceived: {value}\r\nMessage-ID: {value}\r\n\r\n")).identities();
        }

        #[test]
        fn any_received_field_is_read(field in "((from|by|mx|\\PC)[ \t;]{0,2}){0,8}") {
            if let Some(host) = receiving_host(&field) {
                prop_assert!(!host.contains(' ') && field.to_ascii_lowercase().contains(&host));
            }
        }
    }
}
