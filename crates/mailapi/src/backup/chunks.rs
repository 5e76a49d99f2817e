//! Pieces of files, each stored once.

use std::ffi::OsStr;
use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::str::FromStr;

use mailapi_files::{DirectoryEntry, EntryKind, FileError, FileRefusal, OpenDirectory};
use rustix::process::geteuid;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use super::{DIRECTORY_MODE, FILE_MODE, about};
use crate::failure::Outcome;

/// Length of all chunks of a file but the last: 32 pages of the database. Smaller ones would make many small files,
/// larger ones would store more unchanged pages again.
pub(super) const CHUNK_BYTES: usize = 128 * 1024;

/// The SHA-256 of a chunk or of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Sha(pub(super) [u8; Sha::BYTES]);

impl Sha {
    const BYTES: usize = 32;

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "must have 64 lower-case hexadecimal digits";
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 2 * Self::BYTES || !text.bytes().all(is_digit) {
            return Err(WRONG);
        }
        let mut bytes = [0; Self::BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = str::from_utf8(digits).map_err(|_| WRONG)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| WRONG)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Sha {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Directory of all chunks.
const CHUNKS: &str = "chunks";
/// Name of an unfinished chunk in the directory for unfinished files.
pub(super) const PART: &str = "chunk";
/// Digits of a checksum that name the subdirectory of its chunk; the others name the file.
const GROUP_DIGITS: usize = 2;

/// The chunks of a backup directory, in one subdirectory for each first byte.
#[derive(Debug)]
pub(super) struct Chunks<'a>(&'a OpenDirectory);

/// What storing a chunk did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// An earlier backup has the chunk.
    There,
    Written,
    /// The chunk of an earlier backup was damaged, and is written again.
    Repaired,
}

impl<'a> Chunks<'a> {
    pub(super) const fn in_directory(backups: &'a OpenDirectory) -> Self {
        Self(backups)
    }

    fn path(&self, id: Sha) -> PathBuf {
        let name = id.to_string();
        self.0.path().join(CHUNKS).join(&name[..GROUP_DIGITS]).join(&name[GROUP_DIGITS..])
    }

    fn group(&self, id: Sha) -> Result<OpenDirectory, FileError> {
        self.0.directory(CHUNKS)?.directory(&id.to_string()[..GROUP_DIGITS])
    }

    /// Reads a chunk, and at most one byte more than `length`, which shows that it is too long.
    fn read_at_most(&self, id: Sha, length: usize) -> Result<Vec<u8>, FileError> {
        self.group(id)?.read_limited(&id.to_string()[GROUP_DIGITS..], length as u64)
    }

    /// Stores a chunk. An existing one is read and compared, so that no backup relies on a damaged one.
    ///
    /// The chunk is durable only after a flush of the file system.
    pub(super) fn keep(&self, id: Sha, bytes: &[u8], work: &OpenDirectory) -> Outcome<Kept> {
        let kept = match self.read_at_most(id, bytes.len()) {
            Ok(there) if there == bytes => return Ok(Kept::There),
            Ok(_) => Kept::Repaired,
            Err(error) if is_too_long(&error) || is_of_another(&error) => Kept::Repaired,
            Err(error) if error.is_missing() => Kept::Written,
            Err(error) => return Err(error.into()),
        };
        let name = id.to_string();
        let group = self.0.directory_or_create(CHUNKS, DIRECTORY_MODE)?;
        let group = group.directory_or_create(&name[..GROUP_DIGITS], DIRECTORY_MODE)?;
        // A failed write leaves one.
        work.remove_file(PART)?;
        work.create_file(PART, FILE_MODE)?.write_all(bytes).map_err(|error| about(&work.path().join(PART), error))?;
        work.rename(PART, &group, &name[GROUP_DIGITS..])?;
        Ok(kept)
    }

    /// Returns the content of a chunk after a check.
    pub(super) fn read(&self, id: Sha) -> Outcome<Vec<u8>> {
        let damaged = || about(&self.path(id), "the file is damaged");
        match self.read_at_most(id, CHUNK_BYTES) {
            Ok(bytes) if Sha::of(&bytes) == id => Ok(bytes),
            Ok(_) => Err(damaged()),
            Err(error) if is_too_long(&error) => Err(damaged()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn remove(&self, id: Sha) -> Result<bool, FileError> {
        self.group(id)?.remove_file(&id.to_string()[GROUP_DIGITS..])
    }

    /// Removes all chunks but those for which `is_used` holds; returns their number. Other entries stay: a backup did not
    /// make them.
    pub(super) fn retain(&self, is_used: impl Fn(Sha) -> bool) -> Outcome<usize> {
        let chunks = match self.0.directory(CHUNKS) {
            Ok(chunks) => chunks,
            Err(error) if error.is_missing() => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let (mut removed, mut strange) = (0, 0);
        for entry in chunks.entries()? {
            if !has_digits(&entry.name, GROUP_DIGITS) || !is_kind(&entry, EntryKind::Directory, &chunks) {
                continue;
            }
            let group = match chunks.directory(&entry.name) {
                Ok(group) => group,
                Err(error) if is_of_another(&error) => {
                    strange += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for chunk in group.entries()? {
                if id_of(&entry.name, &chunk.name).is_none_or(&is_used) {
                    continue;
                }
                if !is_kind(&chunk, EntryKind::File, &group) {
                    continue;
                }
                match group.facts(&chunk.name)? {
                    Some(facts) if facts.owner.uid != geteuid().as_raw() => strange += 1,
                    Some(_) if group.remove_file(&chunk.name)? => removed += 1,
                    _ => {}
                }
            }
        }
        if strange > 0 {
            tracing::warn!(entries = strange, "not removed: files with names of chunks that belong to other users");
        }
        Ok(removed)
    }
}

/// Returns whether an entry with the name of a chunk or a group is one; warns otherwise.
fn is_kind(entry: &DirectoryEntry, expected: EntryKind, within: &OpenDirectory) -> bool {
    if entry.kind != expected {
        let path = within.path().join(&entry.name);
        tracing::warn!(path = %path.display(), "not removed: it has the name of a chunk, but no backup made it");
    }
    entry.kind == expected
}

/// Returns whether the entry belongs to another user, who may have closed it.
fn is_of_another(error: &FileError) -> bool {
    let is_closed = matches!(error, FileError::System { error, .. } if error.kind() == ErrorKind::PermissionDenied);
    is_closed || error.refusal() == Some(FileRefusal::OtherOwner)
}

fn is_too_long(error: &FileError) -> bool {
    matches!(error.refusal(), Some(FileRefusal::TooLong { .. }))
}

fn has_digits(name: &OsStr, count: usize) -> bool {
    let digits = name.as_encoded_bytes();
    digits.len() == count && digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn id_of(group: &OsStr, chunk: &OsStr) -> Option<Sha> {
    format!("{}{}", group.to_str()?, chunk.to_str()?).parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_damaged_chunk_is_found_and_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let directory = OpenDirectory::open(directory.path()).unwrap();
        let (chunks, id) = (Chunks::in_directory(&directory), Sha::of(b"mail"));
        assert!(chunks.read(id).is_err(), "there is none yet");
        assert_eq!(chunks.keep(id, b"mail", &directory).unwrap(), Kept::Written);
        assert_eq!(chunks.keep(id, b"mail", &directory).unwrap(), Kept::There);
        for damage in ["mall", "mail and more", "m", ""] {
            std::fs::write(chunks.path(id), damage).unwrap();
            assert!(chunks.read(id).unwrap_err().to_string().ends_with("the file is damaged"), "{damage}");
            assert_eq!(chunks.keep(id, b"mail", &directory).unwrap(), Kept::Repaired);
            assert_eq!(chunks.read(id).unwrap(), b"mail");
        }
        assert_eq!(chunks.retain(|used| used == id).unwrap(), 0);
        assert_eq!(chunks.retain(|_| false).unwrap(), 1);
    }

    #[test]
    fn only_what_a_backup_made_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let directory = OpenDirectory::open(folder.path()).unwrap();
        let chunks = Chunks::in_directory(&directory);
        let (id, name) = (Sha::of(b"mail"), "0".repeat(62));
        chunks.keep(id, b"mail", &directory).unwrap();
        for group in ["00", "strange", "0G", "000"] {
            std::fs::create_dir_all(path("chunks").join(group)).unwrap();
            std::fs::write(path("chunks").join(group).join("notes.txt"), "keep me").unwrap();
        }
        for strange in ["strange", "0G", "000"] {
            std::fs::write(path("chunks").join(strange).join(&name), "keep me").unwrap();
        }
        std::fs::write(path("chunks/notes.txt"), "keep me").unwrap();
        std::fs::create_dir(path("chunks/00").join(&name)).unwrap();
        std::fs::create_dir(path("outside")).unwrap();
        std::fs::write(path("outside").join(&name), "keep me").unwrap();
        std::os::unix::fs::symlink(path("outside"), path("chunks/11")).unwrap();
        std::os::unix::fs::symlink(path("outside").join(&name), path("chunks/00").join("1".repeat(62))).unwrap();
        assert_eq!(chunks.retain(|_| false).unwrap(), 1);
        for kept in ["chunks/00/notes.txt", "chunks/strange/notes.txt", "chunks/0G/notes.txt", "chunks/notes.txt"] {
            assert!(path(kept).exists(), "{kept}");
        }
        assert!(path("outside").join(&name).exists() && path("chunks/00").join("1".repeat(62)).is_symlink());
        std::fs::rename(path("chunks"), path("moved")).unwrap();
        std::os::unix::fs::symlink(path("moved"), path("chunks")).unwrap();
        let refused = chunks.retain(|_| false).unwrap_err().to_string();
        assert!(refused.ends_with("chunks: refused, because it is a symbolic link"), "{refused}");
    }

    proptest! {
        #[test]
        fn the_text_of_a_checksum_is_read_back(bytes: [u8; 32]) {
            prop_assert_eq!(Sha(bytes).to_string().parse::<Sha>(), Ok(Sha(bytes)));
        }

        #[test]
        fn only_the_text_of_a_checksum_is_read(text in "\\PC{0,70}|[0-9a-fA-F+]{62,66}") {
            if let Ok(sha) = text.parse::<Sha>() {
                prop_assert_eq!(sha.to_string(), text);
            }
        }
    }
}
