//! Output of figures: lines on the terminal during a measurement, and tables for the documentation.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::measure::{Comparison, Figures};
use crate::outcome::{Failure, Outcome};

/// Markers in the documentation: this program replaces the text between them and keeps the rest.
const BEGIN: &str = "<!-- figures: written by mailapi-bench -->";
const END: &str = "<!-- end of figures -->";

/// The goals of a case.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Goal {
    /// Minimum rate per second.
    pub(crate) rate: Option<f64>,
    /// Minimum ratio to the floor.
    pub(crate) ratio: Option<f64>,
    /// Maximum of the median latency.
    pub(crate) p50: Option<Duration>,
    /// Maximum of the 99th percentile.
    pub(crate) p99: Option<Duration>,
    /// Maximum of the median latency above that of the floor.
    pub(crate) added_p50: Option<Duration>,
}

/// A line of the table.
#[derive(Debug)]
pub(crate) enum Row {
    /// Operations compared with their floor.
    Compared {
        /// The case.
        case: String,
        /// Requests in flight.
        concurrency: usize,
        /// The figures.
        comparison: Comparison,
        /// The goals.
        goal: Goal,
    },
    /// A single figure.
    Single {
        /// The case.
        case: String,
        /// The figure with its unit.
        figure: String,
        /// The goal as text.
        goal: String,
        /// Whether the goal was reached; `None` without a goal.
        met: Option<bool>,
    },
}

impl Goal {
    fn met(&self, seen: &Comparison) -> Option<bool> {
        let checks = [
            self.rate.map(|rate| seen.ours.rate >= rate),
            self.ratio.map(|ratio| seen.ratio >= ratio),
            self.p50.map(|p50| seen.ours.p50 <= p50),
            self.p99.map(|p99| seen.ours.p99 <= p99),
            self.added_p50.map(|added| seen.ours.p50 <= seen.floor.p50 + added),
        ];
        checks.into_iter().flatten().reduce(|one, other| one && other)
    }

    fn words(&self) -> String {
        let parts = [
            self.rate.map(|rate| format!("≥ {}/s", thousands(rate))),
            self.ratio.map(|ratio| format!("≥ {ratio} × floor")),
            self.p50.map(|p50| format!("p50 ≤ {} ms", millis(p50))),
            self.p99.map(|p99| format!("p99 ≤ {} ms", millis(p99))),
            self.added_p50.map(|added| format!("p50 ≤ floor's + {} ms", millis(added))),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Row {
    /// A figure with a maximum.
    pub(crate) fn at_most(case: &str, unit: Unit, found: f64, goal: f64) -> Self {
        Self::Single {
            case: case.to_owned(),
            figure: unit.words(found),
            goal: format!("≤ {}", unit.words(goal)),
            met: Some(found <= goal),
        }
    }

    /// A rate per second with a minimum.
    pub(crate) fn at_least(case: &str, rate: f64, goal: f64) -> Self {
        Self::Single {
            case: case.to_owned(),
            figure: format!("{}/s", thousands(rate)),
            goal: format!("≥ {}/s", thousands(goal)),
            met: Some(rate >= goal),
        }
    }

    /// A figure without a goal.
    pub(crate) fn plain(case: &str, figure: String) -> Self {
        Self::Single { case: case.to_owned(), figure, goal: String::new(), met: None }
    }

    /// Prints the row to the terminal.
    pub(crate) fn show(&self) -> Outcome {
        let mut stdout = std::io::stdout().lock();
        match self {
            Self::Single { case, figure, goal, met } => {
                writeln!(stdout, "{case}: {figure}  [{goal}] {}", mark(*met))?;
            }
            Self::Compared { case, concurrency, comparison, goal } => {
                let Comparison { ours, floor, ratio } = comparison;
                writeln!(stdout, "{case} at {concurrency}: {}", line(ours))?;
                writeln!(stdout, "    floor: {}", line(floor))?;
                writeln!(stdout, "    ratio {ratio:.2}  [{}] {}", goal.words(), mark(goal.met(comparison)))?;
            }
        }
        Ok(stdout.flush()?)
    }
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes, shown in MiB.
    Blob,
    /// Seconds, shown in milliseconds.
    Seconds,
    /// A factor.
    Times,
    /// Percent of one processor.
    Percent,
    /// Minutes of a build, given in seconds.
    Minutes,
}

impl Unit {
    fn words(self, value: f64) -> String {
        match self {
            Self::Blob => format!("{:.1} MiB", value / 1024.0 / 1024.0),
            Self::Seconds => format!("{:.1} ms", value * 1000.0),
            Self::Times => format!("{value:.1} ×"),
            Self::Percent => format!("{value:.1} %"),
            Self::Minutes => format!("{:.1} minutes", value / 60.0),
        }
    }
}

fn line(figures: &Figures) -> String {
    let Figures { rate, p50, p99, cpu, client_busy } = figures;
    format!(
        "{}/s, p50 {} ms, p99 {} ms, {} µs CPU, load generator {:.0} % busy",
        thousands(*rate),
        millis(*p50),
        millis(*p99),
        micros(*cpu),
        client_busy * 100.0
    )
}

/// Formats the tables of the documentation.
pub(crate) fn tables(rows: &[Row]) -> Outcome<String> {
    let mut text = String::from(
        "| case | in flight | per second | p50 ms | p99 ms | CPU µs | floor per second | floor p50 ms | floor CPU µs \
         | ratio | load generator busy | goal | |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|\n",
    );
    for row in rows {
        if let Row::Compared { case, concurrency, comparison: seen @ Comparison { ours, floor, ratio }, goal } = row {
            writeln!(
                text,
                "| {case} | {concurrency} | {} | {} | {} | {} | {} | {} | {} | {ratio:.2} | {:.0} % | {} | {} |",
                thousands(ours.rate),
                millis(ours.p50),
                millis(ours.p99),
                micros(ours.cpu),
                thousands(floor.rate),
                millis(floor.p50),
                micros(floor.cpu),
                ours.client_busy * 100.0,
                goal.words(),
                mark(goal.met(seen)),
            )?;
        }
    }
    text.push_str("\n| figure | measured | goal | |\n|---|--:|---|---|\n");
    for row in rows {
        if let Row::Single { case, figure, goal, met } = row {
            writeln!(text, "| {case} | {figure} | {goal} | {} |", mark(*met))?;
        }
    }
    Ok(text)
}

/// Replaces the figures in the documentation; the text around them stays.
pub(crate) fn write(file: &Path, figures: &str) -> Outcome {
    let text = std::fs::read_to_string(file)?;
    Ok(std::fs::write(file, replaced(&text, figures)?)?)
}

fn replaced(text: &str, figures: &str) -> Outcome<String> {
    let missing = || Failure::new(format!("the file has no lines {BEGIN:?} and {END:?}"));
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{figures}{END}{after}"))
}

const fn mark(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => "",
    }
}

fn millis(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    if millis < 10.0 { format!("{millis:.2}") } else { format!("{millis:.0}") }
}

fn micros(duration: Duration) -> String {
    format!("{:.0}", duration.as_secs_f64() * 1e6)
}

/// Formats a whole number with thousands separators.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rate: f64, ratio: f64) -> Comparison {
        let ours = Figures { rate, ..Figures::default() };
        Comparison { ours, floor: Figures::default(), ratio }
    }

    #[test]
    fn a_goal_is_missed_when_one_part_of_it_is() {
        let goal = Goal { rate: Some(100.0), ratio: Some(0.5), ..Goal::default() };
        assert_eq!(goal.met(&seen(99.0, 0.9)), Some(false));
        assert_eq!(goal.met(&seen(101.0, 0.4)), Some(false));
        assert_eq!(goal.met(&seen(101.0, 0.5)), Some(true));
        assert_eq!(Goal::default().met(&seen(1.0, 1.0)), None);
    }

    #[test]
    fn a_document_without_the_place_for_figures_is_left_alone() {
        assert!(replaced("# Benchmarks\n", "figures").is_err());
    }

    #[test]
    fn what_people_wrote_around_the_figures_stays() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(replaced(&text, "new\n").unwrap(), format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
    }

    #[test]
    fn numbers_are_easy_to_read() {
        let shown = [7.4, 999.6, 12_345.0, 1_234_567.0].map(thousands);
        assert_eq!(shown, ["7", "1,000", "12,345", "1,234,567"]);
        assert_eq!(millis(Duration::from_micros(1234)), "1.23");
    }
}
