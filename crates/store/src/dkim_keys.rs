//! DKIM keys.
//!
//! The first key of a domain signs at once. Later keys wait until they are visible in DNS, so that verifiers
//! can always look up the signing key.

use mailapi_model::{DkimKey, DomainName, Secret, Timestamp};

use crate::StoreError;
use crate::db::{BatchLock, Db, Row, Stmt};

/// The DKIM keys.
#[derive(Debug, Clone, Copy)]
pub struct DkimKeys<'a>(pub(crate) &'a Db);

const BY_DOMAIN: &str = "SELECT selector, algorithm, private_key, public_key, created_at FROM dkim_keys \
                         WHERE domain = $1";

impl DkimKeys<'_> {
    /// Adds a key that does not sign until [`DkimKeys::sign_with`] is called.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the selector is taken, [`StoreError::Reference`] when the domain does
    /// not exist.
    pub async fn insert(&self, domain: &DomainName, key: &DkimKey) -> Result<(), StoreError> {
        self.0.batch_with_lock(BatchLock::DkimKeys, vec![insert_key(domain, key)]).await.map(drop)
    }

    /// Returns the selectors with the prefix `start` that the domain has ever had, including those of deleted
    /// keys.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn used_selectors(&self, domain: &DomainName, start: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT selector FROM dkim_selectors WHERE domain = $1 AND selector LIKE $2";
        let rows = self.0.query(Stmt::new(sql).bind(domain).bind(format!("{start}%"))).await?;
        rows.into_iter().map(|mut row| row.text()).collect()
    }

    /// Returns the signing key.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn current(&self, domain: &DomainName) -> Result<Option<DkimKey>, StoreError> {
        let sql = format!("{BY_DOMAIN} AND signs_since IS NOT NULL ORDER BY signs_since DESC, id DESC LIMIT 1");
        self.first(Stmt::new(sql).bind(domain)).await
    }

    /// Returns the newest key: the signing key, or one that waits to become it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn newest(&self, domain: &DomainName) -> Result<Option<DkimKey>, StoreError> {
        let sql = format!("{BY_DOMAIN} ORDER BY id DESC LIMIT 1");
        self.first(Stmt::new(sql).bind(domain)).await
    }

    /// Makes the key with this selector the signing key; returns whether the key exists.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn sign_with(&self, domain: &DomainName, selector: &str, now: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE dkim_keys SET signs_since = $3 WHERE domain = $1 AND selector = $2";
        Ok(self.0.execute(Stmt::new(sql).bind(domain).bind(selector).bind(now)).await?.touched > 0)
    }

    async fn first(&self, statement: Stmt) -> Result<Option<DkimKey>, StoreError> {
        self.0.first(statement).await?.map(read_key).transpose()
    }
}

fn insert_key(domain: &DomainName, key: &DkimKey) -> Stmt {
    bind_key(format!("INSERT INTO dkim_keys {INTO} SELECT {VALUES}, CAST(NULL AS BIGINT)"), domain, key)
}

/// Adds a key that signs at once, unless the domain already has a key.
pub(crate) fn insert_first_key(domain: &DomainName, key: &DkimKey) -> Stmt {
    let first = "WHERE NOT EXISTS (SELECT 1 FROM dkim_keys WHERE domain = $1)";
    bind_key(format!("INSERT INTO dkim_keys {INTO} SELECT {VALUES}, CAST($6 AS BIGINT) {first}"), domain, key)
}

const INTO: &str = "(domain, selector, algorithm, private_key, public_key, created_at, signs_since)";
// Outside VALUES, an engine cannot infer a parameter's type from its column.
const VALUES: &str = "CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), $4, CAST($5 AS TEXT), CAST($6 AS BIGINT)";

fn bind_key(sql: String, domain: &DomainName, key: &DkimKey) -> Stmt {
    Stmt::new(sql)
        .bind(domain)
        .bind(key.selector.as_str())
        .bind(key.algorithm)
        .bind(&key.private_key)
        .bind(key.public_key.as_str())
        .bind(key.created_at)
}

fn read_key(mut row: Row) -> Result<DkimKey, StoreError> {
    Ok(DkimKey {
        selector: row.text()?,
        algorithm: row.parsed()?,
        private_key: Secret::new(row.bytes()?),
        public_key: row.text()?,
        created_at: row.time()?,
    })
}
