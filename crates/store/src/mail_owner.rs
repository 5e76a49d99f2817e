//! The one data directory that has the mail of accounts in PostgreSQL, and the one server that runs on it.
//!
//! The built-in mail server keeps mailboxes in its data directory. A second one on the same accounts would have other
//! mailboxes of the same addresses. So the database remembers the directory, also while no server runs. A copy of the
//! directory has its identifier too, so the running server also renews a lease.

use std::time::Duration;

use mailapi_model::Timestamp;

use crate::StoreError;
use crate::db::{DATABASE_TIME, Db, Row, Stmt, millis};

/// The owner of the mail; only for PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub struct MailOwners<'a>(pub(crate) &'a Db);

/// A server that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailClaim {
    /// The identifier of its data directory.
    pub node: String,
    /// The machine and the path of the directory, for people.
    pub place: String,
    /// The start of the machine's system: a name that no other one has.
    pub machine: String,
    /// The name of this server; no other one has it.
    pub server: String,
    /// Whether the directory may replace another one, whose server does not run.
    pub adopts: bool,
}

/// The directory that has the mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailOwner {
    /// Its identifier.
    pub node: String,
    /// Its machine and path when its server last started.
    pub place: String,
    /// When it became the owner.
    pub since: Timestamp,
    /// When its server started; `None` if it does not run.
    pub running_since: Option<Timestamp>,
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailClaimed {
    /// The server may start.
    Held,
    /// Another directory has the mail, or another server runs.
    Refused(MailOwner),
}

impl MailOwners<'_> {
    /// Makes this server the only one, if its directory has the mail or is the first one. The server must renew the lease
    /// more often than its length. A server in the same place of the same machine has ended: the caller holds the lock of
    /// the directory.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn claim(&self, claim: &MailClaim, now: Timestamp, lease: Duration) -> Result<MailClaimed, StoreError> {
        let ended = ended("$6");
        let sql = format!(
            "INSERT INTO mail_owner (id, node, place, machine, server, since, started_at, seen_at) \
             VALUES (1, $1, $2, $3, $4, $5, $5, {DATABASE_TIME}) ON CONFLICT (id) DO UPDATE SET \
             node = EXCLUDED.node, place = EXCLUDED.place, machine = EXCLUDED.machine, server = EXCLUDED.server, \
             since = CASE WHEN mail_owner.node = EXCLUDED.node THEN mail_owner.since ELSE EXCLUDED.since END, \
             started_at = EXCLUDED.started_at, seen_at = EXCLUDED.seen_at \
             WHERE (mail_owner.node = $1 AND ({ended} OR (mail_owner.place = $2 AND mail_owner.machine = $3))) \
             OR ($7 AND {ended})"
        );
        let MailClaim { node, place, machine, server, adopts } = claim;
        let statement = Stmt::new(sql).bind(node.as_str()).bind(place.as_str()).bind(machine.as_str());
        let statement = statement.bind(server.as_str()).bind(now).bind(millis(lease)).bind(*adopts);
        if self.0.execute(statement).await?.touched > 0 {
            return Ok(MailClaimed::Held);
        }
        let owner = self.get(lease).await?;
        owner.map(MailClaimed::Refused).ok_or_else(|| StoreError::unexpected("the owner of the mail has no row"))
    }

    /// Returns the directory that has the mail; `None` before the first start.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, lease: Duration) -> Result<Option<MailOwner>, StoreError> {
        if matches!(self.0, Db::Sqlite(_)) {
            return Ok(None);
        }
        let ended = ended("$1");
        let sql = format!("SELECT node, place, since, CASE WHEN {ended} THEN NULL ELSE started_at END FROM mail_owner");
        self.0.first(Stmt::new(sql).bind(millis(lease))).await?.map(read).transpose()
    }

    /// Renews the lease of a server. Returns false if another one has taken its place.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn renew(&self, server: &str) -> Result<bool, StoreError> {
        let sql = format!("UPDATE mail_owner SET seen_at = {DATABASE_TIME} WHERE server = $1");
        Ok(self.0.execute(Stmt::new(sql).bind(server)).await?.touched > 0)
    }

    /// Ends the lease of a server that stops.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn release(&self, server: &str) -> Result<(), StoreError> {
        self.0.execute(Stmt::new("UPDATE mail_owner SET server = '' WHERE server = $1").bind(server)).await.map(drop)
    }
}

/// A condition: the server stopped, or its lease was not renewed. A time in the future shows that the database's clock was
/// set back.
fn ended(lease: &str) -> String {
    format!(
        "(mail_owner.server = '' OR mail_owner.seen_at NOT BETWEEN {DATABASE_TIME} - {lease} AND {DATABASE_TIME} + {lease})"
    )
}

fn read(mut row: Row<'_>) -> Result<MailOwner, StoreError> {
    Ok(MailOwner { node: row.text()?, place: row.text()?, since: row.time()?, running_since: row.time_or_null()? })
}
