//! What too many failed logins have locked, on this node.

mod list;
mod unlock;

use mailapi_model::{ClientNetwork, EmailAddress, Timestamp, TokenId};

/// Logins that are rejected without a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lockout {
    /// The mailbox; `None` if all mailboxes are closed to the client, or for a token.
    pub mailbox: Option<EmailAddress>,
    /// The API token whose value was typed wrong at the console. It still works, but not for dangerous changes there.
    pub token: Option<TokenId>,
    /// The client; `None` if the mailbox is closed to all clients of the API, or for a token.
    pub client: Option<ClientNetwork>,
    /// When logins are checked again.
    pub until: Timestamp,
}

/// The failures to forget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unlock {
    /// Those of a mailbox.
    pub mailbox: Option<EmailAddress>,
    /// Those of a client.
    pub client: Option<ClientNetwork>,
    /// Those of an API token.
    pub token: Option<TokenId>,
}
