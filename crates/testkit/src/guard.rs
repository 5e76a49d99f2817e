//! What ends a private server when nobody else does.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

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

/// A small program beside a server. Dropping this tells it that the server was ended.
pub(crate) struct Guard(Child);

impl Guard {
    /// Watches over a process, or a group of them when the number is negative, and over its directory.
    pub(crate) fn over(process: i64, directory: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", &process.to_string()]).arg(directory);
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
