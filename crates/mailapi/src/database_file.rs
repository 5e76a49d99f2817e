//! Checks the files of an SQLite database before SQLite opens them by their paths.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use mailapi_files::OpenDirectory;

use crate::failure::{Failure, Outcome};

/// Endings of the database, of the files that SQLite creates beside it, and of the reserve for a full disk.
pub(crate) const SUFFIXES: [&str; 5] = ["", "-wal", "-shm", "-journal", "-reserve"];
/// Number of root.
const ROOT: u32 = 0;

/// A database file that may be opened.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    pub(crate) path: PathBuf,
    /// Whether SQLite may follow a symbolic link in the path.
    pub(crate) follows_links: bool,
}

/// Checks the files of a database. A missing one is created later.
///
/// If root works in a directory of another user, each file must be regular, have one name, and belong to that user or to
/// root. The user may change the files after this check, but SQLite then follows no link. In all other cases links are the
/// operator's.
pub(crate) fn checked(file: &Path) -> Outcome<DatabaseFile> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = match OpenDirectory::open(parent) {
        Ok(directory) => directory,
        // SQLite reports it with the reason.
        Err(_) => return Ok(DatabaseFile { path: file.to_owned(), follows_links: true }),
    };
    let name = file.file_name().unwrap_or_default();
    let is_guarded = rustix::process::geteuid().is_root() && directory.owner().uid != ROOT;
    // SQLite puts its other files beside the file that an operator's link leads to.
    let place = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    for suffix in SUFFIXES {
        if is_guarded {
            directory.check_file(with_suffix(name.as_ref(), suffix))?;
        } else {
            check_type(&place, suffix)?;
        }
    }
    let path = if is_guarded { directory.path().join(name) } else { file.to_owned() };
    Ok(DatabaseFile { path, follows_links: !is_guarded })
}

/// Checks the type of a database, to which an operator's link may lead, or of a file beside it. SQLite follows no link to the
/// latter, and its error does not name them.
fn check_type(database: &Path, suffix: &str) -> Outcome {
    let path = with_suffix(database, suffix);
    let found = if suffix.is_empty() { path.metadata() } else { path.symlink_metadata() };
    match found {
        // SQLite would wait for the other end of a FIFO.
        Ok(found) if !found.is_file() => Err(Failure::new(format!("{} is no regular file", path.display()))),
        _ => Ok(()),
    }
}

/// Returns the path of a file beside `path`, whose name is longer.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// Opens a database file for its lock alone.
pub(crate) fn opened(path: &Path, follows_links: bool) -> Outcome<File> {
    let mut options = File::options();
    options.read(true);
    if !follows_links {
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.open(path).map_err(|error| Failure::new(format!("{} cannot be opened: {error}", path.display())))
}
