//! The file of the reserve.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use super::home::with_suffix;
use super::{SqliteSettings, open};

/// Ending of the name of the reserve.
pub(super) const SUFFIX: &str = "-reserve";
/// Steps in which the reserve grows. One is enough for the log of a small deletion.
const STEP: u64 = 1024 * 1024;
/// Longest wait for another process that uses the reserve.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// A file beside the database that takes room on the disk.
#[derive(Debug)]
pub(super) struct ReserveFile {
    file: File,
    /// Its size when the disk has room for all of it.
    whole: u64,
}

impl ReserveFile {
    /// Opens the reserve of a database.
    pub(super) fn beside(database: &Path, settings: &SqliteSettings) -> io::Result<Self> {
        let database = if settings.follows_links { database.canonicalize()? } else { database.to_owned() };
        // A file that root creates for another user could not be used by that user.
        let may_create = database.symlink_metadata()?.uid() == rustix::process::geteuid().as_raw();
        let file = open_reserve(&with_suffix(&database, SUFFIX), may_create)?;
        Ok(Self { file, whole: settings.reserve_bytes })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.held() >= self.whole
    }

    /// Empties a file with holes, which takes no room: a copy may have them.
    pub(super) fn remove_holes(&self) {
        if self.file.metadata().is_ok_and(|reserve| reserve.blocks() * 512 < reserve.len()) {
            self.release();
        }
    }

    /// Returns the free bytes of the disk, if it knows them.
    pub(super) fn free(&self) -> Option<u64> {
        let disk = rustix::fs::fstatvfs(&self.file).ok()?;
        // The blocks that a file system keeps for root count for root.
        let blocks = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
        Some(blocks.saturating_mul(disk.f_frsize))
    }

    pub(super) fn try_lock(&self) -> bool {
        // On a file system without such locks, only one process can use the database.
        flock(&self.file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
    }

    /// Waits for other processes that use the reserve. One that was stopped must not stop this one.
    pub(super) fn lock(&self) {
        let began = Instant::now();
        while !self.try_lock() && began.elapsed() < PATIENCE {
            std::thread::park_timeout(LOCK_RETRY);
        }
    }

    pub(super) fn unlock(&self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }

    /// Empties the reserve.
    pub(super) fn release(&self) {
        if let Err(error) = self.file.set_len(0) {
            tracing::warn!(%error, "the reserve cannot be emptied");
        }
    }

    fn held(&self) -> u64 {
        self.file.metadata().map_or(0, |reserve| reserve.len())
    }

    /// Enlarges the reserve to what the disk has, and returns whether it had enough. Nothing that is held is given back
    /// meanwhile: another program would take it.
    pub(super) fn refill(&self) -> bool {
        let (held, whole) = (self.held(), self.whole);
        let mut wanted = whole;
        while wanted > held && !self.takes(wanted) {
            let _ = self.file.set_len(held);
            wanted = wanted.saturating_sub(STEP);
        }
        wanted >= whole
    }

    /// Returns whether the disk has room besides the reserve.
    pub(super) fn has_besides(&self, bytes: u64) -> bool {
        let held = self.held();
        let has = self.takes(held.saturating_add(bytes));
        let _ = self.file.set_len(held);
        has
    }

    /// Enlarges the reserve; returns false only if the disk has no room for it.
    fn takes(&self, bytes: u64) -> bool {
        match allocate(&self.file, bytes) {
            Ok(()) => true,
            Err(error) => !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded),
        }
    }
}

/// Returns the size of the reserve beside a database; 0 if none is kept now.
#[must_use]
pub fn reserve_of(database: &Path) -> u64 {
    open::file_length(&with_suffix(database, SUFFIX)).unwrap_or(0)
}

/// Opens the reserve, and may create a missing one for its owner only. A link or a second name could lead to a file of another
/// user.
fn open_reserve(path: &Path, may_create: bool) -> io::Result<File> {
    let create = if may_create { OFlags::CREATE } else { OFlags::empty() };
    let flags = create | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    let found = file.metadata()?;
    if found.is_file() && found.nlink() == 1 {
        Ok(file)
    } else {
        Err(io::Error::other(format!("{} is no regular file with one name", path.display())))
    }
}

/// Takes room for the first bytes of the file.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // Some file systems, and some kernels, cannot.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, bytes),
        allocated => Ok(allocated?),
    }
}

/// Takes the room on a file system that cannot allocate.
fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    const BLOCK: usize = 64 * 1024;
    let mut at = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
    while at < bytes {
        let length = BLOCK.min(usize::try_from(bytes - at).unwrap_or(BLOCK));
        file.write_all(&[0; BLOCK][..length])?;
        at += length as u64;
    }
    Ok(())
}
