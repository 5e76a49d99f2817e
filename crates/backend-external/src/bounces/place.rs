//! The read position in the bounce mailbox.

use mailapi_model::FeedCursor;

/// A position in a folder. UIDs ascend, and are valid only with their UIDVALIDITY (RFC 3501 section 2.3.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) uid_validity: u32,
    /// The next message to read.
    pub(super) next_uid: u32,
    /// How many failures of that message were already reported.
    pub(super) reported: usize,
}

impl Place {
    /// All failures of a message were reported.
    const ALL: usize = usize::MAX;

    /// Returns the beginning of a folder.
    pub(super) const fn beginning_of(uid_validity: u32) -> Self {
        Self::at(uid_validity, 1)
    }

    /// Returns the position before a message.
    pub(super) const fn at(uid_validity: u32, uid: u32) -> Self {
        Self { uid_validity, next_uid: uid, reported: 0 }
    }

    /// Returns the position after a message.
    pub(super) const fn behind(uid_validity: u32, uid: u32) -> Self {
        match uid.checked_add(1) {
            Some(next) => Self::at(uid_validity, next),
            None => Self { uid_validity, next_uid: uid, reported: Self::ALL },
        }
    }

    /// Returns whether no message can follow: the last one had the highest UID.
    pub(super) const fn is_end(&self) -> bool {
        self.next_uid == u32::MAX && self.reported == Self::ALL
    }

    /// Encodes the position as a feed cursor.
    pub(super) fn encode(self) -> FeedCursor {
        FeedCursor(format!("{}.{}.{}", self.uid_validity, self.next_uid, self.reported))
    }

    /// Decodes a feed cursor; `None` if it has another format.
    pub(super) fn decode(cursor: &FeedCursor) -> Option<Self> {
        let mut numbers = cursor.0.split('.');
        let place = Self {
            uid_validity: numbers.next()?.parse().ok()?,
            next_uid: numbers.next()?.parse().ok()?,
            reported: numbers.next()?.parse().ok()?,
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
        let place = Place { uid_validity: 7, next_uid: 12, reported: 3 };
        assert_eq!(Place::decode(&place.encode()), Some(place));
    }

    #[test]
    fn after_the_highest_uid_nothing_is_read_again() {
        let end = Place::behind(7, u32::MAX);
        assert!(end.is_end() && Place::decode(&end.encode()).unwrap().is_end());
        assert!(!Place::behind(7, u32::MAX - 1).is_end());
    }

    proptest! {
        #[test]
        fn any_cursor_is_read_or_refused_and_every_place_comes_back(
            text in "[0-9]{0,11}[.][0-9]{0,11}[.][0-9]{0,21}|[0-9.+-]{0,20}|\\PC{0,10}",
            (uid_validity, next_uid, reported) in any::<(u32, u32, usize)>(),
        ) {
            let _ = Place::decode(&FeedCursor(text));
            let place = Place { uid_validity, next_uid, reported };
            prop_assert_eq!(Place::decode(&place.encode()), Some(place));
        }
    }
}
