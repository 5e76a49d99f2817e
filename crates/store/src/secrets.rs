//! Random secrets that all nodes share.

use mailapi_model::Secret;

use crate::StoreError;
use crate::db::{Db, Stmt};

/// The shared secrets.
#[derive(Debug, Clone, Copy)]
pub struct Secrets<'a>(pub(crate) &'a Db);

impl Secrets<'_> {
    /// Returns the secret with this name, storing `fresh` if there is none. If several nodes store one at the
    /// same time, all receive the first.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn get_or_keep(&self, name: &str, fresh: Secret<Vec<u8>>) -> Result<Secret<Vec<u8>>, StoreError> {
        if let Some(known) = self.get(name).await? {
            return Ok(known);
        }
        let keep = Stmt::new("INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING");
        self.0.execute(keep.bind(name).bind(fresh.into_inner().as_slice())).await?;
        let kept = self.get(name).await?;
        kept.ok_or_else(|| StoreError::unexpected("a secret is missing right after it was stored"))
    }

    async fn get(&self, name: &str) -> Result<Option<Secret<Vec<u8>>>, StoreError> {
        let row = self.0.first(Stmt::new("SELECT value FROM secrets WHERE name = $1").bind(name)).await?;
        row.map(|mut row| row.bytes().map(Secret::new)).transpose()
    }
}
