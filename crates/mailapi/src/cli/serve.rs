//! `mailapi serve`.

use std::sync::Arc;
use std::time::Duration;

use mailapi_acme::Acme;
use mailapi_backend_embedded::net::Shutdown;
use mailapi_service::{Quarantined, Reconciled};
use tokio::task::{JoinError, JoinSet};

use super::print;
use crate::background::{self, keep_certificate, keep_hosted_certificates};
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::dns_challenges::DnsChallenges;
use crate::dns_keys::DnsKeyRecords;
use crate::failure::{Failure, Outcome};
use crate::first_token;
use crate::host_name;
use crate::hosted_certificates::HostedCertificates;
use crate::listeners::ServerListeners;
use crate::logging::Style;
use crate::reload::{Files, keep_fresh};
use crate::signals::{Hangups, Signals};
use crate::system::{SystemClock, SystemEntropy};
use crate::welcome::{Addresses, FirstStart};
use crate::wiring::{Assembly, MailServer};

pub(super) async fn run(config: &Config, style: Style) -> Outcome {
    // A signal must be received even while the server still starts.
    let (mut signals, hangups) = (Signals::listen()?, Hangups::listen()?);
    let directory = DataDir::open(&config.data_dir)?;
    let lock = directory.lock()?;
    let assembly = Assembly::open_server(config, &directory, &lock).await?;
    let outcome = serve(config, &directory, &assembly, style, (&mut signals, hangups)).await;
    assembly.close().await;
    outcome
}

async fn serve(
    config: &Config,
    directory: &DataDir,
    assembly: &Assembly,
    style: Style,
    (signals, hangups): (&mut Signals, Hangups),
) -> Outcome {
    mend(assembly).await?;
    let listeners = ServerListeners::bind(config).await?;
    let addresses = listeners.addresses(config)?;
    let first = first_start(assembly, &addresses, directory).await?;

    // Two shutdowns: the listeners close first, and the loops continue until the requests in flight have finished.
    let (close_listeners, listeners_close) = Shutdown::channel();
    let (end_loops, loops_end) = Shutdown::channel();
    let mut loops = background::start(assembly, config, &loops_end)?;
    let tls = config.server_tls()?;
    if let (Some(tls), Some(settings)) = (&tls, config.acme(directory.path())) {
        let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
        let records = Arc::new(DnsChallenges(assembly.service.clone()));
        let acme = Acme::open(settings.clone(), tls.clone(), clock.clone(), entropy.clone())?;
        let keys = Arc::new(DnsKeyRecords(assembly.service.clone()));
        loops.spawn(keep_certificate(acme.with_records(records).with_key_records(keys), loops_end.clone()));
        let hosted = HostedCertificates::new(assembly.service.clone(), settings, tls.clone(), clock, entropy);
        loops.spawn(keep_hosted_certificates(hosted, loops_end.clone()));
    }
    let mut open_listeners = listeners.open(config, assembly, tls.as_ref(), &listeners_close);
    let files = Files::new(tls, assembly.secrets.clone(), config);
    loops.spawn(keep_fresh(files, config.clone(), hangups, loops_end.clone()));
    if let Some(why) = host_name::missing_with(config, &assembly.service).await? {
        tracing::warn!(setting = host_name::KEY, why, "{}", host_name::ADVICE);
    }
    greet(&addresses, first.as_ref(), directory, style)?;

    let end = until_end(signals.next(), &mut open_listeners, &mut loops).await;
    match &end {
        Ok(signal) => tracing::info!(signal, "stopping"),
        Err(failure) => tracing::error!(%failure, "stopping: a listener or background loop exited"),
    }
    close_listeners.send_replace(true);
    let all_finished = async {
        finish(open_listeners, config.advanced.shutdown_grace.0, "listeners").await;
        end_loops.send_replace(true);
        finish(loops, config.advanced.shutdown_grace.0, "background work").await;
    };
    tokio::select! {
        () = all_finished => tracing::info!("stopped"),
        signal = signals.next() => tracing::warn!(signal, "stopped before work finished; the next start resumes it"),
    }
    end.map(drop)
}

/// Waits for the signal to stop. A listener or loop that ends earlier has failed. The server then stops instead of
/// running without it, so that its supervisor restarts it.
///
/// # Errors
/// Names the listener or loop that ended early.
async fn until_end(
    signal: impl Future<Output = &'static str>,
    listeners: &mut JoinSet<()>,
    loops: &mut JoinSet<()>,
) -> Outcome<&'static str> {
    tokio::select! {
        signal = signal => Ok(signal),
        Some(ended) = listeners.join_next() => Err(ended_early("a listener", ended)),
        Some(ended) = loops.join_next() => Err(ended_early("a background loop", ended)),
    }
}

fn ended_early(what: &str, ended: Result<(), JoinError>) -> Failure {
    match ended {
        Ok(()) => Failure::new(format!("{what} exited unexpectedly")),
        Err(error) => Failure::new(format!("{what} failed: {error}")),
    }
}

/// Repairs what a crash left, and mailboxes that could take no mail, before the listeners open.
async fn mend(assembly: &Assembly) -> Outcome {
    // A damaged mailbox must not keep the server from its start.
    if let MailServer::Embedded(embedded) = &assembly.mail
        && let Err(error) = embedded.message_store().mend_all().await
    {
        tracing::error!(%error, "mailboxes could not be checked; see `mailapi doctor`");
    }
    let Reconciled { repaired, quarantined } = assembly.service.reconcile().await?;
    if repaired > 0 {
        tracing::warn!(repaired, "repaired domains or mailboxes of the mail server that differed from the accounts");
    }
    for Quarantined { address, messages, .. } in quarantined {
        tracing::warn!(mailbox = %address, messages, "quarantined mail has no owner; see `mailapi doctor`");
    }
    assembly.service.recover_once(Duration::ZERO).await?;
    Ok(())
}

async fn first_start(assembly: &Assembly, addresses: &Addresses, directory: &DataDir) -> Outcome<Option<FirstStart>> {
    let token = first_token::ensure(&assembly.service, directory).await?;
    Ok(token.map(|token| FirstStart::new(token, addresses, &directory.admin_token_file(), &SystemEntropy)))
}

fn greet(addresses: &Addresses, first: Option<&FirstStart>, directory: &DataDir, style: Style) -> Outcome {
    match style {
        Style::Human => print(&addresses.human(first, &directory.admin_token_file())),
        Style::Json => {
            addresses.log(first, &directory.admin_token_file());
            Ok(())
        }
    }
}

/// Waits for the tasks to end; drops those that still run after the grace period.
pub(super) async fn finish(mut tasks: JoinSet<()>, grace: Duration, what: &str) {
    let ended = async {
        while let Some(end) = tasks.join_next().await {
            if let Err(error) = end {
                tracing::error!(%error, what, "task panicked");
            }
        }
    };
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::warn!(what, "grace period expired; unfinished work was dropped");
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_stops_the_server_with_a_failure() {
        for (broken, of_listeners) in [(true, true), (true, false), (false, true), (false, false)] {
            let (mut listeners, mut loops) = (JoinSet::new(), JoinSet::new());
            listeners.spawn(pending());
            loops.spawn(pending());
            let ending = if of_listeners { &mut listeners } else { &mut loops };
            ending.spawn(async move { assert!(!broken, "the task fails") });
            let end = until_end(pending(), &mut listeners, &mut loops).await.unwrap_err().to_string();
            assert_eq!(end.contains("listener"), of_listeners, "{end}");
            assert_eq!(end.contains("failed"), broken, "{end}");
        }
    }

    #[tokio::test]
    async fn the_signal_stops_it_in_peace() {
        let (mut listeners, mut loops) = (JoinSet::new(), JoinSet::new());
        loops.spawn(pending());
        assert_eq!(until_end(ready("SIGTERM"), &mut listeners, &mut loops).await.unwrap(), "SIGTERM");
    }
}
