//! Windows that begin when the server has finished the background work of the one before.

use std::time::{Duration, Instant};

use crate::load::{Client, Clients, Load, Sample};
use crate::outcome::Outcome;
use crate::report::Row;
use crate::server::Server;

/// Clients whose messages are indexed between the windows. Otherwise the server would index them during the next one, or
/// during that of the floor.
pub(crate) struct Settled<'a, C> {
    server: &'a Server,
    clients: Clients<C>,
    /// The number of operations in the last window.
    last: usize,
    /// Time from the end of the last window until the server was idle.
    caught_up: Duration,
}

impl<'a, C: Client> Settled<'a, C> {
    pub(crate) const fn new(server: &'a Server, clients: Clients<C>) -> Self {
        Self { server, clients, last: 0, caught_up: Duration::ZERO }
    }

    /// The number of operations started so far.
    pub(crate) const fn begun(&self) -> usize {
        self.clients.begun()
    }

    /// The figure of the time until the server has caught up with the last window.
    pub(crate) fn caught_up(&self, case: &str) -> Row {
        Row::plain(
            &format!("{case}: until index and statistics have caught up with {} messages", self.last),
            format!("{:.1} s", self.caught_up.as_secs_f64()),
        )
    }
}

impl<C: Client> Load for Settled<'_, C> {
    async fn run(&mut self, window: Duration) -> Outcome<Sample> {
        let sample = self.clients.run(window).await?;
        let last_answer = Instant::now();
        self.server.settle().await?;
        (self.last, self.caught_up) = (sample.latencies.len(), last_answer.elapsed());
        Ok(sample)
    }
}
