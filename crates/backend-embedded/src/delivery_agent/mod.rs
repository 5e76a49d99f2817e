//! The courier: takes what is due from the queue to the recipients' servers, and tells senders what became of it.
//!
//! The order of writes for one message, and what a crash at each point leaves:
//! 1. Its recipients are claimed with a lease. After a crash the lease ends, at the next start at once, and they are
//!    due again.
//! 2. The message goes over the wire. Until the final dot the other server has nothing.
//! 3. The final dot is answered; each recipient's result, its delivery event and the notices to the sender are
//!    recorded in one transaction.
//!
//! When the connection, or this program, ends between the final dot and the record, the other server may have the
//! message although nothing here says so. It is then sent again, since mail must not be lost: the recipient may get
//! it twice. No SMTP client can avoid this (RFC 1047). The queue's transaction keeps the window to that one moment; while
//! this program runs, a database that does not write is waited for, and nothing is sent twice.

mod attempt_outcome;
mod connect;
mod delivery;
mod envelope;
mod in_flight;
mod next_hop;
mod notices;
mod outbound_message;
mod queue_run;
mod retry;
mod return_hosts;
mod settings;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{Dns, Rounds};
use mailapi_tls::{TlsError, Trust};

use crate::MessageStore;
use crate::message_store::MessageStoreError;
use crate::net::{ClientTls, Shutdown};
use in_flight::InFlight;
use queue_run::QueueRun;
use return_hosts::ReturnHosts;

pub use settings::{DeliveryAgentSettings, Relay, RelayLogin, RelayTls};

/// Delivers the queue; clones share it. There must be one courier for a queue.
#[derive(Clone)]
pub struct DeliveryAgent(Arc<Inner>);

struct Inner {
    message_store: MessageStore,
    /// Our name: in EHLO, in reports, and among the MX hosts of a domain the sign that mail would come back to us.
    hostname: String,
    dns: Arc<dyn Dns>,
    settings: DeliveryAgentSettings,
    in_flight: InFlight,
    return_hosts: ReturnHosts,
    /// For TLS that is used because it is offered.
    any_tls: ClientTls,
    /// For a relay whose certificate counts.
    relay_tls: Option<ClientTls>,
}

impl DeliveryAgent {
    /// A courier for the queue of `message_store`, on the host of this name.
    ///
    /// # Errors
    /// [`TlsError`] when the relay's certificate is to be verified and there is nothing to verify it by.
    pub fn new(
        message_store: MessageStore,
        hostname: impl Into<String>,
        dns: Arc<dyn Dns>,
        settings: DeliveryAgentSettings,
    ) -> Result<Self, TlsError> {
        let any_tls = ClientTls::new(&Trust::Anybody)?;
        let verified = settings.relay.as_ref().filter(|relay| relay.tls.is_verified());
        let relay_tls = verified.map(|relay| ClientTls::new(&relay.trust)).transpose()?;
        let (hostname, in_flight, return_hosts) = (hostname.into(), InFlight::default(), ReturnHosts::default());
        Ok(Self(Arc::new(Inner {
            message_store,
            hostname,
            dns,
            settings,
            in_flight,
            return_hosts,
            any_tls,
            relay_tls,
        })))
    }

    /// Tries everything that is due now, each recipient once, and answers how many recipients that were.
    ///
    /// May be dropped at any time: what was claimed and not recorded is due again when its lease ends.
    ///
    /// # Errors
    /// Only those of the database.
    pub async fn deliver_due_once(&self) -> Result<usize, MessageStoreError> {
        let mut queue_run = QueueRun::new(self.clone());
        let mut claimed = 0;
        loop {
            claimed += queue_run.fill().await?;
            if !queue_run.finish_one().await {
                return Ok(claimed);
            }
        }
    }

    /// Delivers until the signal comes; then finishes what is on the wire, for as long as the settings allow.
    pub async fn run(&self, mut shutdown: Shutdown, mut rounds: Rounds) {
        let Inner { message_store, settings, .. } = &*self.0;
        if let Err(error) = message_store.end_leases().await {
            // They end by themselves, only later.
            tracing::warn!(%error, "leases of an earlier courier could not be ended");
        }
        let mut queue_run = QueueRun::new(self.clone());
        loop {
            rounds.begin();
            let pause = match self.step(&mut queue_run).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::error!(%error, "the queue could not be read");
                    settings.failure_pause
                }
            };
            tokio::select! {
                () = shutdown.requested() => break,
                true = queue_run.finish_one() => {}
                () = message_store.queue_changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        queue_run.give_up_waiting();
        let rest = async { while queue_run.finish_one().await {} };
        if tokio::time::timeout(settings.grace, rest).await.is_err() {
            tracing::warn!("deliveries were cut; they are tried again");
        }
    }

    /// Starts what is due; answers for how long nothing will be.
    async fn step(&self, queue_run: &mut QueueRun) -> Result<Duration, MessageStoreError> {
        queue_run.fill().await?;
        if queue_run.is_full() {
            // Only the end of a delivery makes room.
            return Ok(self.0.settings.longest_pause);
        }
        let due = self.0.message_store.next_due_at().await?;
        let pause = due.map(|due| due.since(self.0.message_store.clock().now()));
        Ok(pause.unwrap_or(Duration::MAX).min(self.0.settings.longest_pause))
    }
}
