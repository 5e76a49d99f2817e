//! `mailapi adopt-mail`.

use super::print;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::failure::Outcome;
use crate::wiring::Assembly;

pub(super) async fn run(config: &Config) -> Outcome {
    let directory = DataDir::open(&config.data_dir)?;
    let lock = directory.lock()?;
    let assembly = Assembly::open_adopting(config, &directory, &lock).await?;
    assembly.close().await;
    print("this data directory has the mail of the accounts now; the next start creates missing mailboxes\n")
}
