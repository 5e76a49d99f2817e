//! The listener for monitoring, and the dashboard and alerts in `docs/monitoring`.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use support::{ALL_ACCOUNTED_FOR, Dialogue, Server, WorkDir};

/// Returns the names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    words.filter(|word| word.starts_with("mailapi_") && word.len() > "mailapi_".len()).collect()
}

fn page(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path)).unwrap()
}

async fn post(server: &Server, path: &str, body: Value) -> u16 {
    let request = reqwest::Client::new().post(server.api(path)).header("X-MAILAPI-TOKEN", server.token());
    request.json(&body).send().await.unwrap().status().as_u16()
}

/// Sends a message to a mailbox and to an unknown one, receives a message, and refuses a login.
async fn use_it(server: &Server) {
    assert_eq!(post(server, "/domains", json!({ "domain": "example.org" })).await, 201);
    let user = json!({ "email": "ann@example.org", "password": "correct horse" });
    assert_eq!(post(server, "/users", user).await, 201);
    let to = ["ann@example.org", "nobody@example.org"];
    let message = json!({ "from": "ann@example.org", "to": to, "subject": "Hi", "body": { "text": "Hello." } });
    assert_eq!(post(server, "/mail/send", message).await, 202);
    let login = json!({ "email": "ann@example.org", "password": "wrong" });
    assert_eq!(post(server, "/auth/login", login).await, 401);
    let mut smtp = Dialogue::begin(server.running["smtp"].as_str().unwrap(), "220");
    for (line, answer) in [
        ("EHLO mx.example.net", "250 "),
        ("MAIL FROM:<bob@example.net>", "250"),
        ("RCPT TO:<ann@example.org>", "250"),
        ("DATA", "354"),
        ("Subject: Hi\r\n\r\nHello.\r\n.", "250"),
        ("QUIT", "221"),
    ] {
        smtp.say(line, answer);
    }
    // A background loop does this, too; an explicit call makes it certain.
    let sync = reqwest::Client::new().get(server.api("/mail/delivery-log/sync"));
    assert_eq!(sync.header("X-MAILAPI-TOKEN", server.token()).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dashboard_and_alerts_name_metrics_that_exist() {
    let work_dir = WorkDir::new();
    let server = work_dir.serve_measured();
    use_it(&server).await;
    let text = server.metrics().await;
    let samples: String = text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let shown: BTreeSet<&str> = samples.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    for file in ["monitoring/grafana.json", "monitoring/alerts.yml"] {
        let content = page(file);
        let used = names(&content);
        assert!(used.len() > 5, "{file}: {used:?}");
        let unknown: Vec<_> = used.difference(&shown).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}, which are not in {text}");
    }
    let documented = page("monitoring.md");
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    for (family, kind) in families {
        let name = if kind == "counter" { format!("{family}_total") } else { family.to_owned() };
        let name = if kind == "info" { format!("{name}_info") } else { name };
        assert!(documented.contains(&format!("`{name}")), "docs/monitoring.md does not describe {name}");
    }
    for line in [
        "mailapi_recipients_total{outcome=\"delivered\"} 1",
        "mailapi_recipients_total{outcome=\"refused\"} 1",
        "mailapi_inbound_total{outcome=\"accepted\"} 1",
        "mailapi_auth_total{result=\"refused\"} 1",
        "mailapi_http_requests_total{operation=\"send_message\",method=\"POST\",status=\"202\"} 1",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing from {text}");
    }
    assert!(text.contains(ALL_ACCOUNTED_FOR), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_setting_there_is_no_listener() {
    let work_dir = WorkDir::new();
    let server = work_dir.serve();
    assert_eq!(server.running["metrics"], Value::Null);
    let answer = reqwest::get(server.api("").replace("/api/v1", "/metrics")).await.unwrap();
    assert_eq!(answer.status(), 404, "not at the listener of the API");
}
