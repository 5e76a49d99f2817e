//! Statements on PostgreSQL.
//!
//! A transaction is pipelined: all statements are sent before the first result is awaited. If a statement
//! fails, the server rolls back and treats the COMMIT as a ROLLBACK. Only if a statement demands a row count
//! does the COMMIT wait for the results.

use std::pin::Pin;
use std::time::Duration;

use bytes::BytesMut;
use deadpool_postgres::ClientWrapper;
use futures_util::TryStreamExt;
use futures_util::future::{MaybeDone, maybe_done, poll_fn};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Error, Statement};

use super::{BatchLock, Effect, Row, Stmt, Value, count};
use crate::StoreError;
use crate::postgres::failure::{Failed, Kept};

/// A unit of work for a connection.
#[derive(Debug)]
pub(crate) enum Work {
    /// Changes in one transaction, optionally serialised with all others of the same turn.
    Change(Vec<Stmt>, Option<BatchLock>),
    /// Short queries on one snapshot.
    Read(Vec<Stmt>),
    /// Queries on one snapshot, with a time limit for each.
    Scan(Vec<Stmt>, Duration),
}

/// Each statement sees what was committed before it began, whatever the server's default is.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

type BoxError = Box<dyn std::error::Error + Sync + Send>;

/// Runs the work once. A failed run kept nothing, unless the failure allows for it.
pub(crate) async fn run(client: &ClientWrapper, work: &Work) -> Result<Vec<Effect>, Failed> {
    match work {
        Work::Change(statements, lock) => change(client, statements, *lock).await,
        Work::Read(statements) if statements.len() > 1 => query(client, statements, Some(SNAPSHOT.to_owned())).await,
        Work::Read(statements) => query(client, statements, None).await,
        Work::Scan(statements, limit) => {
            let begin = format!("{SNAPSHOT}; SET LOCAL statement_timeout = {}", limit.as_millis());
            query(client, statements, Some(begin)).await
        }
    }
}

async fn change(client: &ClientWrapper, statements: &[Stmt], lock: Option<BatchLock>) -> Result<Vec<Effect>, Failed> {
    let prepared = prepare(client, statements).await?;
    let begin = match lock {
        Some(lock) => format!("{BEGIN}; SELECT pg_advisory_xact_lock({})", lock.number()),
        None => BEGIN.to_owned(),
    };
    let steps = prepared.iter().zip(statements).map(|(prepared, statement)| Step::Run(prepared, &statement.params));
    // COMMIT depends on the row counts, so it needs a second round trip.
    if statements.iter().any(|statement| statement.demanded.is_some()) {
        let steps: Vec<_> = [Step::Control(&begin)].into_iter().chain(steps).collect();
        let checked = check(statements, fly(client, &steps, Kept::Nothing).await);
        let end = if checked.is_ok() { COMMIT } else { ROLLBACK };
        // Only from here on may the work have been committed.
        let ended = fly(client, &[Step::Control(end)], Kept::Perhaps).await.into_effects();
        // The statement's own failure is more informative than that of the COMMIT or ROLLBACK.
        let effects = checked.map_err(|failed| Failed { broken: failed.broken || ended.is_err(), ..failed })?;
        ended.map(|_| effects)
    } else if statements.len() == 1 && lock.is_none() {
        // A single statement is a transaction by itself.
        fly(client, &steps.collect::<Vec<_>>(), Kept::Perhaps).await.into_effects()
    } else {
        let begin = [Step::Control(&begin)].into_iter();
        let steps: Vec<_> = begin.chain(steps).chain([Step::Control(COMMIT)]).collect();
        fly(client, &steps, Kept::Perhaps).await.into_effects()
    }
}

async fn query(client: &ClientWrapper, statements: &[Stmt], begin: Option<String>) -> Result<Vec<Effect>, Failed> {
    let prepared = prepare(client, statements).await?;
    let begin = begin.as_deref();
    let steps = prepared.iter().zip(statements).map(|(prepared, statement)| Step::Run(prepared, &statement.params));
    let steps = begin.map(Step::Control).into_iter().chain(steps).chain(begin.map(|_| Step::Control(COMMIT)));
    fly(client, &steps.collect::<Vec<_>>(), Kept::Nothing).await.into_effects()
}

/// Prepares statements that this connection has not cached, and checks the type of every value. All checks
/// precede sending: a statement that could not be sent would leave a gap in the pipeline.
async fn prepare(client: &ClientWrapper, statements: &[Stmt]) -> Result<Vec<Statement>, Failed> {
    let mut all = Vec::with_capacity(statements.len());
    for statement in statements {
        let prepared = client.prepare_cached(&statement.sql).await;
        let prepared = prepared.map_err(|error| Failed::of(&error, Kept::Nothing))?;
        let places = prepared.params();
        if places.len() != statement.params.len() {
            let (places, values) = (count(places.len()), count(statement.params.len()));
            let error = format!("a statement has {places} parameters but {values} values");
            return Err(Failed::refused(StoreError::unexpected(error)));
        }
        if let Some(place) = places.iter().zip(&statement.params).position(|(place, value)| !value.fits(place)) {
            let error =
                format!("parameter {} is {:?} instead of {}", place + 1, statement.params[place], places[place]);
            return Err(Failed::refused(StoreError::unexpected(error)));
        }
        all.push(prepared);
    }
    Ok(all)
}

/// Checks that the first column of a query is text.
pub(crate) async fn demand_text(client: &ClientWrapper, sql: &str) -> Result<(), Failed> {
    let prepared = client.prepare_cached(sql).await.map_err(|error| Failed::of(&error, Kept::Nothing))?;
    match prepared.columns().first().map(tokio_postgres::Column::type_) {
        Some(kind) if *kind == Type::NAME || is_text(kind) => Ok(()),
        kind => {
            let kind = kind.map_or("no column", Type::name);
            Err(Failed::refused(StoreError::unexpected(format!("the password query returns {kind} instead of text"))))
        }
    }
}

/// Checks the effects against the demanded row counts. The first failure wins; statements after it count as
/// not sent.
fn check(statements: &[Stmt], flown: Flown) -> Result<Vec<Effect>, Failed> {
    for (position, (statement, effect)) in statements.iter().zip(&flown.effects).enumerate() {
        if statement.demanded.is_some_and(|demanded| demanded != effect.touched) {
            let broken = flown.failed.as_ref().is_some_and(|failed| failed.broken);
            let error = StoreError::Guard { statement: position, touched: effect.touched };
            return Err(Failed { broken, ..Failed::refused(error) });
        }
    }
    flown.into_effects()
}

/// One step of a pipeline.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// BEGIN, COMMIT or ROLLBACK.
    Control(&'a str),
    Run(&'a Statement, &'a [Value]),
}

/// Results of a pipeline.
struct Flown {
    /// The effects of the statements before the first failure.
    effects: Vec<Effect>,
    failed: Option<Failed>,
}

impl Flown {
    fn into_effects(self) -> Result<Vec<Effect>, Failed> {
        self.failed.map_or(Ok(self.effects), Err)
    }
}

/// Sends all steps, then awaits their results.
async fn fly(client: &ClientWrapper, steps: &[Step<'_>], kept: Kept) -> Flown {
    let mut flights: Vec<Pin<Box<MaybeDone<_>>>> =
        steps.iter().map(|step| Box::pin(maybe_done(take(client, *step)))).collect();
    // A step sends when it is first polled. Poll each once, in order, before waiting for any.
    poll_fn(|context| {
        for flight in &mut flights {
            let _ = flight.as_mut().poll(context);
        }
        std::task::Poll::Ready(())
    })
    .await;
    let mut flown = Flown { effects: Vec::with_capacity(steps.len()), failed: None };
    for mut flight in flights {
        flight.as_mut().await;
        match flight.as_mut().take_output() {
            // Later steps fail only because of the first failure.
            _ if flown.failed.is_some() => {}
            Some(Ok(effect)) => flown.effects.extend(effect),
            Some(Err(Trouble::Server(error))) => flown.failed = Some(Failed::of(&error, kept)),
            Some(Err(Trouble::Odd)) | None => {
                let error = StoreError::unexpected("a result has a column of an unsupported type");
                flown.failed = Some(Failed { error, again: false, broken: true });
            }
        }
    }
    flown
}

enum Trouble {
    Server(Error),
    /// The result has a type that this program does not expect.
    Odd,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

async fn take(client: &ClientWrapper, step: Step<'_>) -> Result<Option<Effect>, Trouble> {
    let (statement, params) = match step {
        Step::Control(sql) => return Ok(client.batch_execute(sql).await.map(|()| None)?),
        Step::Run(statement, params) => (statement, params),
    };
    let mut answer = Box::pin(client.query_raw(statement, params).await?);
    let mut rows = Vec::new();
    while let Some(row) = answer.try_next().await? {
        let columns = (0..row.len()).map(|column| row.try_get(column)).collect::<Result<_, Error>>();
        rows.push(Row::new(columns.map_err(|_| Trouble::Odd)?));
    }
    let touched = answer.rows_affected().unwrap_or_default();
    Ok(Some(Effect { touched, rows }))
}

impl Value {
    fn fits(&self, place: &Type) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(_) => *place == Type::BOOL,
            Self::Int(value) => *place == Type::INT8 || (*place == Type::INT4 && i32::try_from(*value).is_ok()),
            Self::Text(_) => is_text(place),
            Self::Blob(_) => *place == Type::BYTEA,
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self, place: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Bool(value) => value.to_sql(place, out),
            Self::Int(value) if *place == Type::INT4 => i32::try_from(*value)?.to_sql(place, out),
            Self::Int(value) => value.to_sql(place, out),
            // TEXT cannot hold NUL, but texts from other servers and clients may contain it.
            Self::Text(value) if value.contains('\0') => value.replace('\0', "\u{fffd}").to_sql(place, out),
            Self::Text(value) => value.to_sql(place, out),
            Self::Blob(value) => value.to_sql(place, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Columns of this schema are TEXT; those of an external user database may have a related type.
fn is_text(kind: &Type) -> bool {
    [Type::TEXT, Type::VARCHAR, Type::BPCHAR].contains(kind) || kind.name() == "citext"
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        Ok(match *kind {
            Type::BOOL => Self::Bool(bool::from_sql(kind, raw)?),
            Type::INT4 => Self::Int(i32::from_sql(kind, raw)?.into()),
            Type::INT8 => Self::Int(i64::from_sql(kind, raw)?),
            Type::BYTEA => Self::Blob(Vec::from_sql(kind, raw)?),
            _ => Self::Text(String::from_sql(kind, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, BoxError> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        [Type::BOOL, Type::INT4, Type::INT8, Type::BYTEA, Type::NAME].contains(kind) || is_text(kind)
    }
}
