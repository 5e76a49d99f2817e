//! Identifiers.

use std::fmt;
use std::str::FromStr;

use crate::{Entropy, clock::Timestamp};

/// The id that mailapi assigns to a message on send: a UUID that begins with the time (RFC 9562 section 5.7). Indexes of
/// such ids grow at their end, so that a transaction of many messages writes few pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(uuid::Uuid);

impl MessageId {
    /// Creates the id of a message of this time.
    pub fn random(now: Timestamp, entropy: &dyn Entropy) -> Self {
        Self(by_time(now, entropy))
    }

    /// Length of the text in bytes.
    pub const LENGTH: usize = uuid::fmt::Hyphenated::LENGTH;

    /// Formats the id without the overhead of a formatter: lists contain hundreds of them.
    pub fn write_to(self, buffer: &mut [u8; Self::LENGTH]) -> &str {
        self.0.as_hyphenated().encode_lower(buffer)
    }

    /// Extracts the id from a Message-ID field that mailapi wrote: `<uuid@sender domain>`, with or without
    /// angle brackets. `None` for any other value.
    #[must_use]
    pub fn from_header(header: &str) -> Option<Self> {
        let bare = header.trim();
        let bare = bare.strip_prefix('<').and_then(|inner| inner.strip_suffix('>')).unwrap_or(bare);
        bare.split_once('@')?.0.parse().ok()
    }
}

/// The text is not a [`MessageId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a message's identifier, such as 67e55044-10b1-426f-9247-bb680e5fe0c8")]
pub struct MessageIdError;

impl FromStr for MessageId {
    type Err = MessageIdError;

    /// Accepts only the hyphenated form: other spellings of the UUID are not the id that was assigned.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id: uuid::fmt::Hyphenated = text.parse().map_err(|_| MessageIdError)?;
        Ok(Self(id.into_uuid()))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.as_hyphenated(), f)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The id of a token, as used in paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub i64);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of an app password, as used in paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppPasswordId(pub i64);

impl fmt::Display for AppPasswordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a request in responses and logs: the caller's if it is valid, otherwise a generated one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(String);

impl RequestId {
    /// Maximum length of a caller's id.
    pub(crate) const MAX_LENGTH: usize = 128;

    /// Accepts a caller's id of 1 to 128 letters, digits and `-_.:`.
    #[must_use]
    pub fn from_caller(text: &str) -> Option<Self> {
        let sane = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        let fits = !text.is_empty() && text.len() <= Self::MAX_LENGTH && text.chars().all(sane);
        fits.then(|| Self(text.to_owned()))
    }

    /// Generates an id: a UUID that sorts by time (RFC 9562 section 5.7).
    pub fn random(now: Timestamp, entropy: &dyn Entropy) -> Self {
        Self(by_time(now, entropy).to_string())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Converts into the text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Creates a UUID that sorts by time and has 74 random bits.
fn by_time(now: Timestamp, entropy: &dyn Entropy) -> uuid::Uuid {
    let mut bytes = [0; 10];
    entropy.fill(&mut bytes);
    // A UUID of version 7 cannot represent times before 1970.
    let millis = u64::try_from(now.as_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_message_id_headers_are_recognised() {
        for header in [
            "",
            "<>",
            "<abc@example.org>",
            "<{67e55044-10b1-426f-9247-bb680e5fe0c8}@x>",
            "67e55044-10b1-426f-9247-bb680e5fe0c8",
        ] {
            assert_eq!(MessageId::from_header(header), None, "{header}");
        }
        let id: MessageId = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap();
        assert_eq!(MessageId::from_header(&format!(" <{id}@example.org> ")), Some(id));
    }

    /// Fills buffers with one value.
    struct Constant(u8);
    impl Entropy for Constant {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(self.0);
        }
    }

    #[test]
    fn message_ids_sort_by_time() {
        let (early, late) = (Timestamp::from_millis(1_700_000_000_000), Timestamp::from_millis(1_700_000_000_001));
        let (first, second) = (MessageId::random(early, &Constant(0xff)), MessageId::random(late, &Constant(0)));
        assert!(first < second && first.to_string() < second.to_string(), "{first} {second}");
        assert_ne!(MessageId::random(early, &Constant(0)), first);
        assert_eq!(first.0.get_version_num(), 7);
    }

    #[test]
    fn an_insane_request_id_is_not_taken_over() {
        assert_eq!(RequestId::from_caller(""), None);
        assert_eq!(RequestId::from_caller("a\nb"), None);
        assert_eq!(RequestId::from_caller(&"a".repeat(129)), None);
        assert!(RequestId::from_caller("job-17.3:a_b").is_some());
    }
}
