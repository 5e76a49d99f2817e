//! `mailapi adopt-mail`.

use super::print;
use crate::config::{Config, DatabasePlace};
use crate::data_dir::DataDir;
use crate::failure::{Failure, Outcome};
use crate::wiring::Assembly;

pub(super) async fn run(config: &Config) -> Outcome {
    let is_postgres = matches!(config.database.place(&config.data_dir)?, DatabasePlace::Postgres(_));
    if config.is_external() || !is_postgres {
        return Err(Failure::new(
            "only a built-in mail server with accounts in PostgreSQL has mail apart from the accounts",
        ));
    }
    let directory = DataDir::open(&config.data_dir)?;
    let lock = directory.lock()?;
    let assembly = Assembly::open_adopting(config, &directory, &lock).await?;
    assembly.close().await;
    print("this data directory has the mail of the accounts now; the next start creates missing mailboxes\n")
}
