//! Writes a Maildir.

use std::fs::{File, FileTimes};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use mailapi_files::OpenDirectory;
use mailapi_model::{FolderName, Timestamp};

use super::flags::{Keywords, to_letters};
use super::lists::UidList;
use super::{FOLDER_MARK, KEYWORD_LIST, SUBSCRIPTIONS, UID_LIST};
use crate::error::at;
use crate::folder_names::mark_of;
use crate::line_ends::{Form, PIECE, write_with_lf};
use crate::{ArchiveError, ExportedMessage};

/// Mail is for its owner alone.
const DIRECTORY_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;

/// Writes a folder of a Maildir, message by message.
#[derive(Debug)]
pub struct MaildirWriter {
    directory: OpenDirectory,
    current: OpenDirectory,
    temporary: OpenDirectory,
    uid_validity: u32,
    keywords: Keywords,
    uids: BufWriter<File>,
}

impl MaildirWriter {
    /// Creates a folder below the directory, which is the INBOX itself. `directory_name` is one of [`directory_names`].
    ///
    /// [`directory_names`]: crate::directory_names
    ///
    /// # Errors
    /// If that fails, or if the folder exists.
    pub fn create(
        root: &OpenDirectory,
        (name, directory_name): (&FolderName, &str),
        uid_validity: u32,
        uid_next: u32,
    ) -> Result<Self, ArchiveError> {
        let directory = if *name == FolderName::inbox() {
            root.try_clone()?
        } else {
            let directory = root.create_directory(format!(".{directory_name}"), DIRECTORY_MODE)?;
            let mut mark = directory.create_file(FOLDER_MARK, FILE_MODE)?;
            let path = directory.path().join(FOLDER_MARK);
            mark.write_all(mark_of(name, directory_name).as_bytes()).map_err(at(&path))?;
            directory
        };
        let part = |name| directory.directory_or_create(name, DIRECTORY_MODE);
        let (current, temporary) = (part("cur")?, part("tmp")?);
        part("new")?;
        let mut uids = BufWriter::new(directory.create_file(UID_LIST, FILE_MODE)?);
        let header = UidList::header(uid_validity, uid_next);
        uids.write_all(header.as_bytes()).map_err(at(&directory.path().join(UID_LIST)))?;
        Ok(Self { directory, current, temporary, uid_validity, keywords: Keywords::default(), uids })
    }

    /// Writes a message. Returns the number of its keywords that have no letter.
    ///
    /// # Errors
    /// If that fails.
    pub fn add(&mut self, message: &ExportedMessage) -> Result<usize, ArchiveError> {
        let (form, lines) = Form::of(&message.content).map_err(at(self.directory.path()))?;
        let octets = message.content.len() as u64;
        let size = if form == Form::Lines { octets - lines } else { octets };
        let (letters, lost) = to_letters(&message.flags, &mut self.keywords);
        let millis = message.internal_date.as_millis();
        let (seconds, part) = (millis.div_euclid(1000), millis.rem_euclid(1000));
        let unique =
            format!("{seconds}.M{part:03}000V{}U{}.mailapi,S={size},W={octets}", self.uid_validity, message.uid);
        let name = format!("{unique}:2,{letters}");
        self.write(&unique, message, form)?;
        self.temporary.rename(&unique, &self.current, &name)?;
        let list = self.directory.path().join(UID_LIST);
        writeln!(self.uids, "{} :{name}", message.uid).map_err(at(&list))?;
        Ok(lost)
    }

    fn write(&self, name: &str, message: &ExportedMessage, form: Form) -> Result<(), ArchiveError> {
        let mut file = self.temporary.create_file(name, FILE_MODE)?;
        let path: &Path = &self.temporary.path().join(name);
        let written = match form {
            Form::Lines => write_with_lf(&message.content, &mut file),
            Form::Verbatim => message.content.pieces(PIECE).try_for_each(|piece| file.write_all(&piece?)),
        };
        written.map_err(at(path))?;
        // Mail servers read the time of receipt from the file.
        file.set_times(FileTimes::new().set_modified(system_time(message.internal_date))).map_err(at(path))
    }

    /// Completes the folder.
    ///
    /// # Errors
    /// If that fails.
    pub fn finish(mut self) -> Result<(), ArchiveError> {
        self.uids.flush().map_err(at(&self.directory.path().join(UID_LIST)))?;
        let mut list = self.directory.create_file(KEYWORD_LIST, FILE_MODE)?;
        list.write_all(self.keywords.list().as_bytes()).map_err(at(&self.directory.path().join(KEYWORD_LIST)))
    }
}

/// Writes the list of subscriptions, by the names of the directories.
///
/// # Errors
/// If that fails, or if the list exists.
pub fn write_subscriptions(root: &OpenDirectory, directory_names: &[String]) -> Result<(), ArchiveError> {
    let mut list = root.create_file(SUBSCRIPTIONS, FILE_MODE)?;
    let lines: String = directory_names.iter().map(|name| format!("{name}\n")).collect();
    list.write_all(lines.as_bytes()).map_err(at(&root.path().join(SUBSCRIPTIONS)))
}

fn system_time(at: Timestamp) -> std::time::SystemTime {
    let from_epoch = Duration::from_millis(at.as_millis().unsigned_abs());
    if at.as_millis() < 0 { UNIX_EPOCH - from_epoch } else { UNIX_EPOCH + from_epoch }
}
