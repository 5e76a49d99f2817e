//! `mailapi serve`.

use std::time::Duration;

use mailapi_backend_embedded::net::Shutdown;
use tokio::task::JoinSet;

use super::print;
use crate::background;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::doors::Doors;
use crate::failure::Outcome;
use crate::first_token;
use crate::logging::Style;
use crate::signals::Signals;
use crate::system::SystemEntropy;
use crate::welcome::{Addresses, FirstStart};
use crate::wiring::Assembly;

pub(super) async fn run(config: &Config, style: Style) -> Outcome {
    // From here on a signal is heard, also while the start is still under way.
    let mut signals = Signals::listen()?;
    let directory = DataDir::open(&config.data_dir)?;
    let _lock = directory.lock()?;
    let assembly = Assembly::open(config, &directory).await?;
    let outcome = serve(config, &directory, &assembly, style, &mut signals).await;
    assembly.close().await;
    outcome
}

async fn serve(
    config: &Config,
    directory: &DataDir,
    assembly: &Assembly,
    style: Style,
    signals: &mut Signals,
) -> Outcome {
    mend(assembly).await?;
    let doors = Doors::bind(config).await?;
    let addresses = doors.addresses(config)?;
    let first = first_start(assembly, &addresses, directory).await?;

    // Two signals, one after the other: who is inside may still finish while the loops go on behind the doors.
    let (close_doors, doors_close) = Shutdown::channel();
    let (end_loops, loops_end) = Shutdown::channel();
    let loops = background::start(assembly, config, &loops_end)?;
    let open_doors = doors.open(config, assembly, &doors_close)?;
    greet(&addresses, first.as_ref(), directory, style)?;

    tracing::info!(signal = signals.next().await, "stopping");
    close_doors.send_replace(true);
    let all_finished = async {
        finish(open_doors, config.shutdown_grace.0, "listeners").await;
        end_loops.send_replace(true);
        finish(loops, config.shutdown_grace.0, "background work").await;
    };
    tokio::select! {
        () = all_finished => tracing::info!("stopped"),
        signal = signals.next() => tracing::warn!(signal, "stopped at once; the next start goes on from here"),
    }
    Ok(())
}

/// Puts right what a crash left behind, before anybody is let in.
async fn mend(assembly: &Assembly) -> Outcome {
    let told = assembly.service.reconcile().await?;
    if told > 0 {
        tracing::info!(told, "the mail server did not know some domains or mailboxes yet");
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

/// Waits for the tasks to end by themselves; what still runs after the grace is dropped.
pub(super) async fn finish(mut tasks: JoinSet<()>, grace: Duration, what: &str) {
    let ended = async {
        while let Some(end) = tasks.join_next().await {
            if let Err(error) = end {
                tracing::error!(%error, what, "a task broke");
            }
        }
    };
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::warn!(what, "not everything was finished within the grace");
    }
}
