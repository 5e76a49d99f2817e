//! Output of generated configuration files.

use std::path::Path;

use mailapi_backend_external::printed::PrintedFile;
use mailapi_files::OpenDirectory;

use crate::cli::print;
use crate::failure::Outcome;

/// Postfix and Dovecot read the directory as users of their own.
const DIRECTORY_MODE: u32 = 0o755;

/// Writes the files into `directory`, which is created if missing; without one, prints them one after the other.
pub(super) fn put(files: &[PrintedFile], directory: Option<&Path>) -> Outcome {
    let Some(directory) = directory else {
        let shown = files.iter().map(|file| format!("#### {}\n{}\n", file.name(), file.text()));
        return print(&shown.collect::<String>());
    };
    let directory = OpenDirectory::open_or_create(directory, DIRECTORY_MODE)?;
    Ok(files.iter().try_for_each(|file| file.write(&directory))?)
}
