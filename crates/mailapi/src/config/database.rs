//! `[database]`: where accounts, tokens, sent mail and delivery events are kept.

use std::path::{Path, PathBuf};

use mailapi_store::postgres::PostgresUrl;
use mailapi_store::sqlite::SqliteSettings;
use serde::{Deserialize, Serialize};

use super::lookup::{LookupDatabase, PostgresPlace};
use super::mirror::mirror;
use super::secret::{SecretFile, SecretSetting};
use super::values::{ByteSize, HumanDuration};
use super::{ConfigError, at_least_one};

/// The database's file in the data directory, when `url` names no other.
const USUAL_FILE: &str = "mailapi.db";

/// The section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Database {
    url: SecretSetting,
    url_file: SecretFile,
    sqlite: SqliteKeys,
}

mirror!(
    /// `[database.sqlite]`: memory, threads and times of the SQLite engine.
    SqliteKeys of SqliteSettings {
        group_jobs: usize,
        group_time: HumanDuration,
        queue_jobs: usize,
        read_connections: usize,
        scan_connections: usize,
        search_connections: usize,
        search_timeout: HumanDuration,
        busy_timeout: HumanDuration,
        foreign_check: HumanDuration,
        statement_cache: usize,
        writer_cache_kib: u32,
        reader_cache_kib: u32,
        mmap_bytes: ByteSize,
        checkpoint_pages: u32,
        wal_limit_bytes: ByteSize,
    }
);

impl Database {
    /// The SQLite file.
    pub(crate) fn file(&self, data_dir: &Path) -> Result<PathBuf, ConfigError> {
        let Some(url) = self.url.resolve("database.url", &self.url_file)? else {
            return Ok(data_dir.join(USUAL_FILE));
        };
        // The address may hold a password, so no message repeats it.
        if let Some(path) = url.expose().strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
            return Ok(PathBuf::from(path));
        }
        let why = if url.expose().starts_with("postgres") {
            "PostgreSQL is not in this version yet; leave it empty or write sqlite:PATH"
        } else {
            "not understood; leave it empty or write sqlite:PATH"
        };
        Err(ConfigError::new(format!("database.url: {why}")))
    }

    /// The database as mail servers reach it, who look accounts up in it.
    pub(crate) fn lookup(&self, data_dir: &Path) -> Result<LookupDatabase, ConfigError> {
        if let Some(url) = self.url.resolve("database.url", &self.url_file)?
            && PostgresUrl::is_meant(url.expose())
        {
            return PostgresPlace::parse(url.expose()).map(LookupDatabase::Postgres);
        }
        let file = self.file(data_dir)?;
        Ok(LookupDatabase::Sqlite(std::path::absolute(&file).unwrap_or(file)))
    }

    /// How the engine is to work.
    pub(crate) fn sqlite(&self) -> SqliteSettings {
        let mut settings = SqliteSettings::default();
        self.sqlite.apply(&mut settings);
        settings
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let keys = &self.sqlite;
        at_least_one("database.sqlite.group_jobs", keys.group_jobs as u64)?;
        at_least_one("database.sqlite.queue_jobs", keys.queue_jobs as u64)?;
        at_least_one("database.sqlite.read_connections", keys.read_connections as u64)?;
        at_least_one("database.sqlite.scan_connections", keys.scan_connections as u64)?;
        self.file(Path::new("")).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_engine_agree_on_the_defaults() {
        assert_eq!(Database::default().sqlite(), SqliteSettings::default());
        assert_eq!(Database::default().file(Path::new("data")).unwrap(), PathBuf::from("data/mailapi.db"));
    }
}
