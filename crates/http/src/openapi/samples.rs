//! Code samples for the main operations, in curl, Python and TypeScript (`x-codeSamples`).
//!
//! The samples are files in `samples/`. `code_samples` among the stories of the binary runs all of them.

use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

use super::shapes::operations;

/// The address of the server in the samples.
const LOCAL: &str = "http://127.0.0.1:8080";

/// The curl, Python and TypeScript sample of each operation.
macro_rules! samples {
    ($($operation:literal),+ $(,)?) => {
        [$((
            $operation,
            include_str!(concat!("../../samples/", $operation, ".sh")),
            include_str!(concat!("../../samples/", $operation, ".py")),
            include_str!(concat!("../../samples/", $operation, ".ts")),
        )),+]
    };
}

const SAMPLES: [(&str, &str, &str, &str); 12] = samples![
    "create_domain",
    "create_user",
    "log_in",
    "create_token",
    "send_message",
    "get_message_status",
    "list_sent_messages",
    "list_messages",
    "get_message",
    "download_attachment",
    "search_messages",
    "get_delivery_stats",
];

/// Adds the samples, with the address of the server if it is known.
pub(super) fn add(document: &mut OpenApi, public_url: Option<&str>) {
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        let named = |(name, ..): &&(&str, &str, &str, &str)| operation.operation_id.as_deref() == Some(*name);
        if let Some((_, curl, python, typescript)) = SAMPLES.iter().find(named) {
            let sample = |lang: &str, label: &str, source: &str| {
                let source = public_url.map_or_else(|| source.to_owned(), |url| source.replace(LOCAL, url));
                json!({ "lang": lang, "label": label, "source": source })
            };
            let samples: Value = json!([
                sample("shell", "curl", curl),
                sample("python", "Python", python),
                sample("typescript", "TypeScript", typescript)
            ]);
            operation.extensions.get_or_insert_default().insert("x-codeSamples".to_owned(), samples);
        }
    }
}
