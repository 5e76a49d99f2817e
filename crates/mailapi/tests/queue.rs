//! `mailapi queue` beside a running server, and after its crash.

mod support;

use std::time::Duration;

use mailapi_testkit::SmtpSink;
use serde_json::{Value, json};
use support::{Server, WorkDir};

/// How long the server may take for a delivery attempt or a report, at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server that relays to the sink.
fn serve(work_dir: &WorkDir, sink: &SmtpSink) -> Server {
    let mut command = work_dir.command(&["serve", "--log-format", "json"]);
    command.env("MAILAPI_MAIL__EMBEDDED__RELAY", sink.address().to_string());
    command.env("MAILAPI_MAIL__EMBEDDED__RELAY_TLS", "never");
    let mut server = Server::start(command);
    server.drain();
    server
}

async fn call(server: &Server, token: &str, path: &str, body: Option<Value>) -> Value {
    let client = reqwest::Client::new();
    let request = match body {
        Some(body) => client.post(server.api(path)).header("Content-Type", "application/json").body(body.to_string()),
        None => client.get(server.api(path)),
    };
    request.header("X-MAILAPI-TOKEN", token).send().await.unwrap().json().await.unwrap()
}

/// Sends a message to this address, and waits until its first attempt has failed. Returns its id and its queue id.
async fn deferred(server: &Server, token: &str, to: &str) -> (String, String) {
    let message = json!({ "from": "ann@example.org", "to": [to], "subject": "Hi", "body": { "text": "x" } });
    let sent = call(server, token, "/mail/send", Some(message)).await;
    let wait = async {
        loop {
            let listed = call(server, token, &format!("/queue?recipient={to}&state=deferred"), None).await;
            if let Some(queue_id) = listed["messages"][0]["queue_id"].as_str() {
                return queue_id.to_owned();
            }
        }
    };
    let queue_id = tokio::time::timeout(PATIENCE, wait).await.expect("the attempt fails");
    (sent["message_id"].as_str().unwrap().to_owned(), queue_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_message_survives_a_crash_and_is_cancelled() {
    let (work_dir, sink) = (WorkDir::new(), SmtpSink::start().await);
    for address in ["zoe@far.example", "joe@far.example"] {
        sink.refuse(address, &["450 4.2.0 Greylisted"]);
    }
    let server = serve(&work_dir, &sink);
    let token = server.token();
    call(&server, &token, "/domains", Some(json!({ "domain": "example.org" }))).await;
    let ann = json!({ "email": "ann@example.org", "password": "correct horse" });
    call(&server, &token, "/users", Some(ann)).await;
    let (message_id, zoe) = deferred(&server, &token, "zoe@far.example").await;
    let (_, joe) = deferred(&server, &token, "joe@far.example").await;

    let list = work_dir.run(&["queue", "list", "--domain", "far.example"]).answer();
    assert!(list.lines().count() == 3 && list.contains(&zoe) && list.contains("450 4.2.0 Greylisted"), "{list}");
    assert_eq!(work_dir.run(&["queue", "hold", &zoe]).answer(), "");
    let complaint = work_dir.run(&["queue", "retry", &zoe]).complaint();
    assert!(complaint.contains("the message is on hold"), "{complaint}");
    server.kill();

    let shown = work_dir.run(&["queue", "show", &zoe]).answer();
    assert!(shown.contains(&message_id) && shown.contains("held"), "{shown}");
    let server = serve(&work_dir, &sink);
    assert_eq!(work_dir.run(&["queue", "retry", &joe]).answer(), "");
    let sent = async {
        while sink.received().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, sent).await.expect("the retried message is sent");
    let held: Value =
        serde_json::from_str(&work_dir.run(&["queue", "list", "--state", "held", "--json"]).answer()).unwrap();
    assert_eq!((held.as_array().unwrap().len(), &held[0]["queue_id"]), (1, &json!(zoe)));
    assert_eq!(work_dir.run(&["queue", "cancel", &zoe]).answer(), "");
    let bounced = async {
        loop {
            let status = call(&server, &token, &format!("/mail/{message_id}/status"), None).await;
            if status["status"] == "bounced" {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, bounced).await.expect("the running server stores the status");
    let complaint = work_dir.run(&["queue", "release", &zoe]).complaint();
    assert_eq!(complaint, format!("{zoe}: the queue does not contain the message"));
    let to: Vec<_> = sink.received().into_iter().flat_map(|message| message.recipients).collect();
    assert_eq!(to, ["joe@far.example"]);
    let audit = std::fs::read_to_string(work_dir.data().join("audit.log")).unwrap();
    for change in ["put on hold", "retried", "cancelled"] {
        assert_eq!(audit.matches(&format!("queued message {change}")).count(), 1, "{audit}");
    }
}
