//! `[mail.external.users]`: mailboxes and passwords of an existing installation.

use std::path::{Path, PathBuf};

use mailapi_store::postgres::PostgresUrl;
use mailapi_store::{Directory, DirectoryQueries, DirectorySettings};
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::secret::{SecretFile, SecretSetting};

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UserKeys {
    url: SecretSetting,
    url_file: SecretFile,
    password: SecretSetting,
    password_file: SecretFile,
    password_query: String,
    mailbox_query: String,
    default_scheme: String,
}

impl Default for UserKeys {
    fn default() -> Self {
        Self {
            url: SecretSetting::default(),
            url_file: SecretFile::default(),
            password: SecretSetting::default(),
            password_file: SecretFile::default(),
            password_query: String::new(),
            mailbox_query: String::new(),
            default_scheme: DirectorySettings::default().default_scheme,
        }
    }
}

impl UserKeys {
    /// Returns whether such a database is configured.
    pub(crate) const fn is_set(&self) -> bool {
        self.url.is_set() || self.url_file.0.is_some()
    }

    /// Returns the user database, if configured. Does not connect yet.
    pub(crate) fn directory(&self) -> Result<Option<Directory>, ConfigError> {
        let wrong = |why: String| ConfigError::new(format!("mail.external.users.{why}"));
        let url = self.url.resolve("mail.external.users.url", &self.url_file)?;
        let Some(url) = url else { return Ok(None) };
        let queries = DirectoryQueries::new(&self.password_query, &self.mailbox_query);
        let queries = queries.map_err(|error| wrong(format!("password_query and mailbox_query: {error}")))?;
        let settings =
            DirectorySettings { default_scheme: self.default_scheme.clone(), ..DirectorySettings::default() };
        let password = self.password.resolve("mail.external.users.password", &self.password_file)?;
        // The URL may contain a password, so no message repeats it.
        if PostgresUrl::is_meant(url.expose()) {
            let url: PostgresUrl = url.expose().parse().map_err(|error| wrong(format!("url: {error}")))?;
            let url = match &password {
                Some(password) => url.with_password(password),
                None => url,
            };
            let directory = Directory::on_postgres(url, queries, settings);
            return directory.map(Some).map_err(|error| wrong(format!("url: {error}")));
        }
        match url.expose().strip_prefix("sqlite:").map(PathBuf::from) {
            Some(file) if file != Path::new("") => Ok(Some(Directory::on_sqlite(&file, queries, settings))),
            _ => Err(wrong("url: write sqlite:PATH or postgres://USER@HOST/DATABASE".to_owned())),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.directory().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERIES: &str = "password_query = \"SELECT password FROM u WHERE email = $1\"\n\
                           mailbox_query = \"SELECT email, name, active, quota_bytes FROM u\"\n";

    #[test]
    fn what_is_no_database_is_refused_without_repeating_it() {
        let error = |text: &str| toml::from_str::<UserKeys>(text).unwrap().check().unwrap_err().to_string();
        for url in ["mysql://u:secret@h/mail", "sqlite:", "postgres://u:secret@h:port/mail"] {
            let error = error(&format!("{QUERIES}url = \"{url}\""));
            assert!(error.starts_with("mail.external.users.url: ") && !error.contains("secret"), "{error}");
        }
        assert!(error("url = \"sqlite:users.db\"").contains("password_query"));
        toml::from_str::<UserKeys>(&format!("{QUERIES}url = \"sqlite:users.db\"")).unwrap().check().unwrap();
        UserKeys::default().check().unwrap();
    }
}
