//! Finds the folders of a Maildir: Maildir++, directories in directories (Dovecot's `LAYOUT=fs`), and those of KMail.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mailapi_files::{DirectoryEntry, EntryKind, FileError, OpenDirectory};
use mailapi_imap::decode_name;
use mailapi_model::FolderName;

use super::FOLDER_MARK;
use super::read::{MaildirFiles, TOO_MANY};
use crate::folder_names::named_in_mark;
use crate::{ArchiveError, MOST_MESSAGES, folder_of};

/// Directories below each other; each takes an open file while it is searched.
const MOST_LEVELS: usize = 32;

/// Folders of a Maildir. A mailbox has fewer.
const MOST_FOLDERS: usize = 10_000;

/// The directories of messages.
const PARTS: [&str; 3] = ["cur", "new", "tmp"];

/// Directories of a dbox, Dovecot's own format.
const DBOX: [&str; 2] = ["dbox-Mails", "mailboxes"];

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
    /// Its directory below the root; empty for INBOX.
    directory: PathBuf,
}

impl Maildir {
    /// Finds the folders of a Maildir: the directory itself is INBOX, and `.Projects.2026`, `Projects/2026` and
    /// `.Projects.directory/2026` are `Projects/2026`.
    ///
    /// # Errors
    /// If the directory cannot be read, or has no folders.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let root = Arc::new(OpenDirectory::open(path)?);
        let mut search = Search::of(&root);
        if has_messages(&root)? {
            search.add(FolderName::inbox(), PathBuf::new());
        }
        search.level(&root, &Level { directory: PathBuf::new(), names: Vec::new() })?;
        let mut maildir = search.found;
        if maildir.folders.is_empty() && maildir.refused.is_empty() {
            let is_dbox = DBOX.iter().any(|name| matches!(root.facts(name), Ok(Some(_))));
            return Err(ArchiveError::form(path, if is_dbox { IS_DBOX } else { IS_NO_MAILDIR }));
        }
        maildir.folders.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(maildir)
    }
}

const IS_NO_MAILDIR: &str = "is not a Maildir: it has no directory cur, and neither have the directories in it";
const IS_DBOX: &str = "is a dbox, which only Dovecot reads: import it from Dovecot by IMAP, or convert it with \
     doveadm backup -u USER maildir:DIRECTORY";

/// Returns whether the directory is a folder.
fn has_messages(directory: &OpenDirectory) -> Result<bool, FileError> {
    match directory.directory("cur") {
        Ok(_) => Ok(true),
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(error),
    }
}

/// A directory that is searched.
struct Level {
    /// Its path below the root.
    directory: PathBuf,
    /// The levels of the folder that it is.
    names: Vec<String>,
}

/// A directory that may be a folder, have folders, or both.
struct Place {
    names: Vec<String>,
    is_folder: bool,
    has_folders: bool,
}

struct Search<'a> {
    root: &'a Arc<OpenDirectory>,
    taken: HashSet<FolderName>,
    found: Maildir,
}

impl<'a> Search<'a> {
    fn of(root: &'a Arc<OpenDirectory>) -> Self {
        let found = Maildir { folders: Vec::new(), unnamed: Vec::new(), refused: Vec::new() };
        Self { root, taken: HashSet::new(), found }
    }

    /// Searches the entries of a directory.
    fn level(&mut self, directory: &OpenDirectory, level: &Level) -> Result<(), ArchiveError> {
        for DirectoryEntry { name, kind } in folder_entries(directory)? {
            let Some(place) = place_of(&name, level) else { continue };
            let path = level.directory.join(&name);
            let opened = directory.directory(&name).and_then(|opened| Ok((has_messages(&opened)?, opened)));
            match opened {
                Ok((has_messages, opened)) => {
                    if has_messages && place.is_folder {
                        self.named(&opened, &place, path.clone());
                    }
                    if place.has_folders && place.names.len() < MOST_LEVELS {
                        self.level(&opened, &Level { directory: path, names: place.names })?;
                    }
                }
                // The entry is gone.
                Err(error) if error.is_missing() => {}
                // Links of scripts and settings are beside the folders.
                Err(_) if kind == EntryKind::Link && name.as_encoded_bytes().starts_with(b"dovecot") => {}
                Err(error) => self.found.refused.push(error),
            }
            if self.found.folders.len() > MOST_FOLDERS {
                return Err(ArchiveError::form(self.root.path(), "has more than 10,000 folders"));
            }
        }
        Ok(())
    }

    fn named(&mut self, opened: &OpenDirectory, place: &Place, path: PathBuf) {
        // Our own exports keep there a name that no directory of a Maildir++ can have.
        let marked = opened.read_limited(FOLDER_MARK, MAX_MARK).ok().and_then(|mark| named_in_mark(&mark));
        match marked.or_else(|| place.names.join("/").parse().ok()) {
            Some(name) if !self.taken.contains(&name) => self.add(name, path),
            _ => self.found.unnamed.push(path.display().to_string()),
        }
    }

    fn add(&mut self, name: FolderName, directory: PathBuf) {
        self.taken.insert(name.clone());
        self.found.folders.push(MaildirFolder { name, root: Arc::clone(self.root), directory });
    }
}

/// Maximum length of the mark of a folder in bytes.
const MAX_MARK: u64 = 1024;

/// Returns what a directory is by its name.
fn place_of(name: &OsStr, level: &Level) -> Option<Place> {
    let shown = name.to_string_lossy();
    let below = |name: &str| [&level.names[..], &[name.to_owned()]].concat();
    if PARTS.contains(&&*shown) {
        return None;
    }
    let Some(hidden) = shown.strip_prefix('.') else {
        let decoded = decode_name(shown.as_bytes()).unwrap_or_else(|| shown.clone().into_owned());
        return Some(Place { names: below(&decoded), is_folder: true, has_folders: true });
    };
    if let Some(parent) = hidden.strip_suffix(".directory").filter(|parent| !parent.is_empty()) {
        return Some(Place { names: below(parent), is_folder: false, has_folders: true });
    }
    // An impossible name stays impossible.
    let names = folder_of(hidden).map_or_else(|| vec![String::new()], |folder| vec![folder.to_string()]);
    Some(Place { names: [&level.names[..], &names].concat(), is_folder: true, has_folders: false })
}

/// Returns the directories and links that may be folders.
fn folder_entries(directory: &OpenDirectory) -> Result<Vec<DirectoryEntry>, ArchiveError> {
    let (mut entries, mut count) = (Vec::new(), 0);
    directory.visit_entries(|entry| {
        count += 1;
        if matches!(entry.kind, EntryKind::Directory | EntryKind::Link) {
            entries.push(entry);
        }
        if count > MOST_MESSAGES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if count > MOST_MESSAGES {
        return Err(ArchiveError::form(directory.path(), TOO_MANY));
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

impl MaildirFolder {
    /// Returns a directory with messages as a folder of this name.
    pub(crate) fn of_directory(directory: Arc<OpenDirectory>, name: FolderName) -> Self {
        Self { name, root: directory, directory: PathBuf::new() }
    }

    /// Lists the messages.
    ///
    /// # Errors
    /// If a directory or list cannot be read, or there are too many messages.
    pub fn files(&self) -> Result<MaildirFiles, ArchiveError> {
        MaildirFiles::of(&self.root.below(&self.directory)?)
    }

    /// Returns the path, for reports.
    #[must_use]
    pub fn place(&self) -> String {
        let root = self.root.path();
        let is_root = self.directory.as_os_str().is_empty();
        if is_root { root.to_owned() } else { root.join(&self.directory) }.display().to_string()
    }

    fn order(&self) -> (bool, &FolderName) {
        (self.name != FolderName::inbox(), &self.name)
    }
}
