//! Files in directories that another user controls: data, backup, import and export directories.
//!
//! That user can replace any name by a link, a FIFO or a device at any moment, also between two steps of a command that
//! root runs. Therefore all steps use the handle of a directory ([`OpenDirectory`]) and a name in it, never a path:
//!
//! - No symbolic link is followed. A name is one component, and `openat` with `O_NOFOLLOW` opens it. That allows what
//!   `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS` allows, on every kernel. Longer paths are walked component
//!   by component, so each directory on the way is checked.
//! - Only regular files are opened, and no `open` waits: neither for the other end of a FIFO nor for a lease.
//! - An entry belongs to the owner of its directory, to root, or to the user of this process. Directories that only root
//!   or that user can change may have entries of every owner.
//! - A file with a second name may be the file of another user. It is not written, truncated or given away.
//!
//! The path of the first directory is the operator's word: [`OpenDirectory::open`] follows links in it once. But root
//! follows only its own: another user can change the target of each other link. [`control_of`] names these users. A
//! configuration decides what root's commands do, so root reads none that another user can change: [`open_trusted_file`].

mod directory;
mod entry;
mod error;
mod named;
mod open_file;
mod removal;
mod replacement;

pub use directory::OpenDirectory;
pub use entry::{DirectoryEntry, EntryFacts, EntryKind, FileOwner};
pub use error::{FileError, FileRefusal};
pub use named::{PathControl, PathStranger, control_of};
pub use open_file::{open_named_file, open_trusted_file};
