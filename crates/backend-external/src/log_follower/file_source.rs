//! Reads a log file across rotations. The follower's module document shows the states.
//!
//! The open file handle survives a rename. After a restart the file is found by its inode or by its first bytes. A
//! part that cannot be found is reported as a gap.

use std::fs;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use mailapi_model::{Clock, Timestamp};

use super::FollowerError;
use super::opened::{Opened, Refilled, begins_with, first_line};
use super::place::{FileId, FilePlace, Place};
use super::report::GapKind;
use super::rotated_files::{Form, LogFile, disorder, is_one_missing, log_files};
use super::settings::FileSettings;
use super::source::{Next, Noticed, Record, Source};
use super::timestamp::TimeReader;

/// How often the directory is read again if files are renamed meanwhile.
const LOOKS: usize = 8;

/// Reads a log file and its rotated predecessors.
pub(super) struct FileSource {
    settings: FileSettings,
    max_line: usize,
    times: TimeReader,
    clock: Arc<dyn Clock>,
    opened: Opened,
    /// The time of the newest line that was returned.
    at: Option<Timestamp>,
    /// The end of the previous file, until a line of this one was read. Before that, this file has no first bytes to
    /// identify it by.
    left: Option<FilePlace>,
    /// The open file is complete: the remaining bytes are its last line.
    is_final: bool,
    /// After a gap: older lines were already read.
    skip_before: Option<Timestamp>,
    gaps: Vec<Noticed>,
}

/// Everything needed to open the log at any position.
#[derive(Clone)]
pub(super) struct FileLog {
    pub(super) settings: FileSettings,
    pub(super) max_line: usize,
    pub(super) times: TimeReader,
    pub(super) clock: Arc<dyn Clock>,
}

impl FileLog {
    /// Opens the current file at its beginning.
    pub(super) fn beginning(&self) -> Result<FileSource, FollowerError> {
        let files = self.files()?;
        match files.last() {
            Some(file) if file.rotation.is_none() => Ok(self.source(self.open(file, 0)?, None)),
            _ => Err(self.missing()),
        }
    }

    /// Opens the log at a stored position. If that no longer exists, continues after it and reports a gap.
    pub(super) fn resume(&self, place: &FilePlace) -> Result<FileSource, FollowerError> {
        for _ in 0..LOOKS {
            let files = self.files()?;
            let Some(file) = self.holding(&files, place)? else { return self.after_gap(place) };
            let opened = match Opened::open(file.clone(), place.offset, self.settings.head_bytes) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|error| self.unreadable(&error))?,
            };
            if opened.file.id == file.id {
                // Until a line is read, the position is the requested one, whatever the file's name is now.
                return Ok(self.source(opened, Some(*place)));
            }
        }
        Err(self.rotating())
    }

    /// Opens the oldest file needed to have at least `bytes` before the position, as far as they exist. Also returns
    /// whether no older file exists.
    pub(super) fn earlier(&self, place: &FilePlace, bytes: u64) -> Result<Option<(FileSource, bool)>, FollowerError> {
        let files = self.in_order()?;
        let Some(holding) = self.holding(&files, place)? else { return Ok(None) };
        let index = files.iter().position(|file| file.id == holding.id).unwrap_or(0);
        let (mut first, mut sum) = (index, place.offset);
        while sum < bytes && first > 0 && files[first - 1].form != Form::Unreadable {
            first -= 1;
            sum = sum.saturating_add(files[first].length);
        }
        Ok(Some((self.source(self.open(&files[first], 0)?, None), first == 0)))
    }

    /// Whether rotated files exist.
    pub(super) fn has_older_files(&self) -> Result<bool, FollowerError> {
        Ok(self.files()?.iter().any(|file| file.rotation.is_some()))
    }

    /// Returns the file that contains a position: the same inode with the same first bytes, otherwise a copy,
    /// preferably a plain one.
    fn holding<'a>(&self, files: &'a [LogFile], place: &FilePlace) -> Result<Option<&'a LogFile>, FollowerError> {
        let mut copies: Vec<&LogFile> = Vec::new();
        for file in files {
            if begins_with(file, place.head).map_err(|error| self.unreadable(&error))? {
                if file.id == place.id && (file.form != Form::Plain || file.length >= place.offset) {
                    return Ok(Some(file));
                }
                copies.push(file);
            }
        }
        let is_whole = |file: &&&LogFile| file.form == Form::Plain && file.length >= place.offset;
        let compressed = |file: &&&LogFile| file.form == Form::Gzip;
        let found = copies.iter().find(is_whole).or_else(|| copies.iter().find(compressed)).or(copies.first());
        Ok(found.copied())
    }

    fn after_gap(&self, place: &FilePlace) -> Result<FileSource, FollowerError> {
        let files = &self.in_order()?[..];
        let Some(newest) = files.last() else { return Err(self.missing()) };
        // Without a file that begins later, the current one may hold lines that were already read.
        let (file, skip_before) = match self.first_newer(files, place.at) {
            Some(file) => (file, None),
            None => (newest, Some(place.at)),
        };
        let mut source = self.source(self.open(file, 0)?, Some(*place));
        source.skip_before = skip_before;
        let compressed = if files.iter().any(|file| file.form == Form::Unreadable) {
            "; a rotated file is compressed in another format than gzip"
        } else {
            ""
        };
        let detail = format!("the file that was read up to byte {} is gone{compressed}", place.offset);
        source.gaps.push((GapKind::FileVanished, detail));
        Ok(source)
    }

    /// Returns the oldest file that begins at or after `than`.
    fn first_newer<'a>(&self, files: &'a [LogFile], than: Timestamp) -> Option<&'a LogFile> {
        files.iter().find(|file| self.begun_at(file).is_some_and(|at| at >= than))
    }

    /// Returns the time of a file's first line; `None` if it cannot be read.
    fn begun_at(&self, file: &LogFile) -> Option<Timestamp> {
        let line = first_line(file, self.max_line)?;
        let line = String::from_utf8_lossy(&line);
        let (at, _) = self.times.clone().read(&line, self.clock.now(), None)?;
        Some(at)
    }

    fn source(&self, opened: Opened, left: Option<FilePlace>) -> FileSource {
        FileSource {
            settings: self.settings.clone(),
            max_line: self.max_line,
            times: self.times.clone(),
            clock: self.clock.clone(),
            opened,
            at: left.map(|left| left.at),
            left,
            is_final: false,
            skip_before: None,
            gaps: Vec::new(),
        }
    }

    fn open(&self, file: &LogFile, offset: u64) -> Result<Opened, FollowerError> {
        Opened::open(file.clone(), offset, self.settings.head_bytes).map_err(|error| self.unreadable(&error))
    }

    /// Returns all files, oldest first, if their order is certain.
    fn in_order(&self) -> Result<Vec<LogFile>, FollowerError> {
        let files = self.files()?;
        match disorder(&files) {
            Some(reason) => Err(FollowerError(format!("{}: {reason}", self.settings.path.display()))),
            None => Ok(files),
        }
    }

    /// Whether this is the current file, so that none follows it.
    fn is_written_now(&self, id: FileId) -> bool {
        fs::metadata(&self.settings.path).is_ok_and(|written| FileId::of(&written) == id)
    }

    /// Returns all files in the order of their names, without opening them.
    fn files(&self) -> Result<Vec<LogFile>, FollowerError> {
        log_files(&self.settings).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.missing(),
            _ => self.unreadable(&error),
        })
    }

    /// Returns the error for a log that is missing or is not a regular file (a FIFO, for example).
    fn missing(&self) -> FollowerError {
        if fs::metadata(&self.settings.path).is_ok_and(|there| !there.is_file()) {
            return FollowerError(format!("{} is not a regular file", self.settings.path.display()));
        }
        FollowerError::missing(&self.settings.path)
    }

    fn unreadable(&self, error: &io::Error) -> FollowerError {
        FollowerError::of(self.settings.path.display(), error)
    }

    fn rotating(&self) -> FollowerError {
        FollowerError(format!("{} is being rotated", self.settings.path.display()))
    }
}

impl FileSource {
    fn log(&self) -> FileLog {
        FileLog {
            settings: self.settings.clone(),
            max_line: self.max_line,
            times: self.times.clone(),
            clock: self.clock.clone(),
        }
    }

    fn next_range(&mut self) -> Result<Option<Range<usize>>, FollowerError> {
        loop {
            if let Some(line) = self.opened.next_line(self.max_line) {
                return Ok(Some(line));
            }
            if self.is_final
                && let Some(line) = self.opened.torn_line()
            {
                self.gaps.push((GapKind::TornLine, format!("byte {}", self.opened.offset)));
                return Ok(Some(line));
            }
            if !self.refill()? && !self.go_on()? {
                return Ok(None);
            }
        }
    }

    /// Reads more of the open file, or of its copy after a truncation. Returns false at the end.
    fn refill(&mut self) -> Result<bool, FollowerError> {
        let refilled = self.opened.refill(self.settings.read_bytes);
        match refilled.map_err(|error| self.log().unreadable(&error))? {
            Refilled::More => Ok(true),
            Refilled::End => Ok(false),
            Refilled::Replaced => self.go_on_in_copy().map(|()| true),
        }
    }

    /// Continues after a truncation: in a copy of the file, or with a gap.
    fn go_on_in_copy(&mut self) -> Result<(), FollowerError> {
        let log = self.log();
        let place = self.end_of_opened();
        let files = log.files()?;
        let copies: Vec<LogFile> = files.iter().filter(|file| file.id != place.id).cloned().collect();
        if let Some(copy) = log.holding(&copies, &place)? {
            self.opened = log.open(copy, place.offset)?;
        } else {
            let detail = format!("the file was truncated at byte {} or before, without a copy", place.offset);
            self.gaps.push((GapKind::Truncated, detail));
            let current = files.last().filter(|file| file.rotation.is_none()).ok_or_else(|| log.missing())?;
            self.opened = log.open(current, 0)?;
        }
        self.left = Some(place);
        self.is_final = false;
        Ok(())
    }

    /// Continues in the next file. Returns false if there is none yet.
    fn go_on(&mut self) -> Result<bool, FollowerError> {
        let log = self.log();
        // The usual case, so do not open any other file for it.
        if log.is_written_now(self.opened.file.id) {
            return Ok(false);
        }
        for _ in 0..LOOKS {
            let files = log.in_order()?;
            let Some((next, gap)) = self.successor(&log, &files)? else { return Ok(false) };
            if next.rotation.is_none() && next.length == 0 {
                return Ok(false);
            }
            // The writer has left the open file, so its last lines are complete now.
            if self.refill()? {
                return Ok(true);
            }
            let opened = match Opened::open(next.clone(), 0, self.settings.head_bytes) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|error| log.unreadable(&error))?,
            };
            // If files were renamed meanwhile, the opened file may not be the next one.
            let order = |files: &[LogFile]| files.iter().map(|file| file.id).collect::<Vec<_>>();
            if order(&log.files()?) != order(&files) || opened.file.id != next.id {
                continue;
            }
            // The open file ends within a line: return that line before the next file.
            if self.opened.has_torn_line() && !self.is_final {
                self.is_final = true;
                return Ok(true);
            }
            self.gaps.extend(gap);
            self.left = Some(self.end_of_opened());
            self.opened = opened;
            self.is_final = false;
            return Ok(true);
        }
        Err(log.rotating())
    }

    /// Returns the file after the open one, and a gap if a file between them is missing.
    fn successor(&self, log: &FileLog, files: &[LogFile]) -> Result<Option<(LogFile, Option<Noticed>)>, FollowerError> {
        let own = &self.opened.file;
        let place = self.end_of_opened();
        let index = match files.iter().position(|file| file.id == own.id) {
            Some(index) => Some(index),
            None => {
                let copy = if place.head.length == 0 { None } else { log.holding(files, &place)? };
                copy.and_then(|copy| files.iter().position(|file| file.id == copy.id))
            }
        };
        let Some(index) = index else {
            // The open file was deleted.
            let current = files.last().filter(|file| file.rotation.is_none());
            let next = log.first_newer(files, self.at.unwrap_or(Timestamp::from_millis(0))).or(current);
            return Ok(next.map(|file| (file.clone(), None)));
        };
        let Some(next) = files.get(index + 1) else { return Ok(None) };
        let gap = is_one_missing(files, index).then(|| {
            let names = (files[index].path.display(), next.path.display());
            (GapKind::RotatedFileMissing, format!("between {} and {}", names.0, names.1))
        });
        Ok(Some((next.clone(), gap)))
    }

    /// Returns the position in the open file, or the end of the previous file if nothing was read yet.
    fn end_of_opened(&self) -> FilePlace {
        match self.left {
            Some(left) if self.opened.offset == 0 => left,
            _ => self.opened.place(self.at),
        }
    }

    /// Whether a line after a gap is older than the last one that was read.
    fn was_read_before(&mut self, line: &Range<usize>) -> bool {
        let Some(limit) = self.skip_before else { return false };
        let text = String::from_utf8_lossy(self.opened.bytes(line.clone()));
        let at = self.times.read(&text, self.clock.now(), None).map(|(at, _)| at);
        let is_older = at.is_none_or(|at| at < limit);
        if !is_older {
            self.skip_before = None;
        }
        is_older
    }
}

impl Source for FileSource {
    fn next(&mut self, at: Option<Timestamp>) -> Result<Option<Next<'_>>, FollowerError> {
        self.at = at.or(self.at);
        loop {
            let Some(line) = self.next_range()? else { return Ok(None) };
            if self.was_read_before(&line) {
                continue;
            }
            self.left = None;
            let (bytes, is_after_gap) = (self.opened.bytes(line), !self.gaps.is_empty());
            let record = Record::Line(bytes.strip_suffix(b"\r").unwrap_or(bytes));
            return Ok(Some(Next { record, is_after_gap }));
        }
    }

    fn place(&self, at: Option<Timestamp>) -> Place {
        match self.left {
            Some(left) => Place::File(FilePlace { at: at.unwrap_or(left.at), ..left }),
            None if self.opened.offset == 0 => Place::Beginning,
            None => Place::File(self.opened.place(at)),
        }
    }

    fn unread(&self) -> u64 {
        let log = self.log();
        let Ok(files) = log.files() else { return 0 };
        let Some(index) = files.iter().position(|file| file.id == self.opened.file.id) else { return 0 };
        let own = if files[index].form == Form::Plain { files[index].length } else { self.opened.offset };
        let later: u64 = files[index + 1..].iter().map(|file| file.length).sum();
        own.saturating_sub(self.opened.offset).saturating_add(later)
    }

    fn take_gaps(&mut self) -> Vec<Noticed> {
        std::mem::take(&mut self.gaps)
    }
}
