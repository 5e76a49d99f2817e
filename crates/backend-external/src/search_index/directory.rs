//! The directory of the indexes: which exist, which are open, and which must be removed.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mailapi_files::OpenDirectory;
use mailapi_model::{EmailAddress, Timestamp};

use super::catalogue::{Catalogue, Listed};
use super::error::IndexError;
use super::mailbox_index::{MailboxIndex, bytes_of, remove_files};
use super::settings::SearchSettings;

/// The file that the process using the directory holds locked.
const LOCK_FILE: &str = "lock";
/// The suffix of an index file; the index id precedes it.
const SUFFIX: &str = ".index";
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The locked directory. All methods block on the disk.
pub(super) struct Directory {
    settings: Arc<SearchSettings>,
    catalogue: Catalogue,
    open: HashMap<EmailAddress, (i64, Arc<MailboxIndex>)>,
    /// Mailboxes that were evicted in favour of others, and when.
    evicted: HashMap<EmailAddress, Timestamp>,
    lock: File,
}

impl Directory {
    /// Opens the directory, and creates it if needed. Returns `None` while another process uses it. Removes files
    /// that are not in the catalogue.
    pub(super) fn open(settings: &Arc<SearchSettings>) -> Result<Option<Self>, IndexError> {
        let path = settings.directory.as_path();
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)?;
        let Some(lock) = lock(path)? else { return Ok(None) };
        let catalogue = match Catalogue::open(path, settings) {
            Err(IndexError::Damaged(reason)) => {
                tracing::warn!(reason, "the catalogue of the search index is damaged; rebuilding the index");
                remove_files(&Catalogue::file(path));
                Catalogue::open(path, settings)?
            }
            opened => opened?,
        };
        let directory =
            Self { settings: settings.clone(), catalogue, open: HashMap::new(), evicted: HashMap::new(), lock };
        directory.remove_strays()?;
        Ok(Some(directory))
    }

    /// Removes the catalogue and all indexes, unless another process uses them. Their absence is no error.
    pub(super) fn remove_all(path: &Path) -> Result<(), IndexError> {
        if !path.exists() {
            return Ok(());
        }
        let Some(lock) = lock(path)? else { return Ok(()) };
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if number_of(&name).is_some() {
                fs::remove_file(path.join(name))?;
            }
        }
        remove_files(&Catalogue::file(path));
        Ok(lock.unlock()?)
    }

    /// Returns up to `count` mailboxes of the catalogue after the name `behind`. Starts over after the last one.
    pub(super) fn mailboxes_behind(&self, behind: &str, count: usize) -> Result<Vec<EmailAddress>, IndexError> {
        let all = self.catalogue.all()?.into_iter().filter_map(|listed| listed.mailbox.parse().ok());
        let mut all: Vec<EmailAddress> = all.collect();
        all.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let first = all.partition_point(|mailbox| mailbox.as_str() <= behind);
        let first = if first == all.len() { 0 } else { first };
        Ok(all.into_iter().skip(first).take(count).collect())
    }

    /// Returns a mailbox's index if it is open.
    pub(super) fn opened(&self, mailbox: &EmailAddress) -> Option<Arc<MailboxIndex>> {
        self.open.get(mailbox).map(|(_, index)| index.clone())
    }

    /// Returns a mailbox's index; `None` if the mailbox is too large or was evicted recently.
    pub(super) fn index(
        &mut self,
        mailbox: &EmailAddress,
        now: Timestamp,
    ) -> Result<Option<Arc<MailboxIndex>>, IndexError> {
        if let Some(index) = self.opened(mailbox) {
            return Ok(Some(index));
        }
        let (mut id, last_searched) = match self.catalogue.find(mailbox)? {
            Some(Listed { is_too_large: true, .. }) => return Ok(None),
            Some(listed) => (listed.id, listed.last_searched),
            None if self.was_evicted(mailbox, now) => return Ok(None),
            None => (self.catalogue.add(mailbox, now)?, now),
        };
        let opened = self.open_file(id, mailbox, last_searched);
        let index = match opened {
            Err(IndexError::Damaged(reason)) => {
                tracing::warn!(%mailbox, reason, "the search index of a mailbox is damaged; rebuilding it");
                self.remove(id)?;
                id = self.catalogue.add(mailbox, now)?;
                self.open_file(id, mailbox, now)?
            }
            opened => opened?,
        };
        let index = Arc::new(index);
        self.open.insert(mailbox.clone(), (id, index.clone()));
        if self.open.len() > self.settings.max_open {
            self.close_unused(now)?;
        }
        Ok(Some(index))
    }

    fn was_evicted(&self, mailbox: &EmailAddress, now: Timestamp) -> bool {
        let recent = now.minus(self.settings.evicted_pause);
        self.evicted.get(mailbox).is_some_and(|&at| at > recent)
    }

    fn open_file(&self, id: i64, mailbox: &EmailAddress, at: Timestamp) -> Result<MailboxIndex, IndexError> {
        MailboxIndex::open(self.file(id), mailbox, self.settings.clone(), at)
    }

    /// Removes a mailbox's index. Its files are removed when the last user drops it.
    pub(super) fn erase(&mut self, mailbox: &EmailAddress) -> Result<(), IndexError> {
        self.evicted.remove(mailbox);
        match self.catalogue.find(mailbox)? {
            Some(listed) => self.drop_index(&listed),
            None => Ok(()),
        }
    }

    /// Stores sizes and times of use, and removes indexes that are too old or exceed the limit.
    pub(super) fn prune(&mut self, now: Timestamp) -> Result<(), IndexError> {
        for (id, index) in self.open.values() {
            self.catalogue.note(*id, index.last_searched(), bytes_of(&self.file(*id)))?;
        }
        let oldest = now.minus(self.settings.forget_after);
        let (old, mut kept): (Vec<_>, Vec<_>) =
            self.catalogue.all()?.into_iter().partition(|listed| listed.last_searched < oldest);
        old.iter().try_for_each(|listed| self.drop_index(listed))?;
        kept.retain(|listed| !listed.is_too_large);
        let mut total: u64 = kept.iter().map(|listed| listed.bytes).sum();
        // The least recently searched first.
        for (at, listed) in kept.iter().enumerate() {
            if total <= self.settings.max_bytes {
                break;
            }
            total -= listed.bytes;
            self.drop_index(listed)?;
            // It is over the limit even as the only one.
            if at + 1 == kept.len() {
                self.refuse(listed, now)?;
            } else if let Ok(mailbox) = listed.mailbox.parse() {
                self.evicted.insert(mailbox, now);
            }
        }
        let recent = now.minus(self.settings.evicted_pause);
        self.evicted.retain(|_, at| *at > recent);
        self.close_unused(now)
    }

    /// Marks a mailbox as too large. Otherwise it would be indexed and removed repeatedly.
    fn refuse(&self, listed: &Listed, now: Timestamp) -> Result<(), IndexError> {
        let Ok(mailbox) = listed.mailbox.parse() else { return Ok(()) };
        tracing::warn!(%mailbox, bytes = listed.bytes, "a mailbox is too large for the search index");
        let id = self.catalogue.add(&mailbox, now)?;
        self.catalogue.mark_too_large(id)
    }

    fn drop_index(&mut self, listed: &Listed) -> Result<(), IndexError> {
        let open = listed.mailbox.parse().ok().and_then(|mailbox: EmailAddress| self.open.remove(&mailbox));
        match open {
            // Out of the map first, so that no new user gets it.
            Some((id, index)) => {
                index.drop_files();
                self.catalogue.remove(id)
            }
            None => self.remove(listed.id),
        }
    }

    fn remove(&self, id: i64) -> Result<(), IndexError> {
        self.catalogue.remove(id)?;
        remove_files(&self.file(id));
        Ok(())
    }

    /// Closes files of mailboxes that are not being searched, and the least recently searched ones beyond the limit.
    fn close_unused(&mut self, now: Timestamp) -> Result<(), IndexError> {
        let idle = now.minus(self.settings.tidy_interval);
        let mut ages: Vec<(Timestamp, EmailAddress)> =
            self.open.iter().map(|(mailbox, (_, index))| (index.last_searched(), mailbox.clone())).collect();
        ages.sort_unstable();
        let excess = ages.len().saturating_sub(self.settings.max_open);
        for (at, (last_searched, mailbox)) in ages.iter().enumerate() {
            let is_unused = self.open.get(mailbox).is_some_and(|(_, index)| Arc::strong_count(index) == 1);
            if is_unused
                && (at < excess || *last_searched < idle)
                && let Some((id, index)) = self.open.remove(mailbox)
            {
                drop(index);
                // Closing merged the write-ahead log into the file, so its size is now final.
                self.catalogue.note(id, *last_searched, bytes_of(&self.file(id)))?;
            }
        }
        Ok(())
    }

    /// Removes files that a previous process left behind.
    fn remove_strays(&self) -> Result<(), IndexError> {
        let known: Vec<i64> = self.catalogue.all()?.into_iter().map(|listed| listed.id).collect();
        for entry in fs::read_dir(&self.settings.directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if let Some(id) = number_of(&name).filter(|id| !known.contains(id)) {
                remove_files(&self.file(id));
            }
        }
        Ok(())
    }

    fn file(&self, id: i64) -> PathBuf {
        self.settings.directory.join(format!("{id}{SUFFIX}"))
    }
}

/// Locks a directory; `None` while another process holds the lock.
fn lock(directory: &Path) -> Result<Option<File>, IndexError> {
    let file = OpenDirectory::open(directory).and_then(|directory| directory.change_file(LOCK_FILE, FILE_MODE));
    let file = file.map_err(std::io::Error::from)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Returns the id of the index that a file belongs to.
fn number_of(name: &str) -> Option<i64> {
    name.split_once(SUFFIX)?.0.parse().ok()
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.open.clear();
        // A child process that is just being started may keep the file open, so unlock explicitly. The end of the
        // process also unlocks it.
        let _ = self.lock.unlock();
    }
}
