//! Positions in the log, and the cursors that the database stores.

use std::fmt::Write as _;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use mailapi_model::{FeedCursor, Timestamp};
use sha2::{Digest as _, Sha256};

/// A position between two records of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Before the first record.
    Beginning,
    /// In a file.
    File(FilePlace),
    /// After the journal entry of this cursor.
    Journal(String),
}

impl Place {
    /// Returns the time of the newest line before this position, if it contains one.
    pub(super) fn newest_line_at(&self) -> Option<Timestamp> {
        match self {
            Self::File(file) => Some(file.at).filter(|at| at.as_millis() != 0),
            Self::Beginning | Self::Journal(_) => None,
        }
    }
}

/// A position in a file that stays valid if the file is renamed, copied or compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilePlace {
    /// The file's identity in the file system.
    pub(super) id: FileId,
    /// How many bytes were read.
    pub(super) offset: u64,
    /// The first bytes of the file.
    pub(super) head: Head,
    /// The time of the newest line before this position; zero if there is none.
    pub(super) at: Timestamp,
}

/// Device and inode, which a rename does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    /// Returns the identity of the file with this metadata.
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// The beginning of a file, which identifies copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The number of bytes; zero identifies nothing.
    pub(super) length: u64,
    hash: u64,
}

impl Head {
    /// Returns the head of a file that begins with these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        let hash = digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte));
        Self { length: bytes.len() as u64, hash }
    }
}

/// A position, and what was reported at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) place: Place,
    /// How many events of the record after the position were already reported. Above zero only if the events of a
    /// single record did not fit into a batch.
    pub(super) reported: usize,
    /// The time up to which attempts ended by this server's clock while the log was silent. `None` once a line is
    /// newer.
    pub(super) quiet_until: Option<Timestamp>,
}

impl Cursor {
    /// Returns the cursor at a position where nothing else was reported.
    pub(super) const fn at(place: Place) -> Self {
        Self { place, reported: 0, quiet_until: None }
    }

    /// Encodes the cursor: `file device inode offset head-length head-hash time reported`, or `journal reported name`.
    /// `reported` is a number, and `@time` after a silence.
    pub(super) fn encode(&self) -> FeedCursor {
        let mut text = String::new();
        let reported = match self.quiet_until {
            Some(until) => format!("{}@{}", self.reported, until.as_millis()),
            None => self.reported.to_string(),
        };
        let written = match &self.place {
            Place::Beginning => Ok(()),
            Place::File(FilePlace { id, offset, head, at }) => write!(
                text,
                "file {} {} {offset} {} {:016x} {} {reported}",
                id.device,
                id.inode,
                head.length,
                head.hash,
                at.as_millis(),
            ),
            Place::Journal(name) => write!(text, "journal {reported} {name}"),
        };
        written.expect("writing into a String cannot fail");
        FeedCursor(text)
    }

    /// Decodes a cursor from [`Cursor::encode`]; `None` if it has another format.
    pub(super) fn decode(cursor: &FeedCursor) -> Option<Self> {
        if cursor.0.is_empty() {
            return Some(Self::at(Place::Beginning));
        }
        if let Some(rest) = cursor.0.strip_prefix("journal ") {
            let (reported, name) = rest.split_once(' ')?;
            return Self::reported_at(Place::Journal(name.to_owned()), reported);
        }
        let mut parts = cursor.0.strip_prefix("file ")?.split(' ');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let id = FileId { device: number()?, inode: number()? };
        let (offset, length) = (number()?, number()?);
        let hash = u64::from_str_radix(parts.next()?, 16).ok()?;
        let at = Timestamp::from_millis(parts.next()?.parse().ok()?);
        let reported = parts.next()?;
        let place = FilePlace { id, offset, head: Head { length, hash }, at };
        parts.next().is_none().then(|| Self::reported_at(Place::File(place), reported))?
    }

    fn reported_at(place: Place, text: &str) -> Option<Self> {
        let (reported, until) = text.split_once('@').map_or((text, None), |(reported, until)| (reported, Some(until)));
        let until = until.map(str::parse::<i64>).transpose().ok()?;
        Some(Self { place, reported: reported.parse().ok()?, quiet_until: until.map(Timestamp::from_millis) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_of_another_feed_is_refused() {
        for text in
            ["17", "file", "file 1 2 3", "file 1 2 3 4 zz 5 6", "file 1 2 3 4 0f 5 6 7", "journal x", "Journal 1 s"]
        {
            assert_eq!(Cursor::decode(&FeedCursor(text.to_owned())), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_cursor_is_read_as_it_was_written(
            device: u64, inode: u64, offset: u64, head in proptest::collection::vec(any::<u8>(), 0..40),
            at in 0..4_000_000_000_000_i64, reported in 0..9_usize, name in "s=[0-9a-f]{8};i=[0-9a-f]{3}",
            quiet: bool,
        ) {
            let place = FilePlace {
                id: FileId { device, inode }, offset, head: Head::of(&head), at: Timestamp::from_millis(at),
            };
            for place in [Place::Beginning, Place::File(place), Place::Journal(name)] {
                let quiet_until = quiet.then_some(Timestamp::from_millis(at));
                let cursor = match place {
                    Place::Beginning => Cursor::at(place),
                    _ => Cursor { place, reported, quiet_until },
                };
                prop_assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}|(file|journal)[ 0-9a-f-]{0,60}") {
            let _ = Cursor::decode(&FeedCursor(text));
        }
    }
}
