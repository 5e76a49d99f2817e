//! Query parameters. They are declared once, with [`query_parameters!`]: the OpenAPI document describes them, and the
//! reader takes the same parameters. One response reports all errors. Unknown parameters are ignored.

use std::collections::HashMap;
use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mailapi_model::{Page, Timestamp, Violations};
use utoipa::openapi::path::{Parameter as Described, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{IntoParams, PartialSchema};

use crate::error::ApiError;
use crate::request_body::Text;
use crate::shape::{DateOrTime, checked};

/// The query of a request, which is read as a `P` after the checks of the operation that come first.
pub(crate) struct Query<P>(Arguments, PhantomData<fn() -> P>);

impl<S: Sync, P> FromRequestParts<S> for Query<P> {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(Arguments::parse(parts.uri.query().unwrap_or_default()), PhantomData))
    }
}

impl<P: Parameter> Query<P> {
    /// Reads the parameters.
    ///
    /// # Errors
    /// 422 with every invalid parameter.
    pub(crate) fn read(self) -> Result<P::Read, ApiError> {
        let mut arguments = self.0;
        let read = P::take(&mut arguments, "");
        Ok(arguments.violations.or(read)?)
    }
}

/// Names and values in a query.
pub(crate) struct Arguments {
    values: HashMap<String, String>,
    violations: Violations,
}

impl Arguments {
    fn parse(text: &str) -> Self {
        let mut arguments = Self { values: HashMap::new(), violations: Violations::none() };
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let before = arguments.values.insert(name.clone().into_owned(), value.into_owned());
            if before.is_some() {
                arguments.violations.add(name, "must be given once");
            }
        }
        arguments
    }
}

/// One or several parameters: an [`Argument`] or an `Option` of it, or a struct of parameters.
pub(crate) trait Parameter {
    /// The value after reading.
    type Read;

    /// Adds the descriptions for the document. Several parameters have their own names and texts.
    fn describe(name: &str, about: &str, found: &mut Vec<Described>);

    /// Reads the value. Adds a violation and returns `None` if it is invalid.
    fn take(arguments: &mut Arguments, name: &str) -> Option<Self::Read>;
}

/// A kind of value in a query.
pub(crate) trait Argument {
    /// The value after reading.
    type Read;

    fn schema() -> RefOr<Schema>;

    fn parse(name: &str, text: String) -> Result<Self::Read, Violations>;
}

impl<A: Argument> Parameter for A {
    type Read = A::Read;

    fn describe(name: &str, about: &str, found: &mut Vec<Described>) {
        found.push(described(name, about, A::schema(), Required::True));
    }

    fn take(arguments: &mut Arguments, name: &str) -> Option<A::Read> {
        if !arguments.values.contains_key(name) {
            arguments.violations.add(name, "is required");
        }
        <Option<A> as Parameter>::take(arguments, name)?
    }
}

impl<A: Argument> Parameter for Option<A> {
    type Read = Option<A::Read>;

    fn describe(name: &str, about: &str, found: &mut Vec<Described>) {
        found.push(described(name, about, A::schema(), Required::False));
    }

    fn take(arguments: &mut Arguments, name: &str) -> Option<Self::Read> {
        match arguments.values.remove(name) {
            Some(text) => arguments.violations.merge(A::parse(name, text)).map(Some),
            None => Some(None),
        }
    }
}

fn described(name: &str, about: &str, schema: RefOr<Schema>, required: Required) -> Described {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).required(required);
    parameter.description(Some(about.trim())).schema(Some(schema)).build()
}

/// Sets the example of the last parameter.
pub(crate) fn exemplify(found: &mut [Described], example: &str) {
    if let Some(parameter) = found.last_mut() {
        *parameter = ParameterBuilder::from(parameter.clone()).example(Some(example.into())).build();
    }
}

/// Declares the parameters of an operation: a struct of the values that were read, with their descriptions for the
/// document. Each type is a [`Parameter`]; the fields have the types of their values after reading.
macro_rules! query_parameters {
    (
        $(#[doc = $doc:literal])+
        $visibility:vis struct $type:ident {
            $($(#[doc = $about:literal])+ $name:ident: $kind:ty $(, example $example:literal)?;)+
        }
    ) => {
        $(#[doc = $doc])+
        $visibility struct $type {
            $($(#[doc = $about])+ $name: <$kind as $crate::query::Parameter>::Read,)+
        }

        impl utoipa::IntoParams for $type {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                let mut found = Vec::new();
                $(
                    <$kind as $crate::query::Parameter>::describe(stringify!($name), concat!($($about),+), &mut found);
                    $($crate::query::exemplify(&mut found, $example);)?
                )+
                found
            }
        }

        impl $crate::query::Parameter for $type {
            type Read = Self;

            fn describe(_: &str, _: &str, found: &mut Vec<utoipa::openapi::path::Parameter>) {
                found.extend(<Self as utoipa::IntoParams>::into_params(|| None));
            }

            fn take(arguments: &mut $crate::query::Arguments, _: &str) -> Option<Self> {
                $(let $name = <$kind as $crate::query::Parameter>::take(arguments, stringify!($name));)+
                Some(Self { $($name: $name?),+ })
            }
        }
    };
}

pub(crate) use query_parameters;

/// `limit` and `offset`, the parameters of every list.
pub(crate) struct PageParameters;

impl IntoParams for PageParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Described> {
        let parameter = |name: &str, text: &str, schema: ObjectBuilder| {
            described(name, text, schema.schema_type(Type::Integer).into(), Required::False)
        };
        let limit = ObjectBuilder::new().minimum(Some(1)).default(Some(Page::DEFAULT_LIMIT.into()));
        let offset = ObjectBuilder::new().minimum(Some(0)).default(Some(0.into()));
        vec![
            parameter("limit", "Maximum number of items to return. Values above 200 are reduced to 200.", limit),
            parameter("offset", "Number of items to skip.", offset),
        ]
    }
}

impl Parameter for PageParameters {
    type Read = Page;

    fn describe(_: &str, _: &str, found: &mut Vec<Described>) {
        found.extend(Self::into_params(|| None));
    }

    fn take(arguments: &mut Arguments, _: &str) -> Option<Page> {
        let limit = match arguments.values.remove("limit").map(|text| digits(&text)) {
            None => Some(Page::DEFAULT_LIMIT),
            Some(Some(limit)) if limit > 0 => Some(u32::try_from(limit).unwrap_or(Page::MAX_LIMIT)),
            Some(_) => arguments.violations.merge(Err(Violations::of("limit", "must be a whole number, 1 or more"))),
        };
        let offset = <Option<u64> as Parameter>::take(arguments, "offset");
        Some(Page::new(limit?, offset?.unwrap_or(0)))
    }
}

impl<T: Text> Argument for T {
    type Read = T::Read;

    fn schema() -> RefOr<Schema> {
        T::inline()
    }

    fn parse(name: &str, text: String) -> Result<T::Read, Violations> {
        <T as Text>::parse(name, text)
    }
}

impl Argument for bool {
    type Read = Self;

    fn schema() -> RefOr<Schema> {
        <Self as PartialSchema>::schema()
    }

    fn parse(name: &str, text: String) -> Result<Self, Violations> {
        text.parse().map_err(|_| Violations::of(name, "must be true or false"))
    }
}

/// Declares how non-negative whole numbers are read.
macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Argument for $number {
            type Read = Self;

            fn schema() -> RefOr<Schema> {
                <Self as PartialSchema>::schema()
            }

            fn parse(name: &str, text: String) -> Result<Self, Violations> {
                let number = digits(&text).and_then(|number| Self::try_from(number).ok());
                number.ok_or_else(|| Violations::of(name, "must be a whole number, 0 or more"))
            }
        })+
    };
}

numbers!(u32, u64);

/// `start_date`: a time, or the start of a day.
pub(crate) struct StartDate;

/// `end_date`: a time or the end of a day, exclusive.
pub(crate) struct EndDate;

/// Declares how limits of a period are read.
macro_rules! dates {
    ($($date:ty: $parse:expr;)+) => {
        $(impl Argument for $date {
            type Read = Timestamp;

            fn schema() -> RefOr<Schema> {
                DateOrTime::inline()
            }

            fn parse(name: &str, text: String) -> Result<Timestamp, Violations> {
                // `+` means a space in a query, and clients rarely escape the `+` of an offset.
                checked(name, $parse(&text.replace(' ', "+")))
            }
        })+
    };
}

dates! {
    StartDate: Timestamp::parse_date_or_time;
    EndDate: Timestamp::parse_end;
}

/// A number that consists of digits only, reduced to the largest integer that every JSON parser represents exactly.
pub(crate) fn digits(text: &str) -> Option<u64> {
    const LARGEST: u64 = (1 << 53) - 1;
    let only_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| text.parse().unwrap_or(LARGEST).min(LARGEST))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    query_parameters! {
        /// A parameter of each kind.
        struct Everything {
            /// Page.
            page: PageParameters;
            /// Start.
            start_date: Option<StartDate>;
            /// End.
            end_date: Option<EndDate>;
            /// A number.
            index: Option<u32>;
            /// A flag.
            force: Option<bool>;
        }
    }

    query_parameters! {
        /// A required parameter.
        struct Search {
            /// Text.
            q: String, example "minutes";
        }
    }

    fn read<P: Parameter>(text: &str) -> (Option<P::Read>, Vec<String>) {
        let mut arguments = Arguments::parse(text);
        let read = P::take(&mut arguments, "");
        (read, arguments.violations.all().iter().map(|violation| violation.field.clone()).collect())
    }

    fn refused(text: &str) -> Vec<String> {
        read::<Everything>(text).1
    }

    #[test]
    fn what_is_no_number_and_no_date_is_refused() {
        for text in ["limit=0", "limit=-1", "limit=ten", "limit=", "limit=1.5", "limit=%2B5", "limit=0x10"] {
            assert_eq!(refused(text), ["limit"], "{text}");
        }
        let query = "force=yes&offset=-1&limit=x&start_date=soon&end_date=2026-11-20T&index=4294967296";
        assert_eq!(refused(query), ["limit", "offset", "start_date", "end_date", "index", "force"]);
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
            let (page, refused) = read::<PageParameters>(text);
            let page = page.unwrap();
            assert_eq!((page.limit(), page.offset(), refused.len()), (limit, offset, 0), "{text}");
        }
    }

    #[test]
    fn the_plus_of_an_offset_may_come_unescaped() {
        for offset in ["+02:00", "%2B02:00"] {
            let text = format!("start_date=2026-11-20T12:00:00{offset}&end_date=2026-11-20T13:00:00{offset}");
            let query = read::<Everything>(&text).0.unwrap();
            let shown = [query.start_date, query.end_date].map(|time| time.map(|time| time.to_string()));
            assert_eq!(shown, ["10", "11"].map(|hour| Some(format!("2026-11-20T{hour}:00:00.000Z"))));
        }
    }

    #[test]
    fn parameters_have_their_types_after_reading() {
        let all = read::<Everything>("index=7&force=true&limit=5&unknown=x").0.unwrap();
        assert_eq!((all.index, all.force, all.page.limit()), (Some(7), Some(true), 5));
        assert!(all.start_date.is_none() && all.end_date.is_none());
    }

    #[test]
    fn a_required_parameter_may_be_empty_but_not_absent() {
        assert_eq!(read::<Search>("q=").0.unwrap().q, "");
        assert_eq!(read::<Search>("p=1").1, ["q"]);
    }

    #[test]
    fn the_parameters_of_the_document_are_read() {
        for parameter in Everything::into_params(|| None) {
            assert_eq!(refused(&format!("{}=-", parameter.name)), [parameter.name]);
        }
        let [search] = &Search::into_params(|| None)[..] else { panic!("one parameter") };
        assert!(search.required == Required::True);
    }

    proptest! {
        #[test]
        fn any_query_is_read_or_refused(text in "[ -~]{0,80}|(limit|offset|start_date|end_date|index)=[0-9a-z+%-]{0,30}") {
            let (read, refused) = read::<Everything>(&text);
            prop_assert!(read.is_some() || !refused.is_empty());
        }
    }
}
