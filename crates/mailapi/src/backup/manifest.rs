//! The list of the files of one backup.
//!
//! The first line of a manifest is the SHA-256 of the rest, so that a damaged one is noticed.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::chunks::Sha;
use crate::data_dir::{LOCK_FILE, RESTORING};

/// Bytes of the time and of the version of the program. They are shown in a list.
const LONGEST_TEXT: usize = 100;

/// The version of the form. A program refuses forms that it does not know.
const FORMAT: u32 = 1;

/// One backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    format: u32,
    /// When the backup began, in RFC 3339.
    pub(crate) created_at: String,
    /// The version of the program that made it.
    pub(crate) program: String,
    pub(crate) accounts: Accounts,
    pub(super) database: FileEntry,
    pub(super) files: Vec<FileEntry>,
}

/// Where the accounts are that belong to the mail of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Accounts {
    /// In the database of the backup.
    Sqlite,
    /// In a PostgreSQL database, which the operator saves.
    Postgres,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEntry {
    /// Path in the data directory. That of the database is only for people: the configuration decides it.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) sha256: Sha,
    pub(super) chunks: Vec<Sha>,
}

impl Manifest {
    pub(super) fn new(created_at: String, accounts: Accounts, database: FileEntry, files: Vec<FileEntry>) -> Self {
        let program = env!("CARGO_PKG_VERSION").to_owned();
        Self { format: FORMAT, created_at, program, accounts, database, files }
    }

    pub(super) fn encode(&self) -> serde_json::Result<String> {
        let text = serde_json::to_string(self)?;
        Ok(format!("{}\n{text}", Sha::of(text.as_bytes())))
    }

    /// Bytes of the first line.
    pub(super) const HEAD: usize = 65;

    /// Returns whether bytes have the form of the first line of a manifest, also of a damaged one.
    pub(super) fn may_begin(head: &[u8]) -> bool {
        let line = head.strip_suffix(b"\n").and_then(|line| str::from_utf8(line).ok());
        line.is_some_and(|line| line.parse::<Sha>().is_ok())
    }

    /// Parses a manifest. Its paths stay inside the data directory.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        const DAMAGED: &str = "the file is damaged";
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(DAMAGED)?;
        let (sha, text) = (&bytes[..end], &bytes[end + 1..]);
        if Sha::of(text).to_string().as_bytes() != sha {
            return Err(DAMAGED);
        }
        let format = serde_json::from_slice::<FormatOnly>(text).map_err(|_| DAMAGED)?.format;
        if format != FORMAT {
            return Err("a newer version of mailapi made the backup");
        }
        let manifest: Self = serde_json::from_slice(text).map_err(|_| DAMAGED)?;
        let is_short = |text: &str| text.len() <= LONGEST_TEXT;
        let has_short_texts = is_short(&manifest.created_at) && is_short(&manifest.program);
        if !has_short_texts || !manifest.can_be_written() {
            return Err(DAMAGED);
        }
        let is_mark =
            |file: &FileEntry| [RESTORING, LOCK_FILE].iter().any(|mark| Path::new(&file.path).starts_with(mark));
        if manifest.files.iter().any(is_mark) { Err("it lists a file that no backup has") } else { Ok(manifest) }
    }

    /// Returns whether the files can be written beside each other: no name is used twice, also not as that of a directory.
    fn can_be_written(&self) -> bool {
        let paths: BTreeSet<&Path> = self.files.iter().map(|file| Path::new(&file.path)).collect();
        let is_alone = |path: &&Path| path.ancestors().skip(1).all(|directory| !paths.contains(directory));
        let are_names = self.files.iter().all(|file| is_inside(&file.path) && !file.path.contains('\0'));
        are_names && paths.len() == self.files.len() && paths.iter().all(is_alone)
    }

    /// All files, the database first.
    pub(super) fn all_files(&self) -> impl Iterator<Item = &FileEntry> {
        std::iter::once(&self.database).chain(&self.files)
    }

    /// Size of the files but the database.
    pub(super) fn size_of_others(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// Number of files.
    pub(crate) fn file_count(&self) -> usize {
        self.files.len() + 1
    }

    /// Size of all files.
    pub(crate) fn size(&self) -> u64 {
        self.size_of_others().saturating_add(self.database.size)
    }
}

#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

/// Returns whether a path consists of names alone: it is relative and has no `..`.
fn is_inside(path: &str) -> bool {
    let mut components = Path::new(path).components().peekable();
    components.peek().is_some() && components.all(|component| matches!(component, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest(path: &str) -> Manifest {
        let file = |path: &str| FileEntry {
            path: path.to_owned(),
            mode: 0o600,
            size: 4,
            sha256: Sha::of(b"mail"),
            chunks: vec![Sha::of(b"mail")],
        };
        Manifest::new("2026-11-25T22:00:00Z".to_owned(), Accounts::Sqlite, file("mailapi.db"), vec![file(path)])
    }

    #[test]
    fn a_path_that_leaves_the_directory_is_refused() {
        for (path, is_good) in [
            ("acme/ca.example/account.json", true),
            ("admin-token", true),
            ("..", false),
            ("acme/../../etc/passwd", false),
            ("/etc/passwd", false),
            ("", false),
            ("acme/a\0b", false),
            ("restoring", false),
            ("restoring/x", false),
            ("mailapi.lock", false),
        ] {
            let encoded = manifest(path).encode().unwrap();
            assert!(Manifest::may_begin(&encoded.as_bytes()[..Manifest::HEAD]));
            let decoded = Manifest::decode(encoded.as_bytes());
            assert_eq!(decoded.is_ok(), is_good, "{path}");
        }
    }

    #[test]
    fn files_that_cannot_stand_beside_each_other_are_refused() {
        let both = |one: &str, other: &str| {
            let mut both = manifest(one);
            both.files.extend(manifest(other).files);
            Manifest::decode(both.encode().unwrap().as_bytes()).is_ok()
        };
        assert!(both("acme/a", "acme/b") && both("acme", "acme.b"));
        assert!(!both("audit.log", "audit.log") && !both("acme/a", "acme/./a"));
        assert!(!both("acme", "acme/a") && !both("acme/a/b", "acme"));
        let long = Manifest { program: "1".repeat(70_000), ..manifest("acme") };
        assert!(Manifest::decode(long.encode().unwrap().as_bytes()).is_err());
    }

    #[test]
    fn a_newer_form_is_refused_by_name() {
        let text = r#"{"format":2,"anything":"else"}"#;
        let newer = format!("{}\n{text}", Sha::of(text.as_bytes()));
        assert_eq!(Manifest::decode(newer.as_bytes()), Err("a newer version of mailapi made the backup"));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let good = manifest("admin-token").encode().unwrap().into_bytes();
        assert_eq!(Manifest::decode(&good), Ok(manifest("admin-token")));
        for at in 0..good.len() * 8 {
            let mut flipped = good.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(Manifest::decode(&flipped).is_err(), "bit {at}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_leave_the_directory(text in "\\PC{0,200}", bytes: Vec<u8>) {
            let _ = Manifest::decode(&bytes);
            prop_assert!(!Manifest::may_begin(&bytes) || bytes.len() == Manifest::HEAD);
            let signed = format!("{}\n{text}", Sha::of(text.as_bytes()));
            prop_assert!(Manifest::decode(signed.as_bytes()).is_err());
            let path = Manifest::decode(manifest(&text).encode().unwrap().as_bytes()).map(|read| read.files[0].path.clone());
            if let Ok(path) = path {
                prop_assert!(Path::new("/data").join(path).components().all(|part| part != Component::ParentDir));
            }
        }
    }
}
