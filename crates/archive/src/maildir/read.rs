//! Reads a Maildir.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use mailapi_imap::Flags;
use mailapi_model::{Blob, FolderName, Timestamp};

use super::flags::{Keywords, of_letters};
use super::lists::{UidList, unique_part};
use super::{KEYWORD_LIST, UID_LIST};
use crate::error::at;
use crate::line_ends::{Filling, Form, PIECE, WithCrlf};
use crate::{ArchiveError, ArchivedMessage, ReadSettings, SourceKey, folder_of};

/// A Maildir with its folders.
#[derive(Debug)]
pub struct Maildir {
    /// The folders: INBOX, then the others by name.
    pub folders: Vec<MaildirFolder>,
    /// Directories whose names no folder can have.
    pub unnamed: Vec<String>,
}

/// A folder of a Maildir.
#[derive(Debug)]
pub struct MaildirFolder {
    /// Its name.
    pub name: FolderName,
    path: PathBuf,
}

/// The messages of a folder, without their contents.
#[derive(Debug)]
pub struct MaildirFiles {
    /// UIDVALIDITY, if the folder has a list of UIDs.
    pub uid_validity: Option<u32>,
    /// The UID of the next message.
    pub uid_next: Option<u32>,
    /// The messages by UID; those without one come last, oldest first.
    pub files: Vec<MaildirFile>,
}

/// A message's file.
#[derive(Debug, Clone)]
pub struct MaildirFile {
    path: PathBuf,
    /// Identifies the message in later runs: the part of its file name that never changes.
    pub key: SourceKey,
    /// The UID.
    pub uid: Option<u32>,
    /// The flags.
    pub flags: Flags,
}

impl Maildir {
    /// Finds the folders of a Maildir: the directory itself is INBOX, and `.Projects.2026` is `Projects/2026`.
    ///
    /// # Errors
    /// If the directory cannot be read, or is not a Maildir.
    pub fn open(root: &Path) -> Result<Self, ArchiveError> {
        if !root.join("cur").is_dir() {
            return Err(ArchiveError::form(root, "is not a Maildir: it has no directory cur"));
        }
        let mut folders = vec![MaildirFolder { name: FolderName::inbox(), path: root.to_owned() }];
        let mut unnamed = Vec::new();
        for entry in fs::read_dir(root).map_err(at(root))? {
            let path = entry.map_err(at(root))?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(name) = file.strip_prefix('.').filter(|_| path.join("cur").is_dir()) else { continue };
            match folder_of(name) {
                Some(name) if folders.iter().all(|folder| folder.name != name) => {
                    folders.push(MaildirFolder { name, path });
                }
                _ => unnamed.push(file),
            }
        }
        folders[1..].sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { folders, unnamed })
    }
}

impl MaildirFolder {
    /// Lists the messages.
    ///
    /// # Errors
    /// If a directory or list cannot be read.
    pub fn files(&self) -> Result<MaildirFiles, ArchiveError> {
        let uids = UidList::read(&self.list(UID_LIST)?);
        let keywords = Keywords::read(&self.list(KEYWORD_LIST)?);
        let mut files = Vec::new();
        for place in ["new", "cur"] {
            let directory = self.path.join(place);
            if !directory.is_dir() {
                continue;
            }
            for entry in fs::read_dir(&directory).map_err(at(&directory))? {
                let path = entry.map_err(at(&directory))?.path();
                let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if file.starts_with('.') || !path.is_file() {
                    continue;
                }
                let unique = unique_part(&file);
                let key = SourceKey::of(&[b"maildir", unique.as_bytes()]);
                let (uid, flags) = (uids.uids.get(unique).copied(), of_letters(letters(&file), &keywords));
                files.push((uid.is_none(), uid, seconds(&file), file, MaildirFile { path, key, uid, flags }));
            }
        }
        files.sort_by(|one, other| (one.0, one.1, one.2, &one.3).cmp(&(other.0, other.1, other.2, &other.3)));
        let files = files.into_iter().map(|(.., file)| file).collect();
        Ok(MaildirFiles { uid_validity: uids.validity, uid_next: uids.next, files })
    }

    fn list(&self, name: &str) -> Result<String, ArchiveError> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(at(&path)(error)),
        }
    }
}

/// Returns the letters after `:2,`.
fn letters(file: &str) -> &str {
    file.split_once(":2,").map_or("", |(_, letters)| letters)
}

/// Returns the delivery time at the beginning of the name, for the order.
fn seconds(file: &str) -> u64 {
    file.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(u64::MAX)
}

/// Returns a size from the name, such as that of `,W=1394`.
fn named_size(file: &str, field: &str) -> Option<u64> {
    let before_flags = file.split(':').next().unwrap_or_default();
    before_flags.split(',').find_map(|part| part.strip_prefix(field)).and_then(|size| size.parse().ok())
}

impl MaildirFile {
    /// Reads the message.
    ///
    /// # Errors
    /// If the file cannot be read, or is gone because another program moved it.
    pub fn read(&self, settings: &ReadSettings) -> Result<ArchivedMessage, ArchiveError> {
        let failed = at(&self.path);
        let mut file = File::open(&self.path).map_err(&failed)?;
        let metadata = file.metadata().map_err(&failed)?;
        let modified = metadata.modified().ok().and_then(|time| jiff::Timestamp::try_from(time).ok());
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        // The size with CRLF, which our own export writes too: if it is that of the file, nothing is to be converted.
        let form = if named_size(&name, "W=") == Some(metadata.len()) { Form::Verbatim } else { Form::Lines };
        let content = self.content(&mut file, form, settings)?;
        Ok(ArchivedMessage {
            place: self.place(),
            key: self.key,
            uid: self.uid,
            flags: self.flags.clone(),
            internal_date: modified.map(|time| Timestamp::from_millis(time.as_millisecond())),
            content,
        })
    }

    /// Returns the path, for reports.
    #[must_use]
    pub fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn content(&self, file: &mut File, form: Form, settings: &ReadSettings) -> Result<Option<Blob>, ArchiveError> {
        let mut filling = Filling::new(settings.buffer.writer(), settings.max_message_bytes);
        let (mut lines, mut piece) = (WithCrlf::new(form), vec![0; PIECE]);
        loop {
            let length = file.read(&mut piece).map_err(at(&self.path))?;
            if length == 0 {
                return Ok(filling.finish()?);
            }
            lines.push(&piece[..length], &mut |bytes| filling.push(bytes))?;
        }
    }
}
