//! Holds answers against the OpenAPI document.

use std::sync::LazyLock;

use axum::http::Method;
use serde_json::Value;

use super::Answer;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&mailapi_http::openapi_json()).unwrap());

/// The document's operation for a request, when it has one.
fn operation(method: &Method, path: &str) -> Option<&'static Value> {
    let segments: Vec<&str> = path.split('/').collect();
    let fits = |pattern: &str| {
        let pattern: Vec<&str> = pattern.split('/').collect();
        let equal = |(wanted, given): (&&str, &&str)| wanted.starts_with('{') || wanted == given;
        pattern.len() == segments.len() && pattern.iter().zip(&segments).all(equal)
    };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    // A path without parameters goes before one with them, as it does in the router.
    let mut found: Vec<_> = paths.iter().filter(|(pattern, _)| fits(pattern)).collect();
    found.sort_by_key(|(pattern, _)| pattern.matches('{').count());
    found.first()?.1.get(method.as_str().to_lowercase())
}

/// Every status, and every error code of it, is documented.
pub(super) fn check(method: &Method, path: &str, answer: &Answer) {
    let Some(operation) = operation(method, path) else { return };
    let status = answer.status.as_str();
    let response = &operation["responses"][status];
    assert!(response.is_object(), "{method} {path}: {status} is not documented");
    if !answer.status.is_success() && answer.header("content-type") == "application/json" {
        let code = answer.json()["error"].as_str().expect("a code").to_owned();
        let description = response["description"].as_str().unwrap();
        let named = description.contains(&format!("`{code}`")) || !description.contains('`');
        assert!(named, "{method} {path}: {code} is not documented");
    }
}
