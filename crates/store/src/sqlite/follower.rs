//! Mailboxes in the same file that change with the accounts.

use std::fmt;

use mailapi_model::{Alias, DomainName, EmailAddress, MailboxOptions, RuleSet};
use rusqlite::Connection;

use crate::StoreError;

/// The state of a domain, an account or an alias after a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// A domain.
    Domain {
        /// The name.
        name: DomainName,
        /// Whether mail for it is delivered here: it exists and is approved.
        is_here: bool,
    },
    /// An existing account.
    Account {
        /// The address.
        email: EmailAddress,
        /// The options of its mailbox.
        options: MailboxOptions,
        /// Whether this transaction created it. An existing mailbox then belongs to an earlier owner.
        is_new: bool,
    },
    /// The account was deleted.
    AccountGone(EmailAddress),
    /// An existing alias.
    Alias(Alias),
    /// The alias was deleted.
    AliasGone(EmailAddress),
    /// The rules of an account.
    Rules(EmailAddress, RuleSet),
}

/// Mailboxes in the same file as the accounts. They change in the same transaction, so that neither a crash
/// nor another process can separate the two.
pub trait FollowsAccounts: fmt::Debug + Send + Sync {
    /// Makes domains and mailboxes match these states. The returned value is dropped after the commit.
    ///
    /// # Errors
    /// When the database fails; the transaction is then rolled back.
    fn follow(&self, connection: &Connection, changed: &[Followed]) -> Result<Box<dyn Send>, StoreError>;
}
