//! What too many failed log-ins have locked, on this node.

mod list;
mod unlock;

use mailapi_model::{ClientNetwork, EmailAddress, Timestamp};

/// Log-ins that are rejected without a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lockout {
    /// The mailbox; `None` if all mailboxes are closed to the client.
    pub mailbox: Option<EmailAddress>,
    /// The client; `None` if the mailbox is closed to all clients of the API.
    pub client: Option<ClientNetwork>,
    /// When log-ins are checked again.
    pub until: Timestamp,
}
