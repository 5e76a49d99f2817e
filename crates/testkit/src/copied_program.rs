//! Copies of installed programs. AppArmor confines a program by its path, and keeps the installed one out of the directories
//! of tests.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command};

/// Starts a copy of a program in this directory.
///
/// # Panics
/// When the program is not installed, or does not start.
pub fn start_copy(program: &Path, directory: &Path, configure: impl Fn(&mut Command)) -> Child {
    let copy = directory.join(program.file_name().expect("a name"));
    if !copy.exists() {
        fs::copy(program, &copy).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    }
    loop {
        let mut command = Command::new(&copy);
        configure(&mut command);
        match command.spawn() {
            Ok(process) => return process,
            // Another thread started a process while the copy was written: it has the file open until it runs its program.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            Err(error) => panic!("{}: {error}", copy.display()),
        }
    }
}
