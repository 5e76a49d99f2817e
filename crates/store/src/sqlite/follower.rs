//! What lies in the same file and follows the accounts.

use std::fmt;

use mailapi_model::{DomainName, EmailAddress};
use rusqlite::Connection;

use crate::StoreError;

/// How a domain or an account is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// A domain.
    Domain {
        /// Which.
        name: DomainName,
        /// Whether mail for it is delivered here: it exists, and does not wait for approval.
        is_here: bool,
    },
    /// There is an account.
    Account {
        /// Its address.
        email: EmailAddress,
        /// How many octets its mailbox may hold.
        quota_bytes: Option<u64>,
        /// Whether this transaction made it: a mailbox that exists already is an earlier owner's.
        is_new: bool,
    },
    /// The account was deleted.
    AccountGone(EmailAddress),
}

/// Mailboxes in the same file as the accounts. They change in the transaction that changes the accounts: no crash comes
/// in between, and no other process.
pub trait FollowsAccounts: fmt::Debug + Send + Sync {
    /// Makes domains and mailboxes what these are. What it returns is dropped after the commit.
    ///
    /// # Errors
    /// When the database fails; then nothing of the transaction is kept.
    fn follow(&self, connection: &Connection, changed: &[Followed]) -> Result<Box<dyn Send>, StoreError>;
}
