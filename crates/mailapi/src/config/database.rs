//! `[database]`: where accounts, tokens, sent mail and delivery events are kept.

use std::path::{Path, PathBuf};

use mailapi_store::sqlite::SqliteSettings;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::secret::{SecretFile, SecretSetting};
use super::values::{ByteSize, HumanDuration};

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

/// `[database.sqlite]`: memory, threads and times of the SQLite engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct SqliteKeys {
    group_jobs: usize,
    group_time: HumanDuration,
    queue_jobs: usize,
    read_connections: usize,
    scan_connections: usize,
    busy_timeout: HumanDuration,
    foreign_check: HumanDuration,
    statement_cache: usize,
    writer_cache: ByteSize,
    reader_cache: ByteSize,
    mmap_bytes: ByteSize,
    checkpoint_pages: u32,
    wal_limit_bytes: ByteSize,
}

/// Bytes of the unit in which SQLite counts its caches.
const KIB: u64 = 1024;

impl Default for SqliteKeys {
    fn default() -> Self {
        let defaults = SqliteSettings::default();
        Self {
            group_jobs: defaults.group_jobs,
            group_time: HumanDuration(defaults.group_time),
            queue_jobs: defaults.queue_jobs,
            read_connections: defaults.read_connections,
            scan_connections: defaults.scan_connections,
            busy_timeout: HumanDuration(defaults.busy_timeout),
            foreign_check: HumanDuration(defaults.foreign_check),
            statement_cache: defaults.statement_cache,
            writer_cache: ByteSize(u64::from(defaults.writer_cache_kib) * KIB),
            reader_cache: ByteSize(u64::from(defaults.reader_cache_kib) * KIB),
            mmap_bytes: ByteSize(defaults.mmap_bytes),
            checkpoint_pages: defaults.checkpoint_pages,
            wal_limit_bytes: ByteSize(defaults.wal_limit_bytes),
        }
    }
}

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

    /// How the engine is to work.
    pub(crate) fn sqlite(&self) -> SqliteSettings {
        let keys = &self.sqlite;
        let kib = |size: ByteSize| u32::try_from(size.0 / KIB).unwrap_or(u32::MAX);
        SqliteSettings {
            group_jobs: keys.group_jobs,
            group_time: keys.group_time.0,
            queue_jobs: keys.queue_jobs,
            read_connections: keys.read_connections,
            scan_connections: keys.scan_connections,
            busy_timeout: keys.busy_timeout.0,
            foreign_check: keys.foreign_check.0,
            statement_cache: keys.statement_cache,
            writer_cache_kib: kib(keys.writer_cache),
            reader_cache_kib: kib(keys.reader_cache),
            mmap_bytes: keys.mmap_bytes.0,
            checkpoint_pages: keys.checkpoint_pages,
            wal_limit_bytes: keys.wal_limit_bytes.0,
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let keys = &self.sqlite;
        for (name, value) in [
            ("group_jobs", keys.group_jobs),
            ("queue_jobs", keys.queue_jobs),
            ("read_connections", keys.read_connections),
            ("scan_connections", keys.scan_connections),
        ] {
            super::at_least_one(&format!("database.sqlite.{name}"), value as u64)?;
        }
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
