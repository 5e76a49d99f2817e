//! The load generator: kept connections, each with one request in flight, on one thread.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::outcome::{Failure, Outcome};
use crate::process::Process;

/// One of several near ends that do the same.
pub(crate) trait Client: Send + 'static {
    /// Does the operation with this number, and fails unless it was done right.
    fn operate(&mut self, number: usize) -> impl Future<Output = Outcome> + Send;
}

/// Something that can be run for a while and then says how it went.
pub(crate) trait Load {
    /// Runs for about this long.
    async fn run(&mut self, window: Duration) -> Outcome<Sample>;
}

/// What was seen in one window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// How long each operation took, ascending.
    pub(crate) latencies: Vec<Duration>,
    /// From the first beginning to the last end.
    pub(crate) elapsed: Duration,
    /// Processor time of the side that is measured.
    pub(crate) cpu: Duration,
    /// Processor time of the load generator.
    pub(crate) client_cpu: Duration,
}

impl Sample {
    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that this part of all operations (0 to 1) stayed below.
    pub(crate) fn quantile(&self, part: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((part * last as f64).round() as usize).copied().unwrap_or_default()
    }

    /// Processor time of the measured side for one operation.
    pub(crate) fn cpu_per_operation(&self) -> Duration {
        self.cpu.div_f64(self.latencies.len().max(1) as f64)
    }

    /// Which part of the time (0 to 1) the load generator's thread was busy; near 1 it is the limit.
    pub(crate) fn client_busy(&self) -> f64 {
        self.client_cpu.as_secs_f64() / self.elapsed.as_secs_f64()
    }
}

/// Clients that work side by side against one process.
pub(crate) struct Clients<C> {
    clients: Vec<C>,
    next: usize,
    /// Whose processor time counts.
    server: Process,
}

impl<C: Client> Clients<C> {
    pub(crate) const fn new(clients: Vec<C>, server: Process) -> Self {
        Self { clients, next: 0, server }
    }

    /// How many clients there are; none is left out because of a failure.
    pub(crate) const fn open(&self) -> usize {
        self.clients.len()
    }

    /// How many operations have been begun so far.
    pub(crate) const fn begun(&self) -> usize {
        self.next
    }
}

impl<C: Client> Load for Clients<C> {
    async fn run(&mut self, window: Duration) -> Outcome<Sample> {
        let (server_before, own_before) = (self.server.cpu()?, Process::Own.cpu()?);
        let numbers = Arc::new(AtomicUsize::new(self.next));
        let (start, mut running) = (Instant::now(), JoinSet::new());
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
            return Err(Failure::new("nothing was done within the window"));
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
