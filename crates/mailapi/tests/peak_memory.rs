//! An attachment of 50 MB, up and down again through the real binary in front of a real Postfix and Dovecot: what the
//! process keeps in memory meanwhile.

#[expect(dead_code, reason = "other stories use the rest of it")]
mod external_office;
mod support;

use std::fs;
use std::time::Duration;

use external_office::{Engine, Office};
use mailapi_model::Entropy;
use mailapi_testkit::SeededEntropy;
use serde_json::json;

const ATTACHMENT: usize = 50_000_000;
const MIB: u64 = 1 << 20;
/// What a download may add to the memory of an idle process: much less than the attachment.
const DOWNLOAD: u64 = 16 * MIB;
/// What an upload may add: the body of the request, and the message that is made of it, both with base64.
const UPLOAD: u64 = 160 * MIB;
const PATIENCE: Duration = Duration::from_secs(120);
/// A message of this size is more than the defaults let through.
const LIMITS: [(&str, &str); 3] = [
    ("MAILAPI_HTTP__MAX_REQUEST_BYTES", "80MiB"),
    ("MAILAPI_LIMITS__MAX_MESSAGE_BYTES", "80MiB"),
    ("MAILAPI_MAIL__EXTERNAL__SMTP__POOL__DATA_TIMEOUT", "2m"),
];

#[expect(clippy::print_stdout, reason = "the figures are what one wants to know")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attachment_of_50_mb_is_not_in_memory_at_once() {
    let mut office = Office::open_on(Engine::Sqlite, &LIMITS, |postfix| {
        let size = 100 * MIB;
        postfix.parameters.push(("message_size_limit".to_owned(), size.to_string()));
    })
    .await;
    let attachment = octets();
    let before = Memory::of(&office);
    let id = send(&office, &attachment).await;
    let up = Memory::of(&office);
    office.watch(&id, "sent", PATIENCE).await;

    // A fresh process, so that nothing is left of the upload.
    office.restart_mailapi();
    let listed = office.get("/mailbox/bob@example.org/folders/INBOX/messages/1/attachments").await.expect(200);
    assert_eq!(listed["attachments"][0]["size"], ATTACHMENT, "{listed}");
    let idle = Memory::of(&office);
    let response = office.response("/mailbox/bob@example.org/messages/1/attachment/0").await;
    assert_eq!(response.status(), 200);
    is_received(response, &attachment).await;
    let down = Memory::of(&office);

    let (up, down) = (up.peak.saturating_sub(before.now), down.peak.saturating_sub(idle.now));
    println!("above {} MiB when idle: {} MiB for 50 MB up, {} MiB down", idle.now / MIB, up / MIB, down / MIB);
    assert!(up <= UPLOAD && down <= DOWNLOAD, "{up} octets up, {down} down");
}

/// Octets that no compression makes smaller, always the same.
fn octets() -> Vec<u8> {
    let mut octets = vec![0; ATTACHMENT];
    SeededEntropy::default().fill(&mut octets);
    octets
}

/// Sends it to bob; the message's id.
async fn send(office: &Office, attachment: &[u8]) -> String {
    let message = json!({
        "from": "ann@example.org", "to": ["bob@example.org"], "subject": "A large one", "body": { "text": "See there." },
        "attachments": [{ "filename": "large.bin", "content": base64(attachment) }]
    });
    let answer = office.post("/mail/send", message).await.expect(202);
    answer["message_id"].as_str().unwrap().to_owned()
}

fn base64(octets: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(octets)
}

/// Reads an answer piece by piece and compares it.
async fn is_received(mut response: reqwest::Response, wanted: &[u8]) {
    let mut at = 0;
    while let Some(piece) = response.chunk().await.unwrap() {
        let end = at + piece.len();
        assert!(wanted.get(at..end).is_some_and(|wanted| wanted == piece), "another octet in {at}..{end}");
        at = end;
    }
    assert_eq!(at, wanted.len());
}

/// What a process has in memory, in octets.
#[derive(Debug)]
struct Memory {
    now: u64,
    /// The most since its start.
    peak: u64,
}

impl Memory {
    fn of(office: &Office) -> Self {
        let status = fs::read_to_string(format!("/proc/{}/status", office.mailapi())).unwrap();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
        };
        Self { now: value("VmRSS:"), peak: value("VmHWM:") }
    }
}
