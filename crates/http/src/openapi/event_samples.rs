//! An example of each event type that the server logs.
//!
//! The examples are files in `samples/events/`. `docs/events.md` shows the same ones, and a test compares them with real
//! events.

use serde_json::{Value, json};
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::{OpenApi, RefOr, Schema};

use super::shapes::operations;

macro_rules! samples {
    ($($event_type:literal),+ $(,)?) => {
        [$(($event_type, include_str!(concat!("../../samples/events/", $event_type, ".json")))),+]
    };
}

const SAMPLES: [(&str, &str); 29] = samples![
    "message.accepted",
    "message.delivered",
    "message.deferred",
    "message.bounced",
    "message.failed",
    "message.notice",
    "message.received",
    "message.rejected",
    "domain.created",
    "domain.updated",
    "domain.approved",
    "domain.verified",
    "domain.unverified",
    "domain.dkim_key_changed",
    "domain.deleted",
    "user.created",
    "user.updated",
    "user.deleted",
    "user.app_password_created",
    "user.app_password_revoked",
    "alias.created",
    "alias.updated",
    "alias.deleted",
    "token.created",
    "token.updated",
    "token.revoked",
    "login.locked",
    "webhook.disabled",
    "delivery.gap",
];
/// The example of an event where there is one only.
const USUAL: usize = 1;

/// Adds the examples: all of them to the operation that returns one event, and one to the schema.
pub(super) fn add(document: &mut OpenApi) {
    let sample = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        if operation.operation_id.as_deref() != Some("get_event") {
            continue;
        }
        let Some(RefOr::T(found)) = operation.responses.responses.get_mut("200") else { continue };
        let Some(RefOr::T(content)) = found.content.get_mut("application/json") else { continue };
        for (event_type, text) in SAMPLES {
            let value = json!({ "success": true, "event": sample(text) });
            let example = ExampleBuilder::new().value(Some(value)).build();
            content.examples.insert(event_type.to_owned(), RefOr::T(example));
        }
    }
    let schemas = document.components.as_mut().map(|components| &mut components.schemas);
    if let Some(RefOr::T(Schema::Object(event))) = schemas.and_then(|schemas| schemas.get_mut("Event")) {
        event.example = Some(sample(SAMPLES[USUAL].1));
    }
}
