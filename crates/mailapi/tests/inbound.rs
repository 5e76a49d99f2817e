//! Mail from outside, checked by the real binary with a DNS that has no names.

mod support;

use std::net::UdpSocket;

use mailapi_testkit::RealRspamd;
use serde_json::{Value, json};
use support::{Dialogue, Server, WorkDir};

const PASSWORD: &str = "correct horse battery";

/// Starts a name server that has no names; returns its address. It ends with the test.
fn empty_dns() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut packet = [0; 1500];
        while let Ok((length, client)) = socket.recv_from(&mut packet) {
            // The question is returned as an answer with the code NXDOMAIN (RFC 1035 section 4.1.1), without
            // additional records.
            let question = packet[12..length].iter().position(|byte| *byte == 0).map_or(length, |end| 12 + end + 5);
            packet[2] |= 0x80;
            packet[3] = 0x83;
            packet[6..12].fill(0);
            let _ = socket.send_to(&packet[..question.min(length)], client);
        }
    });
    address
}

/// A server with the mailbox ann of example.org that checks mail from this machine too.
async fn server(work_dir: &WorkDir, dmarc: &str) -> Server {
    server_with(work_dir, &format!("dmarc = \"{dmarc}\"")).await
}

async fn server_with(work_dir: &WorkDir, inbound: &str) -> Server {
    let settings = format!(
        "[dns]\nservers = [\"{}\"]\n[metrics]\nlisten = \"127.0.0.1:0\"\n[mail.embedded.inbound]\n{inbound}\ntrusted_networks = []\n",
        empty_dns()
    );
    std::fs::write(work_dir.path().join("mailapi.toml"), settings).unwrap();
    let mut server = work_dir.serve();
    server.drain();
    post(&server, "/domains", json!({ "domain": "example.org" })).await;
    post(&server, "/users", json!({ "email": "ann@example.org", "password": PASSWORD })).await;
    server
}

async fn post(server: &Server, path: &str, body: Value) {
    let request = reqwest::Client::new().post(server.api(path)).header("X-MAILAPI-TOKEN", server.token());
    let answer = request.json(&body).send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
}

async fn get(server: &Server, path: &str) -> String {
    let request = reqwest::Client::new().get(server.api(path)).header("X-MAILAPI-TOKEN", server.token());
    request.send().await.unwrap().text().await.unwrap()
}

/// Sends a message from this author to ann without a login, which ends with this reply.
fn send(server: &Server, author: &str, reply: &str) {
    send_text(server, &format!("From: {author}\r\nSubject: Hi\r\n\r\nHello\r\n"), reply);
}

fn send_text(server: &Server, text: &str, reply: &str) {
    let mut client = Dialogue::begin(server.running["smtp"].as_str().unwrap(), "220 ");
    client.say("EHLO mx.far.example", "250 ");
    client.say("MAIL FROM:<zoe@far.example>", "250 ");
    client.say("RCPT TO:<ann@example.org>", "250 ");
    client.say("DATA", "354 ");
    client.write(text.as_bytes());
    client.say(".", reply);
}

async fn total(server: &Server, folder: &str) -> Value {
    let listed = get(server, &format!("/mailbox/ann@example.org/messages?folder={folder}")).await;
    serde_json::from_str::<Value>(&listed).unwrap()["total"].clone()
}

#[tokio::test]
async fn a_forged_author_of_this_server_is_refused() {
    let work_dir = WorkDir::new();
    let server = server(&work_dir, "reject").await;
    send(&server, "boss@example.org", "550 5.7.1 Mail from example.org needs a login here");
    send(&server, "zoe@far.example", "250 ");
    assert_eq!((total(&server, "INBOX").await, total(&server, "Junk").await), (json!(1), json!(0)));
}

#[tokio::test]
async fn a_forged_author_of_this_server_is_junk_by_default() {
    let work_dir = WorkDir::new();
    let server = server(&work_dir, "junk").await;
    send(&server, "boss@example.org", "250 ");
    assert_eq!((total(&server, "INBOX").await, total(&server, "Junk").await), (json!(0), json!(1)));
    let raw = get(&server, "/mailbox/ann@example.org/messages/1/raw?folder=Junk").await;
    let results = "Return-Path: <zoe@far.example>\r\nDelivered-To: ann@example.org\r\nAuthentication-Results: localhost;\r\n\
        \tspf=none smtp.mailfrom=far.example;\r\n\tdkim=none;\r\n\
        \tdmarc=fail (author in a domain of this server) header.from=example.org policy.dmarc=reject;\r\n\
        \tarc=none\r\nReceived: from mx.far.example";
    assert!(raw.starts_with(results), "{raw}");
}

/// The test message of spam filters; in two parts, so that no filter takes this file for spam.
const GTUBE: [&str; 2] = ["XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD", "-ANTI-UBE-TEST-EMAIL*C.34X"];

#[tokio::test]
async fn a_real_rspamd_decides_about_spam() {
    let (work_dir, rspamd) = (WorkDir::new(), RealRspamd::start());
    let server = server_with(&work_dir, &format!("rspamd = \"{}\"", rspamd.address())).await;
    let mail = |text: &str| format!("From: zoe@far.example\r\nX-Spam: Yes\r\nSubject: Hi\r\n\r\n{text}\r\n");
    send_text(&server, &mail(&GTUBE.concat()), "550 5.7.1 ");
    send_text(&server, &mail("Hello"), "250 ");
    assert_eq!((total(&server, "INBOX").await, total(&server, "Junk").await), (json!(1), json!(0)));
    let raw = get(&server, "/mailbox/ann@example.org/messages/1/raw").await;
    assert!(raw.contains("\r\nX-Spam-Status: No, score=") && !raw.contains("X-Spam: Yes"), "{raw}");
    let metrics = server.metrics().await;
    for line in ["mailapi_spam_checks_total{result=\"rejected\"} 1", "mailapi_spam_checks_total{result=\"passed\"} 1"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let found = work_dir.run(&["doctor"]).stdout;
    assert!(found.contains("rspamd") && !found.contains("no connection to rspamd"), "{found}");
    // Without it, mail passes.
    drop(rspamd);
    send_text(&server, &mail(&GTUBE.concat()), "250 ");
    assert!(server.metrics().await.contains("mailapi_spam_checks_total{result=\"failed\"} 1"));
    let found = work_dir.run(&["doctor"]).stdout;
    assert!(found.contains("no connection to rspamd"), "{found}");
}
