//! Rows of aliases.

use mailapi_model::{Alias, DomainName, EmailAddress, Timestamp};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::damaged;

/// Separator of the addresses in the column `members`; no address contains it.
const SEPARATOR: &str = "\n";

pub(crate) fn find(connection: &Connection, address: &EmailAddress) -> Result<Option<Alias>, StoreError> {
    let sql = "SELECT address, members, active, created_at FROM drop_aliases WHERE address = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row(params![address.as_str()], |row| Ok(read(row))).optional()?.transpose()
}

/// Returns at most `limit` aliases after `after`, in the order of their addresses.
pub(super) fn after(connection: &Connection, after: &str, limit: i64) -> Result<Vec<Alias>, StoreError> {
    let sql = "SELECT address, members, active, created_at FROM drop_aliases WHERE address > ?1
        ORDER BY address LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let aliases = statement.query_and_then(params![after, limit], read)?;
    aliases.collect()
}

pub(super) fn put(connection: &Connection, alias: &Alias) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO drop_aliases (address, members, active, created_at) VALUES (?1, ?2, ?3, ?4)";
    let members: Vec<_> = alias.members.iter().map(EmailAddress::wire).collect();
    let (address, created_at) = (alias.address.as_str(), alias.created_at.as_millis());
    connection.prepare_cached(sql)?.execute(params![address, members.join(SEPARATOR), alias.active, created_at])?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, address: &EmailAddress) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM drop_aliases WHERE address = ?1")?.execute(params![address.as_str()])?;
    Ok(())
}

pub(super) fn remove_all_of(connection: &Connection, domain: &DomainName) -> Result<(), StoreError> {
    let end = format!("@{}", domain.as_str());
    let sql = "DELETE FROM drop_aliases WHERE substr(address, -length(?1)) = ?1";
    connection.prepare_cached(sql)?.execute(params![end])?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<Alias, StoreError> {
    let address = |text: &str| EmailAddress::as_given(text).map_err(|_| damaged("an address"));
    let members = row.get_ref(1)?.as_str().map_err(|_| damaged("an alias"))?;
    Ok(Alias {
        address: address(row.get_ref(0)?.as_str().map_err(|_| damaged("an alias"))?)?,
        members: members.split_terminator(SEPARATOR).map(address).collect::<Result<_, _>>()?,
        // They concern sending, which the account database decides.
        senders: Vec::new(),
        active: row.get(2)?,
        created_at: Timestamp::from_millis(row.get(3)?),
    })
}
