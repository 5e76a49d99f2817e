//! The fields of queries and forms.

use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use mailapi_http::{HttpState, read_body};
use mailapi_model::{Page, Violations};

use crate::failure::Failure;

/// Names and values, in their order. Surrounding spaces are removed: people paste them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// The fields of a form or a query as they are sent.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// The fields of a form with files.
    pub(crate) const fn of(fields: Vec<(String, String)>) -> Self {
        Self(fields)
    }

    /// One field.
    pub(crate) fn one(name: &str, value: &str) -> Self {
        Self(vec![(name.to_owned(), value.to_owned())])
    }

    /// The value as it was sent; empty if there is none. For passwords and texts.
    pub(crate) fn exact(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The value; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.exact(name).trim()
    }

    /// The value; `None` if it is empty.
    pub(crate) fn optional(&self, name: &str) -> Option<String> {
        Some(self.text(name).to_owned()).filter(|text| !text.is_empty())
    }

    /// All values of this name, without empty ones.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// All fields but those of this name.
    pub(crate) fn others(&self, name: &str) -> Vec<(String, String)> {
        self.0.iter().filter(|(known, _)| known != name).cloned().collect()
    }

    /// The parsed value; `None` if it is empty or invalid.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, name: &str, violations: &mut Violations) -> Option<T> {
        let text = self.text(name);
        if text.is_empty() { None } else { violations.check(name, text.parse()) }
    }

    /// The parsed value, which must not be empty.
    pub(crate) fn required<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, Violations> {
        let text = self.text(name);
        if text.is_empty() {
            return Err(Violations::of(name, "is required"));
        }
        text.parse().map_err(|error: T::Err| Violations::of(name, error.to_string()))
    }

    /// The page that the query names.
    pub(crate) fn page(&self) -> Page {
        Page::new(Page::DEFAULT_LIMIT, self.text("offset").parse().unwrap_or(0))
    }

    /// A link to `path` with these fields, without empty ones, and with another `name`.
    pub(crate) fn link(&self, path: &str, name: &str, value: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let kept = self.0.iter().filter(|(known, text)| known != name && known != "done" && !text.is_empty());
        query.extend_pairs(kept);
        if !value.is_empty() {
            query.append_pair(name, value);
        }
        let query = query.finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }
}

/// The fields of a query.
pub(crate) struct Query(pub(crate) Fields);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(Fields::parse(parts.uri.query().unwrap_or_default().as_bytes())))
    }
}

/// The fields of a form.
pub(crate) struct Form(pub(crate) Fields);

impl FromRequest<HttpState> for Form {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Failure> {
        let limit = state.settings().max_small_request_bytes;
        Ok(Self(Fields::parse(&read_body(request, state, limit).await?)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_link_keeps_the_filters_and_replaces_the_page() {
        let fields = Fields::parse(b"status=sent&offset=50&from=&q=a%26b&done=sent");
        assert_eq!(fields.link("/x", "offset", "100"), "/x?status=sent&q=a%26b&offset=100");
        assert_eq!(Fields::default().link("/x", "offset", ""), "/x");
    }

    #[test]
    fn an_empty_field_is_no_filter_and_an_invalid_one_is_named() {
        let fields = Fields::parse(b"limit=&number=seven&plain=+7+");
        let mut violations = Violations::none();
        assert_eq!(fields.parsed::<u8>("limit", &mut violations), None);
        assert_eq!(fields.parsed::<u8>("plain", &mut violations), Some(7));
        assert!(violations.is_empty());
        assert_eq!(fields.parsed::<u8>("number", &mut violations), None);
        assert_eq!(violations.all()[0].field, "number");
        assert!(fields.required::<u8>("limit").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_fields(bytes: Vec<u8>) {
            let fields = Fields::parse(&bytes);
            let _ = (fields.page(), fields.link("/x", "offset", "1"));
        }
    }
}
