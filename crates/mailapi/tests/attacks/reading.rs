//! Attacks with large responses.

use tokio::io::AsyncWriteExt;

use crate::embedded_host::{ATTACKER, EmbeddedHost, Talk, connect_from, size, status};

const READERS: usize = 15;

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
