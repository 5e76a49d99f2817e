//! A pool of connections to the SMTP server.
//!
//! A message takes an idle connection, or opens one up to a limit. Servers close idle connections, and all of them on
//! a restart. If a connection dies before the final dot is written, the message is sent over a new one, which cannot
//! duplicate it. After the final dot, nothing is ever sent again.

mod commit_gate;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mailapi_model::Blob;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Cause, End, Failure, Outcome};
use mailapi_smtp_client::{Connection, OutboundMessage};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::breaker::Breaker;
pub use commit_gate::{CommitGate, GateOpener};
pub use settings::SmtpSettings;

/// Connections to one SMTP server.
pub struct SmtpPool {
    settings: SmtpSettings,
    tls: Arc<rustls::ClientConfig>,
    connection_permits: Semaphore,
    /// The most recently used one is last, so unneeded ones expire.
    idle: Mutex<Vec<Idle>>,
    breaker: Breaker,
}

/// An idle connection.
struct Idle {
    connection: Connection,
    since: Instant,
}

impl SmtpPool {
    /// Creates an empty pool; the first message opens a connection.
    #[must_use]
    pub fn new(settings: SmtpSettings, tls: Arc<rustls::ClientConfig>) -> Self {
        Self {
            connection_permits: Semaphore::new(settings.max_connections.max(1)),
            breaker: Breaker::new(settings.failures_until_pause, settings.pause, settings.max_pause),
            idle: Mutex::new(Vec::new()),
            settings,
            tls,
        }
    }

    /// Transmits a message as soon as the commit gate opens; the envelope is sent before.
    ///
    /// # Errors
    /// The reason, if the server is unreachable or the message cannot be read. The server then has received nothing
    /// of it.
    pub async fn send(
        &self,
        envelope: &Envelope,
        message: Blob,
        mut commit_gate: CommitGate,
    ) -> Result<Outcome, String> {
        let outbound =
            OutboundMessage::of(message).await.map_err(|error| Cause::Unreadable(error.to_string()).to_string())?;
        let _connection_permit = self.connection_permit_for(&mut commit_gate).await?;
        if let Some(warm) = self.warm() {
            let outcome = self.send_over(warm.connection, envelope, &outbound, &mut commit_gate).await;
            if !died_while_idle(&outcome) {
                return Ok(outcome);
            }
        }
        let outcome = self.send_over(self.fresh().await?, envelope, &outbound, &mut commit_gate).await;
        if !matches!(outcome.end, End::Failed(Failure::Lost { cause: Cause::NotAwaited, .. })) {
            return Ok(outcome);
        }
        // The commit gate is open by now, so the server does not have to wait again.
        Ok(self.send_over(self.fresh().await?, envelope, &outbound, &mut commit_gate).await)
    }

    async fn send_over(
        &self,
        mut connection: Connection,
        envelope: &Envelope,
        outbound: &OutboundMessage,
        commit_gate: &mut CommitGate,
    ) -> Outcome {
        let outcome = connection.send_when(commit_gate.is_open(), envelope, outbound).await;
        self.keep(connection);
        outcome
    }

    /// Checks whether mail could be transmitted now.
    ///
    /// # Errors
    /// Why the server is unavailable.
    pub async fn check(&self) -> Result<(), String> {
        // If all connections are in use, the server evidently works.
        let Ok(_connection_permit) = self.connection_permits.try_acquire() else { return Ok(()) };
        match self.warm() {
            // It carried no message, so its idle time goes on.
            Some(warm) => self.idle().push(warm),
            None => self.keep(self.fresh().await?),
        }
        Ok(())
    }

    /// Checks whether the server responds, on a new connection.
    ///
    /// # Errors
    /// Why the server is unavailable.
    pub async fn greeting(&self) -> Result<(), String> {
        let _connection_permit = self.connection_permit().await?;
        let fresh = self.fresh().await?;
        self.keep(fresh);
        Ok(())
    }

    /// Returns the number of idle connections.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.idle().len()
    }

    /// Takes a connection slot for a message. A free one is held while the message is stored. Otherwise the wait
    /// begins only after commit: the messages that hold the slots may themselves be waiting for their commit.
    async fn connection_permit_for(&self, commit_gate: &mut CommitGate) -> Result<SemaphorePermit<'_>, String> {
        match self.connection_permits.try_acquire() {
            Ok(connection_permit) => Ok(connection_permit),
            Err(_) if commit_gate.is_open().await => self.connection_permit().await,
            Err(_) => Err(Cause::Withdrawn.to_string()),
        }
    }

    async fn connection_permit(&self) -> Result<SemaphorePermit<'_>, String> {
        match timeout(self.settings.wait_timeout, self.connection_permits.acquire()).await {
            Ok(connection_permit) => connection_permit.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no connection became free within {:?}", self.settings.wait_timeout)),
        }
    }

    /// Returns an idle connection that appears to be alive.
    fn warm(&self) -> Option<Idle> {
        self.close_expired();
        loop {
            let mut idle = self.idle().pop()?;
            if idle.connection.is_reusable() {
                return Some(idle);
            }
        }
    }

    async fn fresh(&self) -> Result<Connection, String> {
        let attempt = self.breaker.attempt()?;
        let SmtpSettings { host, port, time_limits, .. } = &self.settings;
        let config = self.settings.client_config();
        match Connection::open((host.as_str(), *port), host, config, &self.tls, *time_limits).await {
            Ok(connection) => {
                attempt.succeeded();
                Ok(connection)
            }
            Err(failure) => {
                let reason = format!("{host}:{port}: {failure}");
                attempt.failed(&reason);
                Err(reason)
            }
        }
    }

    fn keep(&self, mut connection: Connection) {
        if connection.is_reusable() {
            self.idle().push(Idle { connection, since: Instant::now() });
        }
        self.close_expired();
    }

    fn close_expired(&self) {
        let now = Instant::now();
        let has_expired = |idle: &mut Idle| now.duration_since(idle.since) >= self.settings.idle_lifetime;
        let expired: Vec<Idle> = self.idle().extract_if(.., has_expired).collect();
        for idle in expired {
            tokio::spawn(idle.connection.close());
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a warm connection failed before the message was complete: it was closed while idle, or its replies were
/// out of step. Excludes time-outs, where the server is present but slow, and cancelled messages.
fn died_while_idle(outcome: &Outcome) -> bool {
    match &outcome.end {
        End::Failed(Failure::Lost { cause: Cause::TimedOut(_) | Cause::Withdrawn, .. }) => false,
        End::Failed(_) => true,
        _ => false,
    }
}
