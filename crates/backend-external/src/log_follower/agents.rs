//! The delivery agents that run on this machine.
//!
//! An agent opens a queue file before the file leaves the queue, and logs its results before it ends. So if every agent
//! began later, none has the file. An agent ends after 100 messages or 100 idle seconds (`max_use`, `max_idle`). It has
//! one file at a time, so a result for a message that is still in the queue proves the same.

use std::fs;
use std::path::Path;
use std::time::Duration;

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
/// `queue_managers`, by process id, must be among them. `result_of` returns when an agent logged a result for a message
/// in the queue.
pub(super) fn all_began_after(
    state: &Path,
    queue_managers: &[u32],
    result_of: impl Fn(u32) -> Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let (processes, machine_started) = (state.parent()?, machine_started_at(state)?);
    let process = |name: &str| parse(&fs::read_to_string(processes.join(name).join("stat")).ok()?, machine_started);
    // A kernel that hides the processes of other users (`hidepid`) also hides process 1.
    process("1")?;
    let runs = |id: &u32| process(&id.to_string()).is_some_and(|found| QUEUE_MANAGERS.contains(&found.name.as_str()));
    if queue_managers.is_empty() || !queue_managers.iter().all(runs) {
        return None;
    }
    let names = fs::read_dir(processes).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut began = now;
    for id in ids {
        let agent = process(&id).filter(|found| DELIVERY_AGENTS.contains(&found.name.as_str()));
        let Some(agent) = agent else { continue };
        // A container's kernel file can have a start of its own, while processes count from the machine's.
        if agent.started_at > now.plus(PRECISION) {
            return None;
        }
        let result_at = id.parse().ok().and_then(&result_of);
        began = began.min(result_at.map_or(agent.started_at, |at| at.max(agent.started_at)));
    }
    Some(began.minus(PRECISION))
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
        let result_of = |id| (id == 12).then(|| seconds(550));
        all_began_after(&machine(processes).path().join("stat"), queue_managers, result_of, seconds(1000))
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
        assert_eq!(with(&[(11, "a) (smtp", 400), (13, "virtual", 1001)]), Some(seconds(997)));
        assert_eq!(with(&[(11, "smtp", 600), (13, "virtual", 5000)]), None, "times that contradict each other");
    }
}
