//! Mail domains.

use mailapi_events::{BrokenRecord, EventType, domain_created, domain_event, domain_unverified, domain_updated};
use mailapi_model::{DkimKey, Domain, DomainName, EmailAddress, Listed, NewDomain, Page, Timestamp};

use crate::StoreError;
use crate::db::{Changed, Db, Filter, List, Row, Stmt, Value, first_guard_held};
use crate::dkim_keys::insert_first_key;
use crate::events::Log;
use crate::former_names::{note_accounts_gone, note_gone};
use crate::tokens::remove_tokens;

/// The domains.
#[derive(Debug, Clone, Copy)]
pub struct Domains<'a>(pub(crate) &'a Db);

/// Which domains to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainFilter {
    /// Only these domains; `None` means all.
    pub only: Option<Vec<DomainName>>,
    /// Only domains that wait for approval.
    pub pending: bool,
}

/// Changes to a domain; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainChange {
    /// Whether mail may be sent from it.
    pub active: Option<bool>,
    /// A new description; the inner `None` removes it.
    pub description: Option<Option<String>>,
}

/// Result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainDeleted {
    /// The domain was deleted.
    Gone,
    /// The domain has accounts, and `force` was not set.
    NotEmpty,
    /// The domain does not exist.
    Missing,
}

const COLUMNS: &str = "name, name_given, active, approved, description, creator_email, created_at, \
    (SELECT COUNT(*) FROM accounts WHERE accounts.domain = domains.name), \
    (SELECT selector FROM dkim_keys WHERE dkim_keys.domain = domains.name AND signs_since IS NOT NULL \
     ORDER BY signs_since DESC, dkim_keys.id DESC LIMIT 1), verified_at";

pub(crate) const DOMAINS: List =
    List { table: "domains", key: "name", order: "created_at DESC, name DESC", columns: COLUMNS };

impl Domains<'_> {
    /// Adds a domain, optionally with its first DKIM key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the domain exists.
    pub async fn insert(&self, domain: &NewDomain, key: Option<&DkimKey>) -> Result<(), StoreError> {
        let mut statements =
            vec![insert_domain(domain), Log::of(self.0).insert(&domain_created(domain, self.0.next_fact()))];
        statements.extend(key.map(|key| insert_first_key(&domain.name, key)));
        self.0.batch_followed(Changed::Domain(domain.name.clone()), statements).await.map(drop)
    }

    /// Returns the domain with this name.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, name: &DomainName) -> Result<Option<Domain>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM domains WHERE name = $1");
        self.0.first(Stmt::new(sql).bind(name)).await?.map(read_domain).transpose()
    }

    /// Returns a page of the domains, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, filter: &DomainFilter, page: Page) -> Result<Listed<Domain>, StoreError> {
        DOMAINS.page(self.0, conditions(filter), page, read_domain).await
    }

    /// Returns the names of all approved domains, in alphabetical order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn approved_names(&self) -> Result<Vec<DomainName>, StoreError> {
        let sql = "SELECT name, name_given FROM domains WHERE approved ORDER BY name";
        let rows = self.0.query(Stmt::new(sql)).await?;
        rows.into_iter().map(|mut row| row.domain()).collect()
    }

    /// Returns the names of the active domains whose DNS records were found correct, in alphabetical order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn verified_names(&self) -> Result<Vec<DomainName>, StoreError> {
        let sql =
            "SELECT name, name_given FROM domains WHERE approved AND active AND verified_at IS NOT NULL ORDER BY name";
        let rows = self.0.query(Stmt::new(sql)).await?;
        rows.into_iter().map(|mut row| row.domain()).collect()
    }

    /// Changes a domain; returns whether it exists.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn update(&self, name: &DomainName, change: &DomainChange, now: Timestamp) -> Result<bool, StoreError> {
        let description = change.description.as_ref().map(Option::as_deref);
        let event = domain_updated(name, change.active, description, now, self.0.next_fact());
        let statement = Stmt::new(
            "UPDATE domains SET active = COALESCE(CAST($2 AS BOOLEAN), active), \
             description = CASE WHEN $3 THEN CAST($4 AS TEXT) ELSE description END WHERE name = $1",
        )
        .bind(name)
        .bind(change.active)
        .bind(change.description.is_some())
        .bind(change.description.clone().flatten());
        let event = Log::of(self.0).insert(&event);
        first_guard_held(self.0.batch(vec![statement.demand(1), event]).await)
    }

    /// Approves and activates a domain, with `key` as its first DKIM key; returns whether the domain exists.
    /// If it already has a key, `key` is ignored.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn approve(&self, name: &DomainName, key: Option<&DkimKey>, now: Timestamp) -> Result<bool, StoreError> {
        let event = domain_event(EventType::DomainApproved, name, now, self.0.next_fact());
        // A second approval changes nothing.
        let waits = "SELECT 1 FROM domains WHERE name = $9 AND NOT approved";
        let event = Log::of(self.0).insert_if_found(&event, waits, name);
        let sql = "UPDATE domains SET active = TRUE, approved = TRUE WHERE name = $1";
        let mut statements = vec![event, Stmt::new(sql).bind(name).demand(1)];
        statements.extend(key.map(|key| insert_first_key(name, key)));
        match self.0.batch_followed(Changed::Domain(name.clone()), statements).await {
            Ok(_) => Ok(true),
            Err(StoreError::Guard { statement: 1, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns at most `limit` unapproved domains that were signed up before `moment`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn unapproved_since(&self, moment: Timestamp, limit: usize) -> Result<Vec<DomainName>, StoreError> {
        let sql = "SELECT name, name_given FROM domains WHERE approved = FALSE AND created_at < $1 \
                   ORDER BY created_at, name LIMIT $2";
        let rows = self.0.query(Stmt::new(sql).bind(moment).bind(crate::db::count(limit))).await?;
        rows.into_iter().map(|mut row| row.domain()).collect()
    }

    /// Records that the DNS records were found correct; returns whether the domain exists.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn set_verified(&self, name: &DomainName, at: Timestamp) -> Result<bool, StoreError> {
        // Only the first of several successful checks is an event.
        let is_new = "SELECT 1 FROM domains WHERE name = $9 AND verified_at IS NULL";
        let event = domain_event(EventType::DomainVerified, name, at, self.0.next_fact());
        let event = Log::of(self.0).insert_if_found(&event, is_new, name);
        let sql = "UPDATE domains SET verified_at = $2, failed_checks = 0 WHERE name = $1";
        self.last_touched(vec![event, Stmt::new(sql).bind(name).bind(at)]).await
    }

    /// Records that these DNS records are not correct; returns whether the domain exists.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn set_unverified(
        &self,
        name: &DomainName,
        records: &[BrokenRecord],
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let is_new = "SELECT 1 FROM domains WHERE name = $9 AND verified_at IS NOT NULL";
        let event = domain_unverified(name, records, at, self.0.next_fact());
        let event = Log::of(self.0).insert_if_found(&event, is_new, name);
        let sql = "UPDATE domains SET verified_at = NULL WHERE name = $1";
        self.last_touched(vec![event, Stmt::new(sql).bind(name)]).await
    }

    async fn last_touched(&self, statements: Vec<Stmt>) -> Result<bool, StoreError> {
        Ok(self.0.batch(statements).await?.last().is_some_and(|change| change.touched > 0))
    }

    /// Returns at most `limit` active domains whose records were last checked at `usual` or before. After a check that
    /// found a wrong record, or while a key waits for its record, `soon` counts instead.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn due_for_check(
        &self,
        usual: Timestamp,
        soon: Timestamp,
        limit: usize,
    ) -> Result<Vec<DomainName>, StoreError> {
        let sql = "SELECT name, name_given FROM domains WHERE active AND (checked_at <= $1 OR checked_at <= $2 AND \
                   (verified_at IS NOT NULL AND failed_checks > 0 OR EXISTS (SELECT 1 FROM dkim_keys \
                   WHERE dkim_keys.domain = domains.name AND signs_since IS NULL AND retired_at IS NULL))) \
                   ORDER BY checked_at, name LIMIT $3";
        let rows = self.0.query(Stmt::new(sql).bind(usual).bind(soon).bind(crate::db::count(limit))).await?;
        rows.into_iter().map(|mut row| row.domain()).collect()
    }

    /// Begins a check of the records of a domain; returns false if another node has begun one since `after`.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn begin_check(&self, name: &DomainName, after: Timestamp, now: Timestamp) -> Result<bool, StoreError> {
        let sql = "UPDATE domains SET checked_at = $3 WHERE name = $1 AND checked_at <= $2";
        Ok(self.0.execute(Stmt::new(sql).bind(name).bind(after).bind(now)).await?.touched > 0)
    }

    /// Records that a check found a record that is not correct; returns whether the one before did, too.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn check_failed(&self, name: &DomainName) -> Result<bool, StoreError> {
        let sql = "UPDATE domains SET failed_checks = failed_checks + 1 WHERE name = $1";
        self.0.execute(Stmt::new(sql).bind(name)).await?;
        let sql = "SELECT 1 FROM domains WHERE name = $1 AND failed_checks > 1";
        Ok(self.0.first(Stmt::new(sql).bind(name)).await?.is_some())
    }

    /// Deletes a domain with its keys and the permissions on it.
    ///
    /// With `force`, its accounts are deleted too, each as by [`crate::Accounts::delete`]. Without it, a
    /// domain with accounts stays.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn delete(&self, name: &DomainName, force: bool, now: Timestamp) -> Result<DomainDeleted, StoreError> {
        let mut statements = Vec::new();
        if force {
            // Creating an account locks its domain, and creating a token locks its account. Locking both
            // here, in that order, ensures that none is missed below.
            statements.push(Stmt::new("SELECT 1 FROM domains WHERE name = $1 FOR UPDATE").bind(name).locking());
            let accounts = "SELECT 1 FROM accounts WHERE domain = $1 ORDER BY email FOR UPDATE";
            statements.push(Stmt::new(accounts).bind(name).locking());
            statements.push(remove_tokens("email IN (SELECT email FROM accounts WHERE domain = $1)").bind(name));
            statements.push(note_accounts_gone(name, now));
            statements.push(Stmt::new("DELETE FROM accounts WHERE domain = $1").bind(name));
        }
        statements.push(Stmt::new("DELETE FROM domains WHERE name = $1").bind(name).demand(1));
        statements.push(Log::of(self.0).insert(&domain_event(EventType::DomainDeleted, name, now, self.0.next_fact())));
        statements.push(note_gone(name, now));
        match self.0.batch_followed(Changed::WholeDomain(name.clone()), statements).await {
            Ok(_) => Ok(DomainDeleted::Gone),
            // The foreign key of accounts is the guard: no account can be added meanwhile.
            Err(StoreError::Reference) => Ok(DomainDeleted::NotEmpty),
            Err(StoreError::Guard { .. }) => Ok(DomainDeleted::Missing),
            Err(error) => Err(error),
        }
    }
}

pub(crate) fn insert_domain(domain: &NewDomain) -> Stmt {
    Stmt::new(
        "INSERT INTO domains (name, name_given, active, approved, description, creator_email, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(&domain.name)
    .bind(domain.name.given())
    .bind(domain.active)
    // A domain that may send from the start needs no approval.
    .bind(domain.active)
    .bind(domain.description.clone())
    .bind(domain.creator_email.as_ref().map(EmailAddress::shown))
    .bind(domain.created_at)
}

pub(crate) fn conditions(filter: &DomainFilter) -> Filter {
    let names = filter.only.as_ref().map(|names| names.iter().map(Value::from).collect());
    let conditions = Filter::all().one_of("name", names);
    if filter.pending { conditions.only("approved = FALSE") } else { conditions }
}

fn read_domain(mut row: Row) -> Result<Domain, StoreError> {
    Ok(Domain {
        name: row.domain()?,
        active: row.bool()?,
        approved: row.bool()?,
        description: row.text_or_null()?,
        creator_email: row.parsed_or_null()?,
        created_at: row.time()?,
        user_count: row.unsigned()?,
        dkim_selector: row.text_or_null()?,
        verified_at: row.time_or_null()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::sqlite::{Sqlite, SqliteSettings};
    use crate::store::{COMPONENT, SQLITE_MIGRATIONS};

    /// A domain that waits for approval, one that was disabled, and one of an external user database that was
    /// disabled.
    const BEFORE: &str = "
        INSERT INTO domains (name, active, created_at) VALUES
            ('asks.example', FALSE, 1), ('off.example', FALSE, 2), ('theirs.example', FALSE, 3), ('on.example', TRUE, 4);
        INSERT INTO dkim_keys (domain, selector, algorithm, private_key, public_key, created_at)
            VALUES ('off.example', 'm1', 'rsa-sha256', x'00', '', 2);
        INSERT INTO accounts (email, domain, name, name_folded, password_hash, active, created_at, updated_at, in_directory)
            VALUES ('ann@theirs.example', 'theirs.example', '', '', '', TRUE, 3, 3, TRUE),
                   ('ann@asks.example', 'asks.example', '', '', '', TRUE, 3, 3, FALSE);";

    #[tokio::test(flavor = "multi_thread")]
    async fn who_was_let_in_before_that_was_written_down_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(&folder.path().join("old.db"), SqliteSettings::default()).unwrap();
        let now = Timestamp::from_seconds(9);
        engine.migrate(COMPONENT, &SQLITE_MIGRATIONS[..7], now).await.unwrap();
        engine.write(|connection| connection.execute_batch(BEFORE).map_err(StoreError::from)).await.unwrap();
        let store = Store::on_sqlite(engine);
        store.migrate(now).await.unwrap();
        let names = |names: Vec<DomainName>| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let approved = names(store.domains().approved_names().await.unwrap());
        assert_eq!(approved, ["off.example", "on.example", "theirs.example"]);
        let pending = DomainFilter { pending: true, only: None };
        let pending = store.domains().list(&pending, Page::new(50, 0)).await.unwrap().items;
        assert_eq!(names(pending.into_iter().map(|domain| domain.name).collect()), ["asks.example"]);
    }
}
