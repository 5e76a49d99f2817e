//! Limits of an hour: how much the server forwards, and how many notices it sends.
//!
//! Each counter has one row, whatever the number of hours. Rows of past hours leave when new ones are added, so the table
//! has as many rows as the busiest hour had counters.

use std::collections::BTreeMap;

use mailapi_model::Timestamp;
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

/// Number of rows of past hours that leave with each new row: more than one, so that the table shrinks.
const FORGOTTEN: i64 = 3;

/// A counter and the highest number that it may have in an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HourlyLimit {
    pub(crate) name: String,
    pub(crate) most: u64,
}

/// The counters that a transaction raises. They are read while the transaction may still refuse the message, and written
/// after that.
#[derive(Debug)]
pub(crate) struct HourlyCounts {
    hour: i64,
    raised: BTreeMap<String, u64>,
}

impl HourlyCounts {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { hour: now.as_seconds().div_euclid(60 * 60), raised: BTreeMap::new() }
    }

    /// Raises all these counters by `number`. If one of them would exceed its limit, raises none, and returns the name of
    /// that one.
    pub(crate) fn raise(
        &mut self,
        connection: &Connection,
        limits: &[HourlyLimit],
        number: u64,
    ) -> Result<Option<String>, StoreError> {
        let mut raised = Vec::new();
        for HourlyLimit { name, most } in limits {
            let before = match self.raised.get(name) {
                Some(before) => *before,
                None => stored(connection, name, self.hour)?,
            };
            let after = before.saturating_add(number);
            if after > *most {
                return Ok(Some(name.clone()));
            }
            raised.push((name.clone(), after));
        }
        self.raised.extend(raised);
        Ok(None)
    }

    /// Stores the raised counters.
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        for (name, number) in &self.raised {
            let sql = "UPDATE drop_hourly SET hour = ?2, number = ?3 WHERE name = ?1";
            let values = params![name, self.hour, number];
            if connection.prepare_cached(sql)?.execute(values)? == 0 {
                forget(connection, self.hour)?;
                let sql = "INSERT INTO drop_hourly (name, hour, number) VALUES (?1, ?2, ?3)";
                connection.prepare_cached(sql)?.execute(values)?;
            }
        }
        Ok(())
    }
}

fn stored(connection: &Connection, name: &str, hour: i64) -> Result<u64, StoreError> {
    let sql = "SELECT number FROM drop_hourly WHERE name = ?1 AND hour = ?2";
    let number: Option<u64> =
        connection.prepare_cached(sql)?.query_row(params![name, hour], |row| row.get(0)).optional()?;
    Ok(number.unwrap_or_default())
}

fn forget(connection: &Connection, hour: i64) -> Result<(), StoreError> {
    let sql = "DELETE FROM drop_hourly WHERE name IN (SELECT name FROM drop_hourly WHERE hour < ?1 LIMIT ?2)";
    connection.prepare_cached(sql)?.execute(params![hour, FORGOTTEN])?;
    Ok(())
}
