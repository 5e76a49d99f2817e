//! `[database]`: location of accounts, tokens, sent mail and delivery events.

use std::path::{Path, PathBuf};

use mailapi_backend_external::printed::LookupDatabase;
use mailapi_model::SecretText;
use mailapi_store::postgres::PostgresUrl;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::lookup::postgres_place;
use super::secret::{SecretFile, SecretSetting};

/// SQLite file in the data directory, unless `url` names another.
const USUAL_FILE: &str = "mailapi.db";

/// The section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Database {
    url: SecretSetting,
    url_file: SecretFile,
    password: SecretSetting,
    password_file: SecretFile,
}

/// Location of the data.
#[derive(Debug)]
pub(crate) enum DatabasePlace {
    /// SQLite file on this machine.
    Sqlite(PathBuf),
    /// PostgreSQL server.
    Postgres(Box<PostgresUrl>),
}

impl Database {
    /// Returns the location of accounts, tokens, sent mail and delivery events.
    pub(crate) fn place(&self, data_dir: &Path) -> Result<DatabasePlace, ConfigError> {
        let wrong = |why: &str| Err(ConfigError::new(format!("database.url: {why}")));
        let password = self.password.resolve("database.password", &self.password_file)?;
        let url = self.url.resolve("database.url", &self.url_file)?;
        // The URL may contain a password, so no message repeats it.
        if let Some(url) = url.as_ref().filter(|url| PostgresUrl::is_meant(url.expose())) {
            let url: PostgresUrl = match url.expose().parse() {
                Ok(url) => url,
                Err(error) => return wrong(&format!("{error}")),
            };
            let url = match &password {
                Some(password) => url.with_password(password),
                None => url,
            };
            return Ok(DatabasePlace::Postgres(Box::new(url)));
        }
        if password.is_some() {
            return Err(ConfigError::new("database.password: set it only with a PostgreSQL url".to_owned()));
        }
        match url.as_ref().map(|url| url.expose().strip_prefix("sqlite:")) {
            None => Ok(DatabasePlace::Sqlite(Self::usual_file(data_dir))),
            Some(Some(path)) if !path.is_empty() => Ok(DatabasePlace::Sqlite(PathBuf::from(path))),
            Some(_) => wrong("invalid; leave it empty, or write sqlite:PATH or postgres://USER@HOST/DATABASE"),
        }
    }

    /// Returns the password of the database server, if there is one.
    pub(crate) fn server_password(&self) -> Result<Option<SecretText>, ConfigError> {
        match self.place(Path::new(""))? {
            DatabasePlace::Sqlite(_) => Ok(None),
            DatabasePlace::Postgres(url) => Ok(url.password().map(|password| password.get())),
        }
    }

    /// Path of the default SQLite file, which also holds the embedded mail server's mail when accounts are in
    /// PostgreSQL.
    pub(crate) fn usual_file(data_dir: &Path) -> PathBuf {
        data_dir.join(USUAL_FILE)
    }

    /// Returns the address of the database for mail servers, which look accounts up in it.
    pub(crate) fn lookup(&self, data_dir: &Path) -> Result<LookupDatabase, ConfigError> {
        if let DatabasePlace::Sqlite(file) = self.place(data_dir)? {
            return Ok(LookupDatabase::Sqlite(std::path::absolute(&file).unwrap_or(file)));
        }
        let url = self.url.resolve("database.url", &self.url_file)?;
        let mut place = postgres_place(url.as_ref().map_or("", |url| url.expose()))?;
        if let Some(password) = self.password.resolve("database.password", &self.password_file)? {
            place.password = Some(password);
        }
        Ok(LookupDatabase::Postgres(place))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.place(Path::new("")).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> Database {
        toml::from_str(text).unwrap()
    }

    fn refused(text: &str) -> String {
        section(text).place(Path::new("data")).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_place_is_refused_without_repeating_it() {
        for url in ["mysql://u:secret@db/mail", "sqlite:", "data.db", "postgres://u:secret@db:port/mail"] {
            let why = refused(&format!("url = \"{url}\""));
            assert!(why.starts_with("database.url: ") && !why.contains("secret"), "{why}");
        }
        let mode = refused("url = \"postgres://u@db/mail?sslmode=perhaps\"");
        assert_eq!(mode, "database.url: sslmode must be one of disable, prefer, require, verify-full");
        let useless = refused("password = \"secret\"");
        assert_eq!(useless, "database.password: set it only with a PostgreSQL url");
    }

    #[test]
    fn a_password_file_serves_the_server_and_the_look_ups() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "from a file\n").unwrap();
        let text = format!("url = \"postgres://u@db/mail\"\npassword_file = {:?}", file.path());
        let section = section(&text);
        assert!(matches!(section.place(Path::new("data")), Ok(DatabasePlace::Postgres(_))));
        let Ok(LookupDatabase::Postgres(place)) = section.lookup(Path::new("data")) else {
            panic!("a server was named");
        };
        assert_eq!(place.password.unwrap().expose(), "from a file");
    }

    #[test]
    fn without_a_url_the_database_is_in_the_data_directory() {
        let place = Database::default().place(Path::new("data"));
        assert!(matches!(place, Ok(DatabasePlace::Sqlite(file)) if file == Path::new("data/mailapi.db")));
    }
}
