//! Reads a Maildir.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use mailapi_files::{DirectoryEntry, EntryKind, FileError, OpenDirectory};
use mailapi_imap::Flags;
use mailapi_model::{Blob, FolderName, Timestamp};

use super::flags::{Keywords, of_letters};
use super::lists::{MAX_LIST, UidList, key_of};
use super::{KEYWORD_LIST, UID_LIST};
use crate::error::{at, too_long};
use crate::line_ends::{Filling, Form, PIECE, WithCrlf};
use crate::{ArchiveError, ArchivedMessage, MOST_MESSAGES, ReadSettings, SourceKey, folder_of};

/// Maximum size of a list of keywords in bytes: 26 keywords that are longer than any mail program makes them.
const MAX_KEYWORDS: u64 = 64 * 1024;

const TOO_MANY: &str = "has more than 10,000,000 entries";

/// A Maildir with its folders.
#[derive(Debug)]
pub struct Maildir {
    /// The folders: INBOX, then the others by name.
    pub folders: Vec<MaildirFolder>,
    /// Directories whose names no folder can have.
    pub unnamed: Vec<String>,
    /// Folders that are links, or belong to another user.
    pub refused: Vec<FileError>,
}

/// A folder of a Maildir.
#[derive(Debug)]
pub struct MaildirFolder {
    /// Its name.
    pub name: FolderName,
    root: Arc<OpenDirectory>,
    /// The name of its directory; `None` for INBOX.
    directory: Option<OsString>,
}

/// The messages of a folder, without their contents.
#[derive(Debug)]
pub struct MaildirFiles {
    /// UIDVALIDITY, if the folder has a list of UIDs; 0 if the list has none that can be read.
    pub uid_validity: Option<u32>,
    /// The UID of the next message.
    pub uid_next: Option<u32>,
    /// The messages by UID; those without one come last, oldest first.
    pub files: Vec<MaildirFile>,
    /// Lists, directories and files that are not read, because they are links, special files or too long.
    pub refused: Vec<FileError>,
}

/// A message's file.
#[derive(Debug, Clone)]
pub struct MaildirFile {
    directory: Arc<OpenDirectory>,
    name: Box<OsStr>,
    keywords: Arc<Keywords>,
    /// Identifies the message in later runs: by the part of its file name that never changes.
    pub key: SourceKey,
    /// The UID.
    pub uid: Option<u32>,
}

impl Maildir {
    /// Finds the folders of a Maildir: the directory itself is INBOX, and `.Projects.2026` is `Projects/2026`.
    ///
    /// # Errors
    /// If the directory cannot be read, or is not a Maildir.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let root = Arc::new(OpenDirectory::open(path)?);
        match root.directory("cur") {
            Err(error) if error.is_missing() => {
                return Err(ArchiveError::form(path, "is not a Maildir: it has no directory cur"));
            }
            current => current?,
        };
        let inbox = MaildirFolder { name: FolderName::inbox(), root: Arc::clone(&root), directory: None };
        let mut maildir = Self { folders: vec![inbox], unnamed: Vec::new(), refused: Vec::new() };
        let mut names = HashSet::from([FolderName::inbox()]);
        for name in folder_entries(&root)? {
            let shown = name.to_string_lossy().into_owned();
            // A directory without cur is no folder.
            match root.directory(&name).and_then(|directory| directory.directory("cur")) {
                Ok(_) => {}
                Err(error) if error.is_missing() => continue,
                Err(error) => {
                    maildir.refused.push(error);
                    continue;
                }
            }
            match folder_of(&shown[1..]) {
                Some(folder) if names.insert(folder.clone()) => {
                    let root = Arc::clone(&root);
                    maildir.folders.push(MaildirFolder { name: folder, root, directory: Some(name) });
                }
                _ => maildir.unnamed.push(shown),
            }
        }
        maildir.folders[1..].sort_by(|one, other| one.name.cmp(&other.name));
        Ok(maildir)
    }
}

/// Returns the names of the directories and links that may be folders.
fn folder_entries(root: &OpenDirectory) -> Result<Vec<OsString>, ArchiveError> {
    let (mut names, mut count) = (Vec::new(), 0);
    root.visit_entries(|DirectoryEntry { name, kind }| {
        count += 1;
        let may_be_folder = matches!(kind, EntryKind::Directory | EntryKind::Link);
        if may_be_folder && name.as_encoded_bytes().starts_with(b".") {
            names.push(name);
        }
        if count > MOST_MESSAGES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if count > MOST_MESSAGES {
        return Err(ArchiveError::form(root.path(), TOO_MANY));
    }
    Ok(names)
}

impl MaildirFolder {
    /// Lists the messages.
    ///
    /// # Errors
    /// If a directory or list cannot be read, or there are too many messages.
    pub fn files(&self) -> Result<MaildirFiles, ArchiveError> {
        let directory = match &self.directory {
            None => self.root.try_clone()?,
            Some(name) => self.root.directory(name)?,
        };
        let mut refused = Vec::new();
        let uids = unless_refused(uid_list(&directory), &mut refused)?.unwrap_or_default();
        let keywords = unless_refused(keyword_list(&directory), &mut refused)?.unwrap_or_default();
        let mut listing = Listing { uids: &uids, keywords: Arc::new(keywords), files: Vec::new(), refused };
        for place in ["new", "cur"] {
            match unless_refused(directory.directory(place).map_err(ArchiveError::from), &mut listing.refused) {
                Ok(Some(place)) => listing.read(place)?,
                Ok(None) => {}
                Err(ArchiveError::Entry(error)) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        let Listing { mut files, refused, .. } = listing;
        files.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(MaildirFiles { uid_validity: uids.validity, uid_next: uids.next, files, refused })
    }

    /// Returns the path, for reports.
    #[must_use]
    pub fn place(&self) -> String {
        let root = self.root.path();
        self.directory.as_ref().map_or(root.to_owned(), |name| root.join(name)).display().to_string()
    }
}

/// Notes a refusal instead of failing: what another user puts there must not stop the rest.
fn unless_refused<T>(
    outcome: Result<T, ArchiveError>,
    refused: &mut Vec<FileError>,
) -> Result<Option<T>, ArchiveError> {
    match outcome {
        Ok(read) => Ok(Some(read)),
        Err(ArchiveError::Entry(error)) if error.refusal().is_some() => {
            refused.push(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn uid_list(directory: &OpenDirectory) -> Result<UidList, ArchiveError> {
    let file = match directory.open_file(UID_LIST) {
        Err(error) if error.is_missing() => return Ok(UidList::default()),
        file => file?,
    };
    let path = directory.path().join(UID_LIST);
    if file.metadata().map_err(at(&path))?.len() > MAX_LIST {
        return Err(too_long(&path, MAX_LIST).into());
    }
    // It may grow while it is read.
    let mut limited = file.take(MAX_LIST + 1);
    let list = UidList::read(BufReader::with_capacity(PIECE, &mut limited)).map_err(at(&path))?;
    match list {
        Some(list) if limited.limit() > 0 => Ok(list),
        _ => Err(too_long(&path, MAX_LIST).into()),
    }
}

fn keyword_list(directory: &OpenDirectory) -> Result<Keywords, ArchiveError> {
    match directory.read_limited(KEYWORD_LIST, MAX_KEYWORDS) {
        Ok(bytes) => Ok(Keywords::read(&String::from_utf8_lossy(&bytes))),
        Err(error) if error.is_missing() => Ok(Keywords::default()),
        Err(error) => Err(error.into()),
    }
}

/// The files of a folder that were found so far.
struct Listing<'a> {
    uids: &'a UidList,
    keywords: Arc<Keywords>,
    files: Vec<MaildirFile>,
    refused: Vec<FileError>,
}

impl Listing<'_> {
    /// Adds the files of a directory.
    fn read(&mut self, directory: OpenDirectory) -> Result<(), ArchiveError> {
        let directory = Arc::new(directory);
        let mut is_full = false;
        directory.visit_entries(|entry| {
            is_full = self.files.len() + self.refused.len() >= MOST_MESSAGES;
            if is_full {
                return ControlFlow::Break(());
            }
            self.add(&directory, entry);
            ControlFlow::Continue(())
        })?;
        if is_full { Err(ArchiveError::form(directory.path(), TOO_MANY)) } else { Ok(()) }
    }

    fn add(&mut self, directory: &Arc<OpenDirectory>, DirectoryEntry { name, kind }: DirectoryEntry) {
        if kind == EntryKind::Directory || name.as_encoded_bytes().starts_with(b".") {
            return;
        }
        if let Some(refusal) = kind.refusal_as_file() {
            self.refused.push(FileError::Refused { path: directory.path().join(&name), refusal });
            return;
        }
        let key = key_of(&name.to_string_lossy());
        self.files.push(MaildirFile {
            directory: Arc::clone(directory),
            name: name.into_boxed_os_str(),
            keywords: Arc::clone(&self.keywords),
            key,
            uid: self.uids.uid_of(key),
        });
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
    /// If the file is refused, cannot be read, or is gone because another program moved it.
    pub fn read(&self, settings: &ReadSettings) -> Result<ArchivedMessage, ArchiveError> {
        let path = self.directory.path().join(&*self.name);
        let mut file = self.directory.open_file(&*self.name)?;
        let metadata = file.metadata().map_err(at(&path))?;
        let modified = metadata.modified().ok().and_then(|time| jiff::Timestamp::try_from(time).ok());
        let name = self.name.to_string_lossy();
        // The size with CRLF, which our own export writes too: if it is that of the file, nothing is to be converted.
        let form = if named_size(&name, "W=") == Some(metadata.len()) { Form::Verbatim } else { Form::Lines };
        // A conversion never makes a message shorter.
        let content = match metadata.len() > settings.max_message_bytes as u64 {
            true => None,
            false => content(&mut file, &path, form, settings)?,
        };
        Ok(ArchivedMessage {
            place: self.place(),
            key: self.key,
            uid: self.uid,
            flags: self.flags(),
            special_use: None,
            internal_date: modified.map(|time| Timestamp::from_millis(time.as_millisecond())),
            content,
        })
    }

    /// Returns the flags that the name has.
    #[must_use]
    pub fn flags(&self) -> Flags {
        of_letters(letters(&self.name.to_string_lossy()), &self.keywords)
    }

    /// Returns the path, for reports.
    #[must_use]
    pub fn place(&self) -> String {
        self.directory.path().join(&*self.name).display().to_string()
    }

    /// Files without a UID come last, oldest first.
    fn order(&self) -> (bool, Option<u32>, u64, &OsStr) {
        (self.uid.is_none(), self.uid, seconds(&self.name.to_string_lossy()), &self.name)
    }
}

fn content(file: &mut File, path: &Path, form: Form, settings: &ReadSettings) -> Result<Option<Blob>, ArchiveError> {
    let mut filling = Filling::new(settings.buffer.writer(), settings.max_message_bytes);
    let (mut lines, mut piece) = (WithCrlf::new(form), vec![0; PIECE]);
    // The file may grow while it is read.
    let mut limited = file.take((settings.max_message_bytes as u64).saturating_add(1));
    loop {
        let length = limited.read(&mut piece).map_err(at(path))?;
        if length == 0 {
            return Ok(filling.finish()?);
        }
        lines.push(&piece[..length], &mut |bytes| filling.push(bytes))?;
    }
}
