//! Searches a directory for mail.

use std::ffi::OsString;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use mailapi_files::{DirectoryEntry, EntryKind, FileError, OpenDirectory};
use mailapi_model::FolderName;

use super::entry_name::{DirectoryKind, FileKind, decoded};
use super::messages::{MessageFile, MessageForm, MessageReader};
use super::{MailFile, MailTree, TreeContent, TreeNote, TreeSource};
use crate::maildir::MaildirFolder;
use crate::mbox::begins_mbox;
use crate::{ArchiveError, MOST_MESSAGES, folder_of};

/// Directories below each other; each takes an open file while it is searched.
const MOST_LEVELS: usize = 32;

/// Bytes that show what a file is.
const SAMPLE: u64 = 4 * 1024;

/// Subdirectories of a Thunderbird profile that have mail.
const PROFILE: [&str; 2] = ["Mail", "ImapMail"];
/// A file that every profile has.
const PROFILE_MARK: &str = "prefs.js";

impl MailTree {
    /// Searches a directory and those in it.
    ///
    /// # Errors
    /// If a directory cannot be read, or there are too many entries.
    pub fn of(directory: Arc<OpenDirectory>) -> Result<Self, ArchiveError> {
        let is_apple = directory.path().extension().is_some_and(|extension| extension == "mbox");
        let mut search = Search { found: Self::default(), entries: 0 };
        search.level(&directory, &Level { names: Vec::new(), depth: 0, is_apple })?;
        Ok(search.found)
    }
}

/// A directory that is searched.
#[derive(Clone)]
struct Level {
    /// The levels of the folder.
    names: Vec<String>,
    depth: usize,
    /// It is of Apple Mail, whose folders have several directories.
    is_apple: bool,
}

impl Level {
    fn below(&self, name: Option<String>, is_apple: bool) -> Self {
        Self { names: self.names.iter().cloned().chain(name).collect(), depth: self.depth + 1, is_apple }
    }

    /// Returns the folder; `None` for the directory that was named.
    fn folder(&self, name: Option<&str>) -> Option<Result<FolderName, ()>> {
        let levels: Vec<&str> = self.names.iter().map(String::as_str).chain(name).collect();
        if levels.is_empty() { None } else { Some(levels.join("/").parse().map_err(drop)) }
    }
}

struct Search {
    found: MailTree,
    entries: usize,
}

/// The directories of a Maildir.
const PARTS: [&str; 3] = ["cur", "new", "tmp"];

fn is_maildir(directory: &OpenDirectory) -> bool {
    matches!(directory.facts("cur"), Ok(Some(facts)) if facts.kind == EntryKind::Directory)
}

const IS_MAILDIR: &str = "is a Maildir: import it with `mailapi import USER maildir DIRECTORY`";
const UNNAMED: &str = "no folder can have this name";

impl Search {
    fn level(&mut self, directory: &Arc<OpenDirectory>, level: &Level) -> Result<(), ArchiveError> {
        if level.depth > MOST_LEVELS {
            self.lose(directory.path().to_owned(), "has too many directories below each other");
            return Ok(());
        }
        let entries = self.entries_of(directory)?;
        let is_profile = entries.iter().any(|entry| entry.name == PROFILE_MARK);
        let is_maildir = is_maildir(directory);
        if is_maildir && level.names.is_empty() {
            self.lose(directory.path().to_owned(), IS_MAILDIR);
        }
        let (mut messages, mut numbered) = (Vec::new(), Vec::new());
        for DirectoryEntry { name, kind } in entries {
            match kind {
                EntryKind::Directory if is_profile => self.profile(directory, name, level)?,
                // They are read with it.
                EntryKind::Directory if is_maildir && PARTS.iter().any(|part| name == *part) => {}
                EntryKind::Directory => self.directory(directory, name, level)?,
                // Settings and mail are in different directories.
                EntryKind::File if is_profile => {}
                EntryKind::File => {
                    let file = MailFile { directory: Arc::clone(directory), name };
                    self.file(file, level, (&mut messages, &mut numbered))?;
                }
                kind => {
                    let refusal = kind.refusal_as_file();
                    let path = directory.path().join(&name);
                    self.found.refused.extend(refusal.map(|refusal| FileError::Refused { path, refusal }));
                }
            }
        }
        // Beside messages of MH, such a file is one of them.
        let of_directory = !messages.is_empty();
        for file in numbered {
            let name = file.name.to_string_lossy().into_owned();
            let folder = level.folder(Some(&name).filter(|_| !of_directory).map(String::as_str));
            self.add(file.path(), folder, TreeContent::Mbox(file));
        }
        if !messages.is_empty() {
            let content = TreeContent::Messages(MessageReader::of(directory, messages)?);
            self.add(directory.path().to_owned(), level.folder(None), content);
        }
        Ok(())
    }

    fn entries_of(&mut self, directory: &OpenDirectory) -> Result<Vec<DirectoryEntry>, ArchiveError> {
        let mut entries = Vec::new();
        directory.visit_entries(|entry| {
            self.entries += 1;
            entries.push(entry);
            if self.entries > MOST_MESSAGES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if self.entries > MOST_MESSAGES {
            return Err(ArchiveError::form(directory.path(), "has more than 10,000,000 entries"));
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Searches the directories of a profile that have mail.
    fn profile(&mut self, directory: &OpenDirectory, name: OsString, level: &Level) -> Result<(), ArchiveError> {
        if !PROFILE.iter().any(|known| name == *known) {
            return Ok(());
        }
        self.enter(directory, &name, &level.below(None, false))
    }

    fn directory(&mut self, directory: &OpenDirectory, name: OsString, level: &Level) -> Result<(), ArchiveError> {
        let shown = name.to_string_lossy().into_owned();
        match DirectoryKind::of(&shown, level.is_apple) {
            DirectoryKind::Folder(folder) => {
                let is_apple = level.is_apple || shown.ends_with(".mbox");
                self.enter(directory, &name, &level.below(Some(folder), is_apple))
            }
            DirectoryKind::Below(folder) => self.enter(directory, &name, &level.below(Some(folder), level.is_apple)),
            DirectoryKind::Part => self.enter(directory, &name, &level.below(None, level.is_apple)),
            DirectoryKind::Left(reason) => {
                self.found.left.push(TreeNote { path: directory.path().join(&name), reason });
                Ok(())
            }
        }
    }

    fn enter(&mut self, parent: &OpenDirectory, name: &OsString, level: &Level) -> Result<(), ArchiveError> {
        let directory = match parent.directory(name) {
            Ok(directory) => Arc::new(directory),
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => {
                self.found.refused.push(error);
                return Ok(());
            }
        };
        if is_maildir(&directory) && !level.names.is_empty() {
            self.maildir(&directory, level);
        }
        self.level(&directory, level)
    }

    fn maildir(&mut self, directory: &Arc<OpenDirectory>, level: &Level) {
        match level.folder(None) {
            Some(Ok(name)) => {
                let folder = MaildirFolder::of_directory(Arc::clone(directory), name.clone());
                self.add(directory.path().to_owned(), Some(Ok(name)), TreeContent::Maildir(folder));
            }
            _ => self.lose(directory.path().to_owned(), UNNAMED),
        }
    }

    /// Adds a file, or keeps it as a message or as an mbox file whose name is a number.
    fn file(
        &mut self,
        file: MailFile,
        level: &Level,
        (messages, numbered): (&mut Vec<MessageFile>, &mut Vec<MailFile>),
    ) -> Result<(), ArchiveError> {
        let (shown, path) = (file.name.to_string_lossy().into_owned(), file.path());
        match FileKind::of(&shown) {
            FileKind::Mbox(None) => self.add(path, level.folder(None), TreeContent::Mbox(file)),
            FileKind::Mbox(Some(name)) => {
                // Names of our own exports have dots between levels.
                let name = folder_of(&name).map_or(name, |folder| folder.to_string());
                self.add(path, level.folder(Some(&name)), TreeContent::Mbox(file));
            }
            FileKind::Message => messages.push(MessageFile { file, form: MessageForm::Plain }),
            FileKind::AppleMessage => messages.push(MessageFile { file, form: MessageForm::Apple }),
            FileKind::Foreign(reason) => self.lose(path, reason),
            FileKind::Numbered => match self.sample(&file)? {
                Some(sample) if begins_mbox(&sample) => numbered.push(file),
                Some(_) => messages.push(MessageFile { file, form: MessageForm::Plain }),
                None => {}
            },
            kind => self.unknown(file, kind, level)?,
        }
        Ok(())
    }

    /// Reads the beginning of a file; `None` if it is refused.
    fn sample(&mut self, file: &MailFile) -> Result<Option<Vec<u8>>, ArchiveError> {
        let mut sample = Vec::new();
        match file.open() {
            Ok(opened) => {
                opened.take(SAMPLE).read_to_end(&mut sample).map_err(crate::error::at(&file.path()))?;
                Ok(Some(sample))
            }
            Err(ArchiveError::Entry(error)) => {
                self.found.refused.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Decides by the content of a file.
    fn unknown(&mut self, file: MailFile, kind: FileKind, level: &Level) -> Result<(), ArchiveError> {
        let Some(sample) = self.sample(&file)? else { return Ok(()) };
        if begins_mbox(&sample) {
            let name = decoded(&file.name.to_string_lossy());
            self.add(file.path(), level.folder(Some(&name)), TreeContent::Mbox(file));
        } else if kind != FileKind::Index {
            let reason = if sample.is_empty() { "is empty" } else { "is not an mbox file" };
            self.found.left.push(TreeNote { path: file.path(), reason });
        }
        Ok(())
    }

    fn add(&mut self, path: PathBuf, folder: Option<Result<FolderName, ()>>, content: TreeContent) {
        match folder.transpose() {
            Ok(folder) => self.found.sources.push(TreeSource { folder, content }),
            Err(()) => self.lose(path, UNNAMED),
        }
    }

    fn lose(&mut self, path: PathBuf, reason: &'static str) {
        self.found.lost.push(TreeNote { path, reason });
    }
}
