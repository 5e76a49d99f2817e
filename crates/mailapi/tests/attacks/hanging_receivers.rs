//! Receivers of webhooks that accept connections and never answer.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::embedded_host::{EmbeddedHost, PASSWORD, answered_during, size};

/// Webhooks of one token, and for one domain.
const OF_TOKEN: usize = 10;
const OF_DOMAIN: usize = 100;
/// Maximum number of connections to the receivers of admins: half of 192 that work, and half of 64 that fail.
const CONNECTIONS: usize = 96 + 32;
/// The receiver counts a connection until it has read its end, and on a busy machine it accepts the next one before.
const ENDING: usize = CONNECTIONS / 4;
/// Maximum time until the healthy receiver has all events.
const PATIENCE: Duration = Duration::from_secs(60);

/// Receivers that never answer, on one port.
struct Hanging {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
}

impl Hanging {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hanging = Self { address: listener.local_addr().unwrap(), open: Arc::default(), peak: Arc::default() };
        let (open, peak) = (Arc::clone(&hanging.open), Arc::clone(&hanging.peak));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                peak.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::spawn(read_to_end(stream, Arc::clone(&open)));
            }
        });
        hanging
    }

    fn url(&self, number: usize) -> String {
        format!("http://{}/{number}", self.address)
    }
}

async fn read_to_end(mut stream: TcpStream, open: Arc<AtomicUsize>) {
    let mut buffer = vec![0; 16 * 1024];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    open.fetch_sub(1, Ordering::SeqCst);
}

/// A receiver that answers at once, and keeps the messages whose delivery it was informed of.
struct Healthy {
    address: SocketAddr,
    delivered: watch::Sender<HashSet<String>>,
}

impl Healthy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let healthy = Self { address: listener.local_addr().unwrap(), delivered: watch::Sender::default() };
        let delivered = healthy.delivered.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, delivered.clone()));
            }
        });
        healthy
    }

    async fn until_all(&self, messages: &HashSet<String>) {
        let mut delivered = self.delivered.subscribe();
        let all = timeout(PATIENCE, delivered.wait_for(|delivered| messages.is_subset(delivered))).await;
        all.expect("the healthy receiver gets all events in time").unwrap();
    }
}

/// Answers the requests of one connection.
async fn answer(mut stream: TcpStream, delivered: watch::Sender<HashSet<String>>) {
    let mut read = Vec::new();
    while stream.read_buf(&mut read).await.is_ok_and(|count| count > 0) {
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let Ok(event) = serde_json::from_slice::<Value>(&read[end + 4..]) else { continue };
        read.clear();
        let id = event["data"]["message_id"].as_str().unwrap().to_owned();
        delivered.send_modify(|delivered| {
            delivered.insert(id);
        });
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
    }
}

/// Registers webhooks with these URLs for the deliveries of a domain, with as many tokens as that needs.
async fn register(host: &EmbeddedHost, domain: &str, urls: &[String]) {
    let admin = host.server.token();
    for urls in urls.chunks(OF_TOKEN) {
        let token = json!({ "name": "hooks", "token_type": "admin" });
        let token = host.made("/tokens", &admin, token).await["token"].as_str().unwrap().to_owned();
        for url in urls {
            host.made("/webhooks", &token, json!({ "url": url, "types": ["message.delivered"], "domain": domain }))
                .await;
        }
    }
}

/// Sends messages within each domain. Returns their identifiers.
async fn send(host: &EmbeddedHost, count: usize) -> HashSet<String> {
    let (admin, mut ids) = (host.server.token(), HashSet::new());
    for _ in 0..count {
        for mailbox in ["ann@example.org", "eve@other.example"] {
            let message = json!({ "from": mailbox, "to": [mailbox], "body": { "text": "Hi" } });
            let answer = host.made("/mail/send", &admin, message).await;
            ids.insert(answer["message_id"].as_str().unwrap().to_owned());
        }
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn receivers_that_hang_delay_no_other() {
    let host = EmbeddedHost::open(&[]).await;
    let admin = host.server.token();
    host.made("/domains", &admin, json!({ "domain": "other.example" })).await;
    host.made("/users", &admin, json!({ "email": "eve@other.example", "password": PASSWORD })).await;
    let (hanging, healthy) = (Hanging::start().await, Healthy::start().await);
    let urls: Vec<String> = (0..2 * OF_DOMAIN).map(|number| hanging.url(number)).collect();
    register(&host, "example.org", &urls[..OF_DOMAIN]).await;
    register(&host, "other.example", &urls[OF_DOMAIN..]).await;
    // The last one, which begins its rounds after all others.
    let all = json!({ "url": format!("http://{}/", healthy.address), "types": ["message.delivered"] });
    host.made("/webhooks", &admin, all).await;

    let begun = Instant::now();
    let attack = async {
        for _ in 0..3 {
            let sent = send(&host, size(50, 10)).await;
            healthy.until_all(&sent).await;
            report("seconds until the healthy receiver had all events", begun.elapsed().as_secs());
        }
    };
    answered_during(&host, "receivers that hang", attack).await;
    let peak = hanging.peak.load(Ordering::SeqCst);
    report("connections to hanging receivers", peak);
    assert!(peak <= CONNECTIONS + ENDING, "{peak} connections");
    host.stands("receivers that hang").await;
}

#[expect(clippy::print_stdout, reason = "the figures are a result of the test")]
fn report(what: &str, figure: impl std::fmt::Display) {
    println!("{what}: {figure}");
}
