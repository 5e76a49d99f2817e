//! How far the mailbox was read.

use mailapi_model::FeedCursor;

/// Where to go on in a folder. UIDs grow, and mean something only under their UIDVALIDITY (RFC 3501 section 2.3.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) uid_validity: u32,
    /// The next message to be read.
    pub(super) next_uid: u32,
    /// How many of exactly that message's failures were told already.
    pub(super) told: usize,
}

impl Place {
    /// The beginning of a folder.
    pub(super) const fn beginning_of(uid_validity: u32) -> Self {
        Self::at(uid_validity, 1)
    }

    /// In front of a message.
    pub(super) const fn at(uid_validity: u32, uid: u32) -> Self {
        Self { uid_validity, next_uid: uid, told: 0 }
    }

    /// Behind a message.
    pub(super) const fn behind(uid_validity: u32, uid: u32) -> Self {
        Self::at(uid_validity, uid.saturating_add(1))
    }

    /// The place as a feed's cursor.
    pub(super) fn encode(self) -> FeedCursor {
        FeedCursor(format!("{}.{}.{}", self.uid_validity, self.next_uid, self.told))
    }

    /// The place that a cursor names; `None` for one that is not ours.
    pub(super) fn decode(cursor: &FeedCursor) -> Option<Self> {
        let mut numbers = cursor.0.split('.');
        let place = Self {
            uid_validity: numbers.next()?.parse().ok()?,
            next_uid: numbers.next()?.parse().ok()?,
            told: numbers.next()?.parse().ok()?,
        };
        numbers.next().is_none().then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_place_reads_back_and_nothing_else_is_one() {
        for text in ["", "1", "1.2", "1.2.3.4", "a.b.c", "-1.2.3", "1.99999999999.0"] {
            assert_eq!(Place::decode(&FeedCursor(text.to_owned())), None, "{text}");
        }
        let place = Place { uid_validity: 7, next_uid: 12, told: 3 };
        assert_eq!(Place::decode(&place.encode()), Some(place));
    }

    proptest! {
        #[test]
        fn any_cursor_is_read_or_refused_and_every_place_comes_back(
            text in "[0-9]{0,11}[.][0-9]{0,11}[.][0-9]{0,21}|[0-9.+-]{0,20}|\\PC{0,10}",
            (uid_validity, next_uid, told) in any::<(u32, u32, usize)>(),
        ) {
            let _ = Place::decode(&FeedCursor(text));
            let place = Place { uid_validity, next_uid, told };
            prop_assert_eq!(Place::decode(&place.encode()), Some(place));
        }
    }
}
