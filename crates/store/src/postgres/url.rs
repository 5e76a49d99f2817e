//! PostgreSQL server URLs and TLS trust.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use mailapi_model::{SecretText, SharedSecret};
use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…`, as read by libpq (PostgreSQL manual, section
/// 34.1.1.2).
///
/// `sslmode` is one of
/// - `disable`: no TLS;
/// - `prefer` (the default): TLS if the server offers it, without verification;
/// - `require`: TLS without verification;
/// - `verify-full`: TLS, and the certificate must name the host and come from a system authority, or from one
///   in the PEM file of `sslrootcert`.
///
/// Never printed: it may contain a password.
#[derive(Clone)]
pub struct PostgresUrl {
    pub(super) config: Config,
    pub(super) trust: Trust,
    password: Option<SharedSecret>,
}

/// Which server certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// Any: TLS prevents eavesdropping, but not impersonation.
    Any,
    /// Certificates issued by the system's authorities, or by those in a PEM file.
    Verified(Option<PathBuf>),
}

/// Why a URL was rejected. Contains no part of the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostgresUrlError {
    /// Not a PostgreSQL URL.
    #[error("write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters percent-encoded")]
    Malformed,
    /// The host is missing.
    #[error("the host is missing")]
    NoHost,
    /// Unknown `sslmode`.
    #[error("sslmode must be one of disable, prefer, require, verify-full")]
    TlsMode,
    /// `sslrootcert` is given, but the mode does not verify certificates.
    #[error("sslrootcert needs sslmode=verify-full")]
    UnusedRoots,
}

impl PostgresUrl {
    /// Returns whether this text looks like a PostgreSQL URL.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Sets the password, so that the URL need not contain it.
    #[must_use]
    pub fn with_password(mut self, password: &SecretText) -> Self {
        self.config.password(password.expose().as_bytes());
        self.password = Some(password.clone().into());
        self
    }

    /// Returns the password, which is read again for each new connection.
    #[must_use]
    pub fn password(&self) -> Option<SharedSecret> {
        self.password.clone()
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresUrl(…)")
    }
}

impl FromStr for PostgresUrl {
    type Err = PostgresUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !Self::is_meant(text) {
            return Err(PostgresUrlError::Malformed);
        }
        // The client library supports neither `verify-full` nor `sslrootcert`.
        let (address, query) = split_query(text);
        let (mut mode, mut roots, mut rest) = ("prefer", None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => roots = Some(decoded(value)?),
                _ => rest.push(pair),
            }
        }
        let (mode, trust) = tls(mode, roots)?;
        let mut config: Config =
            format!("{address}?{}", rest.join("&")).parse().map_err(|_| PostgresUrlError::Malformed)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresUrlError::NoHost);
        }
        config.ssl_mode(mode);
        let password = config.get_password().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        Ok(Self { config, trust, password: password.map(|password| SecretText::new(password).into()) })
    }
}

/// Splits a URL at the question mark. One before the `@` belongs to a password that was not percent-encoded.
fn split_query(text: &str) -> (&str, &str) {
    let host = text.find('@').unwrap_or(0);
    let mark = text[host..].find('?').map(|mark| host + mark);
    mark.map_or((text, ""), |mark| (&text[..mark], &text[mark + 1..]))
}

fn decoded(value: &str) -> Result<PathBuf, PostgresUrlError> {
    let path = percent_decode_str(value).decode_utf8().map_err(|_| PostgresUrlError::Malformed)?;
    Ok(PathBuf::from(path.into_owned()))
}

fn tls(mode: &str, roots: Option<PathBuf>) -> Result<(SslMode, Trust), PostgresUrlError> {
    let mode = match mode {
        "disable" => SslMode::Disable,
        "prefer" => SslMode::Prefer,
        "require" => SslMode::Require,
        "verify-full" => return Ok((SslMode::Require, Trust::Verified(roots))),
        _ => return Err(PostgresUrlError::TlsMode),
    };
    if roots.is_some() { Err(PostgresUrlError::UnusedRoots) } else { Ok((mode, Trust::Any)) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio_postgres::config::Host;

    use super::*;

    fn refused(text: &str) -> PostgresUrlError {
        text.parse::<PostgresUrl>().unwrap_err()
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for text in ["", "mysql://u@h/d", "postgres:/u@h/d", "postgres://u:p@h:port/d"] {
            assert_eq!(refused(text), PostgresUrlError::Malformed, "{text}");
        }
        assert_eq!(refused("postgres://u:p@h/d?colour=red"), PostgresUrlError::Malformed);
        assert_eq!(refused("postgres://"), PostgresUrlError::NoHost);
        for mode in ["allow", "verify-ca", "", "DISABLE"] {
            assert_eq!(refused(&format!("postgres://u@h/d?sslmode={mode}")), PostgresUrlError::TlsMode);
        }
        let unused = "postgres://u@h/d?sslmode=require&sslrootcert=/etc/ssl/ca.pem";
        assert_eq!(refused(unused), PostgresUrlError::UnusedRoots);
    }

    #[test]
    fn an_address_sets_the_server_and_its_trust() {
        let url: PostgresUrl = "postgresql://u:p%40ss@db.example.org:5433/mail?connect_timeout=3".parse().unwrap();
        assert_eq!(url.config.get_hosts(), [Host::Tcp("db.example.org".to_owned())]);
        assert_eq!(url.config.get_password(), Some(&b"p@ss"[..]));
        assert_eq!(url.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!((url.config.get_ssl_mode(), &url.trust), (SslMode::Prefer, &Trust::Any));
        assert_eq!(format!("{url:?}"), "PostgresUrl(…)");

        let url: PostgresUrl = "postgres://u:p?w@h/d?sslmode=disable".parse().unwrap();
        assert_eq!((url.config.get_password(), url.config.get_ssl_mode()), (Some(&b"p?w"[..]), SslMode::Disable));
        let url = "postgres://u@h/d?sslmode=verify-full&sslrootcert=%2Fetc%2Fssl%2Four%20ca.pem";
        let url: PostgresUrl = url.parse().unwrap();
        assert_eq!(url.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(url.trust, Trust::Verified(Some("/etc/ssl/our ca.pem".into())));

        let url: PostgresUrl = "postgres://u@%2Frun%2Fpostgresql/d?sslmode=disable".parse().unwrap();
        assert_eq!(url.config.get_hosts(), [Host::Unix("/run/postgresql".into())]);
        let url = url.with_password(&SecretText::new("from a file".to_owned()));
        assert_eq!(url.config.get_password(), Some(&b"from a file"[..]));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(postgres(ql)?://)?\\PC{0,80}", odd in "postgres://[a-z:@/?&=%,0-9\\[\\]]{0,40}") {
            let _ = text.parse::<PostgresUrl>();
            let _ = odd.parse::<PostgresUrl>();
        }
    }
}
