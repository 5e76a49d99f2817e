//! Sends signals to servers that tests start, without `kill(1)`, which some machines lack (Debian's procps).

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Sends the signal with this name (without `SIG`) to a process; returns `false` if the process has ended.
///
/// # Panics
/// When the name is not supported yet.
#[must_use]
pub fn send_signal(name: &str, child: &Child) -> bool {
    kill_process(Pid::from_child(child), signal(name)).is_ok()
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
