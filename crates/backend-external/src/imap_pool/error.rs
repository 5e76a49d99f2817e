//! Why work on a connection did not succeed.

use mailapi_backend::MailboxError;
use mailapi_imap::client::{ClientError, StatusResponse};

/// What happened to a piece of work.
#[derive(Debug)]
pub(crate) enum ImapError {
    /// It came to an end that the caller of the port hears.
    Told(MailboxError),
    /// The server answered NO or BAD; the connection is fine.
    Refused(StatusResponse),
    /// The connection is of no use any more.
    Broken(String),
}

impl ImapError {
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Told(MailboxError::Unavailable(reason.into()))
    }
}

impl From<ClientError> for ImapError {
    fn from(error: ClientError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<std::io::Error> for ImapError {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<ImapError> for MailboxError {
    fn from(error: ImapError) -> Self {
        match error {
            ImapError::Told(error) => error,
            ImapError::Refused(status) => Self::Unavailable(format!("the server refused: {}", status.text)),
            ImapError::Broken(reason) => Self::Unavailable(format!("the connection broke: {reason}")),
        }
    }
}
