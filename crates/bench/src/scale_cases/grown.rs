//! Costs of operations at several sizes: measured, and written as tables.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Size;
use crate::cases::http_clients;
use crate::client::http::Request;
use crate::load::{Client, Clients, Load};
use crate::measure::{Comparison, Figures, Plan, compare, figures};
use crate::outcome::Outcome;
use crate::server::Server;

/// Factor between the costs at the smallest and the largest size above which the cost counts as growing. Over a
/// thousandfold, trees become deeper, and on a shared machine single windows differ by as much.
const NOISE: f64 = 2.0;

/// Suffix for an operation that is measured again beside much other data.
pub(super) const BESIDE: &str = ", beside all the others";
/// Number of operations in the warm-up, enough for all different requests of most cases.
const EACH_ONCE: usize = 1_000;
/// Maximum length of that warm-up, in usual ones.
const LONGEST_WARM_UP: u32 = 15;

/// An operation at one size.
#[derive(Debug, Clone, Copy)]
struct Point {
    size: f64,
    seen: Figures,
}

/// An operation at all sizes.
#[derive(Debug)]
struct Operation {
    name: String,
    /// The reason why it may grow; `None` if it may not.
    grows: Option<&'static str>,
    points: Vec<Point>,
}

/// The cost that is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judge {
    /// The product's processor time, which other load on the machine affects least.
    Processor,
    /// The median latency, which includes other servers.
    Latency,
}

impl Judge {
    fn cost(self, point: &Point) -> f64 {
        // Processor time is counted in ticks and may be zero, but costs are divided by each other.
        let cost = match self {
            Self::Processor => point.seen.cpu,
            Self::Latency => point.seen.p50,
        };
        millis(cost).max(0.001)
    }
}

/// A group of operations and the size that they depend on.
#[derive(Debug)]
pub(super) struct Grown {
    title: &'static str,
    /// The unit of the size.
    size: &'static str,
    judge: Judge,
    /// Whether each figure is printed at once.
    is_shown: bool,
    operations: Vec<Operation>,
    /// Remarks on figures that the table does not show.
    notes: Vec<String>,
}

impl Grown {
    pub(super) const fn new(title: &'static str, size: &'static str, sizes: &Size) -> Self {
        let judge = Judge::Processor;
        Self { title, size, judge, is_shown: sizes.is_shown, operations: Vec::new(), notes: Vec::new() }
    }

    /// Sets the judged cost.
    pub(super) fn judged(self, judge: Judge) -> Self {
        Self { judge, ..self }
    }

    pub(super) fn note(&mut self, line: String) -> Outcome {
        self.show(&line)?;
        self.notes.push(line);
        Ok(())
    }

    fn show(&self, line: &str) -> Outcome {
        if self.is_shown {
            writeln!(std::io::stdout(), "{line}")?;
        }
        Ok(())
    }

    /// Measures requests, one at a time and in turn.
    pub(super) async fn http(
        &mut self,
        plan: &Plan,
        (name, grows): (&str, Option<&'static str>),
        size: usize,
        server: &Server,
        requests: Vec<Request>,
    ) -> Outcome {
        let requests: Arc<[Request]> = requests.into();
        let clients = http_clients(1, server.http, server.process(), &requests, 200).await?;
        self.load(plan, (name, grows), size, clients).await
    }

    /// Measures the operations of clients.
    pub(super) async fn load(
        &mut self,
        plan: &Plan,
        (name, grows): (&str, Option<&'static str>),
        size: usize,
        mut clients: Clients<impl Client>,
    ) -> Outcome {
        let limit = Instant::now() + plan.warm_up * LONGEST_WARM_UP;
        while clients.begun() < EACH_ONCE && Instant::now() < limit {
            clients.run(plan.warm_up).await?;
        }
        let mut samples = Vec::new();
        for _ in 0..plan.rounds {
            samples.push(clients.run(plan.window).await?);
        }
        // Over all windows, since one may be shorter than a tick of the processor clock.
        let cpu: Duration = samples.iter().map(|sample| sample.cpu).sum();
        let operations: usize = samples.iter().map(|sample| sample.latencies.len()).sum();
        let cpu = cpu.div_f64(operations.max(1) as f64);
        self.add((name, grows), size, Figures { cpu, ..figures(&samples) })
    }

    /// Measures the smallest and the largest size in alternation, so that other load on the machine affects both.
    /// Notes the factor between their costs.
    pub(super) async fn in_turns(
        &mut self,
        plan: &Plan,
        what: &str,
        [(of_small, smallest), (of_large, largest)]: [(&Server, Vec<Request>); 2],
    ) -> Outcome {
        let (smallest, largest): (Arc<[Request]>, Arc<[Request]>) = (smallest.into(), largest.into());
        let mut small = http_clients(1, of_small.http, of_small.process(), &smallest, 200).await?;
        let mut large = http_clients(1, of_large.http, of_large.process(), &largest, 200).await?;
        let plan = Plan { rounds: plan.rounds * 3, ..*plan };
        let Comparison { ours, floor, ratio } = compare(&plan, &mut large, &mut small).await?;
        self.note(format!(
            "{what}, in turns: the largest takes {:.2} times as long as the smallest, and {:.2} times its processor time.",
            1.0 / ratio,
            ours.cpu.as_secs_f64() / floor.cpu.as_secs_f64().max(1e-6)
        ))
    }

    /// Adds figures that were measured in another way.
    pub(super) fn add(&mut self, (name, grows): (&str, Option<&'static str>), size: usize, seen: Figures) -> Outcome {
        let (p50, p99, cpu) = (millis(seen.p50), millis(seen.p99), millis(seen.cpu));
        self.show(&format!("{name} at {size}: p50 {p50:.3} ms, p99 {p99:.3} ms, {cpu:.3} ms of processor"))?;
        let point = Point { size: size as f64, seen };
        match self.operations.iter_mut().find(|operation| operation.name == name) {
            Some(operation) => operation.points.push(point),
            None => self.operations.push(Operation { name: name.to_owned(), grows, points: vec![point] }),
        }
        Ok(())
    }

    /// Formats a section of the documentation.
    pub(super) fn text(&self) -> Outcome<String> {
        let mut text = format!("# {}\n\n", self.title);
        // Some groups have only notes.
        if !self.operations.is_empty() {
            writeln!(
                text,
                "| operation | {} | per second | p50 ms | p99 ms | processor ms | |\n|---|--:|--:|--:|--:|--:|---|",
                self.size
            )?;
        }
        for operation in &self.operations {
            for Point { size, seen } in &operation.points {
                let (p50, p99, cpu) = (millis(seen.p50), millis(seen.p99), millis(seen.cpu));
                let verdict = match self.alone(operation) {
                    Some(times) => format!("{times:.1} × alone"),
                    None if *size == operation.last() => operation.verdict(self.judge),
                    None => String::new(),
                };
                let (name, size, rate) = (&operation.name, whole(*size), whole(seen.rate));
                writeln!(text, "| {name} | {size} | {rate} | {p50:.3} | {p99:.3} | {cpu:.3} | {verdict} |")?;
            }
        }
        if !self.operations.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            writeln!(text, "- {note}")?;
        }
        Ok(text)
    }

    /// The factor between the cost [`BESIDE`] other data and the cost alone; `None` for other operations.
    fn alone(&self, operation: &Operation) -> Option<f64> {
        let name = operation.name.strip_suffix(BESIDE)?;
        let point = operation.points.first()?;
        let alone = self.operations.iter().find(|other| other.name == name)?;
        let same_size = alone.points.iter().find(|other| other.size == point.size)?;
        Some(self.judge.cost(point) / self.judge.cost(same_size))
    }
}

impl Operation {
    fn last(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.size)
    }

    fn verdict(&self, judge: Judge) -> String {
        let cost = |point: Option<&Point>| point.map_or(1.0, |point| judge.cost(point));
        let times = cost(self.points.last()) / cost(self.points.first());
        match self.grows {
            _ if self.points.len() < 2 => String::new(),
            _ if times <= NOISE => format!("does not grow ({times:.1} ×)"),
            Some(why) => format!("{times:.1} ×: {why}"),
            None => format!("**grows {times:.1} ×**"),
        }
    }
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Formats a whole number with thousands separators.
pub(super) fn whole(value: f64) -> String {
    crate::report::thousands(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(grows: Option<&'static str>, costs: &[u64]) -> Operation {
        let point = |(number, micros): (usize, &u64)| Point {
            size: 10_f64.powi(i32::try_from(number).unwrap()),
            seen: Figures { cpu: Duration::from_micros(*micros), ..Figures::default() },
        };
        Operation { name: "list".to_owned(), grows, points: costs.iter().enumerate().map(point).collect() }
    }

    #[test]
    fn a_cost_that_is_larger_at_the_end_is_said_to_grow() {
        assert_eq!(operation(None, &[100, 200, 300]).verdict(Judge::Processor), "**grows 3.0 ×**");
        assert_eq!(operation(Some("because"), &[100, 300]).verdict(Judge::Processor), "3.0 ×: because");
        assert_eq!(operation(None, &[100, 900, 120]).verdict(Judge::Processor), "does not grow (1.2 ×)");
        assert_eq!(operation(None, &[100]).verdict(Judge::Processor), "");
    }
}
