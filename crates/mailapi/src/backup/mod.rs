//! Backups of a data directory, several in one directory.
//!
//! Files are cut into chunks, and a chunk has the name of its SHA-256. So a backup writes only chunks that no earlier
//! backup has. A manifest lists the files of one backup with their chunks.
//!
//! A backup exists when its manifest does, and its chunks are durable before that. An interrupted backup leaves only
//! chunks that no manifest names; the next one removes them.

mod chunks;
mod contents;
mod create;
mod directory;
mod manifest;
mod reader;
mod restore;
mod retention;
mod verify;

use std::fmt::Display;
use std::path::Path;

use mailapi_files::OpenDirectory;

use crate::failure::{Failure, Outcome};
pub(crate) use contents::Source;
pub(crate) use create::create;
pub(crate) use directory::BackupDir;
pub(crate) use manifest::{Accounts, Manifest};
pub(crate) use reader::BackupReader;
pub(crate) use restore::{Destination, restore};
pub(crate) use retention::retain;
pub(crate) use verify::verify_all;

/// Only the owner may open a directory of a backup: it holds mail, password hashes and private keys.
const DIRECTORY_MODE: u32 = 0o700;
/// Only the owner may read a file of a backup.
const FILE_MODE: u32 = 0o600;

/// Returns the failure of an operation on a file.
fn about(path: &Path, error: impl Display) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// Fails if the file system of a directory has too little space for `what`.
fn require_space(directory: &OpenDirectory, what: &str, needed: u64) -> Outcome {
    let disk = rustix::fs::fstatvfs(directory).map_err(|error| about(directory.path(), error))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= needed {
        return Ok(());
    }
    let (needed, free) = (bytesize::ByteSize(needed), bytesize::ByteSize(free));
    Err(about(directory.path(), format_args!("the disk is full: {what} needs {needed}, and {free} are free")))
}
