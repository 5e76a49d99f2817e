//! Identifiers of mailboxes and messages (RFC 8474).

use std::fmt;

/// An identifier that no other object of the server ever gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId {
    kind: char,
    number: u64,
}

impl ObjectId {
    /// The identifier of a mailbox. Renaming keeps it.
    pub const fn mailbox(number: u64) -> Self {
        Self { kind: 'F', number }
    }

    /// The identifier of a message's content. Copies in other mailboxes share it.
    pub const fn email(number: u64) -> Self {
        Self { kind: 'M', number }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind, self.number)
    }
}

/// The longest identifier that a client may search for (RFC 8474 section 4).
const MOST_BYTES: usize = 255;

/// Whether the text may be an identifier (RFC 8474 section 7, `objectid`).
pub(crate) fn is_object_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MOST_BYTES).contains(&text.len()) && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_characters_are_no_identifier() {
        for text in ["", "a b", "é", "a.b", "(", &"a".repeat(256)] {
            assert!(!is_object_id(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_number_gives_an_identifier(number: u64) {
            prop_assert!(is_object_id(&ObjectId::mailbox(number).to_string()));
            prop_assert_ne!(ObjectId::mailbox(number).to_string(), ObjectId::email(number).to_string());
        }
    }
}
