//! The messages that aliases and rules brought to further addresses, and how often each address and each alias forwarded
//! them.
//!
//! Copies of one message that come back by other ways have nothing in common but their identity. The table holds a
//! constant number of rows, and each new one replaces the oldest.

use mailapi_model::Timestamp;
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

/// Number of rows: for each identity of a message, of which most have two, one for the message and two for each alias that
/// forwards it. They take about 20 MB, and are far more than loop at the same time.
const MOST: i64 = 200_000;

/// How long a message counts. Most copies that go round do so within minutes; those that a server deferred come later.
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// What all copies of a message have in common, as a hash.
pub(crate) type MessageIdentity = [u8; 16];

/// Returns the number of addresses that a message has reached through aliases and rules in the last day: the highest one
/// that is stored with one of its identities.
pub(crate) fn addresses(
    connection: &Connection,
    identities: &[MessageIdentity],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "SELECT addresses FROM drop_expanded WHERE identity = ?1 AND first_at > ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut highest = 0;
    for identity in identities {
        let values = params![identity.as_slice(), now.as_millis() - DAY_MILLIS];
        let addresses: Option<u64> = statement.query_row(values, |row| row.get(0)).optional()?;
        highest = highest.max(addresses.unwrap_or_default());
    }
    Ok(highest)
}

/// Stores this number with all identities of a message. So a later copy counts that has only one of them.
pub(crate) fn put(
    connection: &Connection,
    identities: &[MessageIdentity],
    addresses: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    identities.iter().try_for_each(|identity| put_one(connection, identity, addresses, now))
}

fn put_one(
    connection: &Connection,
    identity: &MessageIdentity,
    addresses: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    let earliest = now.as_millis() - DAY_MILLIS;
    let sql = "UPDATE drop_expanded SET addresses = ?2 WHERE identity = ?1 AND first_at > ?3";
    if connection.prepare_cached(sql)?.execute(params![identity.as_slice(), addresses, earliest])? > 0 {
        return Ok(());
    }
    let sql = "INSERT OR REPLACE INTO drop_expanded (identity, first_at, addresses) VALUES (?1, ?2, ?3) RETURNING id";
    let values = params![identity.as_slice(), now.as_millis(), addresses];
    let id: i64 = connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    connection.prepare_cached("DELETE FROM drop_expanded WHERE id <= ?1")?.execute(params![id - MOST])?;
    Ok(())
}
