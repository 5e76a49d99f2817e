//! Rights that an admin delegates to a mailbox, one domain at a time.

use std::fmt;
use std::str::FromStr;

use crate::{DomainName, EmailAddress, Timestamp};

/// What may be delegated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Manage the mailboxes of the domain.
    ManageUsers,
    /// See and change the domain, but neither create nor delete it nor make keys.
    ManageDomains,
    /// Read the mail of every mailbox of the domain.
    ViewMailbox,
    /// See delivery statistics of the domain.
    ViewStats,
    /// Send as any mailbox of the domain.
    SendMail,
}

impl Permission {
    /// All of them, in the contract's order.
    pub const ALL: [Self; 5] =
        [Self::ManageUsers, Self::ManageDomains, Self::ViewMailbox, Self::ViewStats, Self::SendMail];

    /// The name on the wire and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ManageUsers => "manage_users",
            Self::ManageDomains => "manage_domains",
            Self::ViewMailbox => "view_mailbox",
            Self::ViewStats => "view_stats",
            Self::SendMail => "send_mail",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is none of the five.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of manage_users, manage_domains, view_mailbox, view_stats, send_mail")]
pub struct UnknownPermission;

impl FromStr for Permission {
    type Err = UnknownPermission;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|permission| permission.as_str() == text).ok_or(UnknownPermission)
    }
}

/// The number of a permission record, as paths name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermissionId(pub i64);

/// One delegated right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRecord {
    /// Its number.
    pub id: PermissionId,
    /// Who holds it.
    pub email: EmailAddress,
    /// What it allows.
    pub permission: Permission,
    /// Where it allows it.
    pub domain: DomainName,
    /// Who gave it: an address, or the name of an admin token.
    pub granted_by: String,
    /// When it was given.
    pub granted_at: Timestamp,
}
