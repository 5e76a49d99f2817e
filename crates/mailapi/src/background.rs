//! Background work of the server: loops around single steps of the service and of the mail server.

use std::sync::Arc;
use std::time::Duration;

use mailapi_acme::Acme;
use mailapi_backend::Rounds;
use mailapi_backend_embedded::MessageStore;
use mailapi_backend_embedded::delivery_agent::DeliveryAgent;
use mailapi_backend_embedded::net::Shutdown;
use mailapi_backend_external::imap_pool::ImapPool;
use mailapi_backend_external::mailboxes::ImapMailboxes;
use mailapi_service::{Service, Unavailable};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::config::Config;
use crate::failure::Outcome;
use crate::hosted_certificates::HostedCertificates;
use crate::wiring::{Assembly, MailServer};

/// Pause of a loop after a failure. It is short because the usual cause is a database that restarts.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Time between two writes of the last use of tokens. After a crash, a session looks idle for at most this much
/// longer than it was.
const LAST_USED_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two removals of expired records. Records that are kept for days may stay some minutes longer.
const TIDY_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Time between two searches for domains whose DNS records were not checked for long.
const WATCH_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Interval between two reads of all mailboxes of a user database that is not ours. A login reads its own mailbox at
/// once, so this only delays the names and quotas of others.
const DIRECTORY_SYNC_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two searches for idle IMAP connections: the age at which the pool closes one.
const IDLE_CHECK: Duration = Duration::from_secs(5 * 60);

/// Starts the loops; they end after `shutdown`.
///
/// # Errors
/// Fails when the delivery agent cannot be set up.
pub(crate) fn start(assembly: &Assembly, config: &Config, shutdown: &Shutdown) -> Outcome<JoinSet<()>> {
    let ticks = |name, interval| Ticks::new(Rounds::of(name), interval, shutdown.clone());
    let mut tasks = follow(assembly, config, shutdown);
    if let Some(lease) = assembly.lease.clone() {
        tasks.spawn(lease.keep(shutdown.clone()));
    }
    match &assembly.mail {
        MailServer::Embedded(embedded) => {
            tasks.spawn(deliver(assembly.delivery_agent(embedded, config)?, shutdown.clone()));
            tasks.spawn(maintain(embedded.message_store().clone(), shutdown.clone()));
        }
        MailServer::External(external) => {
            tasks.spawn(close_idle(external.imap_pool().clone(), ticks("idle connections", IDLE_CHECK)));
            tasks.spawn(keep_search_index(external.mailboxes().clone(), shutdown.clone()));
            if config.mail.external.users.is_set() {
                tasks.spawn(sync_directory(assembly.service.clone(), ticks("users", DIRECTORY_SYNC_INTERVAL)));
            }
            tasks.spawn(collect_bounces(assembly.service.clone(), shutdown.clone()));
        }
    }
    tasks.spawn(complete_received(assembly.service.clone(), shutdown.clone()));
    tasks.spawn(send_webhooks(assembly.service.clone(), shutdown.clone()));
    tasks.spawn(write_last_used(assembly.service.clone(), ticks("last used", LAST_USED_INTERVAL)));
    tasks.spawn(prune(assembly.service.clone(), ticks("tidy", TIDY_INTERVAL)));
    tasks.spawn(watch_domains(assembly.service.clone(), ticks("domains", WATCH_INTERVAL)));
    Ok(tasks)
}

/// Starts only the loops that depend on the mail server's log: delivery events, their statistics, the log of events,
/// and recovery of interrupted submissions.
pub(crate) fn follow(assembly: &Assembly, config: &Config, shutdown: &Shutdown) -> JoinSet<()> {
    let (service, stop) = (|| assembly.service.clone(), || shutdown.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_deliveries(service(), stop()));
    tasks.spawn(roll_up(service(), stop()));
    tasks.spawn(read_events(service(), stop()));
    let interval = config.recovery_interval();
    tasks.spawn(recover(service(), interval, Ticks::new(Rounds::of("recovery"), interval, stop())));
    tasks
}

/// Orders the certificate, and renews it in time.
pub(crate) async fn keep_certificate(mut acme: Acme, mut shutdown: Shutdown) {
    let mut rounds = Rounds::of("certificate");
    loop {
        rounds.begin();
        // An order that is interrupted here is repeated after the next start.
        let pause = tokio::select! {
            () = shutdown.requested() => return,
            pause = acme.step() => pause,
        };
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Orders the certificates of domains' pages, and renews them in time.
pub(crate) async fn keep_hosted_certificates(mut certificates: HostedCertificates, mut shutdown: Shutdown) {
    let mut rounds = Rounds::of("hosted certificates");
    loop {
        rounds.begin();
        let pause = tokio::select! {
            () = shutdown.requested() => return,
            pause = certificates.step() => pause,
        };
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Closes idle IMAP connections.
async fn close_idle(pool: ImapPool, mut ticks: Ticks) {
    while ticks.next().await {
        pool.close_idle();
    }
}

/// Indexes the mailboxes that were searched. Can be dropped at any point: each step is one transaction.
async fn keep_search_index(mailboxes: Arc<ImapMailboxes>, mut shutdown: Shutdown) {
    tokio::select! {
        () = shutdown.requested() => {}
        () = mailboxes.keep_index(Rounds::of("search index")) => {}
    }
}

/// Delivers queued messages to other servers.
async fn deliver(delivery_agent: DeliveryAgent, shutdown: Shutdown) {
    delivery_agent.run(shutdown, Rounds::of("courier")).await;
}

/// Maintains the message store: sweeps, indexes and removes expired records. Can be dropped at any point: each step
/// is one transaction.
async fn maintain(message_store: MessageStore, mut shutdown: Shutdown) {
    tokio::select! {
        () = shutdown.requested() => {}
        () = message_store.maintain(Rounds::of("housekeeping")) => {}
    }
}

/// Reads delivery events as they arrive, and a last time at shutdown.
async fn follow_deliveries(service: Service, mut shutdown: Shutdown) {
    let mut rounds = Rounds::of("deliveries");
    loop {
        rounds.begin();
        let pause = match service.follow_once().await {
            Ok((_, true)) => continue,
            Ok((_, false)) => Duration::MAX,
            Err(error) => {
                tracing::warn!(%error, "failed to process the delivery feed; retrying");
                RETRY_PAUSE
            }
        };
        tokio::select! {
            () = shutdown.requested() => break,
            () = service.deliveries_changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    // The last requests may have caused events after the last round.
    log_failure("failed to process the last delivery events before the stop", service.follow_once().await);
    log_failure("failed to save the state of the log follower", service.stop_following().await);
}

/// Completes the events of received mail. Can be dropped at any point: each event is one transaction.
async fn complete_received(service: Service, mut shutdown: Shutdown) {
    /// Another process may follow the mail server's log.
    const POLL: Duration = Duration::from_secs(1);
    let mut rounds = Rounds::of("received mail");
    loop {
        rounds.begin();
        let pause = tokio::select! {
            () = shutdown.requested() => return,
            done = service.complete_received_once() => match done {
                Ok(true) => continue,
                Ok(false) => POLL,
                Err(error) => {
                    tracing::warn!(%error, "failed to complete the events of received mail; retrying");
                    RETRY_PAUSE
                }
            },
        };
        tokio::select! {
            () = shutdown.requested() => return,
            () = service.mail_received() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Synchronizes the copied accounts with the external user database.
async fn sync_directory(service: Service, mut ticks: Ticks) {
    loop {
        log_failure("failed to synchronize accounts with the user database", service.sync_directory_once().await);
        if !ticks.next().await {
            return;
        }
    }
}

/// Reads the bounce mailbox whenever the backend asks for it.
async fn collect_bounces(service: Service, mut shutdown: Shutdown) {
    let mut rounds = Rounds::of("bounces");
    loop {
        rounds.begin();
        let pause = match service.collect_bounces_once().await {
            Ok((_, true)) => continue,
            Ok((_, false)) => Duration::ZERO,
            Err(error) => {
                tracing::warn!(%error, "failed to collect bounces; retrying");
                RETRY_PAUSE
            }
        };
        let rest = async {
            service.bounces_changed().await;
            tokio::time::sleep(pause).await;
        };
        tokio::select! {
            () = shutdown.requested() => return,
            () = rest => {}
        }
    }
}

/// Updates the statistics. Events that are not counted at shutdown are counted after the next start.
async fn roll_up(service: Service, mut shutdown: Shutdown) {
    let mut rounds = Rounds::of("statistics");
    loop {
        rounds.begin();
        let pause = match service.roll_up_once().await {
            Ok(step) if step.more => Duration::ZERO,
            Ok(_) => service.stats_limits().roll_up_pause,
            Err(error) => {
                tracing::warn!(%error, "failed to update the statistics; retrying");
                RETRY_PAUSE
            }
        };
        tokio::select! {
            () = shutdown.requested() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    log_failure("failed to store the counts of inbound mail", service.write_last_inbound().await);
}

/// Numbers new events and reads them for the streams.
async fn read_events(service: Service, mut shutdown: Shutdown) {
    let mut rounds = Rounds::of("events");
    loop {
        rounds.begin();
        let rest = async {
            match service.read_events_once().await {
                Ok(true) => {}
                Ok(false) => service.events_written().await,
                Err(error) => {
                    tracing::warn!(%error, "failed to read new events; retrying");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = shutdown.requested() => return,
            () = rest => {}
        }
    }
}

/// Sends events to webhooks.
async fn send_webhooks(service: Service, mut shutdown: Shutdown) {
    let mut rounds = Rounds::of("webhooks");
    let stop = async { shutdown.requested().await };
    service.webhook_sender().run(stop, || rounds.begin()).await;
}

/// Writes the last use of tokens at intervals and at shutdown.
async fn write_last_used(service: Service, mut ticks: Ticks) {
    loop {
        let goes_on = ticks.next().await;
        log_failure("failed to store the last uses of tokens", service.write_last_used_once().await);
        if !goes_on {
            return;
        }
    }
}

/// Recovers messages whose submission was interrupted.
async fn recover(service: Service, pending_grace: Duration, mut ticks: Ticks) {
    while ticks.next().await {
        log_failure("failed to look up interrupted messages", service.recover_once(pending_grace).await);
    }
}

/// Removes expired records. Begins at the start: a server that is restarted every few minutes would never do it.
async fn prune(service: Service, mut ticks: Ticks) {
    loop {
        // Can be dropped at any point: each step is one transaction.
        tokio::select! {
            () = ticks.stopped() => return,
            done = service.prune_once() => log_failure("failed to remove expired records", done),
        }
        if !ticks.next().await {
            return;
        }
    }
}

/// Looks at the DNS records of domains. Not at the start: a server that is restarted often asks no more than another.
async fn watch_domains(service: Service, mut ticks: Ticks) {
    while ticks.next().await {
        let mut more = true;
        while more {
            tokio::select! {
                () = ticks.stopped() => return,
                done = service.watch_domains_once() => {
                    more = done.as_ref().is_ok_and(|more| *more);
                    log_failure("failed to check the DNS records of domains", done);
                }
            }
        }
    }
}

fn log_failure<T>(what: &str, result: Result<T, Unavailable>) {
    if let Err(error) = result {
        tracing::warn!(%error, "{what}");
    }
}

/// Ticks at a fixed interval, until shutdown.
struct Ticks {
    rounds: Rounds,
    interval: tokio::time::Interval,
    shutdown: Shutdown,
}

impl Ticks {
    fn new(rounds: Rounds, period: Duration, shutdown: Shutdown) -> Self {
        let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { rounds, interval, shutdown }
    }

    /// Waits for shutdown.
    async fn stopped(&mut self) {
        self.shutdown.requested().await;
    }

    /// Waits for the next tick; returns false at shutdown.
    async fn next(&mut self) -> bool {
        tokio::select! {
            () = self.shutdown.requested() => false,
            _ = self.interval.tick() => {
                self.rounds.begin();
                true
            }
        }
    }
}
