//! `mailapi restore`.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;
use mailapi_model::Clock;

use super::backup::database_place;
use super::print;
use crate::backup::{self, Accounts, BackupReader, Destination, Manifest};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::rights_thread::RightsThread;
use crate::system::SystemClock;

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The directory of the backups
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Restore this backup, from `mailapi backup --list` [default: the newest]
    #[arg(long, value_name = "N")]
    number: Option<u32>,
}

pub(super) async fn run(arguments: &Restore, config: &Config, place: RightsThread) -> Outcome {
    let data_dir = std::path::absolute(&config.data_dir)?;
    let (database, accounts) = database_place(config, &data_dir)?;
    let backups = BackupReader::open(place, &arguments.directory)?;
    let number = arguments.number.map_or_else(|| backups.newest(), Ok)?;
    let destination = Destination { data_dir, database };
    let is_suitable = |manifest: &Manifest| match (manifest.accounts, accounts) {
        (Accounts::Postgres, Accounts::Sqlite) => {
            Err(Failure::new("the accounts of this backup are in PostgreSQL: set database.url"))
        }
        (Accounts::Sqlite, Accounts::Postgres) => {
            Err(Failure::new("the accounts of this backup are in its SQLite file: remove database.url"))
        }
        _ => Ok(()),
    };
    let manifest = backup::restore(&backups, number, &destination, SystemClock::new().now(), is_suitable).await?;
    let (time, files, size) = (&manifest.created_at, manifest.file_count(), ByteSize(manifest.size()));
    print(&format!("restored backup {number} of {time}: {files} files, {size}\n"))
}
