//! What is known of an entry without opening it.

use std::ffi::OsString;

use rustix::fs::{FileType, Stat};

use crate::FileRefusal;

/// The kinds of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device, or a kind that this crate does not know.
    Device,
}

impl EntryKind {
    pub(crate) fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            _ => Self::Device,
        }
    }

    /// Returns why an entry of this kind is not a regular file.
    #[must_use]
    pub const fn refusal_as_file(self) -> Option<FileRefusal> {
        match self {
            Self::File => None,
            Self::Directory => Some(FileRefusal::Directory),
            Self::Link => Some(FileRefusal::SymbolicLink),
            Self::Fifo => Some(FileRefusal::Fifo),
            Self::Socket => Some(FileRefusal::Socket),
            Self::Device => Some(FileRefusal::Device),
        }
    }

    pub(crate) const fn refusal_as_directory(self) -> Option<FileRefusal> {
        match self {
            Self::Directory => None,
            Self::Link => Some(FileRefusal::SymbolicLink),
            Self::File | Self::Fifo | Self::Socket | Self::Device => Some(FileRefusal::NotDirectory),
        }
    }
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name.
    pub name: OsString,
    /// The kind at the time of the listing. The entry may be replaced later.
    pub kind: EntryKind,
}

/// User and group that own an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOwner {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

impl FileOwner {
    /// Number of root.
    pub(crate) const ROOT: u32 = 0;

    pub(crate) fn of(stat: &Stat) -> Self {
        Self { uid: stat.st_uid, gid: stat.st_gid }
    }
}

/// The metadata of an entry that the checks need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryFacts {
    /// The kind.
    pub kind: EntryKind,
    /// Length of a file in bytes.
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// The owner.
    pub owner: FileOwner,
    /// Number of names.
    pub links: u64,
}

impl EntryFacts {
    /// Returns whether the mode lets a group other than root's, or everyone, write.
    pub(crate) const fn is_open_to_others(&self) -> bool {
        const GROUP: u32 = 0o020;
        const OTHERS: u32 = 0o002;
        self.mode & OTHERS != 0 || (self.mode & GROUP != 0 && self.owner.gid != FileOwner::ROOT)
    }

    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "the types differ by system"
    )]
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            kind: EntryKind::of(FileType::from_raw_mode(stat.st_mode)),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: u32::from(stat.st_mode) & 0o7777,
            owner: FileOwner::of(stat),
            links: u64::try_from(stat.st_nlink).unwrap_or(u64::MAX),
        }
    }
}
