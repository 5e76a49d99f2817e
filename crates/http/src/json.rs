//! Reads request bodies in JSON. Members are checked one by one, so that one response reports all errors.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use mailapi_model::{Blob, OneLine, Timestamp, Violations, shown_name};
use serde_json::{Map, Value};

use crate::body::{self, check_media_type};
use crate::bounded_json::{self, Refused};
use crate::error::{ApiError, ErrorCode};
use crate::long_strings::{LongStrings, Mistake};
use crate::state::HttpState;

/// A JSON object.
pub(crate) struct JsonBody {
    /// Members of the object.
    pub(crate) members: Members,
}

impl FromRequest<HttpState> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        Ok(Self { members: Members::of(value_of(request, state, small(state)).await?, None)? })
    }
}

fn small(state: &HttpState) -> usize {
    state.settings().max_small_request_bytes.min(state.settings().max_request_bytes)
}

/// The members of a JSON object; none if the body is empty or `null`.
pub(crate) struct OptionalJsonBody(pub(crate) Members);

impl FromRequest<HttpState> for OptionalJsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        if request.body().is_end_stream() {
            return Ok(Self(Members::root(Map::new())));
        }
        let value = value_of(request, state, small(state)).await?;
        if value.is_null() {
            return Ok(Self(Members::root(Map::new())));
        }
        Ok(Self(Members::of(value, None)?))
    }
}

/// The parsed body of a request.
async fn value_of(request: Request, state: &HttpState, limit: usize) -> Result<Value, ApiError> {
    check_media_type(request.headers())?;
    let bytes = body::read(request, state, limit).await?;
    Ok(parse(bytes, state, |_| ()).await?.0)
}

/// The JSON in these bytes, which are gone then, and what `look` makes of them before.
pub(crate) async fn parse<T: Send + 'static>(
    bytes: Bytes,
    state: &HttpState,
    look: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<(Value, T), ApiError> {
    let (length, work) = (bytes.len(), move || (bounded_json::read(&bytes), look(&bytes)));
    let (parsed, seen) = offload(length, state, work).await?;
    Ok((parsed.map_err(|(error, refused)| Mistake::from((&error, refused)))?, seen))
}

/// Position and reason of a syntax error; never a part of the text.
impl From<Mistake> for ApiError {
    fn from(Mistake { too_short, refused, line, column }: Mistake) -> Self {
        let (code, what) = match refused {
            Some(Refused::TooMuch) => (ErrorCode::PayloadTooLarge, "has too many values"),
            Some(Refused::TooDeep) => (ErrorCode::InvalidJson, "is nested too deeply"),
            Some(Refused::Duplicate) => (ErrorCode::InvalidJson, "has a duplicate member name"),
            None if too_short => (ErrorCode::InvalidJson, "ends too early"),
            None => (ErrorCode::InvalidJson, "is not valid JSON"),
        };
        Self::new(code, format!("The body {what} at line {line}, column {column}."))
    }
}

/// Runs `work` on this thread if `bytes` are few, otherwise on a blocking thread.
pub(crate) async fn offload<T: Send + 'static>(
    bytes: usize,
    state: &HttpState,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    if bytes <= state.settings().long_work_bytes {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(ApiError::internal)
}

/// The members of a JSON object that have not been taken yet. Members that are never taken are ignored.
///
/// Every method takes one member and adds a violation if it has the wrong type. `null` counts as absent.
pub(crate) struct Members {
    at: String,
    map: Map<String, Value>,
    /// Long strings whose placeholders are in the values, if any.
    long: Option<Arc<LongStrings>>,
}

/// A string that may be long.
pub(crate) enum LongText {
    /// A short string.
    Here(String),
    /// A string in a file.
    Aside(Blob),
}

impl Members {
    /// Members whose values may be placeholders for the strings of `long`.
    pub(crate) fn of(value: Value, long: Option<Arc<LongStrings>>) -> Result<Self, Violations> {
        match value {
            Value::Object(map) => Ok(Self { long, ..Self::root(map) }),
            _ => Err(Violations::of("", "must be a JSON object")),
        }
    }

    fn root(map: Map<String, Value>) -> Self {
        Self { at: String::new(), map, long: None }
    }

    /// The original string of a value that may be a placeholder.
    fn whole(&self, text: String) -> String {
        match &self.long {
            Some(long) => long.read(text),
            None => text,
        }
    }

    fn path(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    fn take<T>(
        &mut self,
        name: &str,
        violations: &mut Violations,
        expected: &str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.map.remove(name).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            violations.add(self.path(name), expected);
        }
        read
    }

    /// Adds a violation if the member is missing.
    pub(crate) fn require(&self, name: &str, violations: &mut Violations) {
        if self.map.get(name).is_none_or(Value::is_null) {
            violations.add(self.path(name), "is required");
        }
    }

    /// A string.
    pub(crate) fn text(&mut self, name: &str, violations: &mut Violations) -> Option<String> {
        let text = self.take(name, violations, "must be a string", text)?;
        Some(self.whole(text))
    }

    /// A required string, which is not read into memory if it is long.
    pub(crate) fn required_long_text(&mut self, name: &str, violations: &mut Violations) -> Option<LongText> {
        self.require(name, violations);
        let text = self.take(name, violations, "must be a string", text)?;
        let aside = self.long.as_ref().and_then(|long| long.get(&text));
        Some(aside.map_or(LongText::Here(text), LongText::Aside))
    }

    /// A required string.
    pub(crate) fn required_text(&mut self, name: &str, violations: &mut Violations) -> Option<String> {
        self.require(name, violations);
        self.text(name, violations)
    }

    /// A string, parsed.
    pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(
        &mut self,
        name: &str,
        violations: &mut Violations,
    ) -> Option<T> {
        let path = self.path(name);
        let text = self.text(name, violations)?;
        violations.check(&path, text.parse())
    }

    /// A required string, parsed.
    pub(crate) fn required_parsed<T: FromStr<Err: fmt::Display>>(
        &mut self,
        name: &str,
        violations: &mut Violations,
    ) -> Option<T> {
        self.require(name, violations);
        self.parsed(name, violations)
    }

    /// A date-time with any offset, or a date.
    pub(crate) fn time(&mut self, name: &str, violations: &mut Violations) -> Option<Timestamp> {
        let path = self.path(name);
        let text = self.text(name, violations)?;
        violations.check(&path, Timestamp::parse_date_or_time(&text))
    }

    /// One line of text, such as a name or a description.
    pub(crate) fn one_line(&mut self, name: &str, violations: &mut Violations) -> Option<String> {
        let path = self.path(name);
        let text = self.text(name, violations)?;
        violations.merge(OneLine::parse(&path, &text))
    }

    /// A non-negative whole number that every JSON parser represents exactly (RFC 8259 section 6).
    pub(crate) fn unsigned(&mut self, name: &str, violations: &mut Violations) -> Option<u64> {
        const LARGEST: u64 = (1 << 53) - 1;
        const EXPECTED: &str = "must be a whole number, 0 to 9007199254740991";
        self.take(name, violations, EXPECTED, |value| whole(&value).filter(|number| *number <= LARGEST))
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str, violations: &mut Violations) -> Option<bool> {
        self.take(name, violations, "must be true or false", |value| value.as_bool())
    }

    /// Change of an optional value: `None` if the member is absent (unchanged), `Some(None)` for `null` (cleared).
    pub(crate) fn change<T>(
        &mut self,
        name: &str,
        violations: &mut Violations,
        read: impl FnOnce(&mut Self, &str, &mut Violations) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.map.get(name) {
            Some(Value::Null) => Some(None),
            _ => read(self, name, violations).map(Some),
        }
    }

    /// An array of strings, parsed; empty if the member is absent.
    pub(crate) fn all_parsed<T: FromStr<Err: fmt::Display>>(
        &mut self,
        name: &str,
        violations: &mut Violations,
    ) -> Vec<T> {
        let items = self.items(name, violations);
        let read = |(path, value): (String, Value), violations: &mut Violations| match text(value) {
            Some(text) => violations.check(&path, self.whole(text).parse()),
            None => {
                violations.add(path, "must be a string");
                None
            }
        };
        items.into_iter().filter_map(|item| read(item, violations)).collect()
    }

    /// An array of strings; empty if the member is absent.
    pub(crate) fn texts(&mut self, name: &str, violations: &mut Violations) -> Vec<String> {
        let items = self.items(name, violations);
        let check = |(path, value): (String, Value), violations: &mut Violations| {
            let read = text(value);
            if read.is_none() {
                violations.add(path, "must be a string");
            }
            read.map(|text| self.whole(text))
        };
        items.into_iter().filter_map(|item| check(item, violations)).collect()
    }

    /// An array of objects; empty if the member is absent.
    pub(crate) fn objects(&mut self, name: &str, violations: &mut Violations) -> Vec<Self> {
        let mut objects = Vec::new();
        for (at, value) in self.items(name, violations) {
            match value {
                Value::Object(map) => objects.push(Self { at, map, long: self.long.clone() }),
                _ => violations.add(at, "must be an object"),
            }
        }
        objects
    }

    /// An object.
    pub(crate) fn object(&mut self, name: &str, violations: &mut Violations) -> Option<Self> {
        let at = self.path(name);
        let map = self.take(name, violations, "must be an object", |value| match value {
            Value::Object(map) => Some(map),
            _ => None,
        })?;
        Some(Self { at, map, long: self.long.clone() })
    }

    /// All remaining members, which must be strings.
    pub(crate) fn into_texts(mut self, violations: &mut Violations) -> Vec<(String, String)> {
        let map = std::mem::take(&mut self.map);
        let mut pairs = Vec::new();
        for (name, value) in map {
            let name = self.whole(name);
            match value {
                Value::String(text) => pairs.push((name, self.whole(text))),
                _ => violations.add(format!("{}.{}", self.at, shown_name(&name)), "must be a string"),
            }
        }
        pairs
    }

    fn items(&mut self, name: &str, violations: &mut Violations) -> Vec<(String, Value)> {
        let path = self.path(name);
        let items = self.take(name, violations, "must be an array", |value| match value {
            Value::Array(items) => Some(items),
            _ => None,
        });
        let place = |(n, value)| (format!("{path}[{n}]"), value);
        items.unwrap_or_default().into_iter().enumerate().map(place).collect()
    }
}

/// A whole number, including `287.0`, because some JSON writers only have floating-point numbers.
fn whole(value: &Value) -> Option<u64> {
    let digits = |number: f64| (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok()).flatten();
    value.as_u64().or_else(|| value.as_f64().and_then(digits))
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn members(value: Value) -> Members {
        match value {
            Value::Object(map) => Members::root(map),
            _ => unreachable!("tests hand in objects"),
        }
    }

    #[test]
    fn every_member_of_a_wrong_type_is_named_by_its_path() {
        let mut members = members(json!({
            "from": 1, "to": "ann@example.org", "cc": ["a", 2, null], "body": [], "files": [{ "name": true }, 3],
            "headers": { "X-A": 1 }, "size": -1, "until": "soon", "subject": null,
        }));
        let mut found = Violations::none();
        members.required_text("from", &mut found);
        members.texts("to", &mut found);
        assert_eq!(members.texts("cc", &mut found), ["a"]);
        assert!(members.object("body", &mut found).is_none());
        for mut file in members.objects("files", &mut found) {
            file.required_text("name", &mut found);
        }
        members.object("headers", &mut found).unwrap().into_texts(&mut found);
        members.unsigned("size", &mut found);
        members.time("until", &mut found);
        members.required_text("subject", &mut found);
        let named: Vec<_> = found.all().iter().map(|violation| violation.field.as_str()).collect();
        let expected = [
            "from",
            "to",
            "cc[1]",
            "cc[2]",
            "body",
            "files[1]",
            "files[0].name",
            "headers.X-A",
            "size",
            "until",
            "subject",
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn a_long_name_is_not_told_back_as_a_whole() {
        let mut members = members(json!({ "headers": { "\u{1}".repeat(100_000): 1 } }));
        let mut found = Violations::none();
        members.object("headers", &mut found).unwrap().into_texts(&mut found);
        assert_eq!(found.all()[0].field, format!("headers.{}…", "\\u{1}".repeat(76)));
    }

    #[test]
    fn absent_and_null_are_the_same_and_no_violation_by_themselves() {
        let mut members = members(json!({ "a": null }));
        let mut found = Violations::none();
        assert_eq!((members.text("a", &mut found), members.text("b", &mut found)), (None, None));
        assert!(members.texts("c", &mut found).is_empty() && members.objects("d", &mut found).is_empty());
        assert!(found.is_empty());
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_nothing() {
        for (value, read) in [
            (json!(287), Some(287)),
            (json!(287.0), Some(287)),
            (json!(0.0), Some(0)),
            (json!(9e15), Some(9_000_000_000_000_000)),
            (json!(1.5), None),
            (json!(-1.0), None),
            (json!(1e300), None),
            (json!(9_007_199_254_740_992_u64), None),
            (json!("1"), None),
        ] {
            let mut found = Violations::none();
            assert_eq!(members(json!({ "a": value })).unsigned("a", &mut found), read, "{value}");
            assert_eq!(found.is_empty(), read.is_some());
        }
    }

    #[test]
    fn null_clears_a_member_and_absence_keeps_it() {
        let mut members = members(json!({ "a": null, "b": 7, "c": "x" }));
        let mut found = Violations::none();
        let mut change = |name: &str| members.change(name, &mut found, Members::unsigned);
        assert_eq!((change("a"), change("b"), change("c"), change("d")), (Some(None), Some(Some(7)), None, None));
        assert_eq!(found.all().len(), 1);
    }

    proptest! {
        #[test]
        fn any_object_is_read_without_panic(text in "\\{(\"[a-c]\":(1|null|true|\"x\"|\\[[0-9]?\\]|\\{\\}),?){0,4}\\}|[ -~]{0,40}") {
            if let Ok(Value::Object(map)) = serde_json::from_str(&text) {
                let mut found = Violations::none();
                let mut members = Members::root(map);
                members.required_text("a", &mut found);
                members.texts("b", &mut found);
                members.objects("c", &mut found);
                members.into_texts(&mut found);
            }
        }
    }
}
