//! Attacks by one client with messages that do not come to their end.

use std::net::Ipv4Addr;

use futures_util::future::join_all;

use crate::embedded_host::{ATTACKER, EmbeddedHost, PASSWORD, Talk, auth_plain, connect_from, of_network, size};

/// A message that is received in memory.
const SMALL: usize = 990_000;

/// The setting of the disk space for messages in transit: the default one in full size.
const DISK: &str = "MAILAPI_ADVANCED__BUFFER__MAX_DISK_BYTES";

/// Length of a message that is received in the disk buffer. A few of them need more than all disk space.
fn large() -> usize {
    size(24_900_000, 6_000_000)
}

fn disk() -> &'static str {
    ["64MiB", "4GiB"][size(1, 0)]
}

fn text(length: usize) -> String {
    format!("{}\r\n", "x".repeat(998)).repeat(length / 1000)
}

/// Begins a message to ann by SMTP, or by submission as ann, and stops before its end.
async fn begun(host: &EmbeddedHost, from: Ipv4Addr, listener: &str, text: &str) -> Talk {
    let mut client = Talk::begin(connect_from(from, host.listener(listener)).await).await;
    client.say("EHLO x\r\n", "250 ").await;
    let sender = match listener {
        "submission" => {
            client.say(&auth_plain("ann@example.org", PASSWORD), "235 ").await;
            "ann@example.org"
        }
        _ => "eve@stranger.example",
    };
    // Without room the answer to any of them is 452.
    for command in [format!("MAIL FROM:<{sender}>\r\n"), "RCPT TO:<ann@example.org>\r\n".into(), "DATA\r\n".into()] {
        client.write(command.as_bytes()).await;
        let reply = client.line().await;
        assert!(reply.starts_with(['2', '3', '4']), "{reply}");
        if reply.starts_with('4') {
            return client;
        }
    }
    client.write(text.as_bytes()).await;
    client
}

/// Begins an APPEND of ann, and stops before its end.
async fn begun_by_imap(host: &EmbeddedHost, text: &str) -> Talk {
    let mut client = Talk::begin(connect_from(ATTACKER, host.listener("imap")).await).await;
    client.say(&format!("a LOGIN ann@example.org \"{PASSWORD}\"\r\n"), "a OK").await;
    client.say(&format!("b APPEND INBOX {{{}}}\r\n", text.len() + 1), "+ ").await;
    client.write(text.as_bytes()).await;
    client
}

/// Checks that messages of others arrive, which are as long as this.
async fn others_arrive(host: &EmbeddedHost, during: &str, length: usize) {
    host.listeners_answer(during).await;
    let text = text(length);
    let mut smtp = Talk::begin(host.owner("smtp").await).await;
    smtp.say("EHLO x\r\n", "250 ").await;
    smtp.say("MAIL FROM:<cid@elsewhere.example>\r\n", "250 ").await;
    smtp.say("RCPT TO:<bob@example.org>\r\n", "250 ").await;
    smtp.say("DATA\r\n", "354 ").await;
    smtp.say(&format!("Subject: {during}\r\n\r\n{text}.\r\n"), "250 ").await;
    let mut imap = Talk::begin(host.owner("imap").await).await;
    imap.say(&format!("a LOGIN bob@example.org \"{PASSWORD}\"\r\n"), "a OK").await;
    imap.say(&format!("b APPEND INBOX {{{}}}\r\n", text.len()), "+ ").await;
    imap.say(&format!("{text}\r\n"), "b OK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn unfinished_messages_of_a_client_leave_room_for_others() {
    let host = EmbeddedHost::open(&[(DISK, disk())]).await;
    let (small, large) = (text(SMALL), text(large()));
    // As many connections as an address may have. The server counts them for a moment after their end.
    let first = of_network(0, 100);
    let in_memory = join_all((0..100).map(|_| begun(&host, first, "smtp", &small))).await;
    others_arrive(&host, "unfinished messages in memory", 10_000).await;
    drop(in_memory);
    let many = size(100, 12);
    let by_smtp = join_all((0..many).map(|_| begun(&host, ATTACKER, "smtp", &large))).await;
    others_arrive(&host, "unfinished messages of a stranger", 3_000_000).await;
    let by_imap = join_all((0..size(48, 12)).map(|_| begun_by_imap(&host, &large))).await;
    let submitted = join_all((0..many).map(|_| begun(&host, ATTACKER, "submission", &large))).await;
    others_arrive(&host, "unfinished messages of a mailbox", 3_000_000).await;
    drop((by_smtp, by_imap, submitted));
    host.stands("unfinished messages").await;
}
