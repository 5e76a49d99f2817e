//! Changes of DNS records that were sent to name servers.

use mailapi_model::{
    ChangeState, DomainName, Listed, Page, RecordKind, RecordSet, RecordedChange, SetChange, Timestamp,
};

use crate::StoreError;
use crate::db::{Db, Filter, List, Row, Stmt};

/// Changes that are kept of a domain. A domain has some ten records, so this is the history of many plans.
const KEPT: i64 = 200;

/// The changes of records.
#[derive(Debug, Clone, Copy)]
pub struct DnsChanges<'a>(pub(crate) &'a Db);

pub(crate) const DNS_CHANGES: List = List {
    table: "dns_changes",
    key: "id",
    order: "id DESC",
    columns: "id, plan, zone, name, type, before_ttl, before_records, after_ttl, after_records, state, changed_at",
};

impl DnsChanges<'_> {
    /// Adds a change that is about to be sent; returns its number.
    ///
    /// # Errors
    /// [`StoreError::Reference`] when the domain does not exist.
    pub async fn begin(
        &self,
        domain: &DomainName,
        plan: &str,
        change: &SetChange,
        now: Timestamp,
    ) -> Result<i64, StoreError> {
        let SetChange { zone, name, kind, before, after } = change;
        let sql = "INSERT INTO dns_changes (domain, plan, zone, name, type, before_ttl, before_records, after_ttl, \
                   after_records, state, changed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id";
        let insert = Stmt::new(sql).bind(domain).bind(plan).bind(zone.as_str()).bind(name.as_str());
        let insert = insert.bind(kind.as_str()).bind(i64::from(before.ttl)).bind(before.lines());
        let insert = insert.bind(i64::from(after.ttl)).bind(after.lines());
        let insert = insert.bind(ChangeState::Pending.as_str()).bind(now);
        let oldest = "DELETE FROM dns_changes WHERE domain = $1 AND id <= (SELECT id FROM dns_changes \
                      WHERE domain = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)";
        let effects = self.0.batch(vec![insert, Stmt::new(oldest).bind(domain).bind(KEPT)]).await?;
        let row = effects.into_iter().next().and_then(|effect| effect.rows.into_iter().next());
        row.ok_or_else(|| StoreError::unexpected("an insert returned no row"))?.int()
    }

    /// Records what became of a change.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn set_state(&self, id: i64, state: ChangeState, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE dns_changes SET state = $2, changed_at = $3 WHERE id = $1";
        self.0.execute(Stmt::new(sql).bind(id).bind(state.as_str()).bind(now)).await.map(drop)
    }

    /// Returns a page of the changes of a domain, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, domain: &DomainName, page: Page) -> Result<Listed<RecordedChange>, StoreError> {
        DNS_CHANGES.page(self.0, of_domain(domain), page, read_change).await
    }

    /// Returns the changes of a domain whose result is not known, oldest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn pending(&self, domain: &DomainName) -> Result<Vec<RecordedChange>, StoreError> {
        self.in_state(domain, "state = $2 ORDER BY id", ChangeState::Pending.as_str()).await
    }

    /// Returns the applied changes of the newest plan of which one is still applied, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn newest_applied(&self, domain: &DomainName) -> Result<Vec<RecordedChange>, StoreError> {
        let newest = "state = $2 AND plan = (SELECT plan FROM dns_changes WHERE domain = $1 AND state = $2 \
                      ORDER BY id DESC LIMIT 1) ORDER BY id DESC";
        self.in_state(domain, newest, ChangeState::Applied.as_str()).await
    }

    async fn in_state(&self, domain: &DomainName, which: &str, state: &str) -> Result<Vec<RecordedChange>, StoreError> {
        let sql = format!("SELECT {} FROM dns_changes WHERE domain = $1 AND {which}", DNS_CHANGES.columns);
        let rows = self.0.query(Stmt::new(sql).bind(domain).bind(state)).await?;
        rows.into_iter().map(read_change).collect()
    }
}

pub(crate) fn of_domain(domain: &DomainName) -> Filter {
    Filter::all().when("domain = ?", Some(domain))
}

fn read_change(mut row: Row) -> Result<RecordedChange, StoreError> {
    let (id, plan, zone, name) = (row.int()?, row.text()?, row.text()?, row.text()?);
    let kind: RecordKind = row.parsed()?;
    let mut set = || {
        let ttl = u32::try_from(row.unsigned()?).map_err(|_| StoreError::unexpected("a TTL is too large"))?;
        let records = RecordSet::parse(kind, ttl, &row.text()?);
        records.map_err(|_| StoreError::unexpected("a stored record cannot be read"))
    };
    let change = SetChange { zone, name, kind, before: set()?, after: set()? };
    Ok(RecordedChange { id, plan, change, state: row.parsed()?, at: row.time()? })
}
