//! A folder in the index, and its comparison with the one on the server.

/// The id of a folder in a mailbox's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FolderId(pub(super) i64);

impl FolderId {
    const UID_BITS: u32 = 32;

    /// Returns the id of a message: the folder in the high bits, the UID in the low ones.
    pub(super) fn message(self, uid: u32) -> i64 {
        (self.0 << Self::UID_BITS) | i64::from(uid)
    }

    /// Returns the folder and the UID of a message id.
    pub(super) fn of_message(id: i64) -> (Self, u32) {
        let uid = u32::try_from(id & i64::from(u32::MAX)).unwrap_or_default();
        (Self(id >> Self::UID_BITS), uid)
    }

    /// Returns the first and last message id of the folder.
    pub(super) fn messages(self) -> (i64, i64) {
        (self.message(0), self.message(u32::MAX))
    }
}

/// How far a folder is indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexedFolder {
    pub(crate) id: FolderId,
    pub(crate) uid_validity: u32,
    /// All messages of the folder up to this UID are in the index, and perhaps some that were removed.
    pub(crate) covered: u32,
    /// How many messages of the folder are in the index.
    pub(crate) messages: u64,
}

/// A folder as the IMAP server reports it (STATUS); a server may omit values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReportedFolder {
    pub(crate) uid_validity: Option<u64>,
    pub(crate) uid_next: Option<u64>,
    pub(crate) messages: Option<u64>,
}

impl ReportedFolder {
    /// Returns the highest UID that a message of the folder can have.
    pub(crate) fn highest_uid(&self) -> Option<u32> {
        u32::try_from(self.uid_next?.checked_sub(1)?).ok()
    }

    /// Whether the folder is certainly empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages == Some(0)
    }
}

impl IndexedFolder {
    /// Whether the index matches the folder exactly. All UIDs of the folder are at most `covered`, so the index has
    /// each message. The counts are equal, so it has no others.
    pub(crate) fn is_all_of(&self, reported: &ReportedFolder) -> bool {
        reported.uid_validity == Some(u64::from(self.uid_validity))
            && reported.highest_uid().is_some_and(|highest| highest <= self.covered)
            && reported.messages == Some(self.messages)
    }

    /// Returns the minimum number of messages that were added or removed since the folder was indexed.
    pub(crate) fn distance(state: Option<&Self>, reported: &ReportedFolder) -> u64 {
        let of_same = state.filter(|state| reported.uid_validity == Some(u64::from(state.uid_validity)));
        reported.messages.unwrap_or_default().abs_diff(of_same.map_or(0, |state| state.messages))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STATE: IndexedFolder = IndexedFolder { id: FolderId(3), uid_validity: 7, covered: 9, messages: 5 };
    const REPORTED: ReportedFolder = ReportedFolder { uid_validity: Some(7), uid_next: Some(10), messages: Some(5) };

    #[test]
    fn a_changed_or_incomplete_status_is_not_all() {
        for reported in [
            ReportedFolder { uid_validity: Some(8), ..REPORTED },
            ReportedFolder { uid_validity: None, ..REPORTED },
            ReportedFolder { uid_next: Some(11), ..REPORTED },
            ReportedFolder { uid_next: Some(0), ..REPORTED },
            ReportedFolder { uid_next: None, ..REPORTED },
            ReportedFolder { messages: Some(4), ..REPORTED },
            ReportedFolder { messages: None, ..REPORTED },
        ] {
            assert!(!STATE.is_all_of(&reported), "{reported:?}");
        }
        assert!(STATE.is_all_of(&REPORTED));
        assert!(STATE.is_all_of(&ReportedFolder { uid_next: Some(4), ..REPORTED }));
    }

    #[test]
    fn another_validity_is_another_folder() {
        assert_eq!(IndexedFolder::distance(Some(&STATE), &ReportedFolder { uid_validity: Some(8), ..REPORTED }), 5);
        assert_eq!(IndexedFolder::distance(Some(&STATE), &ReportedFolder { messages: Some(2), ..REPORTED }), 3);
        assert_eq!(IndexedFolder::distance(None, &REPORTED), 5);
    }

    proptest! {
        #[test]
        fn a_number_names_folder_and_uid(folder in 0..i64::from(i32::MAX), uid in any::<u32>()) {
            let folder = FolderId(folder);
            let id = folder.message(uid);
            prop_assert_eq!(FolderId::of_message(id), (folder, uid));
            let (first, last) = folder.messages();
            prop_assert!(first <= id && id <= last);
        }
    }
}
