//! Figures of a process as reported by the kernel (proc(5)).

use std::fs;
use std::ops::Sub;
use std::time::Duration;

use crate::outcome::{Failure, Outcome};

/// The unit of `utime` and `stime`: USER_HZ, which is 100 per second on all supported architectures.
const TICK: Duration = Duration::from_millis(10);

/// Field numbers of `stat` in proc(5), for user mode; the next field is for kernel mode.
const UTIME: usize = 14;
const CUTIME: usize = 16;

/// A measured process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Process {
    /// This process: the load generator.
    Own,
    /// Another process by its id.
    Other(u32),
    /// Another process and its children, such as those of a mail server.
    Family(u32),
}

/// Processor time of all threads of a process in user and kernel mode, including ended ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CpuTime(pub(crate) Duration);

impl Sub for CpuTime {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Process {
    /// The processor time used so far, in steps of 10 ms.
    pub(crate) fn cpu(self) -> Outcome<CpuTime> {
        let Self::Family(parent) = self else { return self.times(UTIME) };
        let ended = self.times(CUTIME)?;
        let living = children(parent)?.into_iter().map(|child| Self::Other(child).times(UTIME));
        // A child that ended since it was listed is skipped; the next reading has it in CUTIME.
        let sum = living.flatten().fold(self.times(UTIME)?.0 + ended.0, |sum, child| sum + child.0);
        Ok(CpuTime(sum))
    }

    /// The processor time of ended children and their descendants.
    pub(crate) fn cpu_of_children(self) -> Outcome<CpuTime> {
        self.times(CUTIME)
    }

    /// The sum of this field and the next one.
    fn times(self, field: usize) -> Outcome<CpuTime> {
        let stat = self.file("stat")?;
        // The second field, the name in brackets, may contain anything; the third follows the last bracket.
        let (_, rest) = stat.rsplit_once(')').ok_or_else(|| Failure::new("/proc/…/stat has no name"))?;
        let mut fields = rest.split_ascii_whitespace().skip(field - 3).map(str::parse::<u32>);
        match (fields.next(), fields.next()) {
            (Some(Ok(user)), Some(Ok(system))) => Ok(CpuTime(TICK * (user + system))),
            _ => Err(Failure::new("/proc/…/stat has no times")),
        }
    }

    /// Resident bytes.
    pub(crate) fn resident(self) -> Outcome<u64> {
        self.status("VmRSS:")
    }

    /// Maximum of resident bytes since the start, or since [`Process::forget_peak`].
    pub(crate) fn peak(self) -> Outcome<u64> {
        self.status("VmHWM:")
    }

    /// Number of open files and connections.
    pub(crate) fn files(self) -> Outcome<u64> {
        Ok(fs::read_dir(self.path("fd"))?.count() as u64)
    }

    /// Number of threads.
    pub(crate) fn threads(self) -> Outcome<u64> {
        let threads = self.status_line("Threads:")?.and_then(|count| count.parse().ok());
        threads.ok_or_else(|| Failure::new("/proc/…/status has no Threads:"))
    }

    /// Resets [`Process::peak`].
    pub(crate) fn forget_peak(self) -> Outcome {
        Ok(fs::write(self.path("clear_refs"), "5")?)
    }

    fn status(self, name: &str) -> Outcome<u64> {
        let line = self.status_line(name)?;
        let kib = line.and_then(|line| line.strip_suffix(" kB")?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| Failure::new(format!("/proc/…/status has no {name}")))
    }

    fn status_line(self, name: &str) -> Outcome<Option<String>> {
        let status = self.file("status")?;
        Ok(status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned()))
    }

    fn file(self, name: &str) -> Outcome<String> {
        Ok(fs::read_to_string(self.path(name))?)
    }

    fn path(self, name: &str) -> String {
        match self {
            Self::Own => format!("/proc/self/{name}"),
            Self::Other(id) | Self::Family(id) => format!("/proc/{id}/{name}"),
        }
    }
}

/// The running children of a process.
fn children(parent: u32) -> Outcome<Vec<u32>> {
    let processes = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = format!("PPid:\t{parent}\n");
    let is_child = |id: &u32| Process::Other(*id).file("status").is_ok_and(|status| status.contains(&parent));
    Ok(processes.filter(is_child).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_has_no_figures() {
        // Above the largest process id of the kernel.
        let missing = Process::Other(u32::MAX);
        assert!(missing.cpu().is_err() && missing.peak().is_err() && missing.resident().is_err());
        assert!(missing.files().is_err() && missing.threads().is_err());
    }

    #[test]
    fn a_process_sees_its_own_work() {
        let before = Process::Own.cpu().unwrap();
        let mut sum = 0_u64;
        while Process::Own.cpu().unwrap() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(Process::Own.cpu().unwrap() - before >= TICK);
        assert!(Process::Own.peak().unwrap() >= Process::Own.resident().unwrap() / 2);
    }
}
