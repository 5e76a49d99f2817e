//! Permissions that an admin delegates to a mailbox, for one domain each.

use std::fmt;
use std::str::FromStr;

use crate::{DomainName, EmailAddress, Timestamp};

/// A permission that can be delegated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Manage the mailboxes of the domain.
    ManageUsers,
    /// View and change the domain, but neither create nor delete it nor create keys.
    ManageDomains,
    /// Read the mail of every mailbox in the domain.
    ViewMailbox,
    /// View delivery statistics of the domain.
    ViewStats,
    /// Send as any mailbox in the domain.
    SendMail,
}

impl Permission {
    /// All values, in the contract's order.
    pub const ALL: [Self; 5] =
        [Self::ManageUsers, Self::ManageDomains, Self::ViewMailbox, Self::ViewStats, Self::SendMail];

    /// Returns the name in the API and the database.
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

/// The text is not a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of manage_users, manage_domains, view_mailbox, view_stats, send_mail")]
pub struct UnknownPermission;

impl FromStr for Permission {
    type Err = UnknownPermission;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|permission| permission.as_str() == text).ok_or(UnknownPermission)
    }
}

/// The id of a permission record, as used in paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermissionId(pub i64);

/// One delegated permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRecord {
    /// The id.
    pub id: PermissionId,
    /// The mailbox that holds it.
    pub email: EmailAddress,
    /// The permission.
    pub permission: Permission,
    /// The domain it applies to.
    pub domain: DomainName,
    /// The grantor: an address, or the name of an admin token.
    pub granted_by: String,
    /// When it was granted.
    pub granted_at: Timestamp,
}
