//! Signals to the servers that tests start. Works on machines without `kill(1)` (Debian's procps).

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Sends the signal of this name (without `SIG`) to a process; returns `false` when the process has ended.
///
/// # Panics
/// When the name is not supported yet.
#[must_use]
pub fn send_signal(name: &str, child: &Child) -> bool {
    kill_process(Pid::from_child(child), signal(name)).is_ok()
}

/// Sends a signal to the process group of this leader; returns `false` when none of its processes runs.
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
