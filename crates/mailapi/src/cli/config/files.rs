//! Output of generated configuration files.

use std::path::Path;

use mailapi_backend_external::printed::PrintedFile;

use crate::cli::print;
use crate::failure::{Failure, Outcome};

/// Writes the files into `directory`, which is created if missing; without one, prints them one after the other.
pub(super) fn put(files: &[PrintedFile], directory: Option<&Path>) -> Outcome {
    let Some(directory) = directory else {
        let shown = files.iter().map(|file| format!("#### {}\n{}\n", file.name(), file.text()));
        return print(&shown.collect::<String>());
    };
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::new(format!("{} cannot be created: {error}", directory.display())))?;
    files.iter().try_for_each(|file| {
        let failed =
            |error| Failure::new(format!("{} cannot be written: {error}", directory.join(file.name()).display()));
        file.write(directory).map_err(failed)
    })
}
