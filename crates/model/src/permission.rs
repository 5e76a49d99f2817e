//! Permissions that an admin delegates to a mailbox, for one domain each.

use crate::{DomainName, EmailAddress, Timestamp, named_values};

named_values! {
    /// A permission that can be delegated. The order is that of the API.
    Permission, UnknownPermission, "must be one of manage_users, manage_domains, view_mailbox, view_stats, send_mail" {
        /// Manage the mailboxes of the domain.
        ManageUsers = "manage_users",
        /// View and change the domain, but neither create nor delete it nor create keys.
        ManageDomains = "manage_domains",
        /// Read the mail of every mailbox in the domain.
        ViewMailbox = "view_mailbox",
        /// View delivery statistics of the domain.
        ViewStats = "view_stats",
        /// Send as any mailbox in the domain.
        SendMail = "send_mail",
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
