//! The load generator: persistent connections with one request in flight each, on one thread.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::outcome::{Failure, Outcome};
use crate::process::Process;

/// One of several clients that do the same work.
pub(crate) trait Client: Send + 'static {
    /// Performs the operation with this number; fails on a wrong result.
    fn operate(&mut self, number: usize) -> impl Future<Output = Outcome> + Send;
}

/// A load that runs for a while and returns measurements.
pub(crate) trait Load {
    /// Runs for about this long.
    async fn run(&mut self, window: Duration) -> Outcome<Sample>;
}

/// The measurements of one window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// The latency of each operation, ascending.
    pub(crate) latencies: Vec<Duration>,
    /// From the first start to the last end.
    pub(crate) elapsed: Duration,
    /// Processor time of the measured process.
    pub(crate) cpu: Duration,
    /// Processor time of the load generator.
    pub(crate) client_cpu: Duration,
}

impl Sample {
    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency below which this part (0 to 1) of all operations stays.
    pub(crate) fn quantile(&self, part: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((part * last as f64).round() as usize).copied().unwrap_or_default()
    }

    /// Processor time of the measured process per operation.
    pub(crate) fn cpu_per_operation(&self) -> Duration {
        self.cpu.div_f64(self.latencies.len().max(1) as f64)
    }

    /// The part of the time (0 to 1) during which the load generator's thread was busy; near 1 it is the limit.
    pub(crate) fn client_busy(&self) -> f64 {
        self.client_cpu.as_secs_f64() / self.elapsed.as_secs_f64()
    }
}

/// Parallel clients of one process.
pub(crate) struct Clients<C> {
    clients: Vec<C>,
    next: usize,
    /// The process whose processor time is measured.
    server: Process,
}

impl<C: Client> Clients<C> {
    pub(crate) const fn new(clients: Vec<C>, server: Process) -> Self {
        Self { clients, next: 0, server }
    }

    /// The number of clients; a failed one would have ended the run.
    pub(crate) const fn open(&self) -> usize {
        self.clients.len()
    }

    /// The number of operations started so far.
    pub(crate) const fn begun(&self) -> usize {
        self.next
    }
}

impl<C: Client> Load for Clients<C> {
    async fn run(&mut self, window: Duration) -> Outcome<Sample> {
        let (server_before, own_before) = (self.server.cpu()?, Process::Own.cpu()?);
        let numbers = Arc::new(AtomicUsize::new(self.next));
        let (start, mut running) = (Instant::now(), JoinSet::new());
        // Tasks own their clients and return them, so that connections are reused in the next window.
        for client in self.clients.drain(..) {
            running.spawn(work(client, Arc::clone(&numbers), start + window));
        }
        let mut latencies = Vec::new();
        while let Some(done) = running.join_next().await {
            let (client, seen) = done??;
            self.clients.push(client);
            latencies.extend(seen);
        }
        let elapsed = start.elapsed();
        self.next = numbers.load(Ordering::Relaxed);
        let (cpu, client_cpu) = (self.server.cpu()? - server_before, Process::Own.cpu()? - own_before);
        latencies.sort_unstable();
        if latencies.is_empty() {
            return Err(Failure::new("no operation ended within the window"));
        }
        Ok(Sample { latencies, elapsed, cpu, client_cpu })
    }
}

async fn work<C: Client>(mut client: C, numbers: Arc<AtomicUsize>, end: Instant) -> Outcome<(C, Vec<Duration>)> {
    let mut latencies = Vec::new();
    let mut before = Instant::now();
    while before < end {
        client.operate(numbers.fetch_add(1, Ordering::Relaxed)).await?;
        let after = Instant::now();
        latencies.push(after - before);
        before = after;
    }
    Ok((client, latencies))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(millis: impl IntoIterator<Item = u64>) -> Sample {
        let latencies: Vec<_> = millis.into_iter().map(Duration::from_millis).collect();
        let elapsed = Duration::from_secs(2);
        Sample { latencies, elapsed, cpu: Duration::from_secs(1), client_cpu: Duration::from_millis(500) }
    }

    #[test]
    fn quantiles_are_latencies_that_were_seen() {
        let hundred = sample(1..=100);
        assert_eq!(hundred.quantile(0.5), Duration::from_millis(51));
        assert_eq!(hundred.quantile(0.99), Duration::from_millis(99));
        assert_eq!(hundred.quantile(1.0), Duration::from_millis(100));
        assert_eq!(sample([]).quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn rates_and_costs_are_per_operation() {
        let hundred = sample(1..=100);
        assert_eq!(hundred.rate(), 50.0);
        assert_eq!(hundred.cpu_per_operation(), Duration::from_millis(10));
        assert_eq!(hundred.client_busy(), 0.25);
    }
}
