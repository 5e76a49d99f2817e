//! `mailapi follow`.

use mailapi_backend_embedded::net::Shutdown;

use super::serve::finish;
use crate::background;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::failure::{Failure, Outcome};
use crate::signals::Signals;
use crate::wiring::{Assembly, check_database};

pub(super) async fn run(config: &Config) -> Outcome {
    if !config.is_external() || config.mail.external.log_place().is_none() {
        return Err(Failure::new("mail.external.log: there is no log to follow; set path or journal"));
    }
    let mut signals = Signals::listen()?;
    let directory = DataDir::open(&config.data_dir)?;
    // Two followers of one log would overwrite each other's state.
    let lock = directory.lock()?;
    check_database(config, &directory)?;
    let assembly = Assembly::open_follower(config, &directory, &lock).await?;
    let (end, shutdown) = Shutdown::channel();
    let loops = background::follow(&assembly, config, &shutdown);
    tracing::info!("following the mail server's log");
    tracing::info!(signal = signals.next().await, "stopping");
    end.send_replace(true);
    tokio::select! {
        () = finish(loops, config.advanced.shutdown_grace.0, "background work") => tracing::info!("stopped"),
        signal = signals.next() => tracing::warn!(signal, "stopped before work finished; the next start resumes it"),
    }
    assembly.close().await;
    Ok(())
}
