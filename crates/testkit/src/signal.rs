//! Signals to the servers that tests start. A machine without `kill(1)` (Debian's procps) runs the tests as well.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Sends a signal to a process by its name without `SIG`; `false` when the process has ended.
///
/// # Panics
/// When no test needs a signal of that name yet.
#[must_use]
pub fn send_signal(name: &str, child: &Child) -> bool {
    kill_process(Pid::from_child(child), signal(name)).is_ok()
}

/// Sends a signal to the process group that the process leads; `false` when no process of it runs.
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
