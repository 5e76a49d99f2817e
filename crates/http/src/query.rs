//! Query parameters. One response reports all errors.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::{Page, Timestamp, TimestampError, Violations};

use crate::error::ApiError;

/// Query parameters. Unknown parameters are ignored.
///
/// Read each parameter by name, then call [`Query::check`].
pub(crate) struct Query {
    parameters: HashMap<String, String>,
    violations: Violations,
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl Query {
    fn parse(text: &str) -> Self {
        let mut query = Self { parameters: HashMap::new(), violations: Violations::none() };
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let before = query.parameters.insert(name.clone().into_owned(), value.into_owned());
            if before.is_some() {
                query.violations.add(name, "must be given once");
            }
        }
        query
    }

    /// The text of a parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// A parameter, parsed.
    pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(&mut self, name: &str) -> Option<T> {
        let parsed = self.text(name)?.parse();
        self.violations.check(name, parsed)
    }

    /// A required parameter, parsed.
    pub(crate) fn required<T: FromStr<Err: fmt::Display>>(&mut self, name: &str) -> Option<T> {
        if self.text(name).is_none() {
            self.violations.add(name, "is required");
        }
        self.parsed(name)
    }

    /// `start_date`: a time, or the start of a day.
    pub(crate) fn start_date(&mut self) -> Option<Timestamp> {
        self.time("start_date", Timestamp::parse_date_or_time)
    }

    /// `end_date`: a time or the end of a day, exclusive.
    pub(crate) fn end_date(&mut self) -> Option<Timestamp> {
        self.time("end_date", Timestamp::parse_end)
    }

    fn time(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<Timestamp, TimestampError>) -> Option<Timestamp> {
        // `+` means a space in a query, and clients rarely escape the `+` of an offset.
        let parsed = parse(&self.text(name)?.replace(' ', "+"));
        self.violations.check(name, parsed)
    }

    /// A non-negative whole number.
    pub(crate) fn number<T: TryFrom<u64>>(&mut self, name: &str) -> Option<T> {
        let number = self.text(name).map(digits)?;
        let number = number.and_then(|number| T::try_from(number).ok());
        if number.is_none() {
            self.violations.add(name, "must be a whole number, 0 or more");
        }
        number
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        let parsed = self.text(name)?.parse();
        self.violations.check(name, parsed.map_err(|_| "must be true or false"))
    }

    /// `limit` and `offset`.
    pub(crate) fn page(&mut self) -> Page {
        let limit = match self.text("limit").map(digits) {
            None => Page::DEFAULT_LIMIT,
            Some(Some(limit)) if limit > 0 => u32::try_from(limit).unwrap_or(Page::MAX_LIMIT),
            Some(_) => {
                self.violations.add("limit", "must be a whole number, 1 or more");
                Page::DEFAULT_LIMIT
            }
        };
        let offset = self.number("offset").unwrap_or(0);
        Page::new(limit, offset)
    }

    /// Checks that all parameters were valid.
    ///
    /// # Errors
    /// 422 with every invalid parameter.
    pub(crate) fn check(self) -> Result<(), ApiError> {
        if self.violations.is_empty() { Ok(()) } else { Err(self.violations.into()) }
    }
}

/// A number that consists of digits only, reduced to the largest integer that every JSON parser represents exactly.
fn digits(text: &str) -> Option<u64> {
    const LARGEST: u64 = (1 << 53) - 1;
    let only_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| text.parse().unwrap_or(LARGEST).min(LARGEST))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> Vec<String> {
        let mut query = Query::parse(text);
        query.page();
        query.start_date();
        query.end_date();
        query.number::<u32>("index");
        query.violations.all().iter().map(|violation| violation.field.clone()).collect()
    }

    #[test]
    fn what_is_no_number_and_no_date_is_refused() {
        for text in ["limit=0", "limit=-1", "limit=ten", "limit=", "limit=1.5", "limit=%2B5", "limit=0x10"] {
            assert_eq!(refused(text), ["limit"], "{text}");
        }
        let query = "offset=-1&limit=x&start_date=soon&end_date=2026-11-20T&index=4294967296";
        assert_eq!(refused(query), ["limit", "offset", "start_date", "end_date", "index"]);
        assert_eq!(refused("limit=5&limit=6"), ["limit"]);
    }

    #[test]
    fn a_limit_beyond_the_maximum_is_cut_down_to_it() {
        for (text, limit, offset) in [
            ("", 50, 0),
            ("limit=200&offset=7", 200, 7),
            ("limit=201", 200, 0),
            ("limit=99999999999999999999999", 200, 0),
            ("offset=99999999999999999999999", 50, (1 << 53) - 1),
        ] {
            let mut query = Query::parse(text);
            let page = query.page();
            assert_eq!((page.limit(), page.offset()), (limit, offset), "{text}");
            assert!(query.check().is_ok(), "{text}");
        }
    }

    #[test]
    fn the_plus_of_an_offset_may_come_unescaped() {
        for offset in ["+02:00", "%2B02:00"] {
            let text = format!("start_date=2026-11-20T12:00:00{offset}&end_date=2026-11-20T13:00:00{offset}");
            let mut query = Query::parse(&text);
            let shown = [query.start_date(), query.end_date()].map(|time| time.map(|time| time.to_string()));
            assert_eq!(shown, ["10", "11"].map(|hour| Some(format!("2026-11-20T{hour}:00:00.000Z"))));
        }
    }

    proptest! {
        #[test]
        fn any_query_is_read_without_panic(text in "[ -~]{0,80}|(limit|offset|start_date|end_date|index)=[0-9a-z+%-]{0,30}") {
            refused(&text);
        }
    }
}
