//! Local copies of the mailboxes of a [`super::Directory`]. Tokens, permissions and sent mail refer to them.

use std::collections::{BTreeSet, HashMap};

use mailapi_model::{DomainName, EmailAddress, Timestamp};

use super::DirectoryMailbox;
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
    /// lose their sessions.
    ///
    /// # Errors
    /// When the database cannot be read or written; then nothing was stored.
    pub async fn keep(&self, mailboxes: &[DirectoryMailbox], now: Timestamp) -> Result<usize, StoreError> {
        let known = self.known(mailboxes).await?;
        let differs = |mailbox: &&DirectoryMailbox| match known.get(mailbox.email.as_str()) {
            None => true,
            Some((in_directory, columns)) => *in_directory && *columns != Columns::of(mailbox),
        };
        let mut changed: Vec<&DirectoryMailbox> = mailboxes.iter().filter(differs).collect();
        if changed.is_empty() {
            return Ok(0);
        }
        // Lock rows in a fixed order, so that two nodes cannot deadlock.
        changed.sort_by(|one, other| one.email.cmp(&other.email));
        changed.dedup_by(|one, other| one.email == other.email);
        let mut statements = Vec::new();
        let mut domains = BTreeSet::new();
        for mailbox in &changed {
            let domain = mailbox.email.domain();
            if domains.insert(domain.as_str().to_owned()) {
                statements.push(insert_domain(&domain, now));
            }
        }
        statements.extend(changed.iter().map(|mailbox| put(mailbox, now)));
        // The statements above lock the accounts, so no new session can be missed.
        statements.extend(changed.iter().filter(|mailbox| !mailbox.active).map(|mailbox| end_sessions(&mailbox.email)));
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
        let statement = Stmt::new(sql).bind(after.map_or("", EmailAddress::as_str)).bind(count(limit));
        let rows = self.0.query(statement).await?;
        let read =
            |mut row: Row| Ok(Copied { email: row.address()?, active: row.bool()?, gone_since: row.time_or_null()? });
        rows.into_iter().map(read).collect()
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
    fn of(mailbox: &DirectoryMailbox) -> Self {
        let quota = mailbox.quota_bytes.map(number);
        Self { name: mailbox.name.clone(), active: mailbox.active, quota, is_gone: false }
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

fn put(mailbox: &DirectoryMailbox, now: Timestamp) -> Stmt {
    let columns = Columns::of(mailbox);
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
