//! The rows of an external user database, as texts in the columns of each schema.

use mailapi_model::EmailAddress;

use crate::StoreError;
use crate::db::Row;

use super::queries::RowColumns;

/// A mailbox as stored in the user database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryMailbox {
    /// The address.
    pub email: EmailAddress,
    /// Whether the owner may log in.
    pub active: bool,
    /// The display name, possibly empty; `None` if the query cannot compute it.
    pub name: Option<String>,
    /// The quota.
    pub quota: DirectoryQuota,
}

/// The quota of a mailbox in the user database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryQuota {
    /// No limit.
    Unlimited,
    /// A number of bytes above 0.
    Bytes(u64),
    /// The query cannot compute it, or its text is not a number of bytes.
    Unknown,
}

/// A row of the user database that is not, or not wholly, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// The address as that database spells it.
    pub row: String,
    /// What is wrong with the row.
    pub kind: RowFaultKind,
}

/// What is wrong with a row of the user database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowFaultKind {
    /// It has no valid address, as that of a catch-all.
    #[error("its address is not valid")]
    NoAddress,
    /// It is another spelling of a listed address.
    #[error("it is another spelling of a listed address")]
    OtherSpelling,
    /// Its quota is not a number of bytes.
    #[error("its quota is not a number of bytes")]
    Quota,
    /// The query cannot compute its name or quota; the error is the database's.
    #[error("its name and quota cannot be computed: {0}")]
    Details(StoreError),
    /// The query cannot compute whether its owner may log in; the error is the database's.
    #[error("whether it is active cannot be computed: {0}")]
    State(StoreError),
}

/// A row that has been read.
pub(super) struct RowRead {
    /// The address as the database spells it.
    pub(super) spelled: String,
    /// The mailbox, if the address is valid.
    pub(super) mailbox: Option<DirectoryMailbox>,
    /// What is wrong with it.
    pub(super) fault: Option<RowFaultKind>,
}

/// Reads a row with these columns.
pub(super) fn read_mailbox(mut row: Row, columns: RowColumns) -> Result<RowRead, StoreError> {
    let spelled = row.text()?;
    let active = row.text_or_null()?.is_none_or(|text| is_yes(&text));
    let (name, quota) = match columns {
        RowColumns::Address | RowColumns::Identity => (None, DirectoryQuota::Unknown),
        RowColumns::All => (Some(row.text_or_null()?.unwrap_or_default()), quota_of(row.text_or_null()?.as_deref())),
    };
    let Ok(email) = spelled.parse() else {
        return Ok(RowRead { spelled, mailbox: None, fault: Some(RowFaultKind::NoAddress) });
    };
    let is_odd = columns == RowColumns::All && quota == DirectoryQuota::Unknown;
    let fault = is_odd.then_some(RowFaultKind::Quota);
    Ok(RowRead { spelled, mailbox: Some(DirectoryMailbox { email, active, name, quota }), fault })
}

/// Returns whether a text means yes, in the spellings of both engines and of people.
fn is_yes(text: &str) -> bool {
    ["1", "t", "true", "y", "yes", "on"].iter().any(|yes| text.trim().eq_ignore_ascii_case(yes))
}

/// Reads a quota. postfixadmin and Dovecot use 0 and negative numbers for "unlimited".
fn quota_of(text: Option<&str>) -> DirectoryQuota {
    let text = text.unwrap_or_default().trim();
    if text.is_empty() {
        return DirectoryQuota::Unlimited;
    }
    match whole_number(text) {
        None => DirectoryQuota::Unknown,
        Some(number) => match u64::try_from(number) {
            Ok(0) | Err(_) => DirectoryQuota::Unlimited,
            Ok(bytes) => DirectoryQuota::Bytes(bytes),
        },
    }
}

/// Reads a whole number as engines print it, from integers (`2048`), decimals (`2048.00`) and floating-point
/// numbers (`2.048e+03`). Numbers above 2^63 become that.
fn whole_number(text: &str) -> Option<i64> {
    let is_numeral = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if !is_numeral {
        return None;
    }
    let digits = match text.split_once('.') {
        Some((digits, fraction)) if fraction.bytes().all(|byte| byte == b'0') => digits,
        _ => text,
    };
    if let Ok(number) = digits.parse() {
        return Some(number);
    }
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite() && number.fract() == 0.0)?;
    let limit = if number.is_sign_negative() { i64::MIN } else { i64::MAX };
    Some(format!("{number:.0}").parse().unwrap_or(limit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::db::Value;

    fn read(columns: [Option<&str>; 4]) -> RowRead {
        let [email, name, active, quota] = columns.map(|column| column.map_or(Value::Null, Value::from));
        read_mailbox(Row::new(vec![email, active, name, quota]), RowColumns::All).unwrap()
    }

    fn mailbox(columns: [Option<&str>; 4]) -> Option<DirectoryMailbox> {
        read(columns).mailbox
    }

    #[test]
    fn what_is_no_address_is_no_mailbox() {
        for odd in ["", "@example.org", "root", "a b@example.org", "ann@example.org "] {
            let row = read([Some(odd), None, None, None]);
            assert_eq!((row.mailbox, row.fault), (None, Some(RowFaultKind::NoAddress)), "{odd}");
        }
        assert!(read_mailbox(Row::new(vec![Value::Null]), RowColumns::Identity).is_err());
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
        use DirectoryQuota::{Bytes, Unknown, Unlimited};
        for (quota, bytes) in [
            ("1024", Bytes(1024)),
            ("2048.00", Bytes(2048)),
            (" 2048. ", Bytes(2048)),
            ("2.147483648e+09", Bytes(2_147_483_648)),
            ("1.0e+15", Bytes(1_000_000_000_000_000)),
            ("18446744073709551616", Bytes(i64::MAX.unsigned_abs())),
            ("0", Unlimited),
            ("0.00", Unlimited),
            ("-1", Unlimited),
            ("", Unlimited),
            ("1.5", Unknown),
            ("1G", Unknown),
            ("1024 MB", Unknown),
            ("unlimited", Unknown),
            ("NaN", Unknown),
            ("inf", Unknown),
        ] {
            assert_eq!(read(None, Some(quota)).quota, bytes, "{quota}");
        }
        assert_eq!(read(None, None).email.as_str(), "ann@example.org");
    }

    #[test]
    fn an_unreadable_quota_is_a_fault_and_its_mailbox_counts() {
        let row = read([Some("ann@example.org"), None, Some("t"), Some("1G")]);
        assert!(row.mailbox.is_some_and(|mailbox| mailbox.active));
        assert_eq!(row.fault, Some(RowFaultKind::Quota));
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_a_number_is_read_as_itself(
            texts in proptest::array::uniform4(proptest::option::of("[-+0-9.eE]{0,12}|\\PC{0,12}|a@b.org")),
            number in 1..i64::MAX,
        ) {
            let columns = texts.each_ref().map(Option::as_deref);
            let _ = read([columns[0].or(Some("")), columns[1], columns[2], columns[3]]);
            for text in [number.to_string(), format!("{number}.000"), format!("+{number}")] {
                prop_assert_eq!(quota_of(Some(&text)), DirectoryQuota::Bytes(number.unsigned_abs()));
            }
        }
    }
}
