//! Directories of mail in the layouts of mail programs: mbox files in directories (Thunderbird, `readpst -r`, Apple Mail's
//! exports), one message per file (MH, `.eml`, Apple Mail's `.emlx`), and Maildirs (KMail).
//!
//! Each entry becomes a source, or is named with the reason why it is none.

mod entry_name;
mod messages;
mod search;

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use mailapi_files::{FileError, OpenDirectory};
use mailapi_model::FolderName;

use crate::ArchiveError;
use crate::maildir::MaildirFolder;
pub use messages::{MessageReader, UnreadMessage};

/// What a directory contains.
#[derive(Debug, Default)]
pub struct MailTree {
    /// The sources of messages.
    pub sources: Vec<TreeSource>,
    /// Entries without mail.
    pub left: Vec<TreeNote>,
    /// Entries that may be mail and cannot be read.
    pub lost: Vec<TreeNote>,
    /// Links, special files, and files of other users.
    pub refused: Vec<FileError>,
}

/// An entry, and why it is not read.
#[derive(Debug)]
pub struct TreeNote {
    /// The entry.
    pub path: PathBuf,
    /// The reason.
    pub reason: &'static str,
}

/// A source of messages.
#[derive(Debug)]
pub struct TreeSource {
    /// The folder; `None` for the messages of the directory itself.
    pub folder: Option<FolderName>,
    /// The messages.
    pub content: TreeContent,
}

/// The forms of sources.
#[derive(Debug)]
pub enum TreeContent {
    /// An mbox file.
    Mbox(MailFile),
    /// Files with one message each.
    Messages(MessageReader),
    /// A Maildir.
    Maildir(MaildirFolder),
}

/// A file that is opened by the handle of its directory.
#[derive(Debug, Clone)]
pub struct MailFile {
    directory: Arc<OpenDirectory>,
    name: OsString,
}

impl MailFile {
    /// Returns the path, for reports.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Opens the file.
    ///
    /// # Errors
    /// If it is refused, or cannot be opened.
    pub fn open(&self) -> Result<File, ArchiveError> {
        Ok(self.directory.open_file(&self.name)?)
    }
}
