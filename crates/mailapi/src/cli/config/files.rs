//! Files that are printed, or written where a mail server reads them.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::cli::print;
use crate::failure::{Failure, Outcome};

/// Readable by the owner and the group alone: the file holds a password.
const SECRET_MODE: u32 = 0o640;
const OPEN_MODE: u32 = 0o755;

/// A file of another program's configuration.
pub(super) struct PrintedFile {
    name: &'static str,
    text: String,
    mode: u32,
}

impl PrintedFile {
    pub(super) const fn secret(name: &'static str, text: String) -> Self {
        Self { name, text, mode: SECRET_MODE }
    }

    pub(super) const fn open(name: &'static str, text: String) -> Self {
        Self { name, text, mode: OPEN_MODE }
    }

    fn write(&self, directory: &Path) -> Outcome {
        let path = directory.join(self.name);
        let failed = |error| Failure::new(format!("{} cannot be written: {error}", path.display()));
        // A reader sees the old file or the new one, and the new one with its mode from the beginning.
        let new = directory.join(format!("{}.new", self.name));
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&new);
        let written = file.and_then(|mut file| file.write_all(self.text.as_bytes()));
        written.and_then(|()| std::fs::rename(&new, &path)).map_err(failed)
    }
}

/// Writes the files into `directory`, which is made when it is missing; without one, prints them one after the other.
pub(super) fn put(files: &[PrintedFile], directory: Option<&Path>) -> Outcome {
    let Some(directory) = directory else {
        let shown = files.iter().map(|file| format!("#### {}\n{}\n", file.name, file.text));
        return print(&shown.collect::<String>());
    };
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::new(format!("{} cannot be made: {error}", directory.display())))?;
    files.iter().try_for_each(|file| file.write(directory))
}
