//! Ids of events.

use std::fmt;
use std::str::FromStr;

use mailapi_model::{Entropy, Timestamp};
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// The id of an event: a UUID that begins with the event's time (RFC 9562 section 5.7). Its text is `evt_` and 26
/// characters of Crockford's base32 in lower case, which sort as the ids do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(Uuid);

/// Distinguishes facts of one millisecond about one subject, such as two changes of a user: no fact has the number of
/// another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactNumber {
    writer: u64,
    count: u64,
}

impl FactNumber {
    /// Creates the number of a writer's fact. `writer` is random.
    #[must_use]
    pub const fn new(writer: u64, count: u64) -> Self {
        Self { writer, count }
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.writer) << 64) | u128::from(self.count)).to_be_bytes()
    }
}

impl fmt::Display for FactNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.writer, self.count)
    }
}

const PREFIX: &str = "evt_";
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const CHARACTERS: usize = 26;
const BITS: u32 = 5;

/// The last millisecond that 48 bits can hold. It is later than [`Timestamp`]'s last one.
const LAST_MILLIS: u64 = (1 << 48) - 1;

impl EventId {
    /// Length of the text in bytes.
    pub const LENGTH: usize = PREFIX.len() + CHARACTERS;

    /// Creates the id of an event at this time.
    #[must_use]
    pub fn random(at: Timestamp, entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 10];
        entropy.fill(&mut bytes);
        Self::of(at, &bytes)
    }

    /// Creates the id of a fact at this time. The same fact always has the same id, so `fact` must distinguish it from
    /// all others of the same millisecond.
    #[must_use]
    pub fn of_fact(at: Timestamp, fact: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in fact {
            // The length prefix makes the hashes of different lists of parts differ.
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        let hash = hash.finalize();
        let mut bytes = [0; 10];
        bytes.copy_from_slice(&hash[..10]);
        Self::of(at, &bytes)
    }

    fn of(at: Timestamp, random: &[u8; 10]) -> Self {
        // UUIDv7 cannot represent times before 1970.
        let millis = u64::try_from(at.as_millis()).unwrap_or(0).min(LAST_MILLIS);
        Self(Builder::from_unix_timestamp_millis(millis, random).into_uuid())
    }

    /// Returns the end of the text. It is random, or the hash of a fact.
    pub(crate) const fn end(self) -> IdEnd {
        IdEnd(self.0.as_u128() & IdEnd::MASK)
    }

    /// Returns the event's time.
    #[must_use]
    pub fn at(self) -> Timestamp {
        let millis = self.0.as_u128() >> 80;
        Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        write_digits::<CHARACTERS>(f, self.0.as_u128())
    }
}

/// The last characters of an id, which distinguish the events of different logs that have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdEnd(u128);

impl IdEnd {
    const CHARACTERS: usize = 8;
    /// Five bits for each character.
    const MASK: u128 = (1 << 40) - 1;

    pub(crate) fn parse(text: &str) -> Option<Self> {
        (text.len() == Self::CHARACTERS).then(|| read_digits(text)).flatten().map(Self)
    }
}

impl fmt::Display for IdEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_digits::<{ Self::CHARACTERS }>(f, self.0)
    }
}

/// Writes the last `N` digits of a number in base32.
fn write_digits<const N: usize>(f: &mut fmt::Formatter<'_>, mut rest: u128) -> fmt::Result {
    let mut text = [0; N];
    for place in text.iter_mut().rev() {
        *place = ALPHABET[(rest & 0x1f) as usize];
        rest >>= BITS;
    }
    f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
}

/// Reads a number in base32; `None` if it is too large, or a character is none of the alphabet.
fn read_digits(text: &str) -> Option<u128> {
    text.bytes().try_fold(0_u128, |value, byte| {
        let digit = ALPHABET.iter().position(|known| *known == byte)?;
        (value >> (u128::BITS - BITS) == 0).then_some(value << BITS | digit as u128)
    })
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not an [`EventId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an event's identifier, such as evt_01jdb6m4v0e9x8d2k5t7w3qz1r")]
pub struct EventIdError;

impl FromStr for EventId {
    type Err = EventIdError;

    /// Accepts only the form that `Display` writes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == CHARACTERS).ok_or(EventIdError)?;
        // The first character encodes only three bits.
        let uuid = Uuid::from_u128(read_digits(digits).ok_or(EventIdError)?);
        if uuid.get_version_num() == 7 { Ok(Self(uuid)) } else { Err(EventIdError) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_texts_are_refused() {
        let id = EventId::of_fact(Timestamp::from_seconds(1_790_000_000), &[b"fact"]).to_string();
        for text in [
            "",
            "evt_",
            &id[1..],
            &id[4..],
            &format!("{id}0"),
            &id.to_uppercase(),
            &id.replace("evt_0", "evt_8"),
            &id.replace("evt_0", "evt_l"),
            "evt_00000000000000000000000000",
        ] {
            assert_eq!(text.parse::<EventId>(), Err(EventIdError), "{text}");
        }
    }

    #[test]
    fn a_fact_has_one_id_and_another_fact_another() {
        let at = Timestamp::from_seconds(1_790_000_000);
        let id = EventId::of_fact(at, &[b"ab", b"c"]);
        assert_eq!(EventId::of_fact(at, &[b"ab", b"c"]), id);
        for other in [EventId::of_fact(at, &[b"a", b"bc"]), EventId::of_fact(at, &[b"abc"])] {
            assert_ne!(other, id);
        }
    }

    proptest! {
        #[test]
        fn an_id_has_one_text_and_its_time(millis in 0_i64..253_402_300_799_999, fact in any::<[u8; 8]>()) {
            let id = EventId::of_fact(Timestamp::from_millis(millis), &[&fact]);
            let text = id.to_string();
            prop_assert_eq!(text.len(), EventId::LENGTH);
            prop_assert_eq!(text.parse(), Ok(id));
            prop_assert_eq!(id.at().as_millis(), millis);
        }

        #[test]
        fn ids_sort_as_their_texts(one in any::<(u32, u64)>(), other in any::<(u32, u64)>()) {
            let id = |(at, fact): (u32, u64)| {
                EventId::of_fact(Timestamp::from_millis(at.into()), &[&fact.to_be_bytes()])
            };
            let (one, other) = (id(one), id(other));
            prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
        }

        #[test]
        fn any_text_is_an_id_or_none(text in "evt_[0-9a-z]{24,28}|\\PC{0,30}") {
            if let Ok(id) = text.parse::<EventId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
