//! Cleans up private servers that nothing else stops.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Waits for a line, which means that the server was stopped normally. If its input closes without one, the
/// test process was killed, or shared the server until its end.
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

/// A temporary directory that is deleted even if it is never dropped, such as one shared by all tests of a
/// process.
pub struct TestDirectory {
    directory: TempDir,
    _guard: Guard,
}

impl TestDirectory {
    /// Creates an empty directory.
    ///
    /// # Panics
    /// When it cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let guard = Guard::over_process("no process", directory.path());
        Self { directory, _guard: guard }
    }

    /// Returns its path.
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

/// A small program beside a server. Dropping it reports that the server was stopped.
pub(crate) struct Guard(Child);

impl Guard {
    /// Watches a process, or a process group if the number is negative, and its directory.
    pub(crate) fn over(process: i64, directory: &Path) -> Self {
        Self::over_process(&process.to_string(), directory)
    }

    fn over_process(process: &str, directory: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", process]).arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own is not reached by a terminal's interrupt.
        Self(command.process_group(0).spawn().expect("a shell"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            // The program may have ended already.
            let _ = input.write_all(b"ended\n");
        }
        let _ = self.0.wait();
    }
}
