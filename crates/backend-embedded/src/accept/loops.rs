//! Ends loops of aliases and rules that forward to each other, or to a server that forwards back.
//!
//! Each forwarded copy names what forwarded it in fields Delivered-To (RFC 9228): the recipient, and every alias,
//! catch-all and mailbox through which the message reached the next server. The names are those of the aliases, and not
//! the addresses that they stand for: a catch-all would otherwise take each of its addresses for another alias. A message
//! that comes to an alias it names already has been forwarded by it before.
//!
//! Aliases on two servers may lead to each other in more ways than any header names. So a message is also not forwarded
//! after it has passed this server some times. A server on the way may even remove all trace fields, but it keeps the
//! message's identifier and date. So [`super::bounds`] also counts how often each alias forwards a message, and limits all
//! copies of a message together.
//!
//! A sender can forge all these fields, and thereby only prevents that the own message is forwarded.

use std::fmt::Write;
use std::io;

use mailapi_backend::mime::{Header, MessageStructure};
use mailapi_model::{Blob, EmailAddress, EnhancedCode, Reply};
use sha2::{Digest, Sha256};

use crate::message_store::expanded::MessageIdentity;

const FIELD: &str = "Delivered-To";

/// Maximum number of fields that are read. This server adds its own at the top, so that the last aliases are among them.
const MOST: usize = 100;

/// How often a message may have passed this server to be forwarded by aliases or rules: once from its author here to a
/// list, and once from the list.
const MOST_PASSES: usize = 2;

/// What the header of a message says about its way so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EarlierHops {
    /// What has forwarded it, without tags.
    forwarders: Vec<EmailAddress>,
    /// How often it has passed this server, now included.
    passes: usize,
    identity: MessageIdentity,
    is_identified: bool,
}

impl EarlierHops {
    /// Reads them from a message. May block.
    pub(super) fn of(message: &Blob, structure: &MessageStructure) -> io::Result<Self> {
        let length = usize::try_from(structure.header().length).unwrap_or(usize::MAX);
        Ok(Self::in_header(&message.slice(0..length.min(message.len())).to_bytes()?))
    }

    fn in_header(header: &[u8]) -> Self {
        let header = Header::of(header);
        let values: Vec<_> = header.texts(FIELD).take(MOST).collect();
        let addresses = values.iter().filter_map(|value| value.trim().parse().ok());
        let forwarders = addresses.map(without_tag).collect();
        let is_identified = ["Message-ID", "Date"].iter().any(|name| header.written(name).is_some());
        Self { forwarders, passes: passes(&header), identity: identity(&header), is_identified }
    }

    /// Returns whether the alias or the mailbox has forwarded the message before.
    pub(super) fn name(&self, forwarder: &EmailAddress) -> bool {
        !self.forwarders.is_empty() && self.forwarders.contains(&without_tag(forwarder.clone()))
    }

    /// Returns whether the message has passed this server too often to be forwarded again.
    pub(super) const fn are_too_many(&self) -> bool {
        self.passes > MOST_PASSES
    }

    /// Returns whether the message was here before.
    pub(super) const fn lead_back(&self) -> bool {
        self.passes > 1
    }

    pub(super) const fn identity(&self) -> &MessageIdentity {
        &self.identity
    }

    /// Returns whether the message differs from others of the same author with the same subject. The alarms of some devices
    /// have neither an identifier nor a date.
    pub(super) const fn are_identified(&self) -> bool {
        self.is_identified
    }

    /// Returns what the copies of the message that come to this address, alias or mailbox have in common.
    pub(super) fn identity_at(&self, forwarder: &EmailAddress) -> MessageIdentity {
        let mut hash = Sha256::new();
        hash.update(self.identity);
        hash.update(without_tag(forwarder.clone()).as_str());
        first_half(hash)
    }
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

/// Returns what all copies of a message have in common, since servers on the way must not change it (RFC 5322 section
/// 3.6.4). A program that gives all its messages one Message-ID still gives them different dates.
fn identity(header: &Header<'_>) -> MessageIdentity {
    let mut hash = Sha256::new();
    let mut add = |name: &str| {
        let text = header.written(name).unwrap_or_default();
        hash.update(text.trim());
        hash.update([0]);
        !text.is_empty()
    };
    add("Date");
    if !add("Message-ID") {
        add("From");
        add("Subject");
    }
    first_half(hash)
}

fn first_half(hash: Sha256) -> MessageIdentity {
    let hash: [u8; 32] = hash.finalize().into();
    let (first, _) = hash.split_at(size_of::<MessageIdentity>());
    first.try_into().unwrap_or_default()
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

/// The reply for a message that has been forwarded before. The sender gets no notice: each copy would cause one.
pub(super) fn looping() -> Reply {
    Reply::new(550, EnhancedCode::new(5, 4, 6), "The alias has forwarded this message before; it is in a loop")
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
        EarlierHops::in_header(header.as_bytes())
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
        assert!(of("Delivered-To: nobody\r\n\r\n").forwarders.is_empty());
    }

    #[test]
    fn a_message_is_recognized_by_its_identifier_and_date() {
        let same = of("Message-ID: <1@a.example>\r\nDate: x\r\nSubject: y\r\n\r\n").identity;
        assert_eq!(
            of("Received: x\r\nSubject: [z] y\r\nDate:  x\r\nMessage-Id:\r\n <1@a.example>\r\n\r\n").identity,
            same
        );
        for other in ["Message-ID: <2@a.example>\r\nDate: x\r\n\r\n", "Message-ID: <1@a.example>\r\nDate: y\r\n\r\n"] {
            assert_ne!(of(other).identity, same, "{other}");
        }
        assert_ne!(of("Subject: a\r\n\r\n").identity, of("Subject: b\r\n\r\n").identity);
        assert!(of("Date: x\r\n\r\n").are_identified() && !of("Subject: a\r\n\r\n").are_identified());
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
            assert_eq!(of(&format!("{header}\r\n")).passes, passes, "{header}");
        }
    }

    proptest! {
        #[test]
        fn any_header_can_be_read(header in prop::collection::vec(any::<u8>(), 0..200), value in "\\PC{0,60}") {
            let _ = EarlierHops::in_header(&header);
            let _ = of(&format!("Delivered-To: {value}\r\nReceived: {value}\r\nMessage-ID: {value}\r\n\r\n"));
        }

        #[test]
        fn any_received_field_is_read(field in "((from|by|mx|\\PC)[ \t;]{0,2}){0,8}") {
            if let Some(host) = receiving_host(&field) {
                prop_assert!(!host.contains(' ') && field.to_ascii_lowercase().contains(&host));
            }
        }
    }
}
