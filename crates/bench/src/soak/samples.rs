//! Samples of the server every few seconds, and their evaluation.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::mail_site::database;
use crate::measure::median;
use crate::outcome::Outcome;
use crate::process::Process;
use crate::server::Server;

/// A sample of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Snapshot {
    /// Time since the start of the traffic.
    pub(super) at: Duration,
    /// Resident bytes.
    pub(super) resident: u64,
    /// Maximum of resident bytes so far.
    pub(super) peak: u64,
    /// Open files and connections.
    pub(super) files: u64,
    pub(super) threads: u64,
    /// Bytes of the database and its write-ahead log.
    pub(super) database: u64,
    /// Processor time since the start of the process.
    pub(super) cpu: Duration,
}

/// Takes the samples.
pub(super) struct Watch {
    process: Process,
    files: [PathBuf; 2],
    began: Instant,
    pub(super) snapshots: Vec<Snapshot>,
}

impl Watch {
    pub(super) fn new(server: &Server, directory: &Path) -> Self {
        let file = database(directory);
        let log = file.with_extension("db-wal");
        Self { process: server.process(), files: [file, log], began: Instant::now(), snapshots: Vec::new() }
    }

    pub(super) fn snapshot(&mut self) -> Outcome<Snapshot> {
        let process = self.process;
        let snapshot = Snapshot {
            at: self.began.elapsed(),
            resident: process.resident()?,
            peak: process.peak()?,
            files: process.files()?,
            threads: process.threads()?,
            // The log exists only while the database is open.
            database: self.files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|file| file.len()).sum(),
            cpu: process.cpu()?.0,
        };
        self.snapshots.push(snapshot);
        Ok(snapshot)
    }
}

/// The change of a figure over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    /// The medians of the first window that counts and of the last one.
    pub(super) from: f64,
    pub(super) to: f64,
    /// The median slope between the windows' medians (Theil and Sen), per hour.
    pub(super) per_hour: f64,
    /// Hours between the middles of the first window that counts and of the last one.
    pub(super) hours: f64,
    /// The median distance of a sample from the median of its window.
    pub(super) noise: f64,
}

/// Number of windows. Caches fill in the first one; the others count.
pub(super) const WINDOWS: u32 = 6;

impl Growth {
    /// The growth of a figure over [`WINDOWS`] windows of equal length.
    pub(super) fn of(snapshots: &[Snapshot], figure: fn(&Snapshot) -> f64) -> Self {
        let whole = snapshots.last().map_or(Duration::ZERO, |last| last.at);
        let window = (whole / WINDOWS).max(Duration::from_millis(1));
        let mut windows: Vec<(f64, Vec<f64>)> = Vec::new();
        // Skip window 0, in which caches fill.
        for number in 1..WINDOWS {
            let inside = |snapshot: &&Snapshot| snapshot.at > window * number && snapshot.at <= window * (number + 1);
            let values: Vec<f64> = snapshots.iter().filter(inside).map(figure).collect();
            let middle = (window * number + window / 2).as_secs_f64() / 3600.0;
            if !values.is_empty() {
                windows.push((middle, values));
            }
        }
        let middles: Vec<(f64, f64)> = windows.iter().map(|(at, values)| (*at, median(values.clone()))).collect();
        let distances = windows
            .iter()
            .zip(&middles)
            .flat_map(|((_, values), (_, middle))| values.iter().map(move |value| (value - middle).abs()));
        Self {
            from: middles.first().map_or(0.0, |first| first.1),
            to: middles.last().map_or(0.0, |last| last.1),
            per_hour: median(slopes(&middles)),
            hours: middles.first().zip(middles.last()).map_or(0.0, |(first, last)| last.0 - first.0),
            noise: median(distances.collect()),
        }
    }

    /// Whether the figure does not grow: by at most `allowance` per hour, or over the whole time by less than the
    /// noise of single samples.
    pub(super) fn is_none(&self, allowance: f64) -> bool {
        self.per_hour <= allowance || self.per_hour * self.hours <= 3.0 * self.noise
    }
}

fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let pairs =
        points.iter().enumerate().flat_map(|(number, one)| points[..number].iter().map(move |other| (one, other)));
    pairs.map(|(one, other)| (one.1 - other.1) / (one.0 - other.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour of samples, one every ten seconds.
    fn hour(resident: impl Fn(u64) -> u64) -> Vec<Snapshot> {
        (1..=360)
            .map(|number| Snapshot {
                at: Duration::from_secs(number * 10),
                resident: resident(number),
                ..Snapshot::default()
            })
            .collect()
    }

    fn growth(snapshots: &[Snapshot]) -> Growth {
        Growth::of(snapshots, |snapshot| snapshot.resident as f64)
    }

    #[test]
    fn a_steady_leak_is_seen_behind_noise() {
        let leak = growth(&hour(|number| 1_000_000 + number * 1_000 + number % 7 * 500));
        assert!((leak.per_hour - 360_000.0).abs() < 5_000.0, "{leak:?}");
        assert!(!leak.is_none(100_000.0));
    }

    #[test]
    fn what_is_hidden_by_noise_in_an_hour_is_seen_in_ten() {
        let noisy = |number: u64| 1_000_000 + number * 30 + number % 7 * 5_000;
        assert!(growth(&hour(noisy)).is_none(1_000.0));
        let hours: Vec<Snapshot> = hour(|number| noisy(number * 10));
        let ten = hours.into_iter().map(|snapshot| Snapshot { at: snapshot.at * 10, ..snapshot }).collect::<Vec<_>>();
        assert!(!growth(&ten).is_none(1_000.0));
    }

    #[test]
    fn filling_caches_and_single_peaks_are_no_growth() {
        let filled = growth(&hour(|number| 1_000_000 + number.min(50) * 10_000 + u64::from(number == 200) * 9_000_000));
        assert_eq!((filled.per_hour, filled.from, filled.to), (0.0, 1_500_000.0, 1_500_000.0));
        assert!(filled.is_none(0.0));
    }

    #[test]
    fn a_run_without_looks_has_no_growth() {
        assert_eq!(growth(&[]).per_hour, 0.0);
    }
}
