//! The way of a path that the operator names, for root: each step is by the handle of a directory.
//!
//! A stranger who owns a directory on the way can replace the next name at any moment. Root therefore follows only its own
//! links, as `fs.protected_symlinks` does in sticky directories. All other users follow links as usual: the system limits
//! them to their own rights.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, StatVfsMountFlags, fstat, openat, statat};
use rustix::io::Errno;

use crate::entry::{EntryFacts, EntryKind, FileOwner};
use crate::error::{FileError, FileRefusal};

/// As many links as the kernel follows in one path. Names that change under the walk count, too.
const MOST_LINKS: usize = 40;

/// The handle of a directory on the way needs no right to read it.
#[cfg(target_os = "linux")]
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const ON_THE_WAY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory or link on the way that another user than root owns, and can lead elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathStranger {
    /// The directory or link.
    pub path: PathBuf,
    /// Its owner.
    pub owner: FileOwner,
    /// Whether it is a link.
    pub is_link: bool,
}

/// Who can change where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathControl {
    /// From the root directory on, the last directory of the path included.
    pub strangers: Vec<PathStranger>,
    /// The first directory of root in which a group or everyone can replace entries.
    pub open_to_others: Option<PathBuf>,
    /// The last directory that exists.
    pub end: PathBuf,
    /// Its owner.
    pub end_owner: FileOwner,
    /// Whether the path exists.
    pub exists: bool,
}

/// Looks who can change where a path leads. All links are followed, and nothing is opened.
///
/// # Errors
/// When a directory on the way cannot be entered, or the path has too many links.
pub fn control_of(path: &Path) -> Result<PathControl, FileError> {
    let walked = Walk::of(path, Missing::Stop, Links::All)?.directories()?;
    Ok(PathControl {
        strangers: walked.strangers,
        open_to_others: walked.open_to_others,
        end: walked.path,
        end_owner: walked.facts.owner,
        exists: walked.is_complete,
    })
}

/// What a walk does about a name that is missing.
#[derive(Clone, Copy)]
pub(crate) enum Missing {
    Fail,
    Stop,
    Create(u32),
}

/// The links that a walk follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    All,
    OfRoot,
}

/// A walk along a path.
pub(crate) struct Walk {
    missing: Missing,
    links: Links,
    pub(crate) here: OwnedFd,
    /// The path of `here`, without links.
    pub(crate) path: PathBuf,
    facts: EntryFacts,
    /// The names that follow, the next one last.
    rest: Vec<OsString>,
    steps: usize,
    is_complete: bool,
    strangers: Vec<PathStranger>,
    open_to_others: Option<PathBuf>,
}

impl Walk {
    pub(crate) fn of(path: &Path, missing: Missing, links: Links) -> Result<Self, FileError> {
        let absolute = std::path::absolute(path).map_err(|error| FileError::system(path, error))?;
        let (here, facts) = root_directory()?;
        let mut walk = Self {
            missing,
            links,
            here,
            path: PathBuf::from("/"),
            facts,
            rest: Vec::new(),
            steps: 0,
            is_complete: true,
            strangers: Vec::new(),
            open_to_others: None,
        };
        walk.note_directory();
        walk.add(&absolute);
        Ok(walk)
    }

    /// Walks to the end, which is a directory.
    pub(crate) fn directories(mut self) -> Result<Self, FileError> {
        while let Some(name) = self.rest.pop() {
            if !self.step(&name)? {
                self.is_complete = false;
                break;
            }
        }
        Ok(self)
    }

    /// Walks to the directory that has the file itself, behind all links of root; returns the name of the file there.
    pub(crate) fn file(mut self) -> Result<(Self, OsString), FileError> {
        while let Some(name) = self.rest.pop() {
            let is_last = self.rest.is_empty() && name != "..";
            if is_last && !self.is_link(&name)? {
                return Ok((self, name));
            }
            self.step(&name)?;
        }
        Err(FileError::refused(&self.path, FileRefusal::Directory))
    }

    /// Returns whether only root can change where the path has led.
    pub(crate) fn is_of_root_alone(&self) -> bool {
        self.strangers.is_empty() && self.open_to_others.is_none()
    }

    fn add(&mut self, path: &Path) {
        let names = path.components().rev().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        });
        self.rest.extend(names);
    }

    fn is_link(&self, name: &OsStr) -> Result<bool, FileError> {
        let found = statat(&self.here, name, AtFlags::SYMLINK_NOFOLLOW);
        found
            .map(|stat| EntryFacts::of(&stat).kind == EntryKind::Link)
            .map_err(|error| FileError::system(&self.path.join(name), error))
    }

    /// Goes to one name; returns whether it exists.
    fn step(&mut self, name: &OsStr) -> Result<bool, FileError> {
        let path = self.path.join(name);
        let failed = |error: Errno| FileError::system(&path, error);
        loop {
            let opened = openat(&self.here, name, ON_THE_WAY, Mode::empty());
            match (opened, self.missing) {
                (Ok(handle), _) => {
                    self.facts = EntryFacts::of(&fstat(&handle).map_err(failed)?);
                    self.here = handle;
                    if name == ".." {
                        self.path.pop();
                    } else {
                        self.path = path;
                    }
                    self.note_directory();
                    return Ok(true);
                }
                (Err(Errno::NOENT), Missing::Stop) => return Ok(false),
                (Err(Errno::NOENT), Missing::Create(mode)) => {
                    match rustix::fs::mkdirat(&self.here, name, Mode::from_raw_mode(mode)) {
                        Ok(()) | Err(Errno::EXIST) => self.count(&path)?,
                        Err(error) => return Err(failed(error)),
                    }
                }
                // Both errors mean that the entry is a link or a file.
                (Err(Errno::NOTDIR | Errno::LOOP), _) => {
                    if self.follow(name, &path)? {
                        return Ok(true);
                    }
                }
                (Err(error), _) => return Err(failed(error)),
            }
        }
    }

    /// Puts the target of a link before the other names; `false` if the entry has changed.
    fn follow(&mut self, name: &OsStr, path: &Path) -> Result<bool, FileError> {
        let failed = |error: Errno| FileError::system(path, error);
        self.count(path)?;
        let Some((facts, target)) = read_link(&self.here, name).map_err(failed)? else { return Ok(false) };
        match facts.kind {
            EntryKind::Link => {}
            EntryKind::Directory => return Ok(false),
            _ => return Err(failed(Errno::NOTDIR)),
        }
        if facts.owner.uid != FileOwner::ROOT {
            if self.links == Links::OfRoot {
                return Err(FileError::refused(path, FileRefusal::ForeignLink { uid: facts.owner.uid }));
            }
            self.strangers.push(PathStranger { path: path.to_owned(), owner: facts.owner, is_link: true });
        }
        if target.is_absolute() {
            (self.here, self.facts) = root_directory()?;
            self.path = PathBuf::from("/");
        }
        self.add(&target);
        Ok(true)
    }

    fn count(&mut self, path: &Path) -> Result<(), FileError> {
        self.steps += 1;
        if self.steps > MOST_LINKS { Err(FileError::system(path, Errno::LOOP)) } else { Ok(()) }
    }

    fn note_directory(&mut self) {
        const STICKY: u32 = 0o1000;
        let EntryFacts { owner, mode, .. } = self.facts;
        let is_open = self.facts.is_open_to_others();
        if owner.uid != FileOwner::ROOT {
            self.strangers.push(PathStranger { path: self.path.clone(), owner, is_link: false });
        } else if is_open && mode & STICKY == 0 && !is_read_only(&self.here) {
            self.open_to_others.get_or_insert_with(|| self.path.clone());
        }
    }
}

/// Whether a directory is mounted read-only. Those of containers often are, and have rights for everyone.
fn is_read_only(directory: &OwnedFd) -> bool {
    rustix::fs::fstatvfs(directory).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn root_directory() -> Result<(OwnedFd, EntryFacts), FileError> {
    let path = Path::new("/");
    let failed = |error: Errno| FileError::system(path, error);
    let handle = rustix::fs::open(path, ON_THE_WAY, Mode::empty()).map_err(failed)?;
    let facts = EntryFacts::of(&fstat(&handle).map_err(failed)?);
    Ok((handle, facts))
}

/// Reads an entry that may be a link, by one handle; `None` if it is gone.
#[cfg(target_os = "linux")]
fn read_link(directory: &OwnedFd, name: &OsStr) -> Result<Option<(EntryFacts, PathBuf)>, Errno> {
    let flags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let entry = match openat(directory, name, flags, Mode::empty()) {
        Ok(entry) => entry,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    let facts = EntryFacts::of(&fstat(&entry)?);
    if facts.kind != EntryKind::Link {
        return Ok(Some((facts, PathBuf::new())));
    }
    // An empty name means the entry itself (readlinkat(2)).
    let target = rustix::fs::readlinkat(&entry, c"", Vec::new())?;
    Ok(Some((facts, OsString::from_vec(target.into_bytes()).into())))
}

#[cfg(not(target_os = "linux"))]
fn read_link(directory: &OwnedFd, name: &OsStr) -> Result<Option<(EntryFacts, PathBuf)>, Errno> {
    let facts = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => EntryFacts::of(&stat),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    if facts.kind != EntryKind::Link {
        return Ok(Some((facts, PathBuf::new())));
    }
    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
    Ok(Some((facts, OsString::from_vec(target.into_bytes()).into())))
}
