//! The OpenAPI document, and its agreement with the service.

use std::path::Path;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::support::App;
use crate::support::document::response;

const LOGIN: &str = "/api/v1/auth/login";

/// Operations that need no token.
const PUBLIC: [&str; 2] = [LOGIN, "/api/v1/auth/signup"];

fn document() -> Value {
    serde_json::from_str(&mailapi_http::openapi_json()).unwrap()
}

/// Returns path, method and operation of each operation.
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
    assert_eq!(
        contract,
        55 + 2 + 4 + 10 + 6 + 9 + 3 + 5 + 2 + 2 + 2 + 2 + 2 + 3,
        "the contract's operations, two additions, events, webhooks, queue, DNS, app passwords, aliases, rules, preferences, sessions, lock-outs, drafts and security"
    );
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

/// Calls `look` with every object in the document and its position.
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

/// Linters of documents warn about repetitions, and some generators fail on them.
#[test]
fn lists_of_values_name_each_value_once() {
    each_object(&document(), "", &mut |at, object| {
        let Some(values) = object.get("enum").and_then(Value::as_array) else { return };
        let repeated = values.iter().enumerate().find(|(place, value)| values[..*place].contains(value));
        assert_eq!(repeated, None, "{at}");
    });
}

/// Generators fail on a bare `null`, and merge alternatives into one type that requires the members of all.
#[test]
fn every_type_has_a_form_that_generators_read() {
    let mut wrong = Vec::new();
    each_object(&document(), "", &mut |at, schema| {
        if schema.get("type") == Some(&"null".into()) {
            wrong.push(format!("{at}: only null"));
        }
        for choice in ["oneOf", "anyOf"] {
            if schema.contains_key(choice) {
                wrong.push(format!("{at}: {choice}"));
            }
        }
        let members = schema.get("properties").and_then(Value::as_object);
        let is_free = |success: &Value| {
            success["enum"].is_null() && !["/Health", "/Readiness"].iter().any(|name| at.ends_with(name))
        };
        if members.and_then(|members| members.get("success")).is_some_and(is_free) {
            wrong.push(format!("{at}: success without its value"));
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Generated Python reads an object into a variable with the name of its schema, beside the variables of its lists.
#[test]
fn no_list_has_the_name_of_its_own_schema() {
    let document = document();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let lists = schema["properties"].as_object().into_iter().flatten().filter(|(_, list)| list["type"] == "array");
        let same: Vec<_> = lists.filter(|(member, _)| member.replace('_', "").eq_ignore_ascii_case(name)).collect();
        assert!(same.is_empty(), "{name}: {same:?}");
    }
}

/// Returns the schema that a reference points to.
fn resolved<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
    schema["$ref"].as_str().map_or(schema, |reference| document.pointer(&reference[1..]).expect(reference))
}

/// Swagger UI copies every example into its form, where it would become a filter.
#[test]
fn optional_parameters_are_empty_and_never_null() {
    for (path, method, operation) in operations(&document()) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let (at, name) = (format!("{method} {path}: {parameter}"), parameter["name"].as_str().unwrap());
            assert!(!parameter["schema"].to_string().contains("null"), "{at}");
            if parameter["required"] == false && !["limit", "offset"].contains(&name) {
                assert!(!parameter.to_string().contains("\"example"), "{at}");
                assert!(parameter["schema"]["default"].is_null(), "{at}");
            }
        }
    }
}

#[test]
fn identifiers_of_messages_are_uuids() {
    each_object(&document()["paths"], "", &mut |at, object| {
        if object.get("name") == Some(&"message_id".into()) {
            assert_eq!(object["schema"]["format"], "uuid", "{at}");
        }
    });
    each_object(&document()["components"]["schemas"], "", &mut |at, object| {
        // In a mailbox, `message_id` is the header of that name.
        let Some(id) = object.get("properties").and_then(|members| members.get("message_id")) else { return };
        let is_header = id["description"].as_str().unwrap().starts_with("Message-ID header");
        assert!(is_header || id["format"] == "uuid", "{at}: {id}");
    });
}

#[test]
fn members_of_examples_are_in_the_order_of_their_schemas() {
    let text = mailapi_http::openapi_json();
    let send = text.split("\"A message to send.\"").nth(1).and_then(|rest| rest.split("\"example\"").nth(1)).unwrap();
    let mut places = Vec::new();
    for member in
        ["from", "to", "cc", "subject", "body", "text", "html", "reply_to", "headers", "attachments", "filename"]
    {
        places.push(send.find(&format!("\"{member}\": ")).unwrap());
    }
    assert!(places.is_sorted(), "{send}");
    let error = text.split("\"INVALID_TOKEN\": {").nth(1).unwrap();
    let places = ["success", "error", "message"].map(|member| error.find(&format!("\"{member}\": ")).unwrap());
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn the_main_operations_have_samples_in_three_languages() {
    let mut count = 0;
    for (path, method, operation) in operations(&document()) {
        let Some(samples) = operation["x-codeSamples"].as_array() else { continue };
        count += 1;
        assert!(samples.iter().map(|sample| sample["lang"].as_str().unwrap()).eq(["shell", "python", "typescript"]));
        for sample in samples {
            assert!(sample["source"].as_str().unwrap().contains("http://127.0.0.1:8080/api/v1/"), "{method} {path}");
        }
    }
    assert_eq!(count, 12);
}

#[test]
fn an_example_of_a_broken_rule_names_a_member_of_the_request() {
    let document = document();
    for (path, method, operation) in operations(&document) {
        let example = &operation["responses"]["422"]["content"]["application/json"]["examples"]["VALIDATION_ERROR"];
        let Some(field) = example["value"]["details"][0]["field"].as_str() else { continue };
        // An empty name means the whole body.
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

/// Every `$ref` points to an existing component.
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

/// Returns whether the schema has an example, or consists of schemas that have one.
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

/// Swagger UI renders a line break of the source as a line break.
#[test]
fn descriptions_have_no_line_ends_within_a_paragraph() {
    each_object(&document(), "", &mut |at, object| {
        let Some(Value::String(text)) = object.get("description") else { return };
        assert!(!text.replace("\n\n", "").contains('\n'), "{at}: {text}");
    });
}

/// Returns a path with the examples of its parameters.
fn path_of_examples(path: &str, operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let in_path = parameters.filter(|parameter| parameter["in"] == "path");
    in_path.fold(path.to_owned(), |path, parameter| {
        let example = &parameter["example"];
        let text = example.as_str().map_or_else(|| example.to_string(), ToOwned::to_owned);
        path.replace(&format!("{{{}}}", parameter["name"].as_str().unwrap()), &text)
    })
}

/// Starts a service with the objects that the examples name: a domain, two users, a token, a permission, a message, a
/// draft, and a session.
async fn new_server(operation: &str) -> App {
    let app = App::start().await;
    let post = async |path: &str, body: Value| app.post(&app.admin, path, body).await.json();
    if ["create_domain", "sign_up"].contains(&operation) {
        return app;
    }
    post("/domains", json!({ "domain": "example.test" })).await;
    if operation == "create_user" {
        return app;
    }
    for email in ["alice@example.test", "bob@example.test"] {
        post("/users", json!({ "email": email, "password": "correct horse battery staple" })).await;
    }
    if operation != "create_alias" {
        post("/aliases", json!({ "address": "team@example.test", "members": ["alice@example.test"] })).await;
    }
    let file = json!({ "filename": "minutes.txt", "content": "SGVsbG8h", "content_type": "text/plain" });
    post(
        "/mail/send",
        json!({
            "from": "bob@example.test", "to": ["alice@example.test"], "body": { "text": "See attached." },
            "attachments": [file]
        }),
    )
    .await;
    post("/tokens", json!({ "name": "second", "token_type": "admin" })).await;
    if operation != "grant_permission" {
        let grant = json!({ "email": "alice@example.test", "permission": "manage_users", "domain": "example.test" });
        post("/permissions", grant).await;
    }
    app.dns.set_addresses("example.org", &["1.1.1.1"]);
    app.dns.set_zone("example.test", &["ns1.example.test"]);
    app.dns.set_addresses("ns1.example.test", &["192.0.2.53"]);
    let provider = json!({ "server": "ns1.example.test", "key_name": "mailapi", "secret": "c2VjcmV0" });
    app.put(&app.admin, "/domains/example.test/dns/provider", provider).await.assert(StatusCode::OK);
    post("/users/alice@example.test/app-passwords", json!({ "name": "phone" })).await;
    post("/webhooks", json!({ "url": "http://127.0.0.1:1/", "types": ["*"] })).await;
    post("/mailbox/alice@example.test/drafts", json!({})).await;
    session(&app).await;
    app
}

#[tokio::test]
async fn every_example_works_on_a_new_server() {
    // These operations need the caller's own account and session; an admin's API token has neither.
    const OWN: [&str; 4] = ["log_out", "refresh_session", "change_password", "get_current_user"];
    let (document, reads) = (document(), new_server("").await);
    for (path, method, operation) in operations(&document) {
        let name = operation["operationId"].as_str().unwrap();
        let is_queued = name.ends_with("_queued_message");
        const RANDOM: [&str; 5] =
            ["get_message_status", "get_message_timeline", "get_event", "apply_dns", "roll_back_dns"];
        if is_queued || RANDOM.contains(&name) {
            // The identifiers of messages, queued messages, events and plans are random, so no example matches them.
            continue;
        }
        let changed;
        let app = if method == "get" {
            &reads
        } else {
            changed = new_server(name).await;
            &changed
        };
        let token = if OWN.contains(&name) { session(app).await } else { app.admin.clone() };
        let path = path_of_examples(&path, &operation);
        let query = match name {
            "search_messages" => "?q=attached",
            "list_inbox_messages" => "?mailbox=alice@example.test",
            "delete_domain" => "?force=true",
            _ => "",
        };
        let request = Request::builder().method(method.to_uppercase().as_str()).uri(format!("{path}{query}"));
        let schema = resolved(&operation["requestBody"]["content"]["application/json"]["schema"], &document);
        let message = operation["requestBody"]["content"]["message/rfc822"]["example"].as_str();
        let media_type = if message.is_some() { "message/rfc822" } else { "application/json" };
        let json = || if schema.is_null() { String::new() } else { schema["example"].to_string() };
        let body = message.map_or_else(json, ToOwned::to_owned);
        let request = request.header("X-MAILAPI-TOKEN", token).header("content-type", media_type);
        let answer = app.send(request.body(Body::from(body)).unwrap()).await;
        assert!(answer.status.is_success(), "{method} {path}: {}", String::from_utf8_lossy(&answer.bytes));
    }
}

async fn session(app: &App) -> String {
    let body = json!({ "email": "alice@example.test", "password": "correct horse battery staple" });
    app.post("", "/auth/login", body).await.json()["token"].as_str().unwrap().to_owned()
}

/// A member of a request body: its place in the example, its name in errors, and whether it is required.
struct Member {
    pointer: String,
    field: String,
    required: bool,
}

/// Lists the members that `schema` describes, as far as `example` has objects that contain them.
fn members_of(schema: &Value, example: &Value, at: (&str, &str), document: &Value, found: &mut Vec<Member>) {
    let (schema, (pointer, field)) = (resolved(schema, document), at);
    let mut add = |name: &str, schema: &Value, required: bool| {
        let pointer = format!("{pointer}/{name}");
        let field = if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
        members_of(schema, &example[name], (&pointer, &field), document, found);
        found.push(Member { pointer, field, required });
    };
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        add(name, member, schema["required"].as_array().is_some_and(|required| required.contains(&name[..].into())));
    }
    if schema["additionalProperties"].is_object() {
        example.as_object().into_iter().flatten().for_each(|(name, _)| add(name, &Value::Null, false));
    }
    if schema["items"].is_object() && example.is_array() {
        let (pointer, field) = (format!("{pointer}/0"), format!("{field}[0]"));
        members_of(&schema["items"], &example[0], (&pointer, &field), document, found);
        found.push(Member { pointer, field, required: false });
    }
}

/// Replaces the value at a JSON pointer whose parent exists; `None` removes it.
fn replaced(mut body: Value, pointer: &str, value: Option<Value>) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match (body.pointer_mut(parent).unwrap(), value) {
        (Value::Object(members), Some(value)) => drop(members.insert(name.to_owned(), value)),
        (Value::Object(members), None) => drop(members.remove(name)),
        (Value::Array(items), Some(value)) => items[0] = value,
        (other, _) => panic!("{pointer}: {other}"),
    }
    body
}

#[tokio::test]
async fn every_member_of_a_body_is_read_as_documented() {
    let app = App::with(|_, http| http.limits.per_minute = 0).await;
    let (document, mut count) = (document(), 0);
    for (path, method, operation) in operations(&document) {
        let schema = resolved(&operation["requestBody"]["content"]["application/json"]["schema"], &document);
        let Some(example) = schema.get("example") else { continue };
        let invalid = async |body: Value| {
            let request = Request::builder().method(method.to_uppercase().as_str());
            let request = request.uri(path_of_examples(&path, &operation)).header("X-MAILAPI-TOKEN", &app.admin);
            let request = request.header("content-type", "application/json").body(Body::from(body.to_string()));
            let answer = app.send(request.unwrap()).await;
            if answer.status == 422 { answer.json()["details"].as_array().unwrap().clone() } else { Vec::new() }
        };
        let mut members = Vec::new();
        members_of(schema, example, ("", ""), &document, &mut members);
        for Member { pointer, field, required } in members {
            count += 1;
            let at = format!("{method} {path}: {field}");
            // No member accepts a fraction.
            let wrong = invalid(replaced(example.clone(), &pointer, Some(json!(1.5)))).await;
            assert_eq!(wrong.iter().map(|detail| &detail["field"]).collect::<Vec<_>>(), [&field[..]], "{at}");
            if field.ends_with(']') {
                continue;
            }
            for value in [None, Some(Value::Null)] {
                let missing = invalid(replaced(example.clone(), &pointer, value)).await;
                let named = missing.contains(&json!({ "field": field, "message": "is required" }));
                assert_eq!(named, required, "{at}: {missing:?}");
            }
        }
    }
    assert!(count >= 54, "{count} members");
}

#[tokio::test]
async fn every_parameter_of_a_query_is_read_as_documented() {
    let app = App::with(|_, http| http.limits.per_minute = 0).await;
    let mut count = 0;
    for (path, method, operation) in operations(&document()) {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
            let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
            let is_any_text = schema["type"] == "string"
                && ["format", "enum", "minLength"].iter().all(|rule| schema.get(rule).is_none());
            if is_any_text {
                continue;
            }
            count += 1;
            let send = async |query: String| {
                let path = path_of_examples(&path, &operation);
                let request = Request::builder().method(method.to_uppercase().as_str()).uri(format!("{path}?{query}"));
                app.send(request.header("X-MAILAPI-TOKEN", &app.admin).body(Body::empty()).unwrap()).await
            };
            // No parameter with a rule accepts a single hyphen.
            let others = if operation["operationId"] == "search_messages" && name != "q" { "q=minutes&" } else { "" };
            let answer = send(format!("{others}{name}=-")).await;
            assert_eq!(answer.assert_invalid(), [name], "{method} {path}");
            if parameter["required"] == true {
                assert_eq!(send(String::new()).await.assert_invalid(), [name], "{method} {path}");
            }
        }
    }
    assert!(count >= 56, "{count} parameters");
}
