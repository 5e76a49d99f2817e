//! Describes the machine and the versions of a measurement.

use std::fs;
use std::process::Command;

use crate::measure::Plan;
use crate::outcome::Outcome;
use crate::scale::Scale;

/// Describes the machine, the versions and the method.
pub(crate) fn description(scale: &Scale) -> Outcome<String> {
    let Plan { rounds, window, .. } = scale.plan;
    Ok(format!(
        "{} Medians of {rounds} rounds of {seconds} s; load average {before} at the end.\n\n",
        in_short()?,
        seconds = window.as_secs_f64(),
        before = fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default(),
    ))
}

/// Describes the machine and the versions in one line.
pub(crate) fn in_short() -> Outcome<String> {
    Ok(format!(
        "Measured on {date}: {processors} × {model}, {memory} GiB of memory, Linux {kernel}; {rustc}, SQLite {sqlite}, \
         mailapi {version} at {revision}.",
        date = today(),
        processors = std::thread::available_parallelism()?,
        model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        memory = memory_gib(),
        kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim(),
        rustc = output("rustc", &["--version"]),
        sqlite = rusqlite::version(),
        version = env!("CARGO_PKG_VERSION"),
        revision = output("git", &["describe", "--always", "--dirty"]),
    ))
}

#[expect(clippy::disallowed_methods, reason = "a report contains its date; no decision depends on it")]
fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

fn memory_gib() -> u64 {
    let kib = field("/proc/meminfo", "MemTotal").and_then(|total| total.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default().div_ceil(1024 * 1024)
}

/// The first value of a name in a file of procfs.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, _)| found.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

/// The output of a program; empty if it is not installed.
fn output(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output();
    done.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned()).unwrap_or_default()
}
