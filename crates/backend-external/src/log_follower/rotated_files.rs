//! Lists a log file's rotated predecessors, oldest first.
//!
//! Their names follow one of several schemes: `mail.log.1`, `mail.log.2.gz` (logrotate), `mail.log-20261121.gz` (with
//! `dateext`), `mail-20261121.log` (with `extension`), `maillog.20261121-074529.gz` (`postfix logrotate`). Numbers that
//! count upward, so that the highest is the newest, are refused ([`disorder`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::place::FileId;
use super::settings::FileSettings;

/// The minimum number of digits of a date (`20261121`); fewer are a rotation number.
const DATE_DIGITS: usize = 8;
/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) id: FileId,
    /// Its length on disk.
    pub(super) length: u64,
    pub(super) form: Form,
    /// The part of the name after the log's own; `None` for the current file.
    pub(super) rotation: Option<Rotation>,
    modified: SystemTime,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Gzip,
    /// Compressed in an unsupported format: an unread rest is lost.
    Unreadable,
}

/// The rotation suffix of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rotation {
    /// Higher is older.
    Number(u32),
    /// In calendar order.
    Date(String),
    /// Ordered only by the time of the last change.
    Other,
}

/// Returns all files of the log, oldest first by their names. The current file, if it exists, is last.
pub(super) fn log_files(settings: &FileSettings) -> io::Result<Vec<LogFile>> {
    let path = &settings.path;
    let own_dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = settings.rotated_dir.as_deref().unwrap_or(own_dir);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let entry_name = entry.file_name();
        let Some((rotation, form)) = entry_name.to_str().and_then(|entry| rotation(name, entry)) else { continue };
        files.extend(log_file(entry.path(), Some(rotation), form)?);
    }
    leave_out_what_is_being_compressed(&mut files);
    sort(&mut files);
    files.extend(log_file(path.clone(), None, Form::Plain)?);
    Ok(files)
}

/// Returns `None` if the file no longer exists.
fn log_file(path: PathBuf, rotation: Option<Rotation>, form: Form) -> io::Result<Option<LogFile>> {
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let id = FileId::of(&metadata);
    let file = LogFile { path, id, length: metadata.len(), form, rotation, modified: metadata.modified()? };
    Ok(metadata.is_file().then_some(file))
}

/// Returns the rotation and format of `entry` if it is a predecessor of `name`.
fn rotation(name: &str, entry: &str) -> Option<(Rotation, Form)> {
    let (entry, form) = match entry.rsplit_once('.') {
        Some((stem, "gz")) => (stem, Form::Gzip),
        Some((stem, "xz" | "zst" | "bz2" | "lz4" | "Z")) => (stem, Form::Unreadable),
        _ => (entry, Form::Plain),
    };
    let suffix = entry.strip_prefix(name).or_else(|| {
        let (stem, extension) = name.rsplit_once('.')?;
        entry.strip_prefix(stem)?.strip_suffix(extension)?.strip_suffix('.')
    })?;
    let suffix = suffix.strip_prefix(['.', '-'])?;
    let digits = suffix.bytes().take_while(u8::is_ascii_digit).count();
    let rotation = match suffix.parse() {
        Ok(number) if digits == suffix.len() && digits < DATE_DIGITS => Rotation::Number(number),
        _ if digits >= 4 => Rotation::Date(suffix.to_owned()),
        _ => Rotation::Other,
    };
    Some((rotation, form))
}

/// Removes files that are being compressed: both forms exist then, and only the plain one is complete.
fn leave_out_what_is_being_compressed(files: &mut Vec<LogFile>) {
    let plain: Vec<PathBuf> =
        files.iter().filter(|file| file.form == Form::Plain).map(|file| file.path.clone()).collect();
    files.retain(|file| file.form == Form::Plain || !plain.contains(&file.path.with_extension("")));
}

fn sort(files: &mut [LogFile]) {
    let all = |is: fn(&Rotation) -> bool| files.iter().filter_map(|file| file.rotation.as_ref()).all(is);
    if all(|rotation| matches!(rotation, Rotation::Number(_))) {
        files.sort_by(|a, b| b.rotation.cmp(&a.rotation));
    } else if all(|rotation| matches!(rotation, Rotation::Date(_))) {
        files.sort_by(|a, b| a.rotation.cmp(&b.rotation));
    } else {
        files.sort_by(|a, b| a.modified.cmp(&b.modified).then_with(|| b.rotation.cmp(&a.rotation)));
    }
}

fn number(file: &LogFile) -> Option<u32> {
    match file.rotation {
        Some(Rotation::Number(number)) => Some(number),
        _ => None,
    }
}

/// Whether the numbers prove that a file is missing after the one at `index`. The newest is number 1, or 0 if logrotate
/// is configured to start there.
pub(super) fn is_one_missing(files: &[LogFile], index: usize) -> bool {
    let Some(older) = number(&files[index]) else { return false };
    files.get(index + 1).and_then(number).map_or(older > 1, |newer| newer + 1 != older)
}

/// Whether the times of the last change say that the numbers count upward. A clock that was set back contradicts the
/// numbers too, but then the current file is older than a rotated one. Reading in the wrong order would report old
/// lines again, so the operator has to decide.
fn counts_upward(files: &[LogFile]) -> bool {
    let numbered: Vec<&LogFile> = files.iter().filter(|file| number(file).is_some()).collect();
    let [oldest, _, ..] = numbered[..] else { return false };
    let is_contradicted = numbered.is_sorted_by(|older, newer| older.modified > newer.modified);
    is_contradicted && files.last().is_some_and(|last| last.rotation.is_some() || last.modified >= oldest.modified)
}

/// Returns why the files cannot be read in order, and the remedy; `None` if they can.
pub(super) fn disorder(files: &[LogFile]) -> Option<&'static str> {
    counts_upward(files).then_some(
        "the numbers of the rotated files count upward by their times; let logrotate number them (1 is the newest), or \
         name them by date (dateext)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(name: &str, entries: &[&str]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for entry in entries {
            fs::write(dir.path().join(entry), entry).unwrap();
        }
        let settings = FileSettings { path: dir.path().join(name), rotated_dir: None, head_bytes: 64, read_bytes: 64 };
        let files = log_files(&settings).unwrap();
        files.iter().map(|file| file.path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn other_files_of_the_directory_are_left_alone() {
        let entries = ["mail.log", "mail.err", "mail.log~", "syslog.1", "mail.info.1", "mail.logs.1", "xmail.log.1"];
        assert_eq!(names("mail.log", &entries), ["mail.log"]);
    }

    #[test]
    fn each_habit_is_put_in_order() {
        let numbered = ["mail.log.10.gz", "mail.log.2.gz", "mail.log", "mail.log.1"];
        assert_eq!(names("mail.log", &numbered), ["mail.log.10.gz", "mail.log.2.gz", "mail.log.1", "mail.log"]);
        let dated = ["mail.log-20261120.gz", "mail.log", "mail.log-20261119.gz"];
        assert_eq!(names("mail.log", &dated), ["mail.log-20261119.gz", "mail.log-20261120.gz", "mail.log"]);
        let extension = ["mail-20261120.log", "mail-20261119.log.gz", "mail.log"];
        assert_eq!(names("mail.log", &extension), ["mail-20261119.log.gz", "mail-20261120.log", "mail.log"]);
        let postfix = ["maillog.20261121-074530", "maillog.20261121-074529.gz", "maillog"];
        assert_eq!(names("maillog", &postfix), ["maillog.20261121-074529.gz", "maillog.20261121-074530", "maillog"]);
    }

    #[test]
    fn a_half_compressed_file_does_not_count() {
        let entries = ["mail.log.1", "mail.log.1.gz", "mail.log.2.gz"];
        assert_eq!(names("mail.log", &entries), ["mail.log.2.gz", "mail.log.1"]);
    }
}
