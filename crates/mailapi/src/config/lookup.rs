//! Address of the database for Postfix and Dovecot.

use mailapi_backend_external::printed::PostgresPlace;
use mailapi_model::SecretText;
use percent_encoding::percent_decode_str;

use super::ConfigError;

/// Parses `postgres://user:password@host:port/name`.
pub(super) fn postgres_place(url: &str) -> Result<PostgresPlace, ConfigError> {
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
    Ok(PostgresPlace {
        host: decoded(host).map_err(|_| wrong())?,
        port,
        user: decoded(user).map_err(|_| wrong())?,
        password: password.map(decoded).transpose().map_err(|_| wrong())?.map(SecretText::new),
        name: decoded(name).map_err(|_| wrong())?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_is_taken_apart_or_refused_without_repeating_it() {
        for url in ["", "postgres://", "postgres://host/name", "postgres://u:secret@host:port/name", "postgres://u@h"] {
            let error = postgres_place(url).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let place = postgres_place("postgres://u:p%2Fw%20%25@%2Frun%2Fpostgresql/mail?sslmode=disable").unwrap();
        assert_eq!((place.host.as_str(), place.port, place.user.as_str()), ("/run/postgresql", 5432, "u"));
        assert_eq!((place.password.unwrap().expose().as_str(), place.name.as_str()), ("p/w %", "mail"));
        let place = postgres_place("postgresql://u@[::1]:5433/mail").unwrap();
        assert_eq!((place.host.as_str(), place.port, place.password), ("[::1]", 5433, None));
    }

    proptest! {
        #[test]
        fn no_address_makes_it_panic(url in "(postgres://)?[a-z:@/?%0-9\\[\\]]{0,40}") {
            let _ = postgres_place(&url);
        }
    }
}
