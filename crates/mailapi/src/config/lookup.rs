//! The database as Postfix and Dovecot reach it.

use std::path::PathBuf;

use mailapi_model::SecretText;
use percent_encoding::percent_decode_str;

use super::ConfigError;

/// Where the views for mail servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LookupDatabase {
    /// In this file.
    Sqlite(PathBuf),
    /// On a PostgreSQL server.
    Postgres(PostgresPlace),
}

/// A database on a PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PostgresPlace {
    /// A name, an address, or the directory of a socket.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: Option<SecretText>,
    pub(crate) name: String,
}

impl PostgresPlace {
    /// Takes `postgres://user:password@host:port/name` apart.
    pub(crate) fn parse(url: &str) -> Result<Self, ConfigError> {
        const PORT: u16 = 5432;
        let wrong = || ConfigError::new("database.url: write postgres://USER:PASSWORD@HOST:PORT/DATABASE");
        let (_, rest) = url.split_once("://").ok_or_else(wrong)?;
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, name) = rest.split_once('/').ok_or_else(wrong)?;
        let (login, address) = authority.rsplit_once('@').ok_or_else(wrong)?;
        let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| wrong())?),
            _ => (address, PORT),
        };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(|text| text.into_owned());
        Ok(Self {
            host: decoded(host).map_err(|_| wrong())?,
            port,
            user: decoded(user).map_err(|_| wrong())?,
            password: password.map(decoded).transpose().map_err(|_| wrong())?.map(SecretText::new),
            name: decoded(name).map_err(|_| wrong())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_is_taken_apart_or_refused_without_repeating_it() {
        for url in ["", "postgres://", "postgres://host/name", "postgres://u:secret@host:port/name", "postgres://u@h"] {
            let error = PostgresPlace::parse(url).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let place = PostgresPlace::parse("postgres://u:p%2Fw%20%25@%2Frun%2Fpostgresql/mail?sslmode=disable").unwrap();
        assert_eq!((place.host.as_str(), place.port, place.user.as_str()), ("/run/postgresql", 5432, "u"));
        assert_eq!((place.password.unwrap().expose().as_str(), place.name.as_str()), ("p/w %", "mail"));
        let place = PostgresPlace::parse("postgresql://u@[::1]:5433/mail").unwrap();
        assert_eq!((place.host.as_str(), place.port, place.password), ("[::1]", 5433, None));
    }

    proptest! {
        #[test]
        fn no_address_makes_it_panic(url in "(postgres://)?[a-z:@/?%0-9\\[\\]]{0,40}") {
            let _ = PostgresPlace::parse(&url);
        }
    }
}
