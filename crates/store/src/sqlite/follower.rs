//! Data in the same file that changes with the accounts.

use std::fmt;

use mailapi_model::{DomainName, EmailAddress};
use rusqlite::Connection;

use crate::StoreError;

/// The state of a domain or an account after a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// A domain.
    Domain {
        /// Its name.
        name: DomainName,
        /// Whether mail for it is delivered here: it exists and is approved.
        is_here: bool,
    },
    /// An account that exists.
    Account {
        /// Its address.
        email: EmailAddress,
        /// Mailbox quota in octets.
        quota_bytes: Option<u64>,
        /// Whether this transaction created it. An existing mailbox then belonged to an earlier owner.
        is_new: bool,
    },
    /// The account was deleted.
    AccountGone(EmailAddress),
}

/// Mailboxes in the same file as the accounts. They change in the transaction that changes the accounts, so neither a
/// crash nor another process can come in between.
pub trait FollowsAccounts: fmt::Debug + Send + Sync {
    /// Makes domains and mailboxes match these states. The returned value is dropped after the commit.
    ///
    /// # Errors
    /// When the database fails; the transaction is then rolled back.
    fn follow(&self, connection: &Connection, changed: &[Followed]) -> Result<Box<dyn Send>, StoreError>;
}
