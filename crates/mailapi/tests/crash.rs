//! The server is killed like by a power failure while a thousand messages are being sent: no confirmed message is
//! lost, none is delivered twice, and the log of events says what the statuses say.

mod support;

use std::collections::{HashMap, HashSet};

use mailapi_store::sqlite::{Sqlite, SqliteSettings};
use mailapi_store::{EventFilter, EventScope, Store, StoredEvent};
use reqwest::Client;
use serde_json::{Value, json};
use support::{ALL_ACCOUNTED_FOR, Server, WorkDir};
use tokio::sync::mpsc;

const SENDS: usize = 1000;
const DOMAIN: &str = "crash.test";

/// A client with the admin's token.
#[derive(Clone)]
struct Caller {
    client: Client,
    token: String,
}

impl Caller {
    async fn get(&self, server: &Server, path: &str) -> Value {
        let request = self.client.get(server.api(path)).header("X-MAILAPI-TOKEN", &self.token);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    async fn post(&self, url: String, body: Value) -> reqwest::Result<(u16, Value)> {
        let request = self.client.post(url).header("X-MAILAPI-TOKEN", &self.token).json(&body);
        let response = request.send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    /// Returns every item of a list of the API.
    async fn all(&self, server: &Server, path: &str) -> Vec<Value> {
        let (mut all, separator) = (Vec::new(), if path.contains('?') { '&' } else { '?' });
        loop {
            let page = self.get(server, &format!("{path}{separator}limit=200&offset={}", all.len())).await;
            let items = page["messages"].as_array().unwrap();
            all.extend(items.iter().cloned());
            if items.is_empty() || all.len() as u64 >= page["total"].as_u64().unwrap() {
                return all;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_during_a_thousand_sends_loses_and_doubles_nothing() {
    let work_dir = WorkDir::new();
    let mut server = work_dir.serve_measured();
    let caller = Caller { client: Client::new(), token: server.token() };
    create_people(&caller, &server).await;

    let mut answered = HashSet::new();
    for kill_after in [1, 100, 600] {
        answered.extend(send_and_kill(&caller, server, kill_after).await);
        server = work_dir.serve_measured();
        // A background loop does this, too; an explicit call makes it certain.
        caller.get(&server, "/mail/delivery-log/sync").await;
        check(&caller, &server, &answered).await;
        check_events(&caller, &server, &work_dir).await;
        let metrics = server.metrics().await;
        assert!(metrics.contains(ALL_ACCOUNTED_FOR), "{metrics}");
    }
    assert!(answered.len() >= 701, "the kills came while the server was answering");
    assert_eq!(server.stop("TERM").0, Some(0));
}

async fn create_people(caller: &Caller, server: &Server) {
    let (status, _) = caller.post(server.api("/domains"), json!({ "domain": DOMAIN })).await.unwrap();
    assert_eq!(status, 201);
    for name in ["alice", "bob", "carol"] {
        let user = json!({ "email": format!("{name}@{DOMAIN}"), "password": "correct horse" });
        assert_eq!(caller.post(server.api("/users"), user).await.unwrap().0, 201);
    }
}

/// Sends in parallel, and kills the server after `kill_after` responses. Returns the identifiers of all messages
/// that were answered with 202.
async fn send_and_kill(caller: &Caller, mut server: Server, kill_after: usize) -> HashSet<String> {
    server.drain();
    let (answers, mut answered) = mpsc::channel(SENDS);
    for number in 0..SENDS {
        let (caller, url, answers) = (caller.clone(), server.api("/mail/send"), answers.clone());
        tokio::spawn(async move {
            let body = json!({
                "from": format!("alice@{DOMAIN}"),
                "to": [format!("bob@{DOMAIN}"), format!("carol@{DOMAIN}")],
                "subject": format!("number {number}"),
                "body": { "text": "x".repeat(number) },
            });
            // Without a response, the API made no promise.
            if let Ok((202, answer)) = caller.post(url, body).await {
                let id = answer["message_id"].as_str().unwrap().to_owned();
                answers.send(id).await.unwrap();
            }
        });
    }
    drop(answers);
    let (mut ids, mut server) = (HashSet::new(), Some(server));
    while let Some(id) = answered.recv().await {
        ids.insert(id);
        if ids.len() == kill_after {
            server.take().unwrap().kill();
        }
    }
    assert!(server.is_none(), "the server ended before it was killed");
    ids
}

async fn check(caller: &Caller, server: &Server, answered: &HashSet<String>) {
    let sent = caller.all(server, "/mail/sent").await;
    let statuses: HashMap<&str, &str> =
        sent.iter().map(|entry| (entry["message_id"].as_str().unwrap(), entry["status"].as_str().unwrap())).collect();
    for id in answered {
        assert_eq!(statuses.get(id.as_str()), Some(&"sent"), "{id} was answered with 202");
    }
    for name in ["bob", "carol"] {
        let inbox = caller.all(server, &format!("/mailbox/{name}@{DOMAIN}/messages")).await;
        let mut copies: HashMap<&str, usize> = HashMap::new();
        for message in &inbox {
            *copies.entry(message["message_id"].as_str().unwrap()).or_default() += 1;
        }
        for (id, status) in &statuses {
            let copies = copies.remove(format!("<{id}@{DOMAIN}>").as_str()).unwrap_or(0);
            // `failed` means that the mail server never received the message.
            let expected = usize::from(*status != "failed");
            assert_eq!(copies, expected, "{id} is {status}, and {name}'s inbox has {copies} copies");
        }
        assert!(copies.is_empty(), "messages without a record were delivered: {copies:?}");
    }
}

/// Checks that each message has the events that its status implies, each of them once and in order.
async fn check_events(caller: &Caller, server: &Server, work_dir: &WorkDir) {
    let mut reported: HashMap<String, Vec<String>> = HashMap::new();
    let mut ids = HashSet::new();
    for (event, number) in stored_events(work_dir).await.into_iter().zip(1..) {
        assert_eq!(event.number, number, "the log has no gaps");
        assert!(ids.insert(event.id), "{} is there twice", event.id);
        let body: Value = serde_json::from_str(&event.body).unwrap();
        let Some(id) = body["data"]["message_id"].as_str() else { continue };
        let recipient = body["data"]["recipient"]["email"].as_str().unwrap_or_default();
        reported.entry(id.to_owned()).or_default().push(format!("{} {recipient}", event.event_type));
    }
    for message in caller.all(server, "/mail/sent").await {
        let (id, status) = (message["message_id"].as_str().unwrap(), message["status"].as_str().unwrap());
        let mut of_message = reported.remove(id).unwrap_or_default();
        if status == "sent" {
            assert_eq!(of_message.remove(0), "message.accepted ", "{id}");
        }
        of_message.sort_unstable();
        let each = if status == "sent" { "delivered" } else { "failed" };
        assert_eq!(of_message, ["bob", "carol"].map(|name| format!("message.{each} {name}@{DOMAIN}")), "{id}");
    }
    assert!(reported.is_empty(), "events of messages without a record: {reported:?}");
}

/// Returns the whole log, read beside the server.
async fn stored_events(work_dir: &WorkDir) -> Vec<StoredEvent> {
    let file = Sqlite::open(&work_dir.data().join("mailapi.db"), SqliteSettings::default()).unwrap();
    let (store, all) = (Store::on_sqlite(file), EventFilter::of(EventScope::All));
    let (mut events, mut cursor) = (Vec::new(), store.events().oldest().await.unwrap());
    loop {
        let page = store.events().after(cursor, &all, 1000).await.unwrap();
        events.extend(page.events);
        cursor = page.cursor;
        if !page.has_more {
            store.close().await;
            return events;
        }
    }
}
