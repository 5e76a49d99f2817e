//! What the server does without being asked: loops around single steps of the service.

use std::time::Duration;

use mailapi_backend_embedded::Maildrop;
use mailapi_backend_embedded::courier::Courier;
use mailapi_backend_embedded::net::Shutdown;
use mailapi_service::{Service, Unavailable};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::config::Config;
use crate::wiring::Assembly;

/// Starts the loops; they end by themselves after `shutdown`.
pub(crate) fn start(assembly: &Assembly, courier: Courier, config: &Config, shutdown: &Shutdown) -> JoinSet<()> {
    let (service, settings) = (&assembly.service, &config.housekeeping);
    let (stop, pending_grace) = (shutdown.clone(), config.mail.pending_grace.0);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { courier.run(stop).await });
    let stop = shutdown;
    tasks.spawn(keep_house(assembly.embedded.maildrop().clone(), stop.clone()));
    tasks.spawn(follow_deliveries(service.clone(), settings.retry_pause.0, stop.clone()));
    let every = |interval: Duration| Ticks::new(interval, stop.clone());

    let (mut ticks, last_used) = (every(settings.last_used_interval.0), service.clone());
    tasks.spawn(async move {
        while ticks.next().await {
            complain("last uses of tokens could not be written", last_used.write_last_used_once().await);
        }
        complain("last uses of tokens could not be written", last_used.write_last_used_once().await);
    });
    let (mut ticks, recovery) = (every(settings.recovery_interval.0), service.clone());
    tasks.spawn(async move {
        while ticks.next().await {
            complain("interrupted messages could not be looked up", recovery.recover_once(pending_grace).await);
        }
    });
    let (mut ticks, tidy) = (every(settings.tidy_interval.0), service.clone());
    tasks.spawn(async move {
        while ticks.next().await {
            complain("old records could not be removed", tidy.tidy_once().await);
        }
    });
    tasks
}

/// Reads what the mail server reports, as soon as there is something, and a last time at the end.
async fn follow_deliveries(service: Service, retry_pause: Duration, mut stop: Shutdown) {
    loop {
        let pause = match service.follow_once().await {
            Ok((_, true)) => continue,
            Ok((_, false)) => Duration::MAX,
            Err(error) => {
                tracing::warn!(%error, "the delivery feed could not be followed");
                retry_pause
            }
        };
        tokio::select! {
            () = stop.requested() => break,
            () = service.deliveries_changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    complain("the delivery feed could not be followed to its end", service.follow_once().await);
}

/// Sweeps, indexes and forgets in the maildrop. It may be dropped at any point: each step is one transaction.
async fn keep_house(maildrop: Maildrop, mut stop: Shutdown) {
    tokio::select! {
        () = stop.requested() => {}
        () = maildrop.keep_house() => {}
    }
}

fn complain<T>(what: &str, result: Result<T, Unavailable>) {
    if let Err(error) = result {
        tracing::warn!(%error, "{what}");
    }
}

/// Moments at a steady distance, until the end.
struct Ticks {
    interval: tokio::time::Interval,
    stop: Shutdown,
}

impl Ticks {
    fn new(period: Duration, stop: Shutdown) -> Self {
        let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { interval, stop }
    }

    /// Waits for the next moment; false at the end.
    async fn next(&mut self) -> bool {
        tokio::select! {
            () = self.stop.requested() => false,
            _ = self.interval.tick() => true,
        }
    }
}
