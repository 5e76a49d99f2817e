//! Local copies of the mailboxes of a [`super::Directory`]. Tokens, permissions and sent mail refer to them.

use std::collections::{BTreeSet, HashMap};

use mailapi_model::{DomainName, EmailAddress, Timestamp};

use super::{DirectoryMailbox, DirectoryQuota};
use crate::StoreError;
use crate::accounts::fold;
use crate::db::{Db, Filter, Row, Stmt, Value, count, number};
use crate::tokens::end_sessions;

/// Password hash of a copy: no password matches it, here or in a mail server.
const NO_PASSWORD: &str = "{CRYPT}!";

/// The local copies.
#[derive(Debug, Clone, Copy)]
pub struct Copies<'a>(pub(crate) &'a Db);

/// A local copy of an external mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The address.
    pub email: EmailAddress,
    /// Whether its owner may log in.
    pub active: bool,
    /// When its mailbox was first found missing; `None` while it exists.
    pub gone_since: Option<Timestamp>,
}

/// The columns of an account that come from the external mailbox.
#[derive(PartialEq)]
struct Columns {
    name: String,
    active: bool,
    quota: Option<i64>,
    is_gone: bool,
}

impl Copies<'_> {
    /// Returns whether this account is a copy; `None` if there is no account.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn is_copy(&self, email: &EmailAddress) -> Result<Option<bool>, StoreError> {
        let row = self.0.first(Stmt::new("SELECT in_directory FROM accounts WHERE email = $1").bind(email)).await?;
        row.map(|mut row| row.bool()).transpose()
    }

    /// Returns whether any account of this domain is a copy.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn any_in(&self, domain: &DomainName) -> Result<bool, StoreError> {
        let statement = Stmt::new("SELECT 1 FROM accounts WHERE domain = $1 AND in_directory LIMIT 1").bind(domain);
        Ok(self.0.first(statement).await?.is_some())
    }

    /// Updates the copies of these mailboxes and their domains, which become able to send; returns how many
    /// copies changed.
    ///
    /// Accounts that were created here under these addresses stay unchanged. Copies that may no longer log in
    /// lose their sessions. A copy keeps its name and its quota where they are unknown now.
    ///
    /// # Errors
    /// When the database cannot be read or written; then nothing was stored.
    pub async fn keep(&self, mailboxes: &[DirectoryMailbox], now: Timestamp) -> Result<usize, StoreError> {
        let known = self.known(mailboxes).await?;
        let mut changed: Vec<(&DirectoryMailbox, Columns)> = mailboxes
            .iter()
            .filter_map(|mailbox| {
                let former = known.get(mailbox.email.as_str());
                let columns = Columns::of(mailbox, former.map(|(_, columns)| columns));
                let differs = former.is_none_or(|(in_directory, former)| *in_directory && *former != columns);
                differs.then_some((mailbox, columns))
            })
            .collect();
        if changed.is_empty() {
            return Ok(0);
        }
        // Lock rows in a fixed order, so that two nodes cannot deadlock.
        changed.sort_by(|(one, _), (other, _)| one.email.cmp(&other.email));
        changed.dedup_by(|(one, _), (other, _)| one.email == other.email);
        let mut statements = Vec::new();
        let mut domains = BTreeSet::new();
        for (mailbox, _) in &changed {
            let domain = mailbox.email.domain();
            if domains.insert(domain.as_str().to_owned()) {
                statements.push(insert_domain(&domain, now));
            }
        }
        statements.extend(changed.iter().map(|(mailbox, columns)| put(mailbox, columns, now)));
        // The statements above lock the accounts, so no new session can be missed.
        let disabled = changed.iter().filter(|(mailbox, _)| !mailbox.active);
        statements.extend(disabled.map(|(mailbox, _)| end_sessions(&mailbox.email)));
        self.0.batch(statements).await?;
        Ok(changed.len())
    }

    /// Returns at most `limit` copies after `after`, in alphabetical order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn after(&self, after: Option<&EmailAddress>, limit: usize) -> Result<Vec<Copied>, StoreError> {
        let sql = "SELECT email, email_given, active, gone_since FROM accounts \
                   WHERE email > $1 AND in_directory ORDER BY email LIMIT $2";
        self.copies(Stmt::new(sql).bind(after.map_or("", EmailAddress::as_str)).bind(count(limit))).await
    }

    async fn copies(&self, statement: Stmt) -> Result<Vec<Copied>, StoreError> {
        let rows = self.0.query(statement).await?;
        let read =
            |mut row: Row| Ok(Copied { email: row.address()?, active: row.bool()?, gone_since: row.time_or_null()? });
        rows.into_iter().map(read).collect()
    }

    /// Returns at most `limit` copies after `after` whose owners have a session or a token, in alphabetical order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn with_access(
        &self,
        after: Option<&EmailAddress>,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Copied>, StoreError> {
        let sql = "SELECT email, email_given, active, gone_since FROM accounts \
                   WHERE email > $1 AND in_directory AND active AND EXISTS (\
                       SELECT 1 FROM tokens WHERE tokens.email = accounts.email AND tokens.is_active \
                       AND tokens.is_removed = FALSE AND (tokens.expires_at IS NULL OR tokens.expires_at > $2)) \
                   ORDER BY email LIMIT $3";
        let after = after.map_or("", EmailAddress::as_str);
        self.copies(Stmt::new(sql).bind(after).bind(now).bind(count(limit))).await
    }

    /// Records that a copy's mailbox is missing since `now`: disables the copy and ends its sessions.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn note_gone(&self, email: &EmailAddress, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE accounts SET active = FALSE, updated_at = $2, gone_since = $2 \
                   WHERE email = $1 AND in_directory AND gone_since IS NULL";
        self.0.batch(vec![Stmt::new(sql).bind(email).bind(now), end_sessions(email)]).await.map(drop)
    }

    /// Returns for each existing account whether it is a copy, and its columns.
    async fn known(&self, mailboxes: &[DirectoryMailbox]) -> Result<HashMap<String, (bool, Columns)>, StoreError> {
        let addresses = mailboxes.iter().map(|mailbox| Value::from(&mailbox.email)).collect();
        let statement = Filter::all()
            .one_of("email", Some(addresses))
            .select("SELECT email, in_directory, name, active, quota_bytes, gone_since FROM accounts");
        let rows = self.0.query(statement).await?;
        let read = |mut row: Row| {
            let (email, in_directory) = (row.text()?, row.bool()?);
            let (name, active, quota) = (row.text()?, row.bool()?, row.int_or_null()?);
            Ok((email, (in_directory, Columns { name, active, quota, is_gone: row.time_or_null()?.is_some() })))
        };
        rows.into_iter().map(read).collect()
    }
}

impl Columns {
    /// The columns of a mailbox; the former ones where its own are unknown.
    fn of(mailbox: &DirectoryMailbox, former: Option<&Self>) -> Self {
        let name = mailbox.name.clone().or_else(|| former.map(|former| former.name.clone()));
        let quota = match mailbox.quota {
            DirectoryQuota::Unlimited => None,
            DirectoryQuota::Bytes(bytes) => Some(number(bytes)),
            DirectoryQuota::Unknown => former.and_then(|former| former.quota),
        };
        Self { name: name.unwrap_or_default(), active: mailbox.active, quota, is_gone: false }
    }
}

/// Inserts the domain of an existing mailbox, approved for sending. DKIM keys are created only on request.
fn insert_domain(domain: &DomainName, now: Timestamp) -> Stmt {
    Stmt::new(
        "INSERT INTO domains (name, name_given, active, approved, created_at) VALUES ($1, $2, TRUE, TRUE, $3) \
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(domain)
    .bind(domain.given())
    .bind(now)
}

fn put(mailbox: &DirectoryMailbox, columns: &Columns, now: Timestamp) -> Stmt {
    Stmt::new(
        "INSERT INTO accounts (email, email_given, domain, name, name_folded, password_hash, active, quota_bytes, \
         created_at, updated_at, in_directory) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, TRUE) \
         ON CONFLICT (email) DO UPDATE SET name = EXCLUDED.name, name_folded = EXCLUDED.name_folded, \
         active = EXCLUDED.active, quota_bytes = EXCLUDED.quota_bytes, updated_at = EXCLUDED.updated_at, \
         gone_since = NULL \
         WHERE accounts.in_directory",
    )
    .bind(&mailbox.email)
    .bind(mailbox.email.given())
    .bind(mailbox.email.domain_str())
    .bind(columns.name.as_str())
    .bind(fold(&columns.name))
    .bind(NO_PASSWORD)
    .bind(columns.active)
    .bind(columns.quota)
    .bind(now)
}
