//! An external user database: the mailboxes of an existing installation, and their passwords. It is only
//! read.
//!
//! The operator owns its tables. Two queries return the password of an address and the list of mailboxes;
//! they run unchanged on SQLite and PostgreSQL. Tokens, permissions and sent mail refer to accounts in this
//! server's own tables, so each external mailbox is copied there: see [`Copies`].

mod copies;
mod queries;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{EmailAddress, SecretText, SharedSecret};

pub use copies::{Copied, Copies};
pub use queries::{DirectoryQueries, DirectoryQueryError};

use crate::StoreError;
use crate::db::{Row, Stmt, count};
use crate::postgres::{ForeignPostgres, PostgresUrl};
use crate::sqlite::ForeignSqlite;

/// An address that cannot exist (RFC 2606 section 2).
const IMPOSSIBLE_ADDRESS: &str = "health-check@mailapi.invalid";

/// An external user database; clones share its connections.
#[derive(Debug, Clone)]
pub struct Directory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    queries: DirectoryQueries,
    settings: DirectorySettings,
}

#[derive(Debug)]
enum Engine {
    Sqlite(ForeignSqlite),
    Postgres(ForeignPostgres),
}

/// Limits and time-outs for the external database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectorySettings {
    /// Maximum number of connections. Default 4.
    pub connections: usize,
    /// Time-out for opening a connection. Default 5 s.
    pub connect_timeout: Duration,
    /// Time-out for a query, and for waiting until a connection is free. Default 10 s.
    pub statement_timeout: Duration,
    /// The scheme of hashes without a scheme prefix, without braces. Default `CRYPT`.
    pub default_scheme: String,
    /// Mailboxes read per query. Default 1,000.
    pub page: usize,
    /// How long a missing mailbox is kept disabled before it is forgotten together with its tokens. Default 1
    /// day: rebuilding the table at night must not delete all tokens.
    pub forget_after: Duration,
}

impl Default for DirectorySettings {
    fn default() -> Self {
        Self {
            connections: 4,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            default_scheme: "CRYPT".to_owned(),
            page: 1000,
            forget_after: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// A mailbox as stored in the user database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryMailbox {
    /// The address.
    pub email: EmailAddress,
    /// The display name; empty if unknown.
    pub name: String,
    /// Whether the owner may log in.
    pub active: bool,
    /// The quota in bytes; `None` means unlimited.
    pub quota_bytes: Option<u64>,
}

/// One page of the list of mailboxes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryPage {
    /// The mailboxes.
    pub mailboxes: Vec<DirectoryMailbox>,
    /// Rows that are not a mailbox: an invalid address such as that of a catch-all, or another spelling of a
    /// listed address.
    pub odd_rows: usize,
    /// Where the next page starts; `None` at the end.
    pub next: Option<DirectoryPlace>,
}

/// A position in the list of mailboxes, in the spelling of the user database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryPlace(String);

impl DirectoryPage {
    /// Adds a mailbox; returns whether its address is new.
    ///
    /// Among several spellings of one address, the canonical one wins, because logins query it; otherwise the
    /// first wins.
    fn take_in(&mut self, places: &mut HashMap<EmailAddress, usize>, spelled: &str, mailbox: DirectoryMailbox) -> bool {
        let Some(place) = places.get(&mailbox.email) else {
            places.insert(mailbox.email.clone(), self.mailboxes.len());
            self.mailboxes.push(mailbox);
            return true;
        };
        if spelled == mailbox.email.as_str() {
            self.mailboxes[*place] = mailbox;
        }
        false
    }
}

impl Directory {
    /// Returns a directory in a SQLite file.
    #[must_use]
    pub fn on_sqlite(file: &Path, queries: DirectoryQueries, settings: DirectorySettings) -> Self {
        let engine = Engine::Sqlite(ForeignSqlite::new(file, &settings));
        Self(Arc::new(Inner { engine, queries, settings }))
    }

    /// Returns a directory on a PostgreSQL server, without connecting.
    ///
    /// # Errors
    /// When the trusted authorities for the server's certificate cannot be loaded.
    pub fn on_postgres(
        url: PostgresUrl,
        queries: DirectoryQueries,
        settings: DirectorySettings,
    ) -> Result<Self, StoreError> {
        let engine = Engine::Postgres(ForeignPostgres::new(url, &settings)?);
        Ok(Self(Arc::new(Inner { engine, queries, settings })))
    }

    /// Returns the password of the database server, which is read again for each new connection.
    #[must_use]
    pub fn server_password(&self) -> Option<SharedSecret> {
        match &self.0.engine {
            Engine::Sqlite(_) => None,
            Engine::Postgres(server) => server.password(),
        }
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &DirectorySettings {
        &self.0.settings
    }

    /// Returns the stored password hash of an address; `None` if its owner may not log in.
    ///
    /// # Errors
    /// When the database cannot be read, or the query returns anything but one text.
    pub async fn password(&self, email: &EmailAddress) -> Result<Option<SecretText>, StoreError> {
        let mut rows = self.rows_of(email, self.0.queries.password().to_owned()).await?;
        if rows.len() > 1 {
            // Any of them could belong to another user.
            tracing::warn!(%email, rows = rows.len(), "the password query returned several rows; login refused");
            return Ok(None);
        }
        let hash = rows.pop().map(|mut row| row.text_or_null()).transpose()?.flatten();
        Ok(hash.map(|hash| self.with_scheme(hash)))
    }

    /// Returns the rows of an address.
    ///
    /// An internationalised domain may be stored as A-labels, the form that Postfix queries, or as U-labels.
    async fn rows_of(&self, email: &EmailAddress, query: String) -> Result<Vec<Row<'static>>, StoreError> {
        let rows = self.query(Stmt::new(query.clone()).bind(email.as_str())).await?;
        let international = email.international();
        if !rows.is_empty() || international == email.as_str() {
            return Ok(rows);
        }
        self.query(Stmt::new(query).bind(international.as_str())).await
    }

    fn with_scheme(&self, hash: String) -> SecretText {
        let scheme = &self.0.settings.default_scheme;
        SecretText::new(if hash.starts_with('{') { hash } else { format!("{{{scheme}}}{hash}") })
    }

    /// Returns the mailbox of an address.
    ///
    /// # Errors
    /// When the database cannot be read, or the query does not return the expected columns.
    pub async fn mailbox(&self, email: &EmailAddress) -> Result<Option<DirectoryMailbox>, StoreError> {
        let rows = self.rows_of(email, self.0.queries.one_mailbox()).await?;
        let found = rows.into_iter().next().map(read_mailbox).transpose()?;
        Ok(found.and_then(|(_, mailbox)| mailbox))
    }

    /// Returns at most [`DirectorySettings::page`] mailboxes after a position.
    ///
    /// # Errors
    /// As [`Directory::mailbox`].
    pub async fn mailboxes(&self, after: &DirectoryPlace) -> Result<DirectoryPage, StoreError> {
        let most = self.0.settings.page.max(1);
        let statement = Stmt::new(self.0.queries.page_of_mailboxes()).bind(after.0.as_str()).bind(count(most));
        let rows = self.query(statement).await?;
        let mut page = DirectoryPage::default();
        let is_full = rows.len() >= most;
        let mut places = HashMap::new();
        for row in rows {
            let (spelled, mailbox) = read_mailbox(row)?;
            let is_new = mailbox.is_some_and(|mailbox| page.take_in(&mut places, &spelled, mailbox));
            page.odd_rows += usize::from(!is_new);
            // Continue after the last row, even if it is not a mailbox.
            page.next = is_full.then_some(DirectoryPlace(spelled));
        }
        Ok(page)
    }

    /// Runs both queries for an address that cannot exist, to check that logins work.
    ///
    /// # Errors
    /// The errors of the queries.
    pub async fn ping(&self) -> Result<(), StoreError> {
        for query in [self.0.queries.password().to_owned(), self.0.queries.one_mailbox()] {
            self.query(Stmt::new(query).bind(IMPOSSIBLE_ADDRESS)).await?;
        }
        Ok(())
    }

    async fn query(&self, statement: Stmt) -> Result<Vec<Row<'static>>, StoreError> {
        match &self.0.engine {
            Engine::Sqlite(engine) => engine.query(statement).await,
            Engine::Postgres(engine) => engine.query(statement).await,
        }
    }
}

/// Returns the stored spelling of the address, and the mailbox if the address is valid.
fn read_mailbox(mut row: Row) -> Result<(String, Option<DirectoryMailbox>), StoreError> {
    let spelled = row.text()?;
    let name = row.text_or_null()?.unwrap_or_default();
    let active = row.text_or_null()?.is_none_or(|text| is_yes(&text));
    let quota = row.text_or_null()?;
    // postfixadmin and Dovecot use 0 and negative numbers for "unlimited".
    let quota_bytes = quota.and_then(|text| text.trim().parse().ok()).filter(|bytes| *bytes > 0);
    let mailbox = spelled.parse().ok().map(|email| DirectoryMailbox { email, name, active, quota_bytes });
    Ok((spelled, mailbox))
}

/// Returns whether a text means yes, in the spellings of both engines and of people.
fn is_yes(text: &str) -> bool {
    ["1", "t", "true", "y", "yes", "on"].iter().any(|yes| text.trim().eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Value;

    fn mailbox(columns: [Option<&str>; 4]) -> Option<DirectoryMailbox> {
        let columns = columns.map(|column| column.map_or(Value::Null, Value::from));
        read_mailbox(Row::new(columns.to_vec())).unwrap().1
    }

    #[test]
    fn what_is_no_address_is_no_mailbox() {
        for odd in ["", "@example.org", "root", "a b@example.org"] {
            assert_eq!(mailbox([Some(odd), None, None, None]), None, "{odd}");
        }
        assert!(read_mailbox(Row::new(vec![Value::Null])).is_err());
    }

    #[test]
    fn of_several_spellings_the_lower_case_one_counts() {
        let spellings = ["Ann@Example.org", "ann@example.org", "ANN@example.org", "bob@example.org"];
        for turned in 0..spellings.len() {
            let (mut page, mut places, mut firsts) = (DirectoryPage::default(), HashMap::new(), 0);
            for spelled in spellings.iter().cycle().skip(turned).take(spellings.len()) {
                let found = mailbox([Some(spelled), Some(spelled), None, None]).unwrap();
                firsts += usize::from(page.take_in(&mut places, spelled, found));
            }
            let mut names: Vec<&str> = page.mailboxes.iter().map(|mailbox| mailbox.name.as_str()).collect();
            names.sort_unstable();
            assert_eq!((firsts, names), (2, vec!["ann@example.org", "bob@example.org"]), "from {turned}");
        }
    }

    #[test]
    fn each_engines_words_for_yes_and_for_a_quota_are_understood() {
        let read = |active, quota| mailbox([Some("Ann@Example.org"), Some("Ann"), active, quota]).unwrap();
        for yes in ["1", "t", "true", "TRUE", "Y", "on"] {
            assert!(read(Some(yes), None).active, "{yes}");
        }
        for no in ["0", "f", "false", "N", "", "2"] {
            assert!(!read(Some(no), None).active, "{no}");
        }
        assert!(read(None, None).active);
        for (quota, bytes) in [("1024", Some(1024)), ("0", None), ("-1", None), ("", None), ("1.5", None)] {
            assert_eq!(read(None, Some(quota)).quota_bytes, bytes, "{quota}");
        }
        assert_eq!(read(None, None).email.as_str(), "ann@example.org");
    }
}
