//! Attacks with large responses.

use tokio::io::AsyncWriteExt;

use crate::embedded_host::{ATTACKER, EmbeddedHost, PASSWORD, Talk, connect_from, size, status};

const READERS: usize = 15;
/// Sessions of one mailbox beside the one that changes the messages.
const SESSIONS: usize = 47;
/// Checks of the listeners while the sessions are reported to.
const CHECKS: usize = 10;

/// Delivers a text of control characters to bob; each takes six bytes in JSON.
async fn deliver(host: &EmbeddedHost, bytes: usize) {
    let mut smtp = Talk::begin(host.attacker("smtp").await).await;
    smtp.say("EHLO mx.example.net\r\n", "250 ").await;
    smtp.say("MAIL FROM:<eve@example.net>\r\n", "250 ").await;
    smtp.say("RCPT TO:<bob@example.org>\r\n", "250 ").await;
    smtp.say("DATA\r\n", "354 ").await;
    let line = format!("{}\r\n", "\u{1}".repeat(900));
    smtp.write(b"Subject: control\r\n\r\n").await;
    smtp.write(line.repeat(bytes / line.len()).as_bytes()).await;
    smtp.say(".\r\n", "250 ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn readers_of_a_long_text_stay_small() {
    let host = EmbeddedHost::open(&[]).await;
    deliver(&host, size(23_000_000, 8_000_000)).await;
    // Admins and bob may read the message; each token has a share of the budget.
    let tokens = [host.bob.clone(), host.server.token()];
    for path in ["/mailbox/bob@example.org/messages/1", "/mailbox/bob@example.org/messages/1/raw"] {
        let one = |n: usize| {
            let (listener, token) = (host.listener("http"), &tokens[n % 2]);
            let request = format!("GET /api/v1{path} HTTP/1.1\r\nHost: x\r\nX-MAILAPI-TOKEN: {token}\r\n\r\n");
            async move {
                let mut stream = connect_from(ATTACKER, listener).await;
                stream.write_all(request.as_bytes()).await.unwrap();
                // The client reads no more of the response.
                let status = status(&mut stream).await;
                (status, stream)
            }
        };
        let held = futures_util::future::join_all((0..READERS).map(one)).await;
        let answers: Vec<u16> = held.iter().map(|(status, _)| *status).collect();
        assert!(answers.contains(&200) && answers.iter().all(|status| [200, 503].contains(status)), "{answers:?}");
        host.listeners_answer("readers of a long text").await;
        drop(held);
    }
    host.stands("readers of a long text").await;
}

/// Opens INBOX in a session of bob.
async fn session(host: &EmbeddedHost) -> Talk {
    let mut imap = Talk::begin(host.attacker("imap").await).await;
    imap.say(&format!("a LOGIN bob@example.org \"{PASSWORD}\"\r\n"), "a OK").await;
    imap.say("b SELECT INBOX\r\n", "b OK").await;
    imap
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn reports_of_changes_that_nobody_reads_stay_small() {
    let host = EmbeddedHost::open(&[]).await;
    let mut first = session(&host).await;
    const BEGINNING: usize = 100;
    let messages = " {9+}\r\nA: b\r\n\r\nx".repeat(BEGINNING);
    first.say(&format!("c APPEND INBOX{messages}\r\n"), "c OK").await;
    let mut count = BEGINNING;
    while count < size(200_000, 12_800) {
        first.say("d COPY 1:* INBOX\r\n", "d OK").await;
        count *= 2;
    }
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(session(&host).await);
    }
    first.say("e STORE 1:* +FLAGS.SILENT (\\Seen)\r\n", "e OK").await;
    for session in &mut sessions {
        // It reads no response.
        session.write(b"f NOOP\r\n").await;
    }
    for _ in 0..CHECKS {
        host.listeners_answer("reports that nobody reads").await;
    }
    drop((first, sessions));
    host.stands("reports that nobody reads").await;
}
