//! Reads the messages of a folder.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read, Take};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use mailapi_files::{DirectoryEntry, EntryKind, FileError, OpenDirectory};
use mailapi_imap::Flags;
use mailapi_model::{Blob, Timestamp};

use super::flags::{Keywords, of_letters};
use super::lists::{FileKeywords, MAX_LIST, UidList, key_of};
use super::{COURIER_KEYWORD_LIST, COURIER_KEYWORDS, COURIER_UID_LIST, KEYWORD_LIST, UID_LIST};
use crate::compression::Compression;
use crate::error::{at, too_long};
use crate::line_ends::{Filling, Form, PIECE, WithCrlf};
use crate::{ArchiveError, ArchivedMessage, MOST_MESSAGES, ReadSettings, SourceKey};

/// Maximum size of a list of keywords in bytes: 26 keywords that are longer than any mail program makes them.
const MAX_KEYWORDS: u64 = 64 * 1024;

pub(super) const TOO_MANY: &str = "has more than 10,000,000 entries";

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
    /// The list of keywords has all that file names can have; Dovecot's index may have more.
    pub may_lack_keywords: bool,
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

impl MaildirFiles {
    /// Lists the messages of a folder.
    pub(super) fn of(directory: &OpenDirectory) -> Result<Self, ArchiveError> {
        let mut refused = Vec::new();
        let uids = unless_refused(uid_list(directory), &mut refused)?.unwrap_or_default();
        let keywords = unless_refused(keyword_list(directory), &mut refused)?.unwrap_or_default();
        let may_lack_keywords = keywords.is_full();
        let of_files = file_keywords(directory, &mut refused)?;
        let keywords = Arc::new(keywords.with_files(of_files));
        let mut listing = Listing { uids: &uids, keywords, files: Vec::new(), refused };
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
        Ok(Self { uid_validity: uids.validity, uid_next: uids.next, files, refused, may_lack_keywords })
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
    for name in [UID_LIST, COURIER_UID_LIST] {
        match list_of(directory, name, |input| UidList::read(input)) {
            Err(ArchiveError::Entry(error)) if error.is_missing() => {}
            list => return list,
        }
    }
    Ok(UidList::default())
}

/// Reads a list line by line; the reader returns `None` for one with too many lines.
fn list_of<T>(
    directory: &OpenDirectory,
    name: &str,
    read: impl FnOnce(BufReader<&mut Take<File>>) -> io::Result<Option<T>>,
) -> Result<T, ArchiveError> {
    let (file, path) = (directory.open_file(name)?, directory.path().join(name));
    if file.metadata().map_err(at(&path))?.len() > MAX_LIST {
        return Err(too_long(&path, MAX_LIST).into());
    }
    // It may grow while it is read.
    let mut limited = file.take(MAX_LIST + 1);
    let list = read(BufReader::with_capacity(PIECE, &mut limited)).map_err(at(&path))?;
    match list {
        Some(list) if limited.limit() > 0 => Ok(list),
        _ => Err(too_long(&path, MAX_LIST).into()),
    }
}

/// Reads Courier's list, which names the keywords of each file. Until Courier opens the folder again, changed keywords of a
/// message are in a file of their own.
fn file_keywords(directory: &OpenDirectory, refused: &mut Vec<FileError>) -> Result<FileKeywords, ArchiveError> {
    let opened = directory.directory(COURIER_KEYWORDS).map_err(ArchiveError::from);
    let Some(directory) = unless_refused(unless_missing(opened), refused)?.flatten() else {
        return Ok(FileKeywords::default());
    };
    let list = list_of(&directory, COURIER_KEYWORD_LIST, |input| FileKeywords::read(input));
    let mut keywords = unless_refused(unless_missing(list), refused)?.flatten().unwrap_or_default();
    for (_, name, message) in keyword_changes(&directory)? {
        let words = directory.read_limited(&name, MAX_KEYWORDS).map_err(ArchiveError::from);
        if let Some(words) = unless_refused(unless_missing(words), refused)?.flatten() {
            keywords.change(message, &String::from_utf8_lossy(&words));
        }
    }
    Ok(keywords)
}

/// Lists the files with keywords of one message, each with its age and the message. Later ones replace earlier ones.
fn keyword_changes(directory: &OpenDirectory) -> Result<Vec<(u64, OsString, SourceKey)>, ArchiveError> {
    let mut changes = Vec::new();
    directory.visit_entries(|DirectoryEntry { name, .. }| {
        changes.extend(keyword_change(&name.to_string_lossy()).map(|(age, message)| (age, name, message)));
        if changes.len() > MOST_MESSAGES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if changes.len() > MOST_MESSAGES {
        return Err(ArchiveError::form(directory.path(), TOO_MANY));
    }
    changes.sort_unstable_by_key(|(age, ..)| *age);
    Ok(changes)
}

/// Reads the name of such a file: that of the message. A number before it makes it older than one without.
fn keyword_change(name: &str) -> Option<(u64, SourceKey)> {
    if name == COURIER_KEYWORD_LIST {
        return None;
    }
    let Some(hidden) = name.strip_prefix('.') else { return Some((u64::MAX, key_of(name))) };
    let (number, message) = hidden.split_once('.')?;
    Some((number.parse().ok()?, key_of(message)))
}

/// Returns `None` for an entry that does not exist.
fn unless_missing<T>(outcome: Result<T, ArchiveError>) -> Result<Option<T>, ArchiveError> {
    match outcome {
        Err(ArchiveError::Entry(error)) if error.is_missing() => Ok(None),
        outcome => outcome.map(Some),
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

/// Returns the letters after `:2,`. Other fields may follow a comma.
fn letters(file: &str) -> &str {
    let fields = file.split_once(":2,").map_or("", |(_, fields)| fields);
    fields.split(',').next().unwrap_or_default()
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
        let content = match Compression::of(&mut file).map_err(at(&path))? {
            _ if metadata.len() > settings.max_message_bytes as u64 => None,
            Compression::None => content(&mut file, &path, form, settings)?,
            // The size in the name is that of the message, and never that of the file.
            Compression::Gzip => content(&mut MultiGzDecoder::new(file), &path, Form::Lines, settings)?,
            Compression::Other(reason) => return Err(ArchiveError::form(&path, reason)),
        };
        let (flags, lost_flags) = self.flags();
        Ok(ArchivedMessage {
            place: self.place(),
            key: self.key,
            uid: self.uid,
            flags,
            lost_flags,
            special_use: None,
            internal_date: modified.map(|time| Timestamp::from_millis(time.as_millisecond())),
            content,
        })
    }

    /// Returns the flags that the name and the lists have, and the number of those without a meaning.
    #[must_use]
    pub fn flags(&self) -> (Flags, u64) {
        of_letters(letters(&self.name.to_string_lossy()), self.key, &self.keywords)
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

pub(crate) fn content(
    file: &mut impl Read,
    path: &Path,
    form: Form,
    settings: &ReadSettings,
) -> Result<Option<Blob>, ArchiveError> {
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
