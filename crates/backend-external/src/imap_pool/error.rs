//! Errors of work on a connection.

use mailapi_backend::MailboxError;
use mailapi_imap::client::{ClientError, StatusResponse};

/// Why work on a connection failed.
#[derive(Debug)]
pub(crate) enum ImapError {
    /// An error that the caller of the port receives as it is.
    Mailbox(MailboxError),
    /// The server responded NO or BAD; the connection still works.
    Refused(StatusResponse),
    /// The connection is unusable.
    Broken(String),
}

impl ImapError {
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Mailbox(MailboxError::Unavailable(reason.into()))
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
            ImapError::Mailbox(error) => error,
            ImapError::Refused(status) => Self::Unavailable(format!("the server refused: {}", status.text)),
            ImapError::Broken(reason) => Self::Unavailable(format!("the connection failed: {reason}")),
        }
    }
}
