//! SQL for both engines, SQLite and PostgreSQL.
//!
//! Rules that let one text run on both:
//!
//! - Parameters are `$1`, `$2` …, bound by number: they may come in any order and repeatedly, but each must
//!   be used.
//! - `CAST(..)` wherever the engine cannot infer a parameter's type.
//! - Columns are TEXT, BIGINT, BOOLEAN or bytes.
//! - A read followed by a dependent write is one guarded statement or one batch, never a dialogue.
//!
//! SQLite runs batches one after the other. On PostgreSQL they run concurrently, and each statement sees what
//! was committed before it began. A batch that depends on rows which others may change must first lock a row
//! or take a [`BatchLock`].

mod follow;
mod list;
pub(crate) mod postgres;
mod row;
mod sqlite;
mod value;

use std::borrow::Cow;

pub(crate) use follow::Changed;
pub(crate) use list::{Filter, List};
pub(crate) use row::{Row, exactly_one, first_guard_held};
pub(crate) use sqlite::{batch as sqlite_batch, queries as sqlite_queries};
pub(crate) use value::{Value, count, millis, number};

use mailapi_events::FactNumber;
use rusqlite::Connection;

use crate::StoreError;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use postgres::Work;

/// The time of the database in milliseconds, on PostgreSQL. The clocks of nodes differ.
pub(crate) const DATABASE_TIME: &str = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";

/// The database engine.
#[derive(Debug, Clone)]
pub(crate) enum Db {
    /// A file on this machine.
    Sqlite(Sqlite),
    /// A server, possibly shared with other nodes.
    Postgres(Postgres),
}

/// An advisory lock for batches that depend on rows which another node may be changing. Batches under the
/// same lock run one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchLock {
    /// At least one usable admin token must remain.
    AdminTokens,
    /// Aliases must not lead back to themselves.
    Aliases,
    /// The first key of a domain becomes active at once.
    DkimKeys,
    /// Events get their numbers one batch after the other.
    Events,
    /// The numbers of domains that wait for approval have limits.
    SignUps,
    /// The numbers of webhooks have limits.
    Webhooks,
}

impl BatchLock {
    /// The lock number, the same on all nodes and in all versions.
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::AdminTokens => 1,
            Self::DkimKeys => 2,
            Self::Events => 3,
            Self::Webhooks => 4,
            Self::Aliases => 5,
            Self::SignUps => 6,
        }
    }
}

/// One statement with its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Stmt {
    sql: Cow<'static, str>,
    params: Vec<Value>,
    demanded: Option<u64>,
    is_lock: bool,
    is_urgent: bool,
}

impl Stmt {
    pub(crate) fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self { sql: sql.into(), params: Vec::new(), demanded: None, is_lock: false, is_urgent: false }
    }

    /// Returns whether a batch with this statement works on a full disk. A deletion makes room.
    fn uses_reserve(&self) -> bool {
        self.is_urgent || self.sql.trim_start().starts_with("DELETE ")
    }

    /// Marks a statement that must work on a full disk: users log in to delete mail, and access must end at any time.
    pub(crate) fn urgent(mut self) -> Self {
        self.is_urgent = true;
        self
    }

    /// Binds the next parameter.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.params.push(value.into());
        self
    }

    pub(crate) fn bind_all(mut self, values: impl IntoIterator<Item = Value>) -> Self {
        self.params.extend(values);
        self
    }

    pub(crate) fn into_parts(self) -> (Cow<'static, str>, Vec<Value>) {
        (self.sql, self.params)
    }

    /// Marks a statement that only locks rows. SQLite skips it, because only one connection writes.
    pub(crate) fn locking(mut self) -> Self {
        self.is_lock = true;
        self
    }

    /// Makes the batch fail and roll back unless this statement touches exactly `rows` rows.
    pub(crate) fn demand(mut self, rows: u64) -> Self {
        self.demanded = Some(rows);
        self
    }
}

/// What a statement of a batch did.
#[derive(Debug)]
pub(crate) struct Effect {
    /// Rows inserted, updated, deleted or returned.
    pub(crate) touched: u64,
    /// The rows of `RETURNING`.
    pub(crate) rows: Vec<Row<'static>>,
}

impl Effect {
    pub(crate) const fn nothing() -> Self {
        Self { touched: 0, rows: Vec::new() }
    }
}

impl Db {
    /// Returns the number of a fact that this handle stores. No other one has it.
    pub(crate) fn next_fact(&self) -> FactNumber {
        match self {
            Self::Sqlite(engine) => engine.facts().next(),
            Self::Postgres(engine) => engine.facts().next(),
        }
    }

    /// Runs the statements in one transaction; returns when they are durable.
    pub(crate) async fn batch(&self, statements: Vec<Stmt>) -> Result<Vec<Effect>, StoreError> {
        match self {
            Self::Sqlite(engine) if statements.iter().any(Stmt::uses_reserve) => {
                engine.write_freeing(move |connection| sqlite::batch(connection, &statements)).await
            }
            Self::Sqlite(engine) => engine.write(move |connection| sqlite::batch(connection, &statements)).await,
            Self::Postgres(engine) => engine.change(Work::Change(statements, None)).await,
        }
    }

    /// Like [`Db::batch`], but on SQLite it returns once the changes are visible
    /// ([`Sqlite::write_in_order`]). A power failure may lose them, together with everything written later.
    /// On PostgreSQL they are durable.
    pub(crate) async fn batch_in_order(&self, statements: Vec<Stmt>) -> Result<Vec<Effect>, StoreError> {
        match self {
            Self::Sqlite(engine) => {
                engine.write_in_order(move |connection| sqlite::batch(connection, &statements)).await
            }
            Self::Postgres(_) => self.batch(statements).await,
        }
    }

    /// Like [`Db::batch`], serialised with all other batches of this turn.
    pub(crate) async fn batch_with_lock(
        &self,
        lock: BatchLock,
        statements: Vec<Stmt>,
    ) -> Result<Vec<Effect>, StoreError> {
        match self {
            // SQLite already runs all batches one after the other.
            Self::Sqlite(_) => self.batch(statements).await,
            Self::Postgres(engine) => engine.change(Work::Change(statements, Some(lock))).await,
        }
    }

    /// Runs one statement that writes.
    pub(crate) async fn execute(&self, statement: Stmt) -> Result<Effect, StoreError> {
        exactly_one(self.batch(vec![statement]).await?)
    }

    /// Runs short queries on one snapshot; returns the rows of each.
    pub(crate) async fn read(&self, statements: Vec<Stmt>) -> Result<Vec<Vec<Row<'static>>>, StoreError> {
        match self {
            Self::Sqlite(engine) => engine.read(|connection| sqlite::queries(connection, &statements)).await,
            Self::Postgres(engine) => engine.read(statements).await.map(rows),
        }
    }

    /// Runs two short queries on one snapshot and converts each row as it arrives.
    pub(crate) async fn read_both<A, B>(
        &self,
        first: (Stmt, impl Fn(Row<'_>) -> Result<A, StoreError>),
        second: (Stmt, impl Fn(Row<'_>) -> Result<B, StoreError>),
    ) -> Result<(Vec<A>, Vec<B>), StoreError> {
        match self {
            Self::Sqlite(engine) => {
                let read = |connection: &Connection| {
                    let rows = sqlite::read_each(connection, &first.0, &first.1)?;
                    Ok((rows, sqlite::read_each(connection, &second.0, &second.1)?))
                };
                engine.read(read).await
            }
            Self::Postgres(engine) => {
                let mut answers = rows(engine.read(vec![first.0, second.0]).await?).into_iter();
                let mut next = || answers.next().unwrap_or_default().into_iter();
                let rows = next().map(first.1).collect::<Result<_, _>>()?;
                Ok((rows, next().map(second.1).collect::<Result<_, _>>()?))
            }
        }
    }

    /// Runs potentially long queries on one snapshot; returns the rows of each.
    pub(crate) async fn scan(&self, statements: Vec<Stmt>) -> Result<Vec<Vec<Row<'static>>>, StoreError> {
        match self {
            Self::Sqlite(engine) => engine.scan(move |connection| sqlite::queries(connection, &statements)).await,
            Self::Postgres(engine) => engine.scan(statements).await.map(rows),
        }
    }

    /// Runs one short query.
    pub(crate) async fn query(&self, statement: Stmt) -> Result<Vec<Row<'static>>, StoreError> {
        match self {
            Self::Sqlite(engine) => engine.read_one(|connection| sqlite::query(connection, &statement)).await,
            Self::Postgres(_) => exactly_one(self.read(vec![statement]).await?),
        }
    }

    /// Returns the first row of one short query.
    pub(crate) async fn first(&self, statement: Stmt) -> Result<Option<Row<'static>>, StoreError> {
        Ok(self.query(statement).await?.into_iter().next())
    }
}

fn rows(effects: Vec<Effect>) -> Vec<Vec<Row<'static>>> {
    effects.into_iter().map(|effect| effect.rows).collect()
}
