//! Signals to servers that tests start.

use std::process::{Command, Stdio};

/// Sends a signal to a process, or to a group of them when the number is negative; whether somebody got it.
pub(crate) fn send(signal: &str, to: i64) -> bool {
    // The shell's own: the program of procps 4.0.4, which Debian 13 has, takes no groups.
    let mut command = Command::new("sh");
    command.args(["-c", r#"kill -s "$1" -- "$2""#, "sh", signal, &to.to_string()]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
