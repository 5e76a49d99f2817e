//! Mailboxes in files: mbox and Maildir++, read and written; other layouts, read.
//!
//! Everything blocks. A message is read into a [`Buffer`], so memory does not grow with it. Of a folder, only the names
//! of its files are in memory, or a number for each message of an mbox file.
//!
//! Another user may control the directories, while root reads or writes them. Entries are therefore opened by the handle of
//! their directory: no link is followed, and only regular files are read. What is refused is named, and the rest is read.

mod compression;
mod error;
mod folder_names;
mod key;
mod line_ends;
pub mod maildir;
pub mod mbox;
pub mod tree;

use mailapi_backend::Buffer;
use mailapi_imap::Flags;
use mailapi_model::{Blob, Timestamp};

pub use error::ArchiveError;
pub use folder_names::{directory_names, folder_of, level_name};
pub use key::SourceKey;

/// Maximum number of messages in a folder of a Maildir, or in an mbox file. They take about 150 bytes of memory each; no
/// mail program opens such a folder. A folder of the message store has more UIDs.
pub const MOST_MESSAGES: usize = 10_000_000;

/// A message in an archive.
#[derive(Debug, Clone)]
pub struct ArchivedMessage {
    /// Where it is, for reports: a file, or its number in a file.
    pub place: String,
    /// Identifies the message in a later run.
    pub key: SourceKey,
    /// Its UID, if the archive has any.
    pub uid: Option<u32>,
    /// Its flags.
    pub flags: Flags,
    /// Flags that are left out, since no mailbox can have them.
    pub lost_flags: u64,
    /// The special use of the folder in which it was (RFC 6154), if that is another one than that of the archive.
    pub special_use: Option<&'static str>,
    /// When it arrived, if the archive says so.
    pub internal_date: Option<Timestamp>,
    /// Its bytes, with CRLF at the ends of lines; `None` if there are more than the limit.
    pub content: Option<Blob>,
}

/// Limits of a reader.
#[derive(Clone)]
pub struct ReadSettings {
    /// Holds the messages while they are in use.
    pub buffer: Buffer,
    /// Maximum size of a message in bytes.
    pub max_message_bytes: usize,
}

/// A message to write into an archive.
#[derive(Debug, Clone)]
pub struct ExportedMessage {
    /// The UID.
    pub uid: u32,
    /// The flags.
    pub flags: Flags,
    /// When it arrived.
    pub internal_date: Timestamp,
    /// Its bytes.
    pub content: Blob,
}
