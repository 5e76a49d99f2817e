//! Rules of mailboxes.

use mailapi_model::{EmailAddress, RuleSet};
use rusqlite::{Connection, OptionalExtension, params};

use crate::StoreError;
use crate::db::{Changed, Db, Row, Stmt, count};

/// The rules of mailboxes.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a>(pub(crate) &'a Db);

const PUT: &str = "INSERT INTO mailbox_rules (email, rules, sieve, sieve_version) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (email) DO UPDATE SET rules = excluded.rules, sieve = excluded.sieve, \
                   sieve_version = excluded.sieve_version";

impl Rules<'_> {
    /// Returns the rules of a mailbox.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, email: &EmailAddress) -> Result<RuleSet, StoreError> {
        let row = self.0.first(Stmt::new("SELECT rules FROM mailbox_rules WHERE email = $1").bind(email)).await?;
        row.map_or_else(|| Ok(RuleSet::default()), |mut row| parsed(&row.text()?))
    }

    /// Replaces the rules of a mailbox.
    ///
    /// # Errors
    /// [`StoreError::Reference`] when the mailbox does not exist.
    pub async fn put(&self, email: &EmailAddress, rules: &RuleSet) -> Result<(), StoreError> {
        let statement = match rules.is_empty() {
            true => Stmt::new("DELETE FROM mailbox_rules WHERE email = $1").bind(email),
            false => {
                let script = rules.to_sieve().unwrap_or_default();
                Stmt::new(PUT).bind(email).bind(rules.to_text()).bind(script).bind(self.0.next_fact().to_string())
            }
        };
        self.0.batch_followed(Changed::Rules(email.clone()), vec![statement]).await.map(drop)
    }

    /// Returns at most `limit` mailboxes whose rules an older version stored, without their Sieve script.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn without_script(&self, limit: usize) -> Result<Vec<EmailAddress>, StoreError> {
        let sql = "SELECT accounts.email, accounts.email_given FROM mailbox_rules \
                   JOIN accounts ON accounts.email = mailbox_rules.email \
                   WHERE sieve IS NULL ORDER BY mailbox_rules.email LIMIT $1";
        let statement = Stmt::new(sql).bind(count(limit));
        self.0.query(statement).await?.into_iter().map(|mut row| row.address()).collect()
    }

    /// Returns the rules of at most `limit` mailboxes with rules after `after`, in the order of their addresses.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Vec<(EmailAddress, RuleSet)>, StoreError> {
        let sql = "SELECT accounts.email, accounts.email_given, rules FROM mailbox_rules \
                   JOIN accounts ON accounts.email = mailbox_rules.email \
                   WHERE mailbox_rules.email > $1 ORDER BY mailbox_rules.email LIMIT $2";
        let statement = Stmt::new(sql).bind(after.map_or("", EmailAddress::as_str)).bind(count(limit));
        let read = |mut row: Row<'_>| Ok((row.address()?, parsed(&row.text()?)?));
        self.0.query(statement).await?.into_iter().map(read).collect()
    }
}

/// Returns the rules of a mailbox in a transaction.
pub(crate) fn find(connection: &Connection, email: &EmailAddress) -> Result<RuleSet, StoreError> {
    let sql = "SELECT rules FROM mailbox_rules WHERE email = ?1";
    let text: Option<String> =
        connection.prepare_cached(sql)?.query_row(params![email.as_str()], |row| row.get(0)).optional()?;
    text.map_or_else(|| Ok(RuleSet::default()), |text| parsed(&text))
}

fn parsed(text: &str) -> Result<RuleSet, StoreError> {
    RuleSet::from_text(text).map_err(|_| StoreError::unexpected("the rules of a mailbox are damaged"))
}
