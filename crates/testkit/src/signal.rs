//! Sends signals to servers that tests start, without `kill(1)`, which some machines lack (Debian's procps).

use std::process::Child;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

/// Sends the signal with this name (without `SIG`) to a process; returns `false` if the process has ended.
///
/// # Panics
/// When the name is not supported yet.
#[must_use]
pub fn send_signal(name: &str, child: &Child) -> bool {
    kill_process(Pid::from_child(child), signal(name)).is_ok()
}

/// A process that a test has stopped: it writes nothing. It goes on when this is dropped.
#[derive(Debug)]
pub struct StoppedProcess {
    pid: Pid,
}

impl StoppedProcess {
    /// Stops a process, and waits until each of its threads has stopped.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn stop(child: &Child) -> Self {
        let pid = Pid::from_child(child);
        kill_process(pid, Signal::STOP).expect("the process runs");
        let (_, status) =
            waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().expect("the process has changed its state");
        assert!(status.stopped(), "the process has ended: {status:?}");
        Self { pid }
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::CONT);
    }
}

/// Kills the children of a process that run this program.
///
/// # Panics
/// Without `/proc`.
pub fn kill_children(parent: u32, program: &str) {
    let processes = std::fs::read_dir("/proc").expect("processes are listed in /proc");
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // The process may have ended since it was listed.
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // proc(5): the program is in parentheses, followed by state and parent.
        let Some((name, rest)) = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(") ")) else { continue };
        if name == program && rest.split(' ').nth(1) == Some(parent.to_string().as_str()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns whether a process of this group still runs. A killed one does until its last system call ends.
pub(crate) fn runs_in_group(leader: u32) -> bool {
    let processes = std::fs::read_dir("/proc").expect("processes are listed in /proc");
    processes.flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // proc(5): the program is in parentheses, followed by state, parent and group.
        let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
        let mut fields = rest.split(' ');
        let has_ended = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
        !has_ended && fields.nth(1) == Some(leader.to_string().as_str())
    })
}

/// Sends a signal to the process group of this leader; returns `false` if none of its processes runs.
pub(crate) fn send_to_group(name: &str, leader: &Child) -> bool {
    kill_process_group(Pid::from_child(leader), signal(name)).is_ok()
}

fn signal(name: &str) -> Signal {
    match name {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "KILL" => Signal::KILL,
        "TERM" => Signal::TERM,
        _ => panic!("no test sends SIG{name} yet"),
    }
}
