//! Deletion times of names. A new owner of a name must not see the previous owner's statistics.

use std::collections::HashMap;

use mailapi_model::Timestamp;

use crate::db::{Filter, Stmt, Value};
use crate::{Stats, StoreError};

const KEEP_LATEST: &str = "ON CONFLICT (name) DO UPDATE SET gone_at = EXCLUDED.gone_at";

/// Records the deletion of this account or domain.
pub(crate) fn note_gone(name: impl Into<Value>, now: Timestamp) -> Stmt {
    let sql = format!("INSERT INTO former_names (name, gone_at) VALUES ($1, $2) {KEEP_LATEST}");
    Stmt::new(sql).bind(name).bind(now)
}

/// Records the deletion of every account of a domain. Must run before they are deleted.
pub(crate) fn note_accounts_gone(domain: impl Into<Value>, now: Timestamp) -> Stmt {
    let all = "SELECT email, CAST($2 AS BIGINT) FROM accounts WHERE domain = $1";
    Stmt::new(format!("INSERT INTO former_names (name, gone_at) {all} {KEEP_LATEST}")).bind(domain).bind(now)
}

impl Stats<'_> {
    /// Returns when accounts or domains with these names were last deleted; names that were never deleted are
    /// omitted.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn gone_at(
        &self,
        names: impl IntoIterator<Item = &str>,
    ) -> Result<HashMap<String, Timestamp>, StoreError> {
        let names = names.into_iter().map(Value::from).collect();
        let statement = Filter::all().one_of("name", Some(names)).select("SELECT name, gone_at FROM former_names");
        self.0.query(statement).await?.into_iter().map(|mut row| Ok((row.text()?, row.time()?))).collect()
    }
}
