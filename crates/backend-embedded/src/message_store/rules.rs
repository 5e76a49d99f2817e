//! Rows of rules.

use mailapi_model::{EmailAddress, RuleSet};
use mailapi_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use super::id::MailboxId;
use super::{answers, damaged, mailbox};

/// Returns the rules of a mailbox; `None` if it has none.
pub(crate) fn find(connection: &Connection, mailbox: MailboxId) -> Result<Option<RuleSet>, StoreError> {
    let sql = "SELECT rules FROM drop_rules WHERE mailbox_id = ?1";
    let text: Option<String> =
        connection.prepare_cached(sql)?.query_row(params![mailbox], |row| row.get(0)).optional()?;
    text.map(|text| parsed(&text)).transpose()
}

/// Returns the rules of at most `limit` mailboxes with rules after `after`, in the order of their addresses.
pub(super) fn after(
    connection: &Connection,
    after: &str,
    limit: i64,
) -> Result<Vec<(EmailAddress, RuleSet)>, StoreError> {
    // Quarantined mailboxes have names without an @.
    let sql = "SELECT m.address, r.rules FROM drop_rules r JOIN drop_mailboxes m ON m.id = r.mailbox_id
        WHERE m.address > ?1 AND instr(m.address, '@') > 0 ORDER BY m.address LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(params![after, limit], |row| {
        let address = row.get_ref(0)?.as_str().map_err(|_| damaged("an address"))?;
        let rules = row.get_ref(1)?.as_str().map_err(|_| damaged("the rules of a mailbox"))?;
        Ok((address.parse().map_err(|_| damaged("an address"))?, parsed(rules)?))
    })?;
    rows.collect()
}

/// Replaces the rules of a mailbox, if it exists. Other rules may answer a sender again (RFC 5230 section 4.2).
pub(super) fn put(connection: &Connection, address: &EmailAddress, rules: &RuleSet) -> Result<(), StoreError> {
    let Some(mailbox) = mailbox::find(connection, address)? else { return Ok(()) };
    if find(connection, mailbox.id)?.unwrap_or_default() == *rules {
        return Ok(());
    }
    drop_rules(connection, mailbox.id)?;
    answers::drop_waiting(connection, mailbox.id)?;
    answers::allow_again(connection, mailbox.id)?;
    if !rules.is_empty() {
        let sql = "INSERT INTO drop_rules (mailbox_id, rules) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute(params![mailbox.id, rules.to_text()])?;
    }
    Ok(())
}

/// Removes the rules of a mailbox, and what they remember.
pub(super) fn remove(connection: &Connection, mailbox: MailboxId) -> Result<(), StoreError> {
    drop_rules(connection, mailbox)?;
    answers::remove(connection, mailbox)
}

fn drop_rules(connection: &Connection, mailbox: MailboxId) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM drop_rules WHERE mailbox_id = ?1")?.execute(params![mailbox])?;
    Ok(())
}

fn parsed(text: &str) -> Result<RuleSet, StoreError> {
    RuleSet::from_text(text).map_err(|_| damaged("the rules of a mailbox"))
}
