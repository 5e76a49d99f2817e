//! Two nodes on one PostgreSQL, in front of one mail server, while mail is sent through both: all readers see one order of
//! events, and each webhook has one sender.
//!
//! `MAILAPI_NODE_SENDS` is the number of messages that each node sends: 150 by default, 50,000 for a log of 100,000
//! events.

mod support;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mailapi_testkit::{PostgresDatabase, PostgresServer, SmtpSink};
use serde_json::{Value, json};
use support::{Server, WorkDir};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Requests in flight at each node.
const AT_ONCE: usize = 8;
/// Maximum time without a new event or arrival.
const PATIENCE: Duration = Duration::from_secs(60);
/// The events of each message. No node follows the mail server's log, so none is about the delivery.
const EVENTS: [&str; 1] = ["message.accepted"];

fn sends() -> usize {
    let wanted = std::env::var_os("MAILAPI_NODE_SENDS");
    wanted.map_or(150, |count| count.to_str().and_then(|count| count.parse().ok()).expect("a number of messages"))
}

/// Two nodes with their data directories, in front of one mail server.
struct Nodes {
    database: PostgresDatabase,
    mail_server: SmtpSink,
    directories: [WorkDir; 2],
}

impl Nodes {
    async fn new() -> Self {
        let database = PostgresServer::shared().empty_database();
        Self { database, mail_server: SmtpSink::start().await, directories: [WorkDir::new(), WorkDir::new()] }
    }

    fn start(&self, number: usize) -> Server {
        let mut command = self.directories[number].command(&["serve", "--log-format", "json"]);
        command.env("MAILAPI_DATABASE__URL", self.database.url());
        command.env("MAILAPI_MAIL__BACKEND", "external");
        command.env("MAILAPI_MAIL__EXTERNAL__SMTP__PORT", self.mail_server.address().port().to_string());
        command.env("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", "not used");
        let mut server = Server::start(command);
        server.drain();
        server
    }
}

/// A client with the admin's token.
#[derive(Clone)]
struct Caller {
    client: reqwest::Client,
    token: String,
}

impl Caller {
    fn of(first: &Server) -> Self {
        Self { client: reqwest::Client::new(), token: first.token() }
    }

    async fn get(&self, server: &Server, path: &str) -> Value {
        let request = self.client.get(server.api(path)).header("X-MAILAPI-TOKEN", &self.token);
        let response = tokio::time::timeout(PATIENCE, request.send()).await.expect("an answer in time").unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    async fn call(&self, method: reqwest::Method, url: String, body: Value, status: u16) -> Value {
        let request = self.client.request(method, url).header("X-MAILAPI-TOKEN", &self.token).json(&body);
        let response = tokio::time::timeout(PATIENCE, request.send()).await.expect("an answer in time").unwrap();
        let found = response.status();
        let answer: Value = response.json().await.unwrap();
        assert_eq!(found, status, "{answer}");
        answer
    }

    async fn post(&self, server: &Server, path: &str, body: Value, status: u16) -> Value {
        self.call(reqwest::Method::POST, server.api(path), body, status).await
    }

    async fn create_sender(&self, server: &Server) {
        self.post(server, "/domains", json!({ "domain": "example.org" }), 201).await;
        let ann = json!({ "email": "ann@example.org", "password": "correct horse battery" });
        self.post(server, "/users", ann, 201).await;
    }

    /// Sends messages through one node, some of them at once. Returns their identifiers.
    async fn send(&self, server: &Server, count: usize) -> Vec<String> {
        let (begun, mut senders) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
        for _ in 0..AT_ONCE {
            let (caller, url, begun) = (self.clone(), server.api("/mail/send"), Arc::clone(&begun));
            senders.spawn(async move {
                let mut ids = Vec::new();
                while begun.fetch_add(1, Ordering::Relaxed) < count {
                    let message =
                        json!({ "from": "ann@example.org", "to": ["zoe@far.example"], "body": { "text": "Hi" } });
                    let answer = caller.call(reqwest::Method::POST, url.clone(), message, 202).await;
                    ids.push(answer["message_id"].as_str().unwrap().to_owned());
                }
                ids
            });
        }
        senders.join_all().await.concat()
    }

    /// Reads the log by cursor until it has `wanted` events of messages. Returns all events.
    async fn read(&self, server: &Server, wanted: usize) -> Vec<Value> {
        let (mut events, mut cursor, mut found) = (Vec::new(), "0".to_owned(), 0);
        while found < wanted {
            let page = self.get(server, &format!("/events?after={cursor}&limit=100&wait=30")).await;
            let new = page["events"].as_array().unwrap();
            assert!(!new.is_empty(), "no event for 30 seconds, after {found} of {wanted}");
            found += new.iter().filter(|event| is_of_message(event)).count();
            events.extend(new.iter().cloned());
            page["cursor"].as_str().unwrap().clone_into(&mut cursor);
            // Positions are numbers without gaps, so a reader that passed over an event would be ahead of its count.
            assert_eq!(cursor.split('-').next(), Some(&*events.len().to_string()));
        }
        events
    }
}

fn is_of_message(event: &Value) -> bool {
    event["type"].as_str().unwrap().starts_with("message.")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_two_nodes_see_one_order_without_gaps() {
    let nodes = Nodes::new().await;
    let (here, there) = (nodes.start(0), nodes.start(1));
    let caller = Caller::of(&here);
    caller.create_sender(&here).await;
    let (count, wanted) = (sends(), sends() * 2 * EVENTS.len());

    let (sent_here, sent_there, read_here, read_there) = tokio::join!(
        caller.send(&here, count),
        caller.send(&there, count),
        caller.read(&here, wanted),
        caller.read(&there, wanted)
    );
    assert_eq!(read_here, read_there, "one order");
    let ids: HashSet<&str> = read_here.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), read_here.len(), "each event once");
    let mut of_message: HashMap<&str, Vec<&str>> = HashMap::new();
    for event in read_here.iter().filter(|event| is_of_message(event)) {
        let id = event["data"]["message_id"].as_str().unwrap();
        of_message.entry(id).or_default().push(event["type"].as_str().unwrap());
    }
    for id in sent_here.iter().chain(&sent_there) {
        assert_eq!(of_message.remove(id.as_str()).unwrap_or_default(), EVENTS, "{id}");
    }
    assert!(of_message.is_empty(), "events of messages that were not sent: {of_message:?}");
    assert_eq!((here.stop("TERM").0, there.stop("TERM").0), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_sends_to_a_webhook_until_it_is_killed() {
    let nodes = Nodes::new().await;
    let here = nodes.start(0);
    let caller = Caller::of(&here);
    caller.create_sender(&here).await;
    let receiver = Receiver::start();
    let webhook = json!({ "url": format!("http://{}/", receiver.address), "types": ["message.*"] });
    let webhook = caller.post(&here, "/webhooks", webhook, 201).await["id"].clone();
    // The first node has the webhook when the second one starts.
    let mut sent = caller.send(&here, 1).await;
    receiver.until_all(&sent).await;
    let there = nodes.start(1);

    let (one, other) = tokio::join!(caller.send(&here, sends()), caller.send(&there, sends()));
    sent.extend(one.into_iter().chain(other));
    receiver.until_all(&sent).await;
    let arrivals = receiver.arrivals();
    assert!(arrivals.values().all(|count| *count == 1), "two nodes sent an event: {arrivals:?}");

    here.kill();
    // Instead of the time for which the killed node has reserved the webhook.
    nodes.database.sql("UPDATE webhooks SET claimed_until = 0");
    sent.extend(caller.send(&there, 10).await);
    let change = json!({ "description": "after the kill" });
    caller.call(reqwest::Method::PUT, there.api(&format!("/webhooks/{webhook}")), change, 200).await;
    receiver.until_all(&sent).await;

    // The first node starts again, and leaves the webhook to the other.
    let (here, before) = (nodes.start(0), receiver.arrivals());
    let more = caller.send(&here, 10).await;
    receiver.until_all(&more).await;
    let after = receiver.arrivals();
    let new = after.iter().filter(|(key, _)| !before.contains_key(*key));
    assert!(new.clone().count() == more.len() * EVENTS.len() && new.clone().all(|(_, count)| *count == 1), "{after:?}");
    assert_eq!((here.stop("TERM").0, there.stop("TERM").0), (Some(0), Some(0)));
}

type Arrivals = HashMap<String, usize>;

/// A receiver of webhooks that answers 204, and counts the arrivals of each event.
struct Receiver {
    address: SocketAddr,
    arrivals: watch::Sender<Arrivals>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, arrivals) = (listener.local_addr().unwrap(), watch::Sender::default());
        let counted = arrivals.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let counted = counted.clone();
                std::thread::spawn(move || receive(connection, &counted));
            }
        });
        Self { address, arrivals }
    }

    fn arrivals(&self) -> Arrivals {
        self.arrivals.borrow().clone()
    }

    /// Waits until all events of these messages have arrived.
    async fn until_all(&self, messages: &[String]) {
        let keys: Vec<String> = messages.iter().flat_map(|id| EVENTS.map(|event| format!("{event} {id}"))).collect();
        let mut arrivals = self.arrivals.subscribe();
        let all = arrivals.wait_for(|arrivals| keys.iter().all(|key| arrivals.contains_key(key)));
        tokio::time::timeout(PATIENCE, all).await.expect("all events arrive at the receiver").unwrap();
    }
}

/// Answers the requests of one connection; `None` at its end.
fn receive(connection: TcpStream, arrivals: &watch::Sender<Arrivals>) -> Option<()> {
    let mut reader = BufReader::new(connection);
    loop {
        let mut body = vec![0; content_length(&mut reader)?];
        reader.read_exact(&mut body).ok()?;
        let event: Value = serde_json::from_slice(&body).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let key = format!("{} {}", text(&event["type"]), text(&event["data"]["message_id"]));
        arrivals.send_modify(|arrivals| *arrivals.entry(key).or_default() += 1);
        reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    }
}

/// Reads the head of a request; `None` at the end of the connection.
fn content_length(reader: &mut impl BufRead) -> Option<usize> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            return Some(length);
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
}
