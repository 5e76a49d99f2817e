//! One way to say SQL, whatever the engine.
//!
//! The rules that make one text run on SQLite and PostgreSQL: parameters are `$1`, `$2` … (bound by number, so their
//! order and number of uses are free, but each is used); `CAST(..)` where a parameter's type cannot be told from its
//! place; columns are TEXT, BIGINT, BOOLEAN or bytes; what is read and then changed is one guarded statement or one
//! batch, never a dialogue. SQLite runs batches one after the other; on PostgreSQL they meet, and each statement sees
//! what was committed before it began: whoever looks at rows that others may change locks one first, or takes a turn.

mod follow;
mod list;
pub(crate) mod postgres;
mod row;
mod sqlite;
mod value;

use std::borrow::Cow;

pub(crate) use follow::Changed;
pub(crate) use list::{Filter, List};
pub(crate) use row::{Row, exactly_one};
pub(crate) use sqlite::queries as sqlite_queries;
pub(crate) use value::{Value, count, millis, number};

use rusqlite::Connection;

use crate::StoreError;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use postgres::Work;

/// The engine that holds the data.
#[derive(Debug, Clone)]
pub(crate) enum Db {
    /// A file of this machine.
    Sqlite(Sqlite),
    /// A server, which other nodes may use as well.
    Postgres(Postgres),
}

/// Batches that look at rows which a batch of another node may be about to change. Those of one turn run one after
/// the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchLock {
    /// One admin's token has to work.
    AdminTokens,
    /// A domain's first key signs at once.
    DkimKeys,
}

impl BatchLock {
    /// The number of its lock, the same on all nodes of all versions.
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::AdminTokens => 1,
            Self::DkimKeys => 2,
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
}

impl Stmt {
    pub(crate) fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self { sql: sql.into(), params: Vec::new(), demanded: None, is_lock: false }
    }

    /// Gives the next parameter its value.
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

    /// This statement changes nothing and keeps other writers away from its rows: there is no need of it where one
    /// connection writes at a time, and it is left out.
    pub(crate) fn locking(mut self) -> Self {
        self.is_lock = true;
        self
    }

    /// Makes the batch fail, and undo everything, unless this statement touches exactly so many rows.
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
    /// What `RETURNING` gave.
    pub(crate) rows: Vec<Row<'static>>,
}

impl Effect {
    pub(crate) const fn nothing() -> Self {
        Self { touched: 0, rows: Vec::new() }
    }
}

impl Db {
    /// Runs the statements in one transaction, all or nothing, and answers when they are on disk.
    pub(crate) async fn batch(&self, statements: Vec<Stmt>) -> Result<Vec<Effect>, StoreError> {
        match self {
            Self::Sqlite(engine) => engine.write(move |connection| sqlite::batch(connection, &statements)).await,
            Self::Postgres(engine) => engine.change(Work::Change(statements, None)).await,
        }
    }

    /// The same, but on SQLite it answers as soon as everybody sees it ([`Sqlite::write_in_order`]): a loss of power may
    /// take it away, with everything that came after it. A server answers when it has kept it, as always.
    pub(crate) async fn batch_in_order(&self, statements: Vec<Stmt>) -> Result<Vec<Effect>, StoreError> {
        match self {
            Self::Sqlite(engine) => {
                engine.write_in_order(move |connection| sqlite::batch(connection, &statements)).await
            }
            Self::Postgres(_) => self.batch(statements).await,
        }
    }

    /// The same as [`Db::batch`], one after the other with all batches of this turn.
    pub(crate) async fn batch_with_lock(
        &self,
        lock: BatchLock,
        statements: Vec<Stmt>,
    ) -> Result<Vec<Effect>, StoreError> {
        match self {
            // All batches run one after the other.
            Self::Sqlite(_) => self.batch(statements).await,
            Self::Postgres(engine) => engine.change(Work::Change(statements, Some(lock))).await,
        }
    }

    /// One statement that writes.
    pub(crate) async fn execute(&self, statement: Stmt) -> Result<Effect, StoreError> {
        exactly_one(self.batch(vec![statement]).await?)
    }

    /// Runs short queries on one state of the database; the rows of each.
    pub(crate) async fn read(&self, statements: Vec<Stmt>) -> Result<Vec<Vec<Row<'static>>>, StoreError> {
        match self {
            Self::Sqlite(engine) => engine.read(|connection| sqlite::queries(connection, &statements)).await,
            Self::Postgres(engine) => engine.read(statements).await.map(rows),
        }
    }

    /// Runs two short queries on one state of the database, and reads the rows of each as they come.
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

    /// Runs queries that may take long on one state of the database; the rows of each.
    pub(crate) async fn scan(&self, statements: Vec<Stmt>) -> Result<Vec<Vec<Row<'static>>>, StoreError> {
        match self {
            Self::Sqlite(engine) => engine.scan(move |connection| sqlite::queries(connection, &statements)).await,
            Self::Postgres(engine) => engine.scan(statements).await.map(rows),
        }
    }

    /// One short query.
    pub(crate) async fn query(&self, statement: Stmt) -> Result<Vec<Row<'static>>, StoreError> {
        match self {
            Self::Sqlite(engine) => engine.read_one(|connection| sqlite::query(connection, &statement)).await,
            Self::Postgres(_) => exactly_one(self.read(vec![statement]).await?),
        }
    }

    /// The first row of one short query.
    pub(crate) async fn first(&self, statement: Stmt) -> Result<Option<Row<'static>>, StoreError> {
        Ok(self.query(statement).await?.into_iter().next())
    }
}

fn rows(effects: Vec<Effect>) -> Vec<Vec<Row<'static>>> {
    effects.into_iter().map(|effect| effect.rows).collect()
}
