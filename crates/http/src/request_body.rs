//! Request bodies. Each is declared once, with [`request_body!`]: the OpenAPI document describes its members, and the
//! reader takes the same members.
//!
//! Members are checked one by one, so that one response reports all errors. Unknown members are ignored.

use std::marker::PhantomData;

use mailapi_model::{Blob, Secret, Violations, shown_name};
use serde_json::{Map, Value};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::long_strings::LongStrings;
use crate::shape::{Base64, HeaderText};

/// Schemas that others refer to, by their names.
pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// A kind of value in a request body.
pub(crate) trait Kind {
    /// The value after reading.
    type Read;

    /// The schema. Adds the schemas that it refers to.
    fn schema(schemas: &mut Schemas) -> RefOr<Schema>;

    /// Reads a value. Adds a violation and returns `None` if the value is invalid.
    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<Self::Read>;
}

/// A kind of string, in request bodies and in queries.
pub(crate) trait Text {
    /// The value after reading.
    type Read;

    /// The schema of the string itself.
    fn inline() -> RefOr<Schema>;

    /// The schema, or a reference to it.
    fn schema(_: &mut Schemas) -> RefOr<Schema> {
        Self::inline()
    }

    /// Parses the value of `field`.
    fn parse(field: &str, text: String) -> Result<Self::Read, Violations>;
}

impl<T: Text> Kind for T {
    type Read = T::Read;

    fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
        <T as Text>::schema(schemas)
    }

    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<T::Read> {
        let text = place.text(value, violations)?;
        violations.merge(T::parse(&place.field, place.whole(text)))
    }
}

/// A member of an object: a required value of a [`Kind`], or an `Option` or a [`Change`] of it.
pub(crate) trait Member {
    /// The value after reading.
    type Read;
    /// The member must be present and not `null`.
    const REQUIRED: bool;

    /// The schema. Adds the schemas that it refers to.
    fn schema(schemas: &mut Schemas) -> RefOr<Schema>;

    /// Reads a member that may be absent. Adds a violation and returns `None` if it is invalid.
    fn read(value: Option<Value>, place: &Place<'_>, violations: &mut Violations) -> Option<Self::Read>;
}

impl<K: Kind> Member for K {
    type Read = K::Read;
    const REQUIRED: bool = true;

    fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
        K::schema(schemas)
    }

    fn read(value: Option<Value>, place: &Place<'_>, violations: &mut Violations) -> Option<K::Read> {
        match value {
            None | Some(Value::Null) => {
                violations.add(&place.field, "is required");
                None
            }
            Some(value) => K::read(value, place, violations),
        }
    }
}

/// `null` counts as absent.
impl<K: Kind> Member for Option<K> {
    type Read = Option<K::Read>;
    const REQUIRED: bool = false;

    fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
        nullable(K::schema(schemas))
    }

    fn read(value: Option<Value>, place: &Place<'_>, violations: &mut Violations) -> Option<Self::Read> {
        match value {
            None | Some(Value::Null) => Some(None),
            Some(value) => K::read(value, place, violations).map(Some),
        }
    }
}

/// Change of an optional value: `None` if the member is absent (unchanged), `Some(None)` for `null` (cleared).
pub(crate) struct Change<K>(PhantomData<K>);

impl<K: Kind> Member for Change<K> {
    type Read = Option<Option<K::Read>>;
    const REQUIRED: bool = false;

    fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
        nullable(K::schema(schemas))
    }

    fn read(value: Option<Value>, place: &Place<'_>, violations: &mut Violations) -> Option<Self::Read> {
        let is_absent = value.is_none();
        let read = <Option<K> as Member>::read(value, place, violations)?;
        Some(if is_absent { None } else { Some(read) })
    }
}

/// The place of a value in a body.
pub(crate) struct Place<'a> {
    /// The field in error responses, such as `attachments[0].filename`.
    field: String,
    /// Long strings whose placeholders are in the values, if any.
    long: Option<&'a LongStrings>,
}

impl<'a> Place<'a> {
    /// The whole body.
    pub(crate) fn root(long: Option<&'a LongStrings>) -> Self {
        Self { field: String::new(), long }
    }

    fn member(&self, name: &str) -> Self {
        let field = if self.field.is_empty() { name.to_owned() } else { format!("{}.{name}", self.field) };
        Self { field, ..*self }
    }

    fn item(&self, number: usize) -> Self {
        Self { field: format!("{}[{number}]", self.field), ..*self }
    }

    /// The original string of a value that may be a placeholder.
    fn whole(&self, text: String) -> String {
        match self.long {
            Some(long) => long.read(text),
            None => text,
        }
    }

    /// A string, which may be a placeholder.
    fn text(&self, value: Value, violations: &mut Violations) -> Option<String> {
        match value {
            Value::String(text) => Some(text),
            _ => self.wrong(violations, "must be a string"),
        }
    }

    fn object(&self, value: Value, violations: &mut Violations) -> Option<Map<String, Value>> {
        match value {
            Value::Object(map) => Some(map),
            _ => self.wrong(violations, "must be an object"),
        }
    }

    fn wrong<T>(&self, violations: &mut Violations, expected: &str) -> Option<T> {
        violations.add(&self.field, expected);
        None
    }
}

/// The members of an object that have not been taken yet.
pub(crate) struct Members<'a> {
    map: Map<String, Value>,
    place: &'a Place<'a>,
}

impl<'a> Members<'a> {
    pub(crate) fn of(value: Value, place: &'a Place<'a>, violations: &mut Violations) -> Option<Self> {
        Some(Self { map: place.object(value, violations)?, place })
    }

    pub(crate) fn take<M: Member>(&mut self, name: &str, violations: &mut Violations) -> Option<M::Read> {
        M::read(self.map.remove(name), &self.place.member(name), violations)
    }
}

/// Declares the body of a request, or an object in it: a struct of the values that were read, with the schema of the
/// document. Each type is a [`Member`]; the fields have the types of their values after reading.
macro_rules! request_body {
    (
        $(#[doc = $doc:literal])+
        $visibility:vis struct $type:ident as $name:literal {
            $($(#[doc = $about:literal])+ $member:ident: $kind:ty,)+
        }
        $(example $example:tt)?
    ) => {
        $(#[doc = $doc])+
        $visibility struct $type {
            $($(#[doc = $about])+ $member: <$kind as $crate::request_body::Member>::Read,)+
        }

        impl $type {
            fn describe(schemas: &mut $crate::request_body::Schemas) -> utoipa::openapi::schema::ObjectBuilder {
                let object = $crate::request_body::object(concat!($($doc),+));
                $(let object = $crate::request_body::exemplify(object, serde_json::json!($example));)?
                $(
                    let about = concat!($($about),+);
                    let object = $crate::request_body::member::<$kind>(object, $crate::request_body::named(stringify!($member)), about, schemas);
                )+
                object
            }
        }

        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                Self::describe(&mut Vec::new()).into()
            }
        }

        impl utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn schemas(schemas: &mut $crate::request_body::Schemas) {
                Self::describe(schemas);
            }
        }

        impl $crate::request_body::Kind for $type {
            type Read = Self;

            fn schema(
                schemas: &mut $crate::request_body::Schemas,
            ) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::request_body::reference::<Self>(schemas)
            }

            fn read(
                value: serde_json::Value,
                place: &$crate::request_body::Place<'_>,
                violations: &mut mailapi_model::Violations,
            ) -> Option<Self> {
                let mut members = $crate::request_body::Members::of(value, place, violations)?;
                $(let $member = members.take::<$kind>($crate::request_body::named(stringify!($member)), violations);)+
                Some(Self { $($member: $member?),+ })
            }
        }
    };
}

pub(crate) use request_body;

/// The name of a member whose field may be a keyword, such as `r#type`.
pub(crate) fn named(field: &str) -> &str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// An object without members.
pub(crate) fn object(about: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Object).description(Some(about.trim()))
}

#[expect(deprecated, reason = "derived schemas have an `example` too, and generators read it")]
pub(crate) fn exemplify(object: ObjectBuilder, example: Value) -> ObjectBuilder {
    object.example(Some(example))
}

/// Adds a member with its own description.
pub(crate) fn member<M: Member>(
    object: ObjectBuilder,
    name: &str,
    about: &str,
    schemas: &mut Schemas,
) -> ObjectBuilder {
    let about = about.trim().to_owned();
    let mut schema = M::schema(schemas);
    match &mut schema {
        RefOr::Ref(reference) => reference.description = about,
        RefOr::T(Schema::Object(object)) => object.description = Some(about),
        RefOr::T(Schema::Array(array)) => array.description = Some(about),
        RefOr::T(Schema::OneOf(choice)) => choice.description = Some(about),
        RefOr::T(_) => {}
    }
    let object = object.property(name, schema);
    if M::REQUIRED { object.required(name) } else { object }
}

/// A reference to a schema, which is added to `schemas` with those that it refers to.
pub(crate) fn reference<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
    Ref::from_schema_name(T::name()).into()
}

fn nullable(schema: RefOr<Schema>) -> RefOr<Schema> {
    match schema {
        RefOr::T(Schema::Array(mut array)) => {
            array.schema_type = SchemaType::from_iter([Type::Array, Type::Null]);
            RefOr::T(Schema::Array(array))
        }
        // The document gets its plain form when it is complete.
        schema => OneOfBuilder::new().item(ObjectBuilder::new().schema_type(Type::Null)).item(schema).into(),
    }
}

impl Kind for bool {
    type Read = Self;

    fn schema(_: &mut Schemas) -> RefOr<Schema> {
        <Self as PartialSchema>::schema()
    }

    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<Self> {
        value.as_bool().or_else(|| place.wrong(violations, "must be true or false"))
    }
}

/// A number that every JSON parser represents exactly (RFC 8259 section 6).
impl Kind for u64 {
    type Read = Self;

    fn schema(_: &mut Schemas) -> RefOr<Schema> {
        number_schema(LARGEST)
    }

    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<Self> {
        read_number(&value, LARGEST, place, violations)
    }
}

const LARGEST: u64 = (1 << 53) - 1;

impl Kind for u32 {
    type Read = Self;

    fn schema(_: &mut Schemas) -> RefOr<Schema> {
        number_schema(Self::MAX.into())
    }

    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<Self> {
        read_number(&value, Self::MAX.into(), place, violations)?.try_into().ok()
    }
}

/// The format is that of 64 bits for every maximum: generated clients read `int32` as a number with a sign.
fn number_schema(most: u64) -> RefOr<Schema> {
    let mut schema = <u64 as PartialSchema>::schema();
    if let RefOr::T(Schema::Object(number)) = &mut schema {
        number.maximum = Some(most.into());
    }
    schema
}

fn read_number(value: &Value, most: u64, place: &Place<'_>, violations: &mut Violations) -> Option<u64> {
    let number = whole(value).filter(|number| *number <= most);
    number.or_else(|| place.wrong(violations, &format!("must be a whole number, 0 to {most}")))
}

/// A whole number, including `287.0`, because some JSON writers only have floating-point numbers.
fn whole(value: &Value) -> Option<u64> {
    let digits = |number: f64| (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok()).flatten();
    value.as_u64().or_else(|| value.as_f64().and_then(digits))
}

impl<K: Kind> Kind for Vec<K> {
    type Read = Vec<K::Read>;

    fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
        ArrayBuilder::new().items(K::schema(schemas)).into()
    }

    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<Self::Read> {
        let Value::Array(items) = value else { return place.wrong(violations, "must be an array") };
        let count = items.len();
        let items = items.into_iter().enumerate();
        let read: Vec<_> = items.filter_map(|(at, item)| K::read(item, &place.item(at), violations)).collect();
        (read.len() == count).then_some(read)
    }
}

/// An array that the operation rejects if it is empty.
pub(crate) struct AtLeastOne<K>(PhantomData<K>);

impl<K: Kind> Kind for AtLeastOne<K> {
    type Read = Vec<K::Read>;

    fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
        ArrayBuilder::new().items(K::schema(schemas)).min_items(Some(1)).into()
    }

    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<Self::Read> {
        <Vec<K> as Kind>::read(value, place, violations)
    }
}

/// Additional headers by their names.
pub(crate) struct CustomHeaders;

impl Kind for CustomHeaders {
    type Read = Vec<(String, String)>;

    fn schema(_: &mut Schemas) -> RefOr<Schema> {
        // A field name of RFC 5322 section 2.2.
        const NAME: &str = r"^[!-9;-~]{1,76}$";
        let name = ObjectBuilder::new().schema_type(Type::String).pattern(Some(NAME));
        ObjectBuilder::new().property_names(Some(name.build())).additional_properties(Some(HeaderText::inline())).into()
    }

    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<Self::Read> {
        let map = place.object(value, violations)?;
        let count = map.len();
        let read = |(name, value)| {
            let name = place.whole(name);
            let place = place.member(&shown_name(&name));
            Some((name, place.whole(place.text(value, violations)?)))
        };
        let pairs: Vec<_> = map.into_iter().filter_map(read).collect();
        (pairs.len() == count).then_some(pairs)
    }
}

/// The fields of an account at a hosted provider. Values are secrets.
pub(crate) struct CredentialFields;

impl Kind for CredentialFields {
    type Read = Vec<(String, Secret<String>)>;

    fn schema(_: &mut Schemas) -> RefOr<Schema> {
        let name = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[a-z0-9_]{1,40}$"));
        let value = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(4096));
        ObjectBuilder::new().property_names(Some(name.build())).additional_properties(Some(value)).into()
    }

    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<Self::Read> {
        let pairs = <CustomHeaders as Kind>::read(value, place, violations)?;
        Some(pairs.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
    }
}

/// A string that may be long. It is not read into memory if it is.
pub(crate) enum LongText {
    /// A short string.
    Here(String),
    /// A string in a file.
    Aside(Blob),
}

impl Kind for Base64 {
    type Read = LongText;

    fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
        reference::<Self>(schemas)
    }

    fn read(value: Value, place: &Place<'_>, violations: &mut Violations) -> Option<LongText> {
        let text = place.text(value, violations)?;
        let aside = place.long.and_then(|long| long.get(&text));
        Some(aside.map_or(LongText::Here(text), LongText::Aside))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::shape::DateOrTime;

    request_body! {
        /// A file.
        struct File as "File" {
            /// Its name.
            name: String,
        }
    }

    request_body! {
        /// A member of each kind.
        struct Body as "Body" {
            /// Required.
            from: String,
            /// Required, with items.
            to: Vec<String>,
            /// Items of a reference.
            files: Option<Vec<File>>,
            /// A reference.
            file: Option<File>,
            /// Free names.
            headers: Option<CustomHeaders>,
            /// A number.
            size: Change<u64>,
            /// A flag.
            active: Option<bool>,
            /// A time.
            until: Change<DateOrTime>,
        }
    }

    fn read<K: Kind>(value: Value) -> (Option<K::Read>, Vec<String>) {
        let mut found = Violations::none();
        let read = K::read(value, &Place::root(None), &mut found);
        (read, found.all().iter().map(|violation| violation.field.clone()).collect())
    }

    #[test]
    fn every_member_of_a_wrong_type_is_named_by_its_path() {
        let (read, named) = read::<Body>(json!({
            "to": ["a", 2, null], "files": [{ "name": true }, 3], "file": {}, "headers": { "X-A": 1 }, "size": -1,
            "active": "true", "until": "soon", "from": null,
        }));
        let expected = [
            "from",
            "to[1]",
            "to[2]",
            "files[0].name",
            "files[1]",
            "file.name",
            "headers.X-A",
            "size",
            "active",
            "until",
        ];
        assert_eq!((read.is_none(), named), (true, expected.map(str::to_owned).to_vec()));
        let (_, named) = self::read::<Body>(json!({ "to": "ann@example.org", "files": {}, "file": [], "headers": 1 }));
        assert_eq!(named, ["from", "to", "files", "file", "headers"]);
    }

    #[test]
    fn a_long_name_is_truncated_in_the_field() {
        let (_, named) = read::<CustomHeaders>(json!({ "\u{1}".repeat(100_000): 1 }));
        assert_eq!(named, [format!("{}…", "\\u{1}".repeat(76))]);
    }

    #[test]
    fn items_and_references_are_read_in_order() {
        let body = json!({ "from": "a", "to": ["b", "c"], "files": [{ "name": "d" }, { "name": "e" }] });
        let body = read::<Body>(body).0.unwrap();
        let names: Vec<_> = body.files.unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!((body.to.join(","), names.join(",")), ("b,c".to_owned(), "d,e".to_owned()));
    }

    #[test]
    fn absent_and_null_are_the_same_for_an_optional_member() {
        let absent = read::<Body>(json!({ "from": "a", "to": [], "unknown": [1] })).0.unwrap();
        assert_eq!((absent.from.as_str(), absent.to.len()), ("a", 0));
        let null = json!({ "from": "a", "to": [], "files": null, "file": null, "headers": null, "active": null });
        let null = read::<Body>(null).0.unwrap();
        for body in [absent, null] {
            assert!(body.files.is_none() && body.file.is_none() && body.headers.is_none() && body.active.is_none());
            assert!(body.size.is_none() && body.until.is_none());
        }
    }

    #[test]
    fn null_clears_a_member_and_absence_keeps_it() {
        let size = |value: Value| {
            let body = read::<Body>(json!({ "from": "a", "to": [], "size": value, "until": null }));
            body.0.map(|body| (body.size, body.until))
        };
        assert_eq!(size(json!(null)), Some((Some(None), Some(None))));
        assert_eq!(size(json!(7)), Some((Some(Some(7)), Some(None))));
        assert_eq!(size(json!("x")), None);
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_nothing() {
        for (value, expected) in [
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
            let (number, named) = read::<u64>(value.clone());
            assert_eq!((number, named.is_empty()), (expected, expected.is_some()), "{value}");
        }
    }

    #[test]
    fn the_schema_has_the_members_that_are_read() {
        let schema = serde_json::to_value(<Body as PartialSchema>::schema()).unwrap();
        let names: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["active", "file", "files", "from", "headers", "size", "to", "until"]);
        assert_eq!(schema["required"], json!(["from", "to"]));
        let mut schemas = Schemas::new();
        Body::schemas(&mut schemas);
        assert!(schemas.iter().any(|(name, _)| name == "File"));
    }

    proptest! {
        #[test]
        fn any_value_is_read_or_has_a_violation(text in "\\{(\"(from|to|files|file|headers|size)\":(1|null|true|\"x\"|\\[[0-9]?\\]|\\{\\}),?){0,4}\\}|[ -~]{0,40}") {
            if let Ok(value) = serde_json::from_str(&text) {
                let (body, named) = read::<Body>(value);
                prop_assert_eq!(body.is_none(), !named.is_empty());
            }
        }
    }
}
