//! Rows, read column by column in the order of the SELECT list.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use mailapi_model::{DomainName, EmailAddress, Secret, Timestamp};

use super::Value;
use crate::StoreError;

/// One row of a result. Each call reads the next column.
pub(crate) struct Row<'a> {
    columns: std::vec::IntoIter<Cell<'a>>,
    taken: usize,
}

/// The value of one column. Texts are borrowed until a caller needs ownership.
pub(super) enum Cell<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Text(Cow<'a, str>),
    Blob(Cow<'a, [u8]>),
}

impl Cell<'_> {
    /// Returns an owned copy.
    pub(super) fn kept(self) -> Cell<'static> {
        match self {
            Self::Null => Cell::Null,
            Self::Bool(value) => Cell::Bool(value),
            Self::Int(value) => Cell::Int(value),
            Self::Text(text) => Cell::Text(Cow::Owned(text.into_owned())),
            Self::Blob(bytes) => Cell::Blob(Cow::Owned(bytes.into_owned())),
        }
    }
}

impl fmt::Debug for Row<'_> {
    /// Prints no values: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("row")
    }
}

impl Row<'static> {
    pub(crate) fn new(columns: Vec<Value>) -> Self {
        Self::of(columns.into_iter().map(Cell::from).collect())
    }
}

impl<'a> Row<'a> {
    pub(super) fn of(columns: Vec<Cell<'a>>) -> Self {
        Self { columns: columns.into_iter(), taken: 0 }
    }

    fn next(&mut self) -> Result<Cell<'a>, StoreError> {
        self.taken += 1;
        self.columns.next().ok_or_else(|| self.odd("is missing"))
    }

    fn looked_at(&mut self) -> Result<Option<Cow<'a, str>>, StoreError> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text)),
            _ => Err(self.odd("is not text")),
        }
    }

    /// Names the column by position only: its value may be secret.
    pub(crate) fn odd(&self, what: &str) -> StoreError {
        StoreError::unexpected(format!("column {} of a row {what}", self.taken))
    }

    pub(crate) fn int_or_null(&mut self) -> Result<Option<i64>, StoreError> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Int(value) => Ok(Some(value)),
            _ => Err(self.odd("is not a number")),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64, StoreError> {
        self.int_or_null()?.ok_or_else(|| self.odd("is null"))
    }

    /// Reads a count or a size.
    pub(crate) fn unsigned(&mut self) -> Result<u64, StoreError> {
        u64::try_from(self.int()?).map_err(|_| self.odd("is negative"))
    }

    pub(crate) fn bool(&mut self) -> Result<bool, StoreError> {
        match self.next()? {
            Cell::Bool(value) => Ok(value),
            // SQLite has no boolean type.
            Cell::Int(value @ (0 | 1)) => Ok(value == 1),
            _ => Err(self.odd("is not a boolean")),
        }
    }

    pub(crate) fn text_or_null(&mut self) -> Result<Option<String>, StoreError> {
        Ok(self.looked_at()?.map(Cow::into_owned))
    }

    /// Reads a column with one address on each line, in the form as given.
    pub(crate) fn addresses(&mut self) -> Result<Vec<EmailAddress>, StoreError> {
        let text = self.looked_at()?.ok_or_else(|| self.odd("is null"))?;
        let read = |line| EmailAddress::as_given(line).map_err(|_| self.odd("is not an address"));
        text.lines().map(read).collect()
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        self.text_or_null()?.ok_or_else(|| self.odd("is null"))
    }

    pub(crate) fn bytes_or_null(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Blob(value) => Ok(Some(value.into_owned())),
            _ => Err(self.odd("is not binary")),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        self.bytes_or_null()?.ok_or_else(|| self.odd("is null"))
    }

    pub(crate) fn secret(&mut self) -> Result<Secret<String>, StoreError> {
        self.text().map(Secret::new)
    }

    pub(crate) fn time_or_null(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.int_or_null()?.map(Timestamp::from_millis))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.int().map(Timestamp::from_millis)
    }

    /// Reads a value that was stored as text.
    pub(crate) fn parsed_or_null<T: FromStr>(&mut self) -> Result<Option<T>, StoreError> {
        let text = self.looked_at()?;
        text.map(|text| text.parse().map_err(|_| self.odd("has an invalid value"))).transpose()
    }

    pub(crate) fn parsed<T: FromStr>(&mut self) -> Result<T, StoreError> {
        self.parsed_or_null()?.ok_or_else(|| self.odd("is null"))
    }

    /// Reads two columns: the canonical form and the form as given.
    pub(crate) fn address_or_null(&mut self) -> Result<Option<EmailAddress>, StoreError> {
        let canonical: Option<EmailAddress> = self.parsed_or_null()?;
        let given = self.text_or_null()?;
        Ok(canonical.map(|address| address.with_given(given)))
    }

    /// Reads two columns: the canonical form and the form as given.
    pub(crate) fn address(&mut self) -> Result<EmailAddress, StoreError> {
        self.address_or_null()?.ok_or_else(|| self.odd("is null"))
    }

    /// Reads two columns: the canonical form and the form as given.
    pub(crate) fn domain(&mut self) -> Result<DomainName, StoreError> {
        let canonical: DomainName = self.parsed()?;
        Ok(canonical.with_given(self.text_or_null()?))
    }
}

impl From<Value> for Cell<'static> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Int(value) => Self::Int(value),
            Value::Text(text) => Self::Text(Cow::Owned(text)),
            Value::Blob(bytes) => Self::Blob(Cow::Owned(bytes)),
        }
    }
}

/// Returns whether a batch was stored; `false` if the guard of its first statement failed.
pub(crate) fn first_guard_held<T>(stored: Result<T, StoreError>) -> Result<bool, StoreError> {
    match stored {
        Ok(_) => Ok(true),
        Err(StoreError::Guard { statement: 0, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the only item; any other number of items is an error.
pub(crate) fn exactly_one<T>(items: Vec<T>) -> Result<T, StoreError> {
    let mut items = items.into_iter();
    match (items.next(), items.next()) {
        (Some(item), None) => Ok(item),
        _ => Err(StoreError::unexpected("expected exactly one result")),
    }
}
