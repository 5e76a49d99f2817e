//! Delegated permissions.

use mailapi_model::{DomainName, EmailAddress, Listed, Page, Permission, PermissionId, PermissionRecord, Timestamp};

use crate::StoreError;
use crate::db::{Db, Filter, List, Row, Stmt};

/// The permissions.
#[derive(Debug, Clone, Copy)]
pub struct Permissions<'a>(pub(crate) &'a Db);

/// Permissions to grant to one mailbox in one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGrant {
    /// The mailbox.
    pub email: EmailAddress,
    /// The domain they apply to.
    pub domain: DomainName,
    /// The permissions.
    pub permissions: Vec<Permission>,
    /// The grantor: an address, or the name of an admin token.
    pub granted_by: String,
    /// Time of the grant.
    pub granted_at: Timestamp,
}

/// Which permissions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionFilter {
    /// Only permissions of this mailbox.
    pub email: Option<EmailAddress>,
    /// Only permissions in this domain.
    pub domain: Option<DomainName>,
}

const COLUMNS: &str = "id, email, email_given, permission, domain, domain_given, granted_by, granted_at";

pub(crate) const PERMISSIONS: List =
    List { table: "permissions", key: "id", order: "granted_at DESC, id DESC", columns: COLUMNS };

impl Permissions<'_> {
    /// Grants permissions in one transaction; returns records of those that are new, in the order of the
    /// grant.
    ///
    /// # Errors
    /// [`StoreError::Reference`] when the account or the domain does not exist.
    pub async fn grant(&self, grant: &NewGrant) -> Result<Vec<PermissionRecord>, StoreError> {
        let statements = grant.permissions.iter().map(|permission| insert_permission(grant, *permission)).collect();
        let effects = self.0.batch(statements).await?;
        effects.into_iter().flat_map(|effect| effect.rows).map(read_permission).collect()
    }

    /// Returns all permissions of a mailbox, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn of(&self, email: &EmailAddress) -> Result<Vec<PermissionRecord>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM permissions WHERE email = $1 ORDER BY granted_at DESC, id DESC");
        self.0.query(Stmt::new(sql).bind(email)).await?.into_iter().map(read_permission).collect()
    }

    /// Returns the permission with this id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, id: PermissionId) -> Result<Option<PermissionRecord>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM permissions WHERE id = $1");
        self.0.first(Stmt::new(sql).bind(id.0)).await?.map(read_permission).transpose()
    }

    /// Returns a page of the permissions, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &PermissionFilter, page: Page) -> Result<Listed<PermissionRecord>, StoreError> {
        PERMISSIONS.page(self.0, conditions(filter), page, read_permission).await
    }

    /// Deletes a permission; returns it, if it existed.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn revoke(&self, id: PermissionId) -> Result<Option<PermissionRecord>, StoreError> {
        let sql = format!("DELETE FROM permissions WHERE id = $1 RETURNING {COLUMNS}");
        let effect = self.0.execute(Stmt::new(sql).bind(id.0)).await?;
        effect.rows.into_iter().next().map(read_permission).transpose()
    }
}

pub(crate) fn insert_permission(grant: &NewGrant, permission: Permission) -> Stmt {
    Stmt::new(format!(
        "INSERT INTO permissions (email, email_given, permission, domain, domain_given, granted_by, granted_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (email, domain, permission) DO NOTHING RETURNING {COLUMNS}"
    ))
    .bind(&grant.email)
    .bind(grant.email.given())
    .bind(permission)
    .bind(&grant.domain)
    .bind(grant.domain.given())
    .bind(grant.granted_by.as_str())
    .bind(grant.granted_at)
}

pub(crate) fn conditions(filter: &PermissionFilter) -> Filter {
    Filter::all().when("email = ?", filter.email.as_ref()).when("domain = ?", filter.domain.as_ref())
}

fn read_permission(mut row: Row) -> Result<PermissionRecord, StoreError> {
    Ok(PermissionRecord {
        id: PermissionId(row.int()?),
        email: row.address()?,
        permission: row.parsed()?,
        domain: row.domain()?,
        granted_by: row.text()?,
        granted_at: row.time()?,
    })
}
