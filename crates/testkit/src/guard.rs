//! What ends a private server when nobody else does.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// It waits for a line, which means that the server was ended in the usual way. When its input closes without one, this
/// process has ended without doing so: it was killed, or others share the server until the end.
const SCRIPT: &str = r#"
read -r line && exit 0
kill -s TERM -- "$1" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -s 0 -- "$1" 2>/dev/null || break
    sleep 0.1
done
kill -s KILL -- "$1" 2>/dev/null
rm -rf "$2"
"#;

/// A temporary directory that goes even when nobody drops it, as with what all tests of a process share.
pub struct TestDirectory {
    directory: TempDir,
    _guard: Guard,
}

impl TestDirectory {
    /// An empty one.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let guard = Guard::over_process("no process", directory.path());
        Self { directory, _guard: guard }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Default for TestDirectory {
    fn default() -> Self {
        Self::new()
    }
}

/// A small program beside a server. Dropping this tells it that the server was ended.
pub(crate) struct Guard(Child);

impl Guard {
    /// Watches over a process, or a group of them when the number is negative, and over its directory.
    pub(crate) fn over(process: i64, directory: &Path) -> Self {
        Self::over_process(&process.to_string(), directory)
    }

    fn over_process(process: &str, directory: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", process]).arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Not in the group that a terminal's interrupt reaches.
        Self(command.process_group(0).spawn().expect("a shell"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            // One that is gone already has nothing to be told.
            let _ = input.write_all(b"ended\n");
        }
        let _ = self.0.wait();
    }
}
