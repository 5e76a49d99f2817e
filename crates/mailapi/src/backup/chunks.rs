//! Pieces of files, each stored once.

use std::collections::HashSet;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use super::{DIRECTORY_MODE, FILE_MODE, about};
use crate::failure::{Failure, Outcome};

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

/// The chunks of a backup directory, in one subdirectory for each first byte.
#[derive(Debug)]
pub(super) struct Chunks(PathBuf);

/// What storing a chunk did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// An earlier backup has the chunk.
    There,
    Written,
    /// The chunk of an earlier backup was damaged, and is written again.
    Repaired,
}

impl Chunks {
    pub(super) fn in_directory(backups: &Path) -> Self {
        Self(backups.join("chunks"))
    }

    fn path(&self, id: Sha) -> PathBuf {
        let name = id.to_string();
        self.0.join(&name[..2]).join(&name[2..])
    }

    /// Stores a chunk. An existing one is read and compared, so that no backup relies on a damaged one.
    ///
    /// The chunk is durable only after a flush of the file system.
    pub(super) fn keep(&self, id: Sha, bytes: &[u8], work: &Path) -> io::Result<Kept> {
        let path = self.path(id);
        let kept = match read_at_most(&path, bytes.len()) {
            Ok(there) if there == bytes => return Ok(Kept::There),
            Ok(_) => Kept::Repaired,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::Written,
            Err(error) => return Err(error),
        };
        let directory = path.parent().unwrap_or(&self.0);
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
        let part = work.join("chunk");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(FILE_MODE).open(&part)?.write_all(bytes)?;
        std::fs::rename(&part, &path)?;
        Ok(kept)
    }

    /// Returns the content of a chunk after a check.
    pub(super) fn read(&self, id: Sha) -> Outcome<Vec<u8>> {
        let path = self.path(id);
        let bytes = read_at_most(&path, CHUNK_BYTES).map_err(|error| about(&path, error))?;
        if Sha::of(&bytes) == id { Ok(bytes) } else { Err(about(&path, "the file is damaged")) }
    }

    pub(super) fn remove(&self, id: Sha) -> io::Result<()> {
        std::fs::remove_file(self.path(id))
    }

    /// Removes all chunks but these; returns their number.
    pub(super) fn retain(&self, used: &HashSet<Sha>) -> Outcome<usize> {
        let mut removed = 0;
        for group in entries(&self.0)? {
            for chunk in entries(&group)? {
                if !id_of(&group, &chunk).is_some_and(|id| used.contains(&id)) {
                    std::fs::remove_file(&chunk).map_err(|error| about(&chunk, error))?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }
}

fn id_of(group: &Path, chunk: &Path) -> Option<Sha> {
    format!("{}{}", group.file_name()?.to_str()?, chunk.file_name()?.to_str()?).parse().ok()
}

/// Returns the paths in a directory; none if it is missing.
fn entries(directory: &Path) -> Outcome<Vec<PathBuf>> {
    let failed = |error| about(directory, error);
    match std::fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err::<_, Failure>(failed(error)),
    }
}

/// Reads a file, and at most one byte more than `length`, which shows that it is too long.
fn read_at_most(path: &Path, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length + 1);
    File::open(path)?.take(length as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_damaged_chunk_is_found_and_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let (chunks, id) = (Chunks::in_directory(directory.path()), Sha::of(b"mail"));
        assert!(chunks.read(id).is_err(), "there is none yet");
        assert_eq!(chunks.keep(id, b"mail", directory.path()).unwrap(), Kept::Written);
        assert_eq!(chunks.keep(id, b"mail", directory.path()).unwrap(), Kept::There);
        for damage in ["mall", "mail and more", "m", ""] {
            std::fs::write(chunks.path(id), damage).unwrap();
            assert!(chunks.read(id).unwrap_err().to_string().ends_with("the file is damaged"), "{damage}");
            assert_eq!(chunks.keep(id, b"mail", directory.path()).unwrap(), Kept::Repaired);
            assert_eq!(chunks.read(id).unwrap(), b"mail");
        }
        assert_eq!(chunks.retain(&HashSet::from([id])).unwrap(), 0);
        assert_eq!(chunks.retain(&HashSet::new()).unwrap(), 1);
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
