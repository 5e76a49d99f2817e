//! Response headers, and error responses that operations share.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::schema::{Components, ObjectBuilder, Type};
use utoipa::openapi::{Content, Header, HeaderBuilder, OpenApi, Ref, RefOr, Response, Schema};

use super::shapes::operations;

const HEADERS: &str = "#/components/headers/";

/// Name, description, and whether the value is a number.
const DECLARED: [(&str, &str, bool); 6] = [
    ("X-Request-Id", "Request identifier, also in the server log.", false),
    ("RateLimit-Limit", "Request limit of the window that is closest to its limit.", true),
    ("RateLimit-Remaining", "Requests left in that window.", true),
    ("RateLimit-Reset", "Seconds until that window ends.", true),
    ("Retry-After", "Seconds to wait before the next request.", true),
    ("WWW-Authenticate", "Challenge (RFC 9110 section 11.6.1).", false),
];

const RATE_LIMIT: [&str; 3] = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];

/// Declares headers, adds an example of the operation's own to validation errors, and moves all other errors to the
/// components.
pub(super) fn complete(document: &mut OpenApi) {
    let mut components = document.components.take().unwrap_or_default();
    components.headers = DECLARED.map(|(name, text, is_number)| (name.to_owned(), declared(text, is_number))).into();
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        // An operation without its own security requirement needs a token.
        let needs_token = operation.security.is_none();
        let wrong = validation_example(operation, &components);
        for (status, response) in &mut operation.responses.responses {
            let RefOr::T(answer) = response else { continue };
            add_headers(answer, status, needs_token);
            if let Some(codes) = codes(answer) {
                if status == "422" {
                    exemplify(answer, wrong.clone());
                } else {
                    let name = name(&codes, needs_token);
                    components.responses.insert(name.clone(), RefOr::T(answer.clone()));
                    *response = RefOr::Ref(Ref::from_response_name(name));
                }
            }
        }
    }
    document.components = Some(components);
}

fn declared(text: &str, is_number: bool) -> RefOr<Header> {
    let kind = if is_number { Type::Integer } else { Type::String };
    let schema = ObjectBuilder::new().schema_type(kind);
    RefOr::T(HeaderBuilder::new().schema(Some(schema)).description(Some(text)).build())
}

fn add_headers(answer: &mut Response, status: &str, needs_token: bool) {
    let mut add = |name: &str| {
        answer.headers.insert(name.to_owned(), RefOr::Ref(Ref::new(format!("{HEADERS}{name}"))));
    };
    add("X-Request-Id");
    match status {
        "401" => add("WWW-Authenticate"),
        "429" | "503" => add("Retry-After"),
        _ => {}
    }
    if needs_token && status != "401" {
        RATE_LIMIT.into_iter().for_each(add);
    }
}

/// The codes of an error response, from the names of its examples.
fn codes(answer: &Response) -> Option<Vec<String>> {
    let Some(RefOr::T(content)) = answer.content.get("application/json") else { return None };
    let codes: Vec<String> = content.examples.keys().cloned().collect();
    (!codes.is_empty()).then_some(codes)
}

/// `UserNotFoundOrDomainNotFound` for two codes. Responses to requests without a token have other headers.
fn name(codes: &[String], needs_token: bool) -> String {
    let word = |word: &str| word[..1].to_owned() + &word[1..].to_lowercase();
    let camel = |code: &String| code.split('_').map(word).collect::<String>();
    let names: Vec<String> = codes.iter().map(camel).collect();
    names.join("Or") + if needs_token { "" } else { "WithoutToken" }
}

/// Field and message of a validation error that this operation can return.
fn validation_example(operation: &Operation, components: &Components) -> (String, &'static str) {
    if let Some(member) = required_member(operation, components) {
        return (member, "is required");
    }
    let parameters = operation.parameters.iter().flatten();
    let in_query = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => Some(parameter.name.clone()),
        _ => None,
    });
    let mut names: Vec<String> = in_query.collect();
    if names.iter().any(|name| name == "limit") {
        return ("limit".to_owned(), "must be a whole number, 1 or more");
    }
    match names.pop() {
        Some(name) => (name, "is not valid"),
        None => (String::new(), "must be an object"),
    }
}

fn required_member(operation: &Operation, components: &Components) -> Option<String> {
    let Some(RefOr::T(body)) = &operation.request_body else { return None };
    let Some(RefOr::T(Content { schema: Some(schema), .. })) = body.content.get("application/json") else {
        return None;
    };
    let schema = match schema {
        RefOr::T(schema) => schema,
        RefOr::Ref(reference) => match components.schemas.get(reference.ref_location.rsplit('/').next()?)? {
            RefOr::T(schema) => schema,
            RefOr::Ref(_) => return None,
        },
    };
    let Schema::Object(object) = schema else { return None };
    object.required.first().cloned()
}

fn exemplify(answer: &mut Response, (field, message): (String, &'static str)) {
    let Some(RefOr::T(content)) = answer.content.get_mut("application/json") else { return };
    let examples: &mut BTreeMap<_, _> = &mut content.examples;
    if let Some(RefOr::T(example)) = examples.get_mut("VALIDATION_ERROR")
        && let Some(body) = &mut example.value
    {
        let details: Value = json!([{ "field": field, "message": message }]);
        body["details"] = details;
    }
}
