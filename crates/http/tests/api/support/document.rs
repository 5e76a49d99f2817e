//! Validates responses against the OpenAPI document.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use axum::http::Method;
use jsonschema::Validator;
use serde_json::Value;

use super::Answer;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&mailapi_http::openapi_json()).unwrap());

/// Returns the document's operation for a request, if it has one.
fn operation(method: &Method, path: &str) -> Option<&'static Value> {
    let segments: Vec<&str> = path.split('/').collect();
    let fits = |pattern: &str| {
        let pattern: Vec<&str> = pattern.split('/').collect();
        let equal = |(wanted, given): (&&str, &&str)| wanted.starts_with('{') || wanted == given;
        pattern.len() == segments.len() && pattern.iter().zip(&segments).all(equal)
    };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    // A path without parameters has precedence over one with them, as in the router.
    let mut found: Vec<_> = paths.iter().filter(|(pattern, _)| fits(pattern)).collect();
    found.sort_by_key(|(pattern, _)| pattern.matches('{').count());
    found.first()?.1.get(method.as_str().to_lowercase())
}

/// Compiled schemas of the document's JSON responses, by their position in it.
static SCHEMAS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Returns the response of `operation` with this status; errors that operations share are components.
pub(crate) fn response<'a>(document: &'a Value, operation: &'a Value, status: &str) -> &'a Value {
    let response = &operation["responses"][status];
    response["$ref"].as_str().map_or(response, |reference| document.pointer(&reference[1..]).expect(reference))
}

/// Returns the schema of a response of `operation` with this status.
fn schema(operation: &Value, status: &str) -> Arc<Validator> {
    let name = format!("{} {status}", operation["operationId"]);
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    let made = schemas.entry(name).or_insert_with(|| {
        let mut schema = response(&DOCUMENT, operation, status)["content"]["application/json"]["schema"].clone();
        // References in the document point to its components.
        schema["components"] = DOCUMENT["components"].clone();
        Arc::new(jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema"))
    });
    Arc::clone(made)
}

/// Checks that the response has a documented status and media type and matches the schema, and that an error's code
/// is documented.
pub(super) fn check(method: &Method, path: &str, answer: &Answer) {
    let Some(operation) = operation(method, path) else { return };
    let status = answer.status.as_str();
    let response = response(&DOCUMENT, operation, status);
    assert!(response.is_object(), "{method} {path}: {status} is not documented");
    let media_type = answer.header("content-type").split(';').next().unwrap_or_default();
    let content = response["content"].as_object().expect("documented content");
    let is_download = content.contains_key("*/*");
    assert!(is_download || content.contains_key(media_type), "{method} {path}: {media_type} is not documented");
    if media_type == "application/json" && !is_download && *method != Method::HEAD {
        let body = answer.json();
        let errors: Vec<_> = schema(operation, status).iter_errors(&body).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{method} {path} {status}: {errors:?} in {body}");
    }
    if !answer.status.is_success() && answer.header("content-type") == "application/json" {
        let code = answer.json()["error"].as_str().expect("a code").to_owned();
        let description = response["description"].as_str().unwrap();
        let named = description.contains(&format!("`{code}`")) || !description.contains('`');
        assert!(named, "{method} {path}: {code} is not documented");
    }
}
