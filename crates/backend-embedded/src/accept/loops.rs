//! Ends loops of aliases that forward to each other, or to a server that forwards back.
//!
//! Each forwarded copy names the alias in a field Delivered-To. A message that comes to an alias it names already has been
//! forwarded by it before. Without this, an alias with two such members would multiply a message until it has too many
//! Received fields.

use std::fmt::Write;
use std::io;

use mailapi_backend::mime::{Header, MessageStructure};
use mailapi_model::{Blob, EmailAddress, EnhancedCode, Reply};

const FIELD: &str = "Delivered-To";

/// Maximum number of fields that are read. This server adds its own at the top, so that the last aliases are among them.
const MOST: usize = 100;

/// The aliases that have forwarded a message, without tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Forwarders(Vec<EmailAddress>);

impl Forwarders {
    /// Reads them from a message. May block.
    pub(super) fn of(message: &Blob, structure: &MessageStructure) -> io::Result<Self> {
        let length = usize::try_from(structure.header().length).unwrap_or(usize::MAX);
        Ok(Self::in_header(&message.slice(0..length.min(message.len())).to_bytes()?))
    }

    fn in_header(header: &[u8]) -> Self {
        let values: Vec<_> = Header::of(header).texts(FIELD).take(MOST).collect();
        let addresses = values.iter().filter_map(|value| value.trim().parse().ok());
        Self(addresses.map(without_tag).collect())
    }

    /// Returns whether the alias has forwarded the message before.
    pub(super) fn contain(&self, alias: &EmailAddress) -> bool {
        !self.0.is_empty() && self.0.contains(&without_tag(alias.clone()))
    }
}

/// Returns the field of a copy that an alias forwards, with its line end.
pub(crate) fn field(alias: &EmailAddress) -> String {
    format!("{FIELD}: {}\r\n", in_ascii(alias.as_str()))
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

/// The reply for a message that the alias has forwarded before. The sender gets no notice: each copy would cause one.
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

    #[test]
    fn a_forwarded_copy_names_its_aliases() {
        let international = "équipe@here.example";
        let header = [international, "Team+x@here.example"].map(|alias| field(&address(alias))).concat();
        assert!(header.is_ascii());
        let forwarders = Forwarders::in_header(format!("{header}Subject: team@there.example\r\n\r\n").as_bytes());
        for alias in [international, "team@here.example", "team+y@here.example"] {
            assert!(forwarders.contain(&address(alias)), "{alias}");
        }
        assert!(!forwarders.contain(&address("team@there.example")));
        assert_eq!(Forwarders::in_header(b"Delivered-To: nobody\r\n\r\n"), Forwarders::default());
    }

    proptest! {
        #[test]
        fn any_header_can_be_read(header in prop::collection::vec(any::<u8>(), 0..200), value in "\\PC{0,60}") {
            let _ = Forwarders::in_header(&header);
            let _ = Forwarders::in_header(format!("Delivered-To: {value}\r\n\r\n").as_bytes());
        }
    }
}
