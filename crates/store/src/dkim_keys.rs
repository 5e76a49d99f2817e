//! DKIM keys.
//!
//! The first key of a domain signs at once. Later keys wait until they are visible in DNS, so that verifiers
//! can always look up the signing key. One key of each algorithm signs.

use mailapi_events::dkim_key_changed;
use mailapi_model::{DkimKey, DkimState, DkimSteps, DomainKey, DomainName, Secret, Timestamp};

use crate::StoreError;
use crate::db::{BatchLock, Db, Row, Stmt, first_guard_held};
use crate::events::Log;

/// Maximum number of keys that are read. Those beyond it are retired.
const READ: usize = 50;

/// The DKIM keys.
#[derive(Debug, Clone, Copy)]
pub struct DkimKeys<'a>(pub(crate) &'a Db);

const BY_DOMAIN: &str = "SELECT selector, algorithm, private_key, public_key, created_at, published_at, signs_since, \
                         retiring_at, retired_at FROM dkim_keys WHERE domain = $1";

impl DkimKeys<'_> {
    /// Adds a key that does not sign until [`DkimKeys::activate`] is called. It retires another key of its algorithm that
    /// waits for that.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the selector is taken, [`StoreError::Reference`] when the domain does
    /// not exist.
    pub async fn insert(&self, domain: &DomainName, key: &DkimKey) -> Result<(), StoreError> {
        let mut statements = vec![insert_key(domain, key), self.event(domain, key, DkimState::Pending, key.created_at)];
        let replaces = |other: &&DomainKey| other.state().waits() && other.key.algorithm == key.algorithm;
        for other in self.list(domain).await?.iter().filter(replaces) {
            statements.extend(self.retired(domain, &other.key, key.created_at));
        }
        self.0.batch_with_lock(BatchLock::DkimKeys, statements).await.map(drop)
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

    /// Returns the keys of a domain, newest first; those that are retired follow the others.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, domain: &DomainName) -> Result<Vec<DomainKey>, StoreError> {
        let sql = format!("{BY_DOMAIN} ORDER BY retired_at IS NOT NULL, id DESC LIMIT {READ}");
        let rows = self.0.query(Stmt::new(sql).bind(domain)).await?;
        rows.into_iter().map(read_key).collect()
    }

    /// Returns the keys that sign, oldest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn signing(&self, domain: &DomainName) -> Result<Vec<DkimKey>, StoreError> {
        let sql = format!("{BY_DOMAIN} AND signs_since IS NOT NULL AND retiring_at IS NULL ORDER BY id");
        let rows = self.0.query(Stmt::new(sql).bind(domain)).await?;
        rows.into_iter().map(|row| Ok(read_key(row)?.key)).collect()
    }

    /// Records that the record of a pending key was found; returns whether the key was pending.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn publish(&self, domain: &DomainName, key: &DkimKey, now: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE dkim_keys SET published_at = $3 \
                   WHERE domain = $1 AND selector = $2 AND published_at IS NULL AND signs_since IS NULL";
        let change = Stmt::new(sql).bind(domain).bind(key.selector.as_str()).bind(now).demand(1);
        let event = self.event(domain, key, DkimState::Published, now);
        first_guard_held(self.0.batch(vec![change, event]).await)
    }

    /// Makes a key sign in place of the others of its algorithm; returns whether it did not sign yet.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn activate(&self, domain: &DomainName, key: &DkimKey, now: Timestamp) -> Result<bool, StoreError> {
        let activate = Stmt::new(
            "UPDATE dkim_keys SET signs_since = $3, published_at = COALESCE(published_at, $3) \
             WHERE domain = $1 AND selector = $2 AND signs_since IS NULL",
        );
        let mut statements = vec![
            activate.bind(domain).bind(key.selector.as_str()).bind(now).demand(1),
            self.event(domain, key, DkimState::Active, now),
        ];
        let signing = self.signing(domain).await?;
        for replaced in signing.iter().filter(|other| other.algorithm == key.algorithm) {
            let sql = "UPDATE dkim_keys SET retiring_at = $3 \
                       WHERE domain = $1 AND selector = $2 AND retiring_at IS NULL";
            statements.push(Stmt::new(sql).bind(domain).bind(replaced.selector.as_str()).bind(now).demand(1));
            statements.push(self.event(domain, replaced, DkimState::Retiring, now));
        }
        match self.0.batch(statements).await {
            Ok(_) => Ok(true),
            // Another check was faster.
            Err(StoreError::Guard { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Erases a key that does not sign; returns whether there was one to erase.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn retire(&self, domain: &DomainName, key: &DkimKey, now: Timestamp) -> Result<bool, StoreError> {
        first_guard_held(self.0.batch(self.retired(domain, key, now).into()).await)
    }

    fn retired(&self, domain: &DomainName, key: &DkimKey, now: Timestamp) -> [Stmt; 2] {
        let sql = "UPDATE dkim_keys SET retired_at = $3, private_key = $4 WHERE domain = $1 AND selector = $2 \
                   AND retired_at IS NULL AND (signs_since IS NULL OR retiring_at IS NOT NULL)";
        let retire = Stmt::new(sql).bind(domain).bind(key.selector.as_str()).bind(now);
        let retire = retire.bind(&Secret::new(Vec::new())).demand(1);
        [retire, self.event(domain, key, DkimState::Retired, now)]
    }

    fn event(&self, domain: &DomainName, key: &DkimKey, state: DkimState, at: Timestamp) -> Stmt {
        Log::of(self.0).insert(&dkim_key_changed(domain, key, state, at, self.0.next_fact()))
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

fn read_key(mut row: Row) -> Result<DomainKey, StoreError> {
    let key = DkimKey {
        selector: row.text()?,
        algorithm: row.parsed()?,
        private_key: Secret::new(row.bytes()?),
        public_key: row.text()?,
        created_at: row.time()?,
    };
    let steps = DkimSteps {
        published_at: row.time_or_null()?,
        active_at: row.time_or_null()?,
        retiring_at: row.time_or_null()?,
        retired_at: row.time_or_null()?,
    };
    Ok(DomainKey { key, steps })
}
