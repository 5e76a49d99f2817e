//! Rows, read column by column in the order of the SELECT.

use std::str::FromStr;

use mailapi_model::{DomainName, EmailAddress, Secret, Timestamp};

use super::Value;
use crate::StoreError;

/// One row of an answer. Each call takes the next column.
#[derive(Debug)]
pub(crate) struct Row {
    columns: std::vec::IntoIter<Value>,
    taken: usize,
}

impl Row {
    pub(crate) fn new(columns: Vec<Value>) -> Self {
        Self { columns: columns.into_iter(), taken: 0 }
    }

    fn next(&mut self) -> Result<Value, StoreError> {
        self.taken += 1;
        self.columns.next().ok_or_else(|| self.odd("is missing"))
    }

    /// Names the column by its place: what it holds may be a secret.
    fn odd(&self, what: &str) -> StoreError {
        StoreError::unexpected(format!("column {} of an answer {what}", self.taken))
    }

    pub(crate) fn int_or_null(&mut self) -> Result<Option<i64>, StoreError> {
        match self.next()? {
            Value::Null => Ok(None),
            Value::Int(value) => Ok(Some(value)),
            _ => Err(self.odd("is no number")),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64, StoreError> {
        self.int_or_null()?.ok_or_else(|| self.odd("is null"))
    }

    /// A count or a size.
    pub(crate) fn unsigned(&mut self) -> Result<u64, StoreError> {
        u64::try_from(self.int()?).map_err(|_| self.odd("is negative"))
    }

    pub(crate) fn bool(&mut self) -> Result<bool, StoreError> {
        match self.next()? {
            Value::Bool(value) => Ok(value),
            // SQLite has no booleans of its own.
            Value::Int(value @ (0 | 1)) => Ok(value == 1),
            _ => Err(self.odd("is no boolean")),
        }
    }

    pub(crate) fn text_or_null(&mut self) -> Result<Option<String>, StoreError> {
        match self.next()? {
            Value::Null => Ok(None),
            Value::Text(value) => Ok(Some(value)),
            _ => Err(self.odd("is no text")),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        self.text_or_null()?.ok_or_else(|| self.odd("is null"))
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.next()? {
            Value::Blob(value) => Ok(value),
            _ => Err(self.odd("holds no bytes")),
        }
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

    /// A value that was stored as its text.
    pub(crate) fn parsed_or_null<T: FromStr>(&mut self) -> Result<Option<T>, StoreError> {
        let text = self.text_or_null()?;
        text.map(|text| text.parse().map_err(|_| self.odd("is not what it should be"))).transpose()
    }

    pub(crate) fn parsed<T: FromStr>(&mut self) -> Result<T, StoreError> {
        self.parsed_or_null()?.ok_or_else(|| self.odd("is null"))
    }

    /// Two columns: the canonical form and the given one.
    pub(crate) fn address_or_null(&mut self) -> Result<Option<EmailAddress>, StoreError> {
        let canonical: Option<EmailAddress> = self.parsed_or_null()?;
        let given = self.text_or_null()?;
        Ok(canonical.map(|address| address.with_given(given)))
    }

    /// Two columns: the canonical form and the given one.
    pub(crate) fn address(&mut self) -> Result<EmailAddress, StoreError> {
        self.address_or_null()?.ok_or_else(|| self.odd("is null"))
    }

    /// Two columns: the canonical form and the given one.
    pub(crate) fn domain(&mut self) -> Result<DomainName, StoreError> {
        let canonical: DomainName = self.parsed()?;
        Ok(canonical.with_given(self.text_or_null()?))
    }
}

/// The only item of what has exactly one.
pub(crate) fn exactly_one<T>(items: Vec<T>) -> Result<T, StoreError> {
    let mut items = items.into_iter();
    match (items.next(), items.next()) {
        (Some(item), None) => Ok(item),
        _ => Err(StoreError::unexpected("an answer has not exactly one part")),
    }
}
