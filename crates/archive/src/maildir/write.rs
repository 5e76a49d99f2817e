//! Writes a Maildir.

use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use mailapi_model::{FolderName, Timestamp};

use super::flags::{Keywords, to_letters};
use super::lists::UidList;
use super::{FOLDER_MARK, KEYWORD_LIST, UID_LIST};
use crate::error::at;
use crate::line_ends::{Form, PIECE, write_with_lf};
use crate::{ArchiveError, ExportedMessage, level_name};

/// Mail is for its owner alone.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Writes a folder of a Maildir, message by message.
#[derive(Debug)]
pub struct MaildirWriter {
    directory: PathBuf,
    uid_validity: u32,
    keywords: Keywords,
    uids: BufWriter<File>,
}

impl MaildirWriter {
    /// Creates a folder below the directory, which is the INBOX itself.
    ///
    /// # Errors
    /// If that fails, or if the folder exists.
    pub fn create(root: &Path, name: &FolderName, uid_validity: u32, uid_next: u32) -> Result<Self, ArchiveError> {
        let is_inbox = *name == FolderName::inbox();
        let directory = if is_inbox { root.to_owned() } else { root.join(format!(".{}", level_name(name))) };
        for part in ["cur", "new", "tmp"] {
            let path = directory.join(part);
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&path).map_err(at(&path))?;
        }
        if !is_inbox {
            create(&directory.join(FOLDER_MARK))?;
        }
        let path = directory.join(UID_LIST);
        let mut uids = BufWriter::new(create(&path)?);
        uids.write_all(UidList::header(uid_validity, uid_next).as_bytes()).map_err(at(&path))?;
        Ok(Self { directory, uid_validity, keywords: Keywords::default(), uids })
    }

    /// Writes a message. Returns the number of its keywords that have no letter.
    ///
    /// # Errors
    /// If that fails.
    pub fn add(&mut self, message: &ExportedMessage) -> Result<usize, ArchiveError> {
        let (form, lines) = Form::of(&message.content).map_err(at(&self.directory))?;
        let octets = message.content.len() as u64;
        let size = if form == Form::Lines { octets - lines } else { octets };
        let (letters, lost) = to_letters(&message.flags, &mut self.keywords);
        let millis = message.internal_date.as_millis();
        let (seconds, part) = (millis.div_euclid(1000), millis.rem_euclid(1000));
        let unique =
            format!("{seconds}.M{part:03}000V{}U{}.mailapi,S={size},W={octets}", self.uid_validity, message.uid);
        let name = format!("{unique}:2,{letters}");
        let (written, path) = (self.directory.join("tmp").join(&unique), self.directory.join("cur").join(&name));
        self.write(&written, message, form)?;
        fs::rename(&written, &path).map_err(at(&path))?;
        let list = self.directory.join(UID_LIST);
        writeln!(self.uids, "{} :{name}", message.uid).map_err(at(&list))?;
        Ok(lost)
    }

    fn write(&self, path: &Path, message: &ExportedMessage, form: Form) -> Result<(), ArchiveError> {
        let mut file = create(path)?;
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
        self.uids.flush().map_err(at(&self.directory.join(UID_LIST)))?;
        let path = self.directory.join(KEYWORD_LIST);
        create(&path)?.write_all(self.keywords.list().as_bytes()).map_err(at(&path))
    }
}

fn system_time(at: Timestamp) -> std::time::SystemTime {
    let from_epoch = Duration::from_millis(at.as_millis().unsigned_abs());
    if at.as_millis() < 0 { UNIX_EPOCH - from_epoch } else { UNIX_EPOCH + from_epoch }
}

/// Creates a file for its owner alone.
pub(crate) fn create(path: &Path) -> Result<File, ArchiveError> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path).map_err(at(path))
}
