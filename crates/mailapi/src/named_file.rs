//! Files that the operator names in arguments and settings.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use mailapi_files::{FileError, FileRefusal, open_named_file, open_trusted_file};

/// Opens a regular file to read it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(path, open_named_file)
}

/// Reads a secret, a key or a certificate whole.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Like [`read`], for text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    io::read_to_string(open(path)?)
}

/// Reads a configuration. It has commands, and names the hosts that get secrets, so root reads none that another user can
/// change.
pub(crate) fn read_configuration(path: &Path) -> io::Result<String> {
    io::read_to_string(open_with(path, open_trusted_file)?)
}

/// The system's own directories have pipes as well, such as that of `<(command)`.
fn open_with(path: &Path, open: impl FnOnce(&Path) -> Result<File, FileError>) -> io::Result<File> {
    if ["/dev", "/proc"].iter().any(|directory| path.starts_with(directory)) {
        return File::open(path);
    }
    open(path).map_err(|error| match error {
        FileError::System { error, .. } => error,
        FileError::Refused { refusal, .. } => io::Error::other(refused(refusal)),
    })
}

fn refused(refusal: FileRefusal) -> String {
    let advice = match refusal {
        FileRefusal::NotOfRootAlone => "; give it and its directories to root, or run the command as its owner",
        _ => "",
    };
    format!("refused, because it {refusal}{advice}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn root_reads_no_configuration_that_another_user_can_change() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, secret) = (folder.path().join("mailapi.toml"), folder.path().join("password"));
        std::fs::write(&file, "data_dir = \"data\"").unwrap();
        std::fs::write(&secret, "hunter22").unwrap();
        assert_eq!(read_configuration(&file).unwrap(), "data_dir = \"data\"");
        chown(folder.path(), Some(48_213), None).unwrap();
        let refused = read_configuration(&file).unwrap_err().to_string();
        assert!(refused.contains("can be changed by another user than root; give it"), "{refused}");
        assert_eq!(read_text(&secret).unwrap(), "hunter22", "a secret may belong to the service");
    }

    #[test]
    fn pipes_of_the_system_are_read() {
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(read_configuration(path.as_ref()).unwrap(), "");
    }
}
