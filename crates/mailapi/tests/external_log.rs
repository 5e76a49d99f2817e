//! The mail server's log: followed by `mailapi follow` on each mail server's host, with one shared database; after
//! losses; and as the source of inbound statistics.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod external_host;
mod support;

use std::fs;
use std::net::SocketAddr;
use std::process::Child;
use std::time::Duration;

use external_host::{Engine, ExternalHost};
use mailapi_testkit::send_signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Longer than any of these tests needs, shorter than a person would wait.
const SOON: Duration = Duration::from_secs(60);

/// A follower; killed when it is dropped.
struct Follower(Child);

impl Follower {
    /// Stops it with SIGTERM; returns its exit code.
    fn stop(mut self) -> Option<i32> {
        assert!(send_signal("TERM", &self.0));
        self.0.wait().unwrap().code()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an installation whose API host has no log.
async fn without_a_log() -> ExternalHost {
    let mut host = ExternalHost::open(Engine::Postgres).await;
    host.log = "".into();
    host.restart_mailapi();
    host
}

async fn entries(host: &ExternalHost, filter: &str) -> Vec<Value> {
    let log = host.get(&format!("/mail/delivery-log?limit=200&{filter}")).await.expect(200);
    log["entries"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_on_two_hosts_each_report_their_own_server() {
    let host = without_a_log().await;
    assert_eq!(host.health().await["checks"], json!({ "database": "ok", "smtp": "ok", "imap": "ok" }));
    let sent = host.try_send(&["good@elsewhere.example"]).await.expect(202);
    let (id, queue_id) = (sent["message_id"].as_str().unwrap(), sent["queue_id"].as_str().unwrap());
    assert_eq!(host.get(&format!("/mail/{id}/status")).await.expect(200)["status"], "submitted");

    // The other server's log has another message with the same queue id.
    let other = host.work_dir.path().join("other.log");
    let line = |daemon: &str, text: &str| format!("2026-11-21T08:00:00Z mx2 postfix/{daemon}[7]: {queue_id}: {text}\n");
    let lines = line("cleanup", "message-id=<someone@elsewhere.example>")
        + &line("qmgr", "from=<eve@elsewhere.example>, size=1, nrcpt=1 (queue active)")
        + &line(
            "smtp",
            "to=<good@elsewhere.example>, relay=none, delay=1, delays=0/0/0/1, dsn=5.1.1, status=bounced (no such user)",
        )
        + &line("qmgr", "removed");
    fs::write(&other, lines).unwrap();
    let second = Follower(host.follow("mx2", &other));
    host.until(SOON, async || entries(&host, "status=bounced").await.len() == 1).await;
    assert_eq!(entries(&host, "status=bounced").await[0]["message_id"], json!(null));

    let first = Follower(host.follow("mx1", &host.postfix.log()));
    host.watch(id, "sent", SOON).await;
    // Each follower stores its own position in its log.
    let next = host.send(&["next@elsewhere.example"]).await;
    host.watch(&next, "sent", SOON).await;
    assert_eq!(entries(&host, "sender=eve@elsewhere.example").await.len(), 1);
    assert_eq!((first.stop(), second.stop()), (Some(0), Some(0)));

    // The log grew while the follower was stopped; the next one continues at the stored position.
    let last = host.send(&["last@elsewhere.example"]).await;
    let first = Follower(host.follow("mx1", &host.postfix.log()));
    host.watch(&last, "sent", SOON).await;
    for id in [id, &next, &last] {
        assert_eq!(entries(&host, &format!("message_id={id}")).await.len(), 1);
    }
    assert_eq!(first.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_decides_a_message_whose_reply_was_lost() {
    let mut host = without_a_log().await;
    host.submission = swallow_replies(host.postfix.api()).await;
    host.restart_mailapi();
    let answer = host.try_send(&["good@elsewhere.example"]).await;
    assert_ne!(answer.status, 202, "{}", answer.text());
    let sent = host.get("/mail/sent?status=pending").await.expect(200);
    let id = sent["messages"][0]["message_id"].as_str().unwrap().to_owned();
    let first = Follower(host.follow("mx1", &host.postfix.log()));
    host.watch(&id, "sent", SOON).await;
    assert_eq!(host.sink.received().len(), 1);
    assert_eq!(first.stop(), Some(0));
}

/// Starts a proxy that drops the reply to a message, together with the connection.
async fn swallow_replies(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(client, server));
        }
    });
    address
}

async fn pass_on(client: TcpStream, server: SocketAddr) {
    let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
    let (mut from_client, mut to_client) = client.into_split();
    let sending = tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
        let is_reply_to_message = bytes[..count].windows(9).any(|some| some == b"queued as");
        if is_reply_to_message || to_client.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    sending.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_in_the_log_shows_in_health_and_in_the_doctor() {
    let mut host = ExternalHost::open(Engine::Sqlite).await;
    let id = host.send(&["good@elsewhere.example"]).await;
    host.watch(&id, "sent", SOON).await;
    assert_eq!(host.health().await["checks"]["log"], "ok");
    let (code, report) = host.doctor();
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("ok     queue listing: 0 messages"), "{report}");

    host.postfix.kill();
    host.postfix.restart().await;
    host.until(SOON, async || host.health().await["checks"]["log"] == "incomplete").await;
    // All parts work: the lost lines cannot be recovered.
    assert_eq!(host.health().await["status"], "ok");
    let (code, report) = host.doctor();
    assert_eq!(code, Some(0), "{report}");
    let found = report.lines().find(|line| line.starts_with("note   log losses: from 20")).expect(&report);
    assert!(found.contains(" to 20") && found.contains("mail_server_crashed"), "{found}");
    assert!(report.contains("advice: "), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deferred_message_survives_a_stop_and_two_rotations() {
    let mut host = ExternalHost::open_on(Engine::Sqlite, &[], |_| {}).await;
    let to = "later@elsewhere.example";
    host.sink.refuse(to, &["450 4.2.0 Greylisted"; 1000]);
    let id = host.send(&[to]).await;
    host.until(SOON, async || !entries(&host, &format!("message_id={id}&status=deferred")).await.is_empty()).await;
    host.stop_mailapi();
    // One rotated file is kept, so the message's first lines are gone.
    for _ in 0..2 {
        fs::rename(&host.log, host.log.with_extension("log.1")).unwrap();
        host.postfix.reopen_log();
        // Postfix must have reopened its log in all processes before the next rotation. A delivery shows that.
        host.postfix.deliver("eve@elsewhere.example", "ann@example.org", &[b"Subject: Rotated\r\n\r\nHi\r\n"]).await;
    }
    host.sink.refuse(to, &[]);
    host.restart_mailapi();
    let status = host.watch(&id, "sent", SOON).await;
    assert_eq!(status["recipients"][0]["status"], "sent", "{status}");
    assert_eq!(entries(&host, &format!("message_id={id}&status=sent")).await.len(), 1);
    // The file that was being read at the stop is gone, with lines that were written to it afterwards.
    assert_eq!(host.health().await["checks"]["log"], "incomplete");
}

#[expect(clippy::print_stdout, reason = "the figures are a result, shown with --nocapture")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_appears_when_its_line_is_written() {
    const MESSAGES: usize = 40;
    let host = ExternalHost::open_on(Engine::Sqlite, &[], |_| {}).await;
    let mut lags = Vec::new();
    for number in 0..MESSAGES {
        let to = format!("r{number}@elsewhere.example");
        let id = host.send(&[&to]).await;
        let logged = format!("to=<{to}>");
        let is_logged = async || fs::read_to_string(&host.log).unwrap().contains(&logged);
        host.until(SOON, is_logged).await;
        let since = Instant::now();
        host.watch(&id, "sent", SOON).await;
        lags.push(since.elapsed());
    }
    lags.sort();
    println!("from the line to the status: median {:?}, most {:?}", lags[MESSAGES / 2], lags[MESSAGES - 1]);
}

/// Header of a message that the milter rejects.
const UNWANTED: &str = "X-Unwanted: yes";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_from_outside_is_counted_for_local_domains_only() {
    let milter = refuse_unwanted().await;
    let host = ExternalHost::open_on(Engine::Sqlite, &[], |postfix| {
        let marks = "regexp:{{/^X-Spam-Flag: yes/ WARN}}".to_owned();
        let milters = format!("inet:{}:{}", milter.ip(), milter.port());
        postfix.parameters.extend([("header_checks".to_owned(), marks), ("smtpd_milters".to_owned(), milters)]);
    })
    .await;
    for (to, header, reply) in [
        // An attempt to relay to another domain.
        ("eve@elsewhere.example", "Subject: relay", "554"),
        ("nobody@example.org", "Subject: unknown", "550"),
        ("bob@example.org", UNWANTED, "550"),
        ("bob@example.org", "X-Spam-Flag: YES", "250"),
        ("bob@example.org", "Subject: good", "250"),
    ] {
        let said = hand_in(host.postfix.smtp(), to, header).await;
        assert!(said.starts_with(reply), "{to}, {header}: {said}");
    }
    let inbound = async || host.get("/stats/domain/example.org").await.expect(200)["inbound"].clone();
    host.until(SOON, async || inbound().await["total"] == 4).await;
    let counts = inbound().await;
    assert_eq!((&counts["accepted"], &counts["rejected"], &counts["spam"]), (&json!(2), &json!(2), &json!(1)));
    // A domain that is added only now has empty statistics.
    assert_eq!(host.post("/domains", json!({ "domain": "elsewhere.example" })).await.status, 201);
    let other = host.get("/stats/domain/elsewhere.example").await.expect(200);
    assert_eq!(other["inbound"]["total"], 0);
}

/// Delivers a message from outside; returns the first reply that is not a success, or the last one.
async fn hand_in(server: SocketAddr, to: &str, header: &str) -> String {
    let stream = TcpStream::connect(server).await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mail = format!("{header}\r\n\r\nhello\r\n.");
    let rcpt = format!("RCPT TO:<{to}>");
    let mut reply = String::new();
    for command in ["", "HELO client.example", "MAIL FROM:<eve@elsewhere.example>", &rcpt, "DATA", &mail] {
        if !command.is_empty() {
            writer.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        }
        reply.clear();
        reader.read_line(&mut reply).await.unwrap();
        if !reply.starts_with(['2', '3']) {
            break;
        }
    }
    reply
}

/// Starts a milter that rejects messages with the header `X-Unwanted`, and accepts all others.
async fn refuse_unwanted() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(milter(stream));
        }
    });
    address
}

/// The milter protocol: a length, a command letter, and data; responses have the same form.
async fn milter(mut stream: TcpStream) -> Option<()> {
    let mut is_unwanted = false;
    loop {
        let length = usize::try_from(stream.read_u32().await.ok()?).unwrap();
        let mut packet = vec![0; length];
        stream.read_exact(&mut packet).await.ok()?;
        let answer: &[u8] = match packet[0] {
            // Version 2, no changes to messages, every step.
            b'O' => b"O\0\0\0\x02\0\0\0\0\0\0\0\0",
            // Macros; end of one message (`A`); end of the connection (`Q`).
            b'D' => continue,
            b'A' => {
                is_unwanted = false;
                continue;
            }
            b'Q' => return Some(()),
            b'L' => {
                is_unwanted |= packet[1..].starts_with(b"X-Unwanted\0");
                b"c"
            }
            b'E' if is_unwanted => b"r",
            _ => b"c",
        };
        stream.write_u32(u32::try_from(answer.len()).unwrap()).await.ok()?;
        stream.write_all(answer).await.ok()?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_a_killed_node_are_decided_by_another_one() {
    let mut host = ExternalHost::open(Engine::Postgres).await;
    let postfix = host.postfix.api();
    let (held, mut holds) = mpsc::channel(2);
    host.submission = hold(postfix, held).await;
    host.restart_mailapi();
    let sends = ["taken@elsewhere.example", "lost@elsewhere.example"].map(|to| {
        let message = json!({ "from": "ann@example.org", "to": [to], "subject": "Hi", "body": { "text": "Hi" } });
        (host.client(), message)
    });
    let mut sending = Vec::new();
    for (client, message) in sends {
        sending.push(tokio::spawn(async move { client.post("/mail/send", &message).await }));
        timeout(SOON, holds.recv()).await.unwrap().unwrap();
    }
    // Postfix may answer before the record of the second message is durable, and a kill would then leave no trace of it.
    host.until(SOON, async || host.get("/mail/sent").await.expect(200)["total"] == 2).await;
    host.submission = postfix;
    host.replace_mailapi();
    for send in sending {
        assert_eq!(send.await.unwrap(), None, "the node was killed before it answered");
    }

    let listed = host.get("/mail/sent").await.expect(200);
    for (position, status) in [(0, "failed"), (1, "sent")] {
        let id = listed["messages"][position]["message_id"].as_str().unwrap();
        host.watch(id, status, SOON).await;
    }
    let received = host.sink.received();
    assert_eq!(received.len(), 1, "{received:?}");
}

/// Starts a proxy to a server. It drops every response after the first accepted message, and accepts nothing of the
/// second.
async fn hold(server: SocketAddr, held: mpsc::Sender<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for last in [&b"queued as"[..], b"354 "] {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(pass_on_until(client, server, last, held.clone()));
        }
    });
    address
}

/// Holds back the reply that contains these bytes, and everything after it.
async fn pass_on_until(client: TcpStream, server: SocketAddr, last: &[u8], held: mpsc::Sender<()>) {
    let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
    let (mut from_client, mut to_client) = client.into_split();
    let sending = tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
        if bytes[..count].windows(last.len()).any(|some| some == last) {
            held.send(()).await.unwrap();
            // Until the client disconnects.
            let _ = sending.await;
            return;
        }
        to_client.write_all(&bytes[..count]).await.unwrap();
    }
}
