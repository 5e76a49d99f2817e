//! `docs/events.md` and the OpenAPI document, compared with real events.

use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use mailapi_backend::{InboundLog, LostPart, Refusal, ReturnedNotice};
use mailapi_model::AuthenticationResult::{None as Nothing, Pass};
use mailapi_model::{
    Authentication, CheckedDomain, CheckedSignature, InboundEvent, InboundOutcome, InboundRefusal, NoticeKind,
    RefusalStage, Reply,
};
use serde_json::{Value, json};

use super::{list, send};
use crate::support::{App, EVE, GONE};

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the example of each type, with its text.
fn samples() -> Vec<(Value, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/events");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    files.map(text).map(|text| (serde_json::from_str(&text).unwrap(), text)).collect()
}

/// Returns whether two values have the same members with values of the same kinds. Either value may be null: mail
/// servers report different details.
fn is_alike(real: &Value, sample: &Value) -> bool {
    match (real, sample) {
        (Value::Null, _) | (_, Value::Null) => true,
        (Value::Object(real), Value::Object(sample)) => {
            let member =
                |(name, value): (&String, &Value)| sample.get(name).is_some_and(|other| is_alike(value, other));
            real.len() == sample.len() && real.iter().all(member)
        }
        (Value::Array(real), Value::Array(sample)) => {
            real.iter().zip(sample).all(|(real, other)| is_alike(real, other))
        }
        _ => std::mem::discriminant(real) == std::mem::discriminant(sample),
    }
}

#[test]
fn the_page_shows_the_example_of_each_type() {
    let page = read("../../docs/events.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    let mut shown: Vec<_> = headings.collect();
    let samples = samples();
    let mut types: Vec<_> = samples.iter().map(|(event, _)| event["type"].as_str().unwrap()).collect();
    shown.sort_unstable();
    types.sort_unstable();
    assert_eq!(shown, types);
    for (event, text) in &samples {
        assert!(page.contains(&format!("```json\n{text}```\n")), "{event}");
    }
}

#[test]
fn the_document_shows_the_example_of_each_type() {
    let document: Value = serde_json::from_str(&mailapi_http::openapi_json()).unwrap();
    let content = &document["paths"]["/api/v1/events/{id}"]["get"]["responses"]["200"]["content"]["application/json"];
    let examples = content["examples"].as_object().unwrap();
    let samples = samples();
    assert_eq!(examples.len(), samples.len());
    for (event, _) in samples {
        assert_eq!(examples[event["type"].as_str().unwrap()]["value"], json!({ "success": true, "event": event }));
    }
}

/// Adds the members of `value` that `schema` does not describe.
fn undescribed(value: &Value, schema: &Value, document: &Value, at: &str, found: &mut Vec<String>) {
    let schema = schema["$ref"].as_str().map_or(schema, |reference| document.pointer(&reference[1..]).unwrap());
    for (name, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match &schema["properties"][name] {
            Value::Null => found.push(at),
            described => undescribed(value, described, document, &at, found),
        }
    }
    for item in value.as_array().into_iter().flatten() {
        undescribed(item, &schema["items"], document, at, found);
    }
}

/// Causes each event about domains, users and tokens.
async fn administrate(app: &App) {
    let post = async |path: &str, body: Value| app.post(&app.admin, path, body).await.json();
    let change = async |path: &str, body: Value| app.put(&app.admin, path, body).await.assert(StatusCode::OK);
    post("/domains", json!({ "domain": "made.example", "description": "The office" })).await;
    let sign_up = json!({
        "domain": "new.example", "email": "eve@new.example", "password": "correct horse", "name": "Eve",
    });
    app.post("", "/auth/signup", sign_up).await.assert(StatusCode::CREATED);
    app.post_empty(&app.admin, "/domains/new.example/approve").await.assert(StatusCode::OK);
    app.store.domains().set_verified(&"made.example".parse().unwrap(), app.now()).await.unwrap();
    // The domain has no records.
    app.get(&app.admin, "/domains/made.example/verify").await.assert(StatusCode::OK);
    let algorithm = json!({ "algorithm": "ed25519-sha256" });
    app.post(&app.admin, "/domains/made.example/dkim", algorithm).await.assert(StatusCode::CREATED);
    let user = json!({ "email": "eve@made.example", "password": "correct horse", "name": "Eve" });
    post("/users", user).await;
    change("/users/eve@made.example", json!({ "quota_bytes": 1_000_000 })).await;
    change("/users/eve@made.example/preferences", json!({ "save_sent": "off" })).await;
    post("/aliases", json!({ "address": "team@made.example", "members": ["eve@made.example"] })).await;
    change("/aliases/team@made.example", json!({ "members": ["eve@made.example"] })).await;
    app.delete(&app.admin, "/aliases/team@made.example").await.assert(StatusCode::OK);
    let path = "/users/eve@made.example/app-passwords";
    let app_password = post(path, json!({ "name": "phone" })).await["app_password"]["id"].take();
    app.delete(&app.admin, &format!("{path}/{app_password}")).await.assert(StatusCode::OK);
    let token = post("/tokens", json!({ "name": "laptop", "email": "eve@made.example" })).await["id"].take();
    change(&format!("/tokens/{token}"), json!({ "name": "phone" })).await;
    app.delete(&app.admin, &format!("/tokens/{token}")).await.assert(StatusCode::OK);
    for _ in 0..6 {
        app.post("", "/auth/login", json!({ "email": "eve@made.example", "password": "wrong" })).await;
    }
    app.delete(&app.admin, "/users/eve@made.example").await.assert(StatusCode::OK);
    change("/domains/made.example", json!({ "active": false })).await;
    app.delete(&app.admin, "/domains/made.example").await.assert(StatusCode::OK);
}

/// Returns results of the checks of received mail.
fn results() -> Authentication {
    let named = CheckedDomain { result: Pass, domain: Some("elsewhere.example".to_owned()) };
    let signature = CheckedSignature { result: Pass, domain: named.domain.clone(), selector: Some("s1".to_owned()) };
    Authentication { spf: named.clone(), dkim: vec![signature], dmarc: named, arc: Nothing }
}

/// Causes `message.rejected`, as the listener of the mail server does.
async fn refuse(app: &App) {
    let (at, domain, sender_domain) = (app.now(), "example.org".parse().unwrap(), "elsewhere.example".parse().ok());
    app.service.note(InboundEvent { at, domain, sender_domain, outcome: InboundOutcome::Rejected });
    app.service.refused(InboundRefusal {
        at,
        client: "192.0.2.7".parse().ok(),
        sender: "dan@elsewhere.example".parse().ok(),
        recipient: "carol@example.org".parse().unwrap(),
        stage: RefusalStage::Recipient,
        reply: Reply::new(550, "5.1.1".parse().unwrap(), "There is no such mailbox here"),
    });
    app.service.write_inbound_once().await.unwrap();
}

/// Causes `message.notice`: another server returns a notice of delay.
async fn return_a_notice(app: &App, message_id: &str) {
    let message_id = message_id.parse().unwrap();
    let (at, text) = (app.now(), "Your message is delayed.".to_owned());
    let server = "elsewhere.example".parse().ok();
    app.trouble.return_notice(ReturnedNotice {
        at,
        message_id,
        kind: NoticeKind::Delayed,
        server,
        text,
        failed: Vec::new(),
    });
}

/// Causes `webhook.disabled`: the receiver is unreachable for five days.
async fn fail_a_webhook(app: &App, token: &str) {
    let webhook = json!({ "url": "http://127.0.0.1:1/hook", "types": ["message.*"] });
    app.post(&app.admin, "/webhooks", webhook).await.assert(StatusCode::CREATED);
    send(app, token, &["bob@example.org"]).await;
    let mut sender = app.service.webhook_sender();
    while sender.send_once().await.unwrap().more {}
    app.clock.advance(Duration::from_secs(5 * 24 * 60 * 60));
    while sender.send_once().await.unwrap().more {}
}

#[tokio::test]
async fn real_events_have_the_members_of_their_examples() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let reply = Reply::new(450, "4.2.2".parse().unwrap(), "Mailbox full");
    app.trouble.refuse_next_for(vec![Refusal { recipient: "full@example.net".parse().unwrap(), reply }]);
    let to = ["bob@example.org", "dan@elsewhere.example", EVE, GONE, "full@example.net"];
    let sent = send(&app, &ann, &to).await;
    return_a_notice(&app, &sent).await;
    app.trouble.lose(LostPart { at: app.now(), from: Some(app.now()), to: app.now(), reason: "truncated" });
    let lunch = "From: Dan <dan@elsewhere.example>\nSubject: Lunch\n\nOn Friday?\n";
    app.deliver("ann@example.org", lunch).await;
    let is_built_in =
        app.mail_server.deliver_checked("dan@elsewhere.example", "ann@example.org", lunch, results()).await;
    app.sync().await;
    refuse(&app).await;
    administrate(&app).await;
    fail_a_webhook(&app, &ann).await;
    app.read_events().await;
    let events = list(&app, &app.admin, "?after=start&limit=1000").await["events"].take();
    let document: Value = serde_json::from_str(&mailapi_http::openapi_json()).unwrap();
    let mut wrong = Vec::new();
    for event in events.as_array().unwrap() {
        let schema = &document["components"]["schemas"]["Event"];
        undescribed(event, schema, &document, event["type"].as_str().unwrap(), &mut wrong);
    }
    assert!(wrong.is_empty(), "not in the OpenAPI document: {wrong:?}");
    for (sample, _) in samples() {
        let mut of_type = events.as_array().unwrap().iter().filter(|event| event["type"] == sample["type"]);
        assert!(of_type.any(|event| is_alike(event, &sample)), "{sample}, but there are {events}");
    }
    if is_built_in {
        let received = events.as_array().unwrap().iter().filter(|event| event["type"] == "message.received");
        let results = received.filter(|event| event["data"]["authentication"].is_object());
        assert!(results.count() == 1, "{events}");
    }
}
