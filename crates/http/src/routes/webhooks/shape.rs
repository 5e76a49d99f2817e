//! JSON shapes of webhooks.

use mailapi_model::{ReplayedEvents, Secret, Violations, WebhookDisabled, WebhookSigning};
use mailapi_service::events::{EventCursor, EventType, TypePattern};
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::request_body::{Schemas, Text, reference};
use crate::shape::{CURSOR, checked};

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// Kind of signature.
pub(crate) struct SigningName;

impl PartialSchema for SigningName {
    fn schema() -> RefOr<Schema> {
        let about = "`v1`: HMAC-SHA256 with a secret; `v1a`: Ed25519 with a public key.";
        text().description(Some(about)).enum_values(Some(WebhookSigning::ALL.iter().map(|kind| kind.as_str()))).into()
    }
}

impl ToSchema for SigningName {}

impl Text for SigningName {
    type Read = WebhookSigning;

    fn inline() -> RefOr<Schema> {
        <Self as PartialSchema>::schema()
    }

    fn schema(schemas: &mut Schemas) -> RefOr<Schema> {
        reference::<Self>(schemas)
    }

    fn parse(field: &str, text: String) -> Result<WebhookSigning, Violations> {
        checked(field, text.parse())
    }
}

/// Why a webhook is disabled.
pub(crate) struct DisabledReason;

impl PartialSchema for DisabledReason {
    fn schema() -> RefOr<Schema> {
        let about = "`request`: by a request; `failures`: five days without a success; `gone`: the receiver answered \
                     410; `permission`: the author may no longer read the events.";
        text()
            .description(Some(about))
            .enum_values(Some(WebhookDisabled::ALL.iter().map(|reason| reason.as_str())))
            .into()
    }
}

impl ToSchema for DisabledReason {}

/// Event type such as `message.delivered`, group of types such as `message.*`, or `*`.
pub(crate) struct TypeOrGroup;

impl Text for TypeOrGroup {
    type Read = TypePattern;

    fn inline() -> RefOr<Schema> {
        let mut names: Vec<String> = EventType::ALL.iter().map(ToString::to_string).collect();
        names.extend(EventType::groups().into_iter().map(|group| format!("{group}.*")));
        names.push("*".to_owned());
        text().enum_values(Some(names)).into()
    }

    fn parse(field: &str, text: String) -> Result<TypePattern, Violations> {
        checked(field, text.parse())
    }
}

/// URL of a receiver.
pub(crate) struct ReceiverUrl;

impl Text for ReceiverUrl {
    type Read = String;

    fn inline() -> RefOr<Schema> {
        text().format(Some(SchemaFormat::Custom("uri".to_owned()))).max_length(Some(2048)).into()
    }

    fn parse(_: &str, text: String) -> Result<String, Violations> {
        Ok(text)
    }
}

/// Secret of `v1`: `whsec_` and 24 to 64 bytes in base64.
pub(crate) struct WebhookSecret;

impl Text for WebhookSecret {
    type Read = Secret<String>;

    fn inline() -> RefOr<Schema> {
        // Groups of three bytes, then the forms of one or two more (RFC 4648 section 4). Unused bits are 0.
        const SECRET: &str = concat!(
            "^whsec_([A-Za-z0-9+/]{4}){8,20}",
            "([A-Za-z0-9+/]{4}([A-Za-z0-9+/][AQgw]==)?|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/][AQgw]==)?$"
        );
        text().pattern(Some(SECRET)).into()
    }

    fn parse(_: &str, text: String) -> Result<Secret<String>, Violations> {
        Ok(Secret::new(text))
    }
}

/// Position in the log of events.
pub(crate) struct Cursor;

impl Text for Cursor {
    type Read = EventCursor;

    fn inline() -> RefOr<Schema> {
        text().pattern(Some(format!("^({CURSOR})$"))).into()
    }

    fn parse(field: &str, text: String) -> Result<EventCursor, Violations> {
        checked(field, text.parse())
    }
}

/// Which events a replay sends again.
pub(crate) struct ReplayedName;

impl Text for ReplayedName {
    type Read = ReplayedEvents;

    fn inline() -> RefOr<Schema> {
        text().enum_values(Some(ReplayedEvents::ALL.iter().map(|events| events.as_str()))).into()
    }

    fn parse(field: &str, text: String) -> Result<ReplayedEvents, Violations> {
        checked(field, text.parse())
    }
}
