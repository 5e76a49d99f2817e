//! The delivery agent: transmits due messages from the queue to the recipients' servers, and notifies
//! senders.
//!
//! The order of writes for a message, and the effect of a crash at each point:
//! 1. The recipients are claimed with a lease. After a crash they are due again when the lease ends, or after
//!    the next start.
//! 2. The message is transmitted. Before the final dot the other server has nothing.
//! 3. The final dot is answered. Each recipient's result, its delivery event and the notices to the sender
//!    are recorded in one transaction.
//!
//! If the connection or this program ends between the final dot and the record, the other server may have the
//! message without a record here. The message is then sent again, since mail must not be lost: the recipient
//! may get it twice. No SMTP client can avoid this (RFC 1047). The queue's transaction limits the window to
//! that moment. While this program runs, it waits for a failing database, and sends nothing twice.

mod adapted;
mod answers;
mod attempt_outcome;
mod connect;
mod dane;
mod delivery;
mod envelope;
mod fair_rotation;
mod in_flight;
mod next_hop;
mod notices;
mod pace;
mod queue_run;
mod retry;
mod return_hosts;
mod settings;
mod sts;
mod tls_counts;
mod transactions;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mailapi_backend::{Dns, Rounds, SignOutgoing};
use mailapi_tls::{TlsError, Trust, client_config};

use crate::MessageStore;
use crate::message_store::MessageStoreError;
use crate::net::Shutdown;
use in_flight::InFlight;
use pace::Pace;
use queue_run::QueueRun;
use return_hosts::ReturnHosts;

pub use mailapi_smtp::client::TlsPolicy as RelayTls;
pub use settings::{DeliveryAgentSettings, Relay, RelayLogin};
use sts::Sts;
use tls_counts::TlsCounts;
pub use tls_counts::TlsResult;

/// Delivers the queue. Clones share the state. A queue must have only one delivery agent.
#[derive(Clone)]
pub struct DeliveryAgent(Arc<Inner>);

struct Inner {
    message_store: MessageStore,
    /// Our host name, for EHLO and reports. Among the MX hosts of a domain it indicates a mail loop.
    hostname: String,
    dns: Arc<dyn Dns>,
    settings: DeliveryAgentSettings,
    in_flight: InFlight,
    return_hosts: ReturnHosts,
    pace: Pace,
    /// Signs automatic answers, and messages that were converted for a server.
    signer: OnceLock<Arc<dyn SignOutgoing>>,
    /// Policies of other domains.
    sts: Sts,
    tls_counts: TlsCounts,
    /// For opportunistic TLS, which accepts any certificate.
    any_tls: Arc<rustls::ClientConfig>,
    /// For a relay with a verified certificate.
    relay_tls: Option<Arc<rustls::ClientConfig>>,
}

impl DeliveryAgent {
    /// Returns a delivery agent for the queue of `message_store`; `hostname` is our host name.
    ///
    /// # Errors
    /// [`TlsError`] if the relay's certificate must be verified and no trusted certificates are available.
    pub fn new(
        message_store: MessageStore,
        hostname: impl Into<String>,
        dns: Arc<dyn Dns>,
        settings: DeliveryAgentSettings,
    ) -> Result<Self, TlsError> {
        let any_tls = client_config(&Trust::Anybody)?;
        let verified = settings.relay.as_ref().filter(|relay| relay.is_verified());
        let relay_tls = verified.map(|relay| client_config(&relay.trust)).transpose()?;
        let (hostname, in_flight, return_hosts) = (hostname.into(), InFlight::default(), ReturnHosts::default());
        let (sts, tls_counts) = (Sts::new(message_store.clone(), &settings), TlsCounts::default());
        Ok(Self(Arc::new(Inner {
            sts,
            tls_counts,
            message_store,
            hostname,
            dns,
            settings,
            in_flight,
            return_hosts,
            pace: Pace::default(),
            signer: OnceLock::new(),
            any_tls,
            relay_tls,
        })))
    }

    /// Signs automatic answers and converted messages with this signer. Without one they have no signature.
    pub fn sign_with(&self, signer: Arc<dyn SignOutgoing>) {
        // A second signer would be the same one.
        let _ = self.0.signer.set(signer);
    }

    /// Returns how connections were protected since the last call, with their numbers.
    pub fn take_tls_counts(&self) -> impl Iterator<Item = (TlsResult, u64)> {
        self.0.tls_counts.take()
    }

    /// Composes waiting automatic answers, and attempts all due recipients once. Returns their number.
    ///
    /// May be dropped at any time: unrecorded claims become due again when their leases end.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn deliver_due_once(&self) -> Result<usize, MessageStoreError> {
        self.0.send_answers().await?;
        self.correct_waits().await?;
        let mut queue_run = QueueRun::new(self.clone());
        let mut claimed = 0;
        loop {
            claimed += queue_run.fill().await?;
            if !queue_run.finish_one().await {
                return Ok(claimed);
            }
        }
    }

    /// Delivers until the shutdown signal, then finishes active transmissions within the grace period.
    pub async fn run(&self, mut shutdown: Shutdown, mut rounds: Rounds) {
        let Inner { message_store, settings, .. } = &*self.0;
        if let Err(error) = message_store.end_leases().await {
            // The leases still end by themselves, only later.
            tracing::warn!(%error, "leases of the previous run could not be ended; their messages wait until the leases expire");
        }
        let mut queue_run = QueueRun::new(self.clone());
        loop {
            rounds.begin();
            let pause = match self.step(&mut queue_run).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::error!(%error, "the queue could not be read; retrying");
                    settings.failure_pause
                }
            };
            // Whatever ends the wait, the next step checks the queue again.
            tokio::select! {
                () = shutdown.requested() => break,
                true = queue_run.finish_one() => {}
                () = message_store.queue_changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        // No delivery starts during a shutdown; unused claims end with their leases.
        queue_run.give_up_waiting();
        let rest = async { while queue_run.finish_one().await {} };
        if tokio::time::timeout(settings.grace, rest).await.is_err() {
            tracing::warn!("deliveries aborted at shutdown; they are retried after the next start");
        }
    }

    async fn correct_waits(&self) -> Result<(), MessageStoreError> {
        let Inner { message_store, settings, .. } = &*self.0;
        let latest = message_store.clock().now().plus(settings.longest_wait());
        Ok(message_store.correct_waits(latest).await?)
    }

    /// Starts due deliveries. Returns the time until the next one is due.
    async fn step(&self, queue_run: &mut QueueRun) -> Result<Duration, MessageStoreError> {
        self.0.send_answers().await?;
        self.correct_waits().await?;
        queue_run.fill().await?;
        if queue_run.is_full() {
            // Only a finished delivery frees capacity.
            return Ok(self.0.settings.longest_pause);
        }
        let due = self.0.message_store.next_due_at().await?;
        let pause = due.map(|due| due.since(self.0.message_store.clock().now()));
        Ok(pause.unwrap_or(Duration::MAX).min(self.0.settings.longest_pause))
    }
}
