//! `mailapi events` beside a running server.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use mailapi_testkit::send_signal;
use serde_json::{Value, json};
use support::{Server, WorkDir};

async fn post(server: &Server, path: &str, body: Value) -> Value {
    let request = reqwest::Client::new().post(server.api(path)).header("X-MAILAPI-TOKEN", server.token());
    let request = request.header("Content-Type", "application/json").body(body.to_string());
    request.send().await.unwrap().json().await.unwrap()
}

/// A server with the users Ann and Bob.
async fn start(work_dir: &WorkDir) -> Server {
    let mut server = work_dir.serve();
    server.drain();
    post(&server, "/domains", json!({ "domain": "example.org" })).await;
    for name in ["ann", "bob"] {
        post(&server, "/users", json!({ "email": format!("{name}@example.org"), "password": "correct horse" })).await;
    }
    server
}

async fn send(server: &Server) -> String {
    let message = json!({ "from": "ann@example.org", "to": ["bob+news@example.org"], "body": { "text": "Hello" } });
    post(server, "/mail/send", message).await["message_id"].as_str().unwrap().to_owned()
}

/// A command that prints events until it is stopped; killed when it is dropped.
struct Following(Child, std::io::Lines<BufReader<std::process::ChildStdout>>);

impl Following {
    fn start(work_dir: &WorkDir, arguments: &[&str]) -> Self {
        let mut command = work_dir.command(&[&["events", "--follow", "--json"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    /// Returns the type and the message of the next event.
    fn next(&mut self) -> (String, String) {
        let event: Value = serde_json::from_str(&self.1.next().expect("another event").unwrap()).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&event["type"]), text(&event["data"]["message_id"]))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn wrong_arguments_are_named() {
    let work_dir = WorkDir::new();
    for (arguments, expected) in [
        (&["events", "--types", "message.opened"][..], "must be an event type"),
        (&["events", "--after", "soon"], "must be start, now, or a cursor"),
        (&["events"], "there is no data directory"),
    ] {
        let complaint = work_dir.run(arguments).complaint();
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_running_server_are_followed_and_listed() {
    let work_dir = WorkDir::new();
    let server = start(&work_dir).await;
    let mut following =
        Following::start(&work_dir, &["--after", "start", "--types", "message.accepted,message.delivered"]);
    for _ in 0..2 {
        let id = send(&server).await;
        let seen = [following.next(), following.next()];
        let expected = ["message.accepted", "message.delivered"].map(|event_type| (event_type.to_owned(), id.clone()));
        assert_eq!(seen, expected);
    }
    assert!(send_signal("TERM", &following.0));
    assert!(following.0.wait().unwrap().success());

    let listed = work_dir.run(&["events", "--types", "message.accepted,message.delivered"]).answer();
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert!(listed.lines().all(|line| line.starts_with("20") && line.contains("Z  message.")), "{listed}");
    assert!(listed.lines().nth(1).unwrap().contains("  bob+news@example.org  "), "{listed}");
    let json = work_dir.run(&["events", "--types", "message.delivered", "--json"]).answer();
    let events: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event["data"]["delivered_to"] == "mailbox"), "{json}");
    assert_eq!(work_dir.run(&["events", "--after", "now"]).answer(), "");
    let last = events[1]["cursor"].as_str().unwrap();
    assert_eq!(work_dir.run(&["events", "--after", last, "--types", "message.delivered"]).answer(), "");

    // A cursor of another installation, whose log is as long.
    let foreign = format!("{}-00000000", last.split_once('-').unwrap().0);
    let of_types = &["--after", &foreign, "--types", "message.delivered"][..];
    let again = work_dir.run(&[&["events", "--json"], of_types].concat());
    assert_eq!((again.code, &again.stdout), (Some(0), &json));
    assert!(again.stderr.contains("it is of another log"), "{}", again.stderr);
    let mut following = Following::start(&work_dir, of_types);
    assert_eq!(following.next().1, events[0]["data"]["message_id"].as_str().unwrap());
    server.stop("TERM");
}
