//! ENVELOPE (RFC 3501 section 7.4.2). Texts are the octets of the header: servers do not decode encoded words, and
//! treat raw 8-bit characters differently.

use crate::token::{Cursor, SyntaxError};

/// The envelope of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The Date header.
    pub date: Option<Vec<u8>>,
    /// The Subject header.
    pub subject: Option<Vec<u8>>,
    /// From.
    pub from: Vec<Address>,
    /// Sender; From if there is none.
    pub sender: Vec<Address>,
    /// Reply-To; From if there is none.
    pub reply_to: Vec<Address>,
    /// To.
    pub to: Vec<Address>,
    /// Cc.
    pub cc: Vec<Address>,
    /// Bcc.
    pub bcc: Vec<Address>,
    /// The In-Reply-To header.
    pub in_reply_to: Option<Vec<u8>>,
    /// The Message-ID header.
    pub message_id: Option<Vec<u8>>,
}

/// An address. Without a host it begins a group, or ends one if it has no mailbox either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// The display name.
    pub name: Option<Vec<u8>>,
    /// The part before the `@`.
    pub mailbox: Option<Vec<u8>>,
    /// The part after the `@`.
    pub host: Option<Vec<u8>>,
}

impl Envelope {
    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, SyntaxError> {
        cursor.byte(b'(', "expected an envelope")?;
        let date = cursor.nstring()?;
        cursor.space()?;
        let subject = cursor.nstring()?;
        let mut people: [Vec<Address>; 6] = Default::default();
        for addresses in &mut people {
            cursor.space()?;
            *addresses = read_addresses(cursor)?;
        }
        cursor.space()?;
        let in_reply_to = cursor.nstring()?;
        cursor.space()?;
        let message_id = cursor.nstring()?;
        cursor.byte(b')', "expected the end of an envelope")?;
        let [from, sender, reply_to, to, cc, bcc] = people;
        Ok(Self { date, subject, from, sender, reply_to, to, cc, bcc, in_reply_to, message_id })
    }
}

/// Reads addresses. They are not separated by spaces, but some servers send one.
fn read_addresses(cursor: &mut Cursor) -> Result<Vec<Address>, SyntaxError> {
    if cursor.try_keyword("NIL") {
        return Ok(Vec::new());
    }
    cursor.byte(b'(', "expected addresses")?;
    let mut addresses = Vec::new();
    while !cursor.try_byte(b')') {
        if !addresses.is_empty() {
            cursor.try_byte(b' ');
        }
        addresses.push(read_address(cursor)?);
    }
    Ok(addresses)
}

fn read_address(cursor: &mut Cursor) -> Result<Address, SyntaxError> {
    cursor.byte(b'(', "expected an address")?;
    let name = cursor.nstring()?;
    cursor.space()?;
    let _source_route = cursor.nstring()?;
    cursor.space()?;
    let mailbox = cursor.nstring()?;
    cursor.space()?;
    let host = cursor.nstring()?;
    cursor.byte(b')', "expected the end of an address")?;
    Ok(Address { name, mailbox, host })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Frame, Part};

    fn read(text: &str) -> Result<Envelope, SyntaxError> {
        Envelope::read(&mut Cursor::new(Frame::new(vec![Part::Text(text.as_bytes().to_vec())]), 4))
    }

    #[test]
    fn broken_envelopes_are_refused() {
        let whole = "(NIL \"s\" ((\"A\" NIL \"a\" \"x\")(NIL NIL \"b\" NIL)) NIL NIL NIL NIL NIL NIL \"<m>\")";
        assert!(read(whole).is_ok());
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn addresses_are_read_with_and_without_spaces_between() {
        let envelope = read(
            "(\"d\" NIL ((\"A\" NIL \"a\" \"x\") (NIL NIL \"b\" NIL)(NIL NIL NIL NIL)) NIL NIL () NIL NIL NIL NIL)",
        )
        .unwrap();
        let address = |name: Option<&str>, mailbox: Option<&str>, host: Option<&str>| {
            let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
            Address { name: bytes(name), mailbox: bytes(mailbox), host: bytes(host) }
        };
        assert_eq!(
            envelope.from,
            [address(Some("A"), Some("a"), Some("x")), address(None, Some("b"), None), Address::default()]
        );
        assert_eq!((envelope.date.as_deref(), envelope.to.len()), (Some(&b"d"[..]), 0));
    }
}
