//! Why there is no new certificate.

use std::io;
use std::path::{Path, PathBuf};

use mailapi_tls::TlsError;

/// Why there is no new certificate. The texts contain no keys.
#[derive(Debug, thiserror::Error)]
pub enum AcmeError {
    /// The authority refused, or could not be reached.
    #[error("{reason}")]
    Authority {
        /// What happened.
        reason: String,
        /// The authority does not know the account.
        is_unknown_account: bool,
    },
    /// The records by which the authority checks names could not be published.
    #[error("{0}")]
    Records(String),
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A file cannot be read or written.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

impl AcmeError {
    pub(crate) fn authority(reason: impl Into<String>) -> Self {
        Self::Authority { reason: reason.into(), is_unknown_account: false }
    }

    pub(crate) fn file(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::File { path: path.to_owned(), error: error.into() }
    }

    pub(crate) const fn is_unknown_account(&self) -> bool {
        matches!(self, Self::Authority { is_unknown_account: true, .. })
    }
}

impl From<instant_acme::Error> for AcmeError {
    fn from(error: instant_acme::Error) -> Self {
        const UNKNOWN_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
        let is_unknown_account = match &error {
            instant_acme::Error::Api(problem) => problem.r#type.as_deref() == Some(UNKNOWN_ACCOUNT),
            _ => false,
        };
        Self::Authority { reason: error.to_string(), is_unknown_account }
    }
}

impl From<rcgen::Error> for AcmeError {
    fn from(error: rcgen::Error) -> Self {
        TlsError::new(error.to_string()).into()
    }
}
