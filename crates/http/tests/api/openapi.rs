//! The document, and that it is the truth.

use std::path::Path;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::Value;

use crate::support::App;
use crate::support::document::response;

const LOGIN: &str = "/api/v1/auth/login";

/// What of the contract needs no token.
const PUBLIC: [&str; 2] = [LOGIN, "/api/v1/auth/signup"];

fn document() -> Value {
    serde_json::from_str(&mailapi_http::openapi_json()).unwrap()
}

/// Path, method, operation.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of_path = |(path, item): (&String, &Value)| {
        let operations = item.as_object().unwrap().clone();
        let path = path.clone();
        operations.into_iter().map(move |(method, operation)| (path.clone(), method, operation)).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of_path).collect()
}

#[test]
fn the_kept_copy_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let fresh = mailapi_http::openapi_json();
    if !path.exists() {
        std::fs::write(&path, &fresh).unwrap();
        panic!("docs/openapi.json is new: read it, and run the test again");
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept == fresh, "docs/openapi.json is stale: remove it, run the test, and look at what changed");
}

#[test]
fn every_operation_is_documented_in_full() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let operations = operations(&document);
    let contract = operations.iter().filter(|(path, ..)| path.starts_with("/api/v1")).count();
    assert_eq!(contract, 55 + 2, "the contract's operations, the raw download and the own password");
    let mut names = std::collections::HashSet::new();
    for (path, method, operation) in &operations {
        let at = format!("{method} {path}");
        for member in ["summary", "description", "operationId"] {
            assert!(operation[member].as_str().is_some_and(|text| !text.is_empty()), "{at}: {member}");
        }
        assert!(names.insert(operation["operationId"].as_str().unwrap()), "{at}: its name is used twice");
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        for parameter in &parameters {
            assert!(parameter["description"].is_string() && parameter["schema"].is_object(), "{at}: {parameter}");
        }
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
        assert_eq!(in_path, path.matches('{').count(), "{at}: path parameters");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{at}: success");
        for status in responses.keys() {
            let response = response(&document, operation, status);
            assert!(response["content"].is_object() && response["description"].is_string(), "{at}: {status}");
        }
        let is_public = operation["security"].is_array();
        assert_eq!(is_public, !path.starts_with("/api/v1") || PUBLIC.contains(&path.as_str()), "{at}: security");
        assert_eq!(responses.contains_key("401"), !is_public || path == LOGIN, "{at}: 401");
        assert_eq!(responses.contains_key("415"), operation["requestBody"].is_object(), "{at}: 415");
    }
}

/// Calls `look` with every object in the document and where it is.
fn each_object(value: &Value, at: &str, look: &mut dyn FnMut(&str, &serde_json::Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            look(at, members);
            members.iter().for_each(|(name, value)| each_object(value, &format!("{at}/{name}"), look));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, value)| each_object(value, &format!("{at}/{place}"), look));
        }
        _ => {}
    }
}

/// Generators stop at a bare `null`, and need a name for each alternative.
#[test]
fn every_type_has_a_form_that_generators_read() {
    let mut wrong = Vec::new();
    each_object(&document()["components"]["schemas"], "", &mut |at, schema| {
        if schema.get("type") == Some(&"null".into()) {
            wrong.push(format!("{at}: only null"));
        }
        for choice in ["oneOf", "anyOf"] {
            let Some(Value::Array(kinds)) = schema.get(choice) else { continue };
            if kinds.iter().any(|kind| kind["title"].is_null() && kind["$ref"].is_null()) {
                wrong.push(format!("{at}: an alternative without a title"));
            }
        }
        let members = schema.get("properties").and_then(Value::as_object);
        let is_free = |success: &Value| success["enum"].is_null() && at != "/Health";
        if members.and_then(|members| members.get("success")).is_some_and(is_free) {
            wrong.push(format!("{at}: success without its value"));
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_example_of_a_broken_rule_names_a_member_of_the_request() {
    let document = document();
    for (path, method, operation) in operations(&document) {
        let example = &operation["responses"]["422"]["content"]["application/json"]["examples"]["VALIDATION_ERROR"];
        let Some(field) = example["value"]["details"][0]["field"].as_str() else { continue };
        // An empty name stands for the whole body.
        let mut named = field.is_empty();
        each_object(&operation, "", &mut |_, members| named |= members.get("name") == Some(&field.into()));
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let body = body["$ref"].as_str().map_or(body, |reference| document.pointer(&reference[1..]).unwrap());
        each_object(body, "", &mut |_, members| {
            named |= members.get("properties").is_some_and(|properties| properties[field].is_object());
        });
        assert!(named, "{method} {path}: {field}");
    }
}

/// Every `$ref` leads somewhere.
#[test]
fn no_reference_is_broken() {
    fn follow(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                members.values().for_each(|value| follow(value, document));
            }
            Value::Array(items) => items.iter().for_each(|value| follow(value, document)),
            _ => {}
        }
    }
    let document = document();
    follow(&document, &document);
}

#[test]
fn schemas_and_their_members_are_described() {
    let document = document();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name}: description");
        let Some(members) = schema["properties"].as_object() else { continue };
        for (member, described) in members {
            let is_described = |schema: &Value| schema["description"].is_string() || schema["$ref"].is_string();
            assert!(is_described(described), "{name}.{member}");
        }
    }
}

/// Whether the schema has an example, or consists of ones that have.
fn has_example(schema: &Value, document: &Value) -> bool {
    if let Some(reference) = schema["$ref"].as_str() {
        return document.pointer(&reference[1..]).is_some_and(|schema| has_example(schema, document));
    }
    let members = schema["properties"].as_object().into_iter().flat_map(|members| members.values());
    let mut inner = members.chain(schema["items"].as_object().map(|_| &schema["items"]));
    schema["example"].is_object()
        || schema["examples"].is_array()
        || inner.any(|inner| has_example(inner, document))
        || schema["oneOf"].as_array().is_some_and(|kinds| kinds.iter().any(|inner| has_example(inner, document)))
        || schema["allOf"].as_array().is_some_and(|all| all.iter().any(|inner| has_example(inner, document)))
}

#[test]
fn every_body_has_an_example() {
    let document = document();
    for (path, method, operation) in operations(&document) {
        let statuses = operation["responses"].as_object().unwrap().keys();
        let responses = statuses.map(|status| response(&document, &operation, status));
        for body in responses.chain(operation["requestBody"].as_object().map(|_| &operation["requestBody"])) {
            let content = &body["content"]["application/json"];
            let own = content["examples"].is_object() || content["example"].is_object();
            let is_free = content.is_null() || path == "/openapi.json";
            assert!(is_free || own || has_example(&content["schema"], &document), "{method} {path}: {content}");
        }
    }
}

#[tokio::test]
async fn the_routes_are_those_of_the_document() {
    let app = App::with(|_, http| http.limits.per_minute = 0).await;
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    for (path, item) in paths {
        let sample: String =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect::<Vec<_>>().join("/");
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let request = Request::builder().method(method.clone()).uri(&sample).body(Body::empty()).unwrap();
            let answer = app.send(request).await;
            let is_there = !matches!(answer.status.as_u16(), 404 | 405);
            let is_documented = item.get(method.as_str().to_lowercase()).is_some();
            assert_eq!(is_there, is_documented, "{method} {path}");
        }
    }
}
