//! Pieces of JSON that several operations share.

use mailapi_model::Timestamp;
use serde::{Serialize, Serializer};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

/// A moment: UTC with milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl From<Timestamp> for Moment {
    fn from(moment: Timestamp) -> Self {
        Self(moment)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("A moment in UTC."))
            .examples(["2026-11-20T10:15:30.123Z"])
            .into()
    }
}

impl ToSchema for Moment {}

/// A moment that a request names, for the document: with any offset, or as a date, which begins in UTC.
pub(crate) struct DateOrTime;

impl PartialSchema for DateOrTime {
    fn schema() -> RefOr<Schema> {
        let text =
            |format| ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(format)));
        OneOfBuilder::new()
            .item(text(KnownFormat::DateTime).description(Some("A moment, with any offset.")))
            .item(text(KnownFormat::Date).description(Some("The beginning of a day in UTC.")))
            .description(Some("A date-time with any offset, or a date."))
            .examples(["2026-11-20T12:15:30+02:00"])
            .into()
    }
}

impl ToSchema for DateOrTime {}

/// A file's octets, for the document.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "describes downloads in the document; they are streamed")]
pub(crate) struct Octets(Vec<u8>);

/// The parameters of every list, for the document.
pub(crate) struct PageParameters;

impl IntoParams for PageParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let parameter = |name: &str, text: &str, schema: ObjectBuilder| {
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Query)
                .required(Required::False)
                .description(Some(text))
                .schema(Some(schema.schema_type(Type::Integer)))
                .build()
        };
        let limit = ObjectBuilder::new().minimum(Some(1)).default(Some(50.into()));
        let offset = ObjectBuilder::new().minimum(Some(0)).default(Some(0.into()));
        vec![
            parameter("limit", "The most items of the answer; more than 200 is as good as 200.", limit),
            parameter("offset", "How many items to leave out at the beginning.", offset),
        ]
    }
}
