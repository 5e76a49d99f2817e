//! Limits the total size of large bodies and responses, on disk and in memory. Bodies take room as they arrive,
//! responses before they are sent. Without room they are rejected at once.

use std::sync::Arc;

pub(crate) use mailapi_model::Full;
use mailapi_model::{ClientNetwork, EmailAddress, TokenId};
use mailapi_service::Caller;

/// Room that callers share.
pub(crate) type ByteBudget = mailapi_model::ByteBudget<Share>;

/// The room of one body or answer; freed on drop.
pub(crate) type BytePermit = mailapi_model::BytePermit<Share>;

/// Creates room of which a caller takes at most half.
pub(crate) fn byte_budget(bytes: usize) -> Arc<ByteBudget> {
    ByteBudget::new(bytes, 2)
}

/// The owner of a share of the room; a mailbox has one share, whichever of its tokens is used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Share {
    Mailbox(EmailAddress),
    Token(TokenId),
    /// A client whose request is not complete.
    Client(ClientNetwork),
    /// Work without an authenticated caller.
    NoCaller,
}

impl Share {
    pub(crate) fn of(caller: Option<&Caller>) -> Self {
        let Some(caller) = caller else { return Self::NoCaller };
        match (caller.grants.mailbox(), &caller.token) {
            (Some(mailbox), _) => Self::Mailbox(mailbox.clone()),
            (None, Some(token)) => Self::Token(token.id),
            (None, None) => Self::NoCaller,
        }
    }
}
