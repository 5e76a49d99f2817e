//! Conversion between values of the queue and columns.

use mailapi_model::{EmailAddress, Reply};
use mailapi_smtp::{Notify, Ret};
use mailapi_store::StoreError;
use rusqlite::Row;

use crate::message_store::damaged;

/// Separator of addresses in a column; no address contains it.
const SEPARATOR: &str = "\n";

/// Returns addresses as a column; `None` without any.
pub(super) fn through_column(addresses: &[EmailAddress]) -> Option<String> {
    let addresses: Vec<_> = addresses.iter().map(EmailAddress::wire).collect();
    (!addresses.is_empty()).then(|| addresses.join(SEPARATOR))
}

/// Reads such a column.
pub(super) fn read_through(column: Option<&str>) -> Result<Vec<EmailAddress>, StoreError> {
    let address = |text: &str| EmailAddress::as_given(text).map_err(|_| damaged("an address"));
    column.unwrap_or_default().split_terminator(SEPARATOR).map(address).collect()
}

/// Returns code, enhanced code and text.
pub(crate) fn reply_columns(reply: &Reply) -> (u16, Option<String>, &str) {
    (reply.code, reply.enhanced.map(|enhanced| enhanced.to_string()), &reply.text)
}

/// Reads a reply from three columns starting at `first`; `None` without a code.
pub(crate) fn read_reply(row: &Row<'_>, first: usize) -> Result<Option<Reply>, StoreError> {
    let Some(code) = row.get(first)? else { return Ok(None) };
    let enhanced: Option<String> = row.get(first + 1)?;
    let enhanced = enhanced.map(|code| code.parse().map_err(|_| damaged("a status code"))).transpose()?;
    Ok(Some(Reply { code, enhanced, text: row.get(first + 2)? }))
}

pub(super) fn read_notify(column: Option<&str>) -> Option<Notify> {
    let wants = |word: &str| column.unwrap_or_default().split(',').any(|one| one == word);
    column.map(|_| Notify { success: wants("SUCCESS"), failure: wants("FAILURE"), delay: wants("DELAY") })
}

pub(super) fn read_ret(column: Option<&str>) -> Option<Ret> {
    column.map(|word| if word == "FULL" { Ret::Full } else { Ret::Headers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for addresses in [&[][..], &["*@here.example"], &["a@here.example", "\"b c\"@here.example"]] {
            let addresses: Vec<EmailAddress> = addresses.iter().map(|one| one.parse().unwrap()).collect();
            assert_eq!(read_through(through_column(&addresses).as_deref()).unwrap(), addresses);
        }
        assert!(read_through(Some("no address")).is_err());
    }

    #[test]
    fn wishes_about_notices_come_back() {
        for bits in 0..8 {
            let notify = Notify { success: bits & 1 > 0, failure: bits & 2 > 0, delay: bits & 4 > 0 };
            assert_eq!(read_notify(Some(&notify.to_string())), Some(notify));
        }
        assert_eq!(read_notify(None), None);
        for ret in [Ret::Full, Ret::Headers] {
            assert_eq!(read_ret(Some(&ret.to_string())), Some(ret));
        }
    }
}
