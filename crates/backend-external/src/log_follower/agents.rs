//! The delivery agents that run on this machine.
//!
//! An agent opens a queue file before the file leaves the queue, and logs its results before it ends. So if every agent
//! began later, none has the file. An agent ends after 100 messages or 100 idle seconds (`max_use`, `max_idle`). It has
//! one file at a time, so a result for a message that is still in the queue proves the same.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use mailapi_model::Timestamp;

use super::machine::machine_started_at;

/// The programs that deliver. Services such as `relay` and `retry` run them under other names.
pub(super) const DELIVERY_AGENTS: [&str; 7] = ["smtp", "lmtp", "local", "virtual", "pipe", "error", "discard"];
const QUEUE_MANAGERS: [&str; 3] = ["qmgr", "nqmgr", "oqmgr"];

/// The unit of start times on Linux: 1/100 s.
const TICK_MILLIS: u64 = 10;
/// The start of the machine and the lines of the log have a precision of whole seconds.
const PRECISION: Duration = Duration::from_secs(3);

/// A process, as in proc_pid_stat(5).
struct Process {
    name: String,
    started_at: Timestamp,
}

/// Returns a time before which no running delivery agent opened its file. `state` is the kernel's file `stat`, beside the
/// directories of the processes. Returns `None` unless the processes of the log's Postfix are visible: each of
/// `queue_managers`, by process id, must be among them. Each process must be readable: an unreadable one may be an agent.
/// `result_of` returns when the agent with this process id and name logged a result for a message in the queue.
pub(super) fn all_began_after(
    state: &Path,
    queue_managers: &[u32],
    result_of: impl Fn(u32, &str) -> Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let (processes, machine_started) = (state.parent()?, machine_started_at(state)?);
    let process = |id: u32| read(&processes.join(id.to_string()).join("stat"), machine_started);
    // A kernel that hides the processes of other users (`hidepid`) also hides process 1.
    process(1).ok()??;
    let runs = |id: &u32| {
        process(*id).is_ok_and(|found| found.is_some_and(|found| QUEUE_MANAGERS.contains(&found.name.as_str())))
    };
    if queue_managers.is_empty() || !queue_managers.iter().all(runs) {
        return None;
    }
    let mut began = now;
    for entry in fs::read_dir(processes).ok()? {
        let name = entry.ok()?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let agent = process(id).ok()?.filter(|found| DELIVERY_AGENTS.contains(&found.name.as_str()));
        let Some(agent) = agent else { continue };
        // A container's kernel file can have a start of its own, while processes count from the machine's.
        if agent.started_at > now.plus(PRECISION) {
            return None;
        }
        let result_at = result_of(id, &agent.name);
        began = began.min(result_at.map_or(agent.started_at, |at| at.max(agent.started_at)));
    }
    Some(began.minus(PRECISION))
}

/// Reads a process; `None` if it has ended.
fn read(stat: &Path, machine_started: Timestamp) -> io::Result<Option<Process>> {
    /// The error of reading the file of a process that ended after the file was opened.
    const ESRCH: i32 = 3;
    let stat = match fs::read(stat) {
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) => {
            return Ok(None);
        }
        stat => stat?,
    };
    // A process chooses its name, in any bytes.
    let found = parse(&String::from_utf8_lossy(&stat), machine_started);
    found.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses `7 (smtp) S …`; the name may contain any character.
fn parse(stat: &str, machine_started: Timestamp) -> Option<Process> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let ticks: u64 = rest.split(' ').nth(19)?.parse().ok()?;
    let since = Duration::from_millis(ticks.saturating_mul(TICK_MILLIS).min(u64::from(u32::MAX) * 1000));
    Some(Process { name: name.to_owned(), started_at: machine_started.plus(since) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: i64 = 1_795_248_000;

    fn seconds(after: i64) -> Timestamp {
        Timestamp::from_seconds(STARTED + after)
    }

    /// Writes processes with these ids, names and start times in seconds.
    fn machine(processes: &[(u32, &str, u32)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("stat"), format!("btime {STARTED}\n")).unwrap();
        for (id, name, started) in processes {
            let path = dir.path().join(id.to_string());
            fs::create_dir(&path).unwrap();
            let zeros = "0 ".repeat(18);
            fs::write(path.join("stat"), format!("{id} ({name}) S {zeros}{started}00 7 7\n")).unwrap();
        }
        dir
    }

    fn began(processes: &[(u32, &str, u32)], queue_managers: &[u32]) -> Option<Timestamp> {
        began_in(&machine(processes), queue_managers)
    }

    fn began_in(machine: &tempfile::TempDir, queue_managers: &[u32]) -> Option<Timestamp> {
        let result_of = |id, name: &str| (id == 12 && name == "lmtp").then(|| seconds(550));
        all_began_after(&machine.path().join("stat"), queue_managers, result_of, seconds(1000))
    }

    #[test]
    fn a_process_that_cannot_be_read_may_be_an_agent() {
        let machine = machine(&[(1, "init", 0), (8, "qmgr", 2), (11, "smtp", 600)]);
        assert_eq!(began_in(&machine, &[8]), Some(seconds(597)));
        // A process that has ended: its directory is left for a moment.
        fs::create_dir(machine.path().join("12")).unwrap();
        assert_eq!(began_in(&machine, &[8]), Some(seconds(597)));
        // Reading a directory as a file fails, as missing rights do.
        fs::create_dir_all(machine.path().join("13/stat")).unwrap();
        assert_eq!(began_in(&machine, &[8]), None);
        fs::remove_dir(machine.path().join("13/stat")).unwrap();
        fs::write(machine.path().join("13/stat"), "13 (smtp) S 1\n").unwrap();
        assert_eq!(began_in(&machine, &[8]), None, "a file that cannot be parsed");
        fs::write(machine.path().join("13/stat"), [b"13 (\xff) S ".as_slice(), "0 ".repeat(20).as_bytes()].concat())
            .unwrap();
        assert_eq!(began_in(&machine, &[8]), Some(seconds(597)), "a name in any bytes");
    }

    #[test]
    fn a_postfix_that_cannot_be_seen_proves_nothing() {
        let smtp = (9, "smtp", 500);
        assert_eq!(began(&[(1, "init", 0), smtp], &[8]), None);
        assert_eq!(began(&[(1, "init", 0), (8, "smtpd", 2), smtp], &[8]), None);
        assert_eq!(began(&[(8, "qmgr", 2), smtp], &[8]), None);
        assert_eq!(began(&[(1, "init", 0), (8, "qmgr", 2), smtp], &[8, 7]), None);
        assert_eq!(began(&[(1, "init", 0), (8, "qmgr", 2), smtp], &[]), None);
    }

    #[test]
    fn the_oldest_agent_counts() {
        let others = [(1, "init", 0), (8, "qmgr", 2), (10, "smtpd", 3)];
        let with = |agents: &[(u32, &'static str, u32)]| began(&[&others[..], agents].concat(), &[8]);
        assert_eq!(with(&[]), Some(seconds(997)));
        assert_eq!(with(&[(11, "smtp", 600), (13, "lmtp", 500)]), Some(seconds(497)));
        assert_eq!(with(&[(11, "smtp", 600), (12, "lmtp", 500)]), Some(seconds(547)));
        assert_eq!(
            with(&[(11, "smtp", 600), (12, "virtual", 500)]),
            Some(seconds(497)),
            "the result of another program"
        );
        assert_eq!(with(&[(11, "a) (smtp", 400), (13, "virtual", 1001)]), Some(seconds(997)));
        assert_eq!(with(&[(11, "smtp", 600), (13, "virtual", 5000)]), None, "times that contradict each other");
    }
}
