//! Statements on SQLite.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::row::Cell;
use super::{Effect, Row, Stmt, Value, count};
use crate::StoreError;

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Integer(i64::from(*value)),
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Blob(value) => ValueRef::Blob(value),
        }))
    }
}

/// Runs all statements. On failure the caller's savepoint rolls them back.
pub(crate) fn batch(connection: &Connection, statements: &[Stmt]) -> Result<Vec<Effect>, StoreError> {
    let mut effects = Vec::with_capacity(statements.len());
    for (position, statement) in statements.iter().enumerate() {
        // Only one connection writes, so row locks are not needed.
        let effect = if statement.is_lock { Effect::nothing() } else { run(connection, statement)? };
        if statement.demanded.is_some_and(|demanded| demanded != effect.touched) {
            return Err(StoreError::Guard { statement: position, touched: effect.touched });
        }
        effects.push(effect);
    }
    Ok(effects)
}

/// Runs all queries; returns the rows of each.
pub(crate) fn queries(connection: &Connection, statements: &[Stmt]) -> Result<Vec<Vec<Row<'static>>>, StoreError> {
    statements.iter().map(|statement| query(connection, statement)).collect()
}

/// Runs a query; returns its rows.
pub(super) fn query(connection: &Connection, statement: &Stmt) -> Result<Vec<Row<'static>>, StoreError> {
    fetch(&mut prepare(connection, statement)?)
}

fn run(connection: &Connection, statement: &Stmt) -> Result<Effect, StoreError> {
    let mut prepared = prepare(connection, statement)?;
    if prepared.column_count() == 0 {
        let touched = u64::try_from(prepared.raw_execute()?).unwrap_or(u64::MAX);
        return Ok(Effect { touched, rows: Vec::new() });
    }
    let rows = fetch(&mut prepared)?;
    Ok(Effect { touched: u64::try_from(rows.len()).unwrap_or(u64::MAX), rows })
}

/// Prepares a statement and binds each parameter by name: SQLite numbers `$7` by its first use, not by its
/// digits.
fn prepare<'a>(connection: &'a Connection, statement: &Stmt) -> Result<CachedStatement<'a>, StoreError> {
    let mut prepared = connection.prepare_cached(&statement.sql)?;
    for place in 1..=prepared.parameter_count() {
        let number = prepared.parameter_name(place).and_then(|name| name.strip_prefix('$')?.parse::<usize>().ok());
        let value = number.and_then(|number| statement.params.get(number.checked_sub(1)?));
        let value = value.ok_or_else(|| {
            StoreError::unexpected(format!("parameter {place} of {} has no value", count(statement.params.len())))
        })?;
        prepared.raw_bind_parameter(place, value)?;
    }
    Ok(prepared)
}

fn fetch(prepared: &mut CachedStatement<'_>) -> Result<Vec<Row<'static>>, StoreError> {
    let width = prepared.column_count();
    let mut answer = Vec::new();
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next()? {
        let columns = cells(row, width).map(|cell| cell.map(Cell::kept));
        answer.push(Row::of(columns.collect::<Result<_, _>>()?));
    }
    Ok(answer)
}

/// Runs a query and converts each row while SQLite owns it, so that borrowed texts are not copied.
pub(super) fn read_each<T>(
    connection: &Connection,
    statement: &Stmt,
    read: impl Fn(Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut prepared = prepare(connection, statement)?;
    let width = prepared.column_count();
    let mut answer = Vec::new();
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next()? {
        answer.push(read(Row::of(cells(row, width).collect::<Result<_, _>>()?))?);
    }
    Ok(answer)
}

fn cells<'a>(row: &'a rusqlite::Row<'_>, width: usize) -> impl Iterator<Item = Result<Cell<'a>, StoreError>> {
    (0..width).map(|column| cell(row.get_ref(column)?))
}

fn cell(value: ValueRef<'_>) -> Result<Cell<'_>, StoreError> {
    Ok(match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Int(value),
        ValueRef::Text(value) => {
            let text = std::str::from_utf8(value).map_err(|_| StoreError::unexpected("a text column is not UTF-8"))?;
            Cell::Text(text.into())
        }
        ValueRef::Blob(value) => Cell::Blob(value.into()),
        ValueRef::Real(_) => return Err(StoreError::unexpected("a column has a fractional number")),
    })
}
