//! Peak memory of the real binary with an attachment of 50 MB. It is uploaded and downloaded in front of a real
//! Postfix and Dovecot. It is sent to the built-in mail server by the API, by SMTP and by IMAP.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod external_host;
mod support;

use std::fs;
use std::time::{Duration, Instant};

use external_host::{Engine, ExternalHost};
use mailapi_model::Entropy;
use mailapi_testkit::SeededEntropy;
use serde_json::{Value, json};
use support::{Dialogue, Server, WorkDir};

const ATTACHMENT: usize = 50_000_000;
const MIB: u64 = 1 << 20;
/// Maximum growth of an idle process during a download: much less than the attachment.
const DOWNLOAD: u64 = 16 * MIB;
/// Maximum growth during an upload by any protocol. A release build needs 6 to 11 MiB; the attachment alone, once
/// in memory as base64, would need 64.
const UPLOAD: u64 = 40 * MIB;
const PATIENCE: Duration = Duration::from_secs(120);
const PASSWORD: &str = "correct horse battery";
/// The default limits reject a message of this size.
const LIMITS: [(&str, &str); 2] =
    [("MAILAPI_HTTP__MAX_REQUEST_BYTES", "80MiB"), ("MAILAPI_LIMITS__MAX_MESSAGE_BYTES", "80MiB")];

#[expect(clippy::print_stdout, reason = "the figures are a result of the test")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attachment_of_50_mb_is_not_in_memory_at_once() {
    let mut host = ExternalHost::open_on(Engine::Sqlite, &LIMITS, |postfix| {
        let size = 100 * MIB;
        postfix.parameters.push(("message_size_limit".to_owned(), size.to_string()));
    })
    .await;
    let attachment = bytes();
    let before = Memory::of(host.mailapi());
    let id = send(&host, &attachment).await;
    let up = Memory::of(host.mailapi());
    host.watch(&id, "sent", PATIENCE).await;

    // A new process, so that the upload does not affect its peak.
    host.restart_mailapi();
    let listed = host.get("/mailbox/bob@example.org/folders/INBOX/messages/1/attachments").await.expect(200);
    assert_eq!(listed["attachments"][0]["size"], ATTACHMENT, "{listed}");
    let idle = Memory::of(host.mailapi());
    let response = host.response("/mailbox/bob@example.org/messages/1/attachment/0").await;
    assert_eq!(response.status(), 200);
    is_received(response, &attachment).await;
    let down = Memory::of(host.mailapi());

    let (up, down) = (up.peak.saturating_sub(before.now), down.peak.saturating_sub(idle.now));
    println!("above {} MiB when idle: {} MiB for 50 MB up, {} MiB down", idle.now / MIB, up / MIB, down / MIB);
    assert!(up <= UPLOAD && down <= DOWNLOAD, "{up} bytes up, {down} down");
}

#[expect(clippy::print_stdout, reason = "the figures are a result of the test")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_built_in_server_streams_50_mb_on_every_listener() {
    let (attachment, mut host) = (bytes(), BuiltIn::open().await);
    let message = message(&attachment);
    let by_api = host.send(&attachment).await;
    // A new process each time, so that the previous step does not affect its peak.
    host.restart();
    let by_smtp = host.deliver(&message).await;
    host.restart();
    let by_imap = host.append(&message).await;
    println!("above rest: {} MiB by the API, {} by SMTP, {} by IMAP", by_api / MIB, by_smtp / MIB, by_imap / MIB);
    assert!(
        by_api.max(by_smtp).max(by_imap) <= UPLOAD,
        "{by_api} bytes by the API, {by_smtp} by SMTP, {by_imap} by IMAP"
    );
}

/// A mailapi with the built-in mail server, and the mailboxes ann and bob of example.org.
struct BuiltIn {
    work_dir: WorkDir,
    server: Option<Server>,
    token: String,
    client: reqwest::Client,
    /// Number of messages in bob's mailbox.
    received: u32,
}

impl BuiltIn {
    async fn open() -> Self {
        let work_dir = WorkDir::new();
        let client = reqwest::Client::new();
        let mut host = Self { work_dir, server: None, token: String::new(), client, received: 0 };
        host.restart();
        host.token = host.server().token();
        host.post("/domains", json!({ "domain": "example.org" })).await;
        for name in ["ann", "bob"] {
            let user = json!({ "email": format!("{name}@example.org"), "password": PASSWORD });
            host.post("/users", user).await;
        }
        host.restart();
        host
    }

    fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop("TERM");
        }
        let mut command = self.work_dir.command(&["serve", "--log-format", "json"]);
        command.envs(LIMITS);
        let mut server = Server::start(command);
        server.drain();
        self.server = Some(server);
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn memory(&self) -> Memory {
        Memory::of(self.server().id())
    }

    async fn post(&self, path: &str, body: Value) {
        let request = self.client.post(self.server().api(path)).header("X-MAILAPI-TOKEN", &self.token).json(&body);
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
    }

    /// Returns the growth of memory when the message is sent by the API.
    async fn send(&mut self, attachment: &[u8]) -> u64 {
        let rest = self.memory();
        self.post("/mail/send", request(attachment)).await;
        self.is_received().await;
        self.memory().peak.saturating_sub(rest.now)
    }

    /// Returns the growth of memory when another mail server delivers the message by SMTP.
    async fn deliver(&mut self, message: &[u8]) -> u64 {
        let mut smtp = Dialogue::begin(self.server().running["smtp"].as_str().unwrap(), "220 ");
        smtp.say("EHLO mx.example.net", "250 ");
        let rest = self.memory();
        smtp.say("MAIL FROM:<eve@example.net>", "250 ");
        smtp.say("RCPT TO:<bob@example.org>", "250 ");
        smtp.say("DATA", "354 ");
        smtp.write(message);
        smtp.say(".", "250 ");
        self.is_received().await;
        self.memory().peak.saturating_sub(rest.now)
    }

    /// Returns the growth of memory when the message is appended by IMAP.
    async fn append(&mut self, message: &[u8]) -> u64 {
        let mut imap = Dialogue::begin(self.server().running["imap"].as_str().unwrap(), "* OK ");
        imap.say(&format!("a LOGIN bob@example.org \"{PASSWORD}\""), "a OK ");
        let rest = self.memory();
        imap.say(&format!("b APPEND INBOX {{{}}}", message.len()), "+ ");
        imap.write(message);
        imap.say("", "b OK ");
        self.is_received().await;
        self.memory().peak.saturating_sub(rest.now)
    }

    /// Waits until bob has received another message, with the whole attachment.
    async fn is_received(&mut self) {
        self.received += 1;
        let path = format!("/mailbox/bob@example.org/folders/INBOX/messages/{}/attachments", self.received);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = self.client.get(self.server().api(&path)).header("X-MAILAPI-TOKEN", &self.token);
            let answer = request.send().await.unwrap();
            if answer.status() == 200 {
                let listed: Value = answer.json().await.unwrap();
                assert_eq!(listed["attachments"][0]["size"], ATTACHMENT, "{listed}");
                return;
            }
            assert!(Instant::now() < deadline, "{path}: {}", answer.status());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Builds a message with the attachment, in the form of common mail programs.
fn message(attachment: &[u8]) -> Vec<u8> {
    let mut message = String::from(
        "From: eve@example.net\r\nTo: bob@example.org\r\nSubject: A large one\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\nSee there.\r\n\
         --x\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=large.bin\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n",
    );
    // 76 characters per line (RFC 2045 section 6.8).
    for line in attachment.chunks(57) {
        message.push_str(&base64(line));
        message.push_str("\r\n");
    }
    message.push_str("--x--\r\n");
    message.into_bytes()
}

/// Returns incompressible bytes, always the same.
fn bytes() -> Vec<u8> {
    let mut bytes = vec![0; ATTACHMENT];
    SeededEntropy::default().fill(&mut bytes);
    bytes
}

/// Returns the body of the send request.
fn request(attachment: &[u8]) -> Value {
    json!({
        "from": "ann@example.org", "to": ["bob@example.org"], "subject": "A large one", "body": { "text": "See there." },
        "attachments": [{ "filename": "large.bin", "content": base64(attachment) }]
    })
}

/// Sends the attachment to bob; returns the message's identifier.
async fn send(host: &ExternalHost, attachment: &[u8]) -> String {
    let answer = host.post("/mail/send", request(attachment)).await.expect(202);
    answer["message_id"].as_str().unwrap().to_owned()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Reads the response in pieces and compares it.
async fn is_received(mut response: reqwest::Response, wanted: &[u8]) {
    let mut at = 0;
    while let Some(piece) = response.chunk().await.unwrap() {
        let end = at + piece.len();
        assert!(wanted.get(at..end).is_some_and(|wanted| wanted == piece), "another byte in {at}..{end}");
        at = end;
    }
    assert_eq!(at, wanted.len());
}

/// Memory of a process, in bytes.
#[derive(Debug)]
struct Memory {
    now: u64,
    /// Maximum since the start of the process.
    peak: u64,
}

impl Memory {
    fn of(process: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
        };
        Self { now: value("VmRSS:"), peak: value("VmHWM:") }
    }
}
