//! `mailapi backup`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytesize::ByteSize;
use clap::Args;
use mailapi_model::Clock;

use super::print;
use super::table::table;
use crate::backup::{self, Accounts, BackupDir, Source};
use crate::config::{Config, Database, DatabasePlace};
use crate::data_dir::DataDir;
use crate::database_file;
use crate::failure::{Failure, Outcome};
use crate::rights_thread::RightsThread;
use crate::served_database;
use crate::system::{ServiceUser, SystemClock};
use crate::wiring::check_database;

#[derive(Debug, Args)]
pub(super) struct Backup {
    /// The directory of the backups, on another disk; a missing one is created
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Then remove all backups but the newest N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Make no backup; check every byte of those in the directory
    #[arg(long, conflicts_with = "keep")]
    verify: bool,
    /// Make no backup; list those in the directory
    #[arg(long, conflicts_with_all = ["keep", "verify"])]
    list: bool,
}

impl Backup {
    /// Starts a thread for the directory of the backups. `owner` is the user of the data directory.
    pub(super) fn place(&self, owner: Option<&ServiceUser>) -> Outcome<RightsThread> {
        if self.verify || self.list {
            // A reader opens every file by the handle of its directory.
            RightsThread::start()
        } else {
            RightsThread::for_place(&self.directory, owner)
        }
    }
}

pub(super) fn run(arguments: Backup, config: &Config, place: RightsThread) -> Outcome {
    let Backup { directory, keep, .. } = arguments;
    match (arguments.verify, arguments.list) {
        (true, _) => place.run(move || verify(&directory))?,
        (_, true) => place.run(move || list(&directory))?,
        _ => {
            let source = source(&directory, config)?;
            place.run(move || create(&directory, keep, &source))?
        }
    }
}

/// Opens the data with the rights of its owner.
fn source(directory: &Path, config: &Config) -> Outcome<Source> {
    let data_dir = DataDir::existing(&config.data_dir)?;
    let (database, accounts) = database_place(config, data_dir.path())?;
    check_database(config, &data_dir)?;
    // Before the directory is created; links are resolved later.
    if std::path::absolute(directory)?.starts_with(data_dir.path()) {
        return Err(Failure::new("a backup must be outside the data directory"));
    }
    served_database::check(&data_dir, &database)??;
    let database = database_file::checked(&database)?.path.canonicalize()?;
    let data_dir = Arc::new(data_dir.handle().try_clone()?);
    Ok(Source { data_dir, database, accounts, thread: RightsThread::start()? })
}

/// Makes a backup with the rights for its directory.
fn create(directory: &Path, keep: Option<u32>, source: &Source) -> Outcome {
    let backups = BackupDir::for_backup(directory)?;
    let created = backup::create(&backups, source, SystemClock::new().now())?;
    if created.repaired > 0 {
        tracing::warn!(chunks = created.repaired, "files of earlier backups were damaged, and were written again");
    }
    let (number, written) = (created.number, ByteSize(created.written));
    let (files, size) = (created.manifest.file_count(), ByteSize(created.manifest.size()));
    print(&format!("backup {number}: {files} files, {size}; {written} written\n"))?;
    let removed = backup::retain(&backups, keep);
    let incomplete = |why| Failure::new(format!("backup {number} is complete; old ones cannot be removed: {why}"));
    match removed.map_err(incomplete)? {
        0 => Ok(()),
        removed => print(&format!("removed older backups: {removed}\n")),
    }
}

fn verify(directory: &Path) -> Outcome {
    let backups = BackupDir::to_read(directory)?;
    backups.newest()?;
    let verified = backup::verify_all(&backups)?;
    verified.iter().rev().try_for_each(|(number, manifest)| {
        print(&format!("backup {number} of {}: {} files are whole\n", manifest.created_at, manifest.file_count()))
    })
}

fn list(directory: &Path) -> Outcome {
    let backups = BackupDir::to_read(directory)?;
    let mut rows = Vec::new();
    for number in backups.numbers()? {
        let manifest = backups.manifest(number)?;
        let size = ByteSize(manifest.size()).to_string();
        rows.push([number.to_string(), manifest.created_at, size, manifest.program]);
    }
    print(&table(["NUMBER", "CREATED AT", "SIZE", "VERSION"], &rows))
}

/// Returns the path of the SQLite file, and where the accounts are.
pub(super) fn database_place(config: &Config, data_dir: &Path) -> Outcome<(PathBuf, Accounts)> {
    if config.is_external() {
        return Err(Failure::new(
            "mail.backend is external: save the database and the mail server's files as docs/operating.md describes",
        ));
    }
    match config.database.place(data_dir)? {
        DatabasePlace::Sqlite(file) => Ok((std::path::absolute(file)?, Accounts::Sqlite)),
        DatabasePlace::Postgres(_) => Ok((Database::usual_file(data_dir), Accounts::Postgres)),
    }
}
