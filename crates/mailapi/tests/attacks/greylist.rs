//! Attacks that fill tables with rows of strangers.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde_json::json;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::embedded_host::{ATTACKER, EmbeddedHost, Talk, answered_during, connect_from, size};

/// Connections of the attacker.
const CONNECTIONS: usize = 3;
/// Recipients of each message, each a row: as many as the server accepts.
const RECIPIENTS: usize = 1_000;
/// A network's share of the rows that wait.
const SHARE: u64 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn a_flood_of_the_greylist_stalls_no_writes() {
    let names = empty_name_server().await.to_string();
    let host = EmbeddedHost::open(&[
        ("MAILAPI_MAIL__EMBEDDED__INBOUND__GREYLIST", "true"),
        // Mail from this machine is checked too.
        ("MAILAPI_MAIL__EMBEDDED__INBOUND__TRUSTED_NETWORKS", "192.0.2.0/24"),
        ("MAILAPI_DNS__SERVERS", &names),
        ("MAILAPI_DNS__DNSSEC", "false"),
    ])
    .await;
    let all = json!({ "address": "*@example.org", "members": ["ann@example.org"] });
    host.made("/aliases", &host.server.token(), all).await;

    let smtp = host.listener("smtp");
    let mut flood = JoinSet::new();
    for connection in 0..CONNECTIONS {
        flood.spawn(async move {
            for message in 0..size(200, 2) {
                deferred(smtp, connection, message).await;
            }
        });
    }
    answered_during(&host, "a flood of the greylist", async {
        while let Some(done) = flood.join_next().await {
            done.unwrap();
        }
    })
    .await;
    let rows = host.count("SELECT COUNT(*) FROM greylist");
    assert_eq!(rows, SHARE, "rows of one network");
    host.stands("a flood of the greylist").await;
}

/// Sends a message of an unknown sender to many recipients, which is greylisted.
async fn deferred(smtp: SocketAddr, connection: usize, message: usize) {
    let mut talk = Talk::begin(connect_from(ATTACKER, smtp).await).await;
    talk.say("EHLO x.example\r\n", "250 ").await;
    talk.say(&format!("MAIL FROM:<s{connection}-{message}@far.example>\r\n"), "250 ").await;
    let mut recipients = String::new();
    for number in 0..RECIPIENTS {
        write!(recipients, "RCPT TO:<r{number}@example.org>\r\n").unwrap();
    }
    talk.write(recipients.as_bytes()).await;
    for _ in 0..RECIPIENTS {
        talk.hear("250 ").await;
    }
    talk.say("DATA\r\n", "354 ").await;
    talk.say("From: s@far.example\r\nSubject: Hi\r\n\r\nHi\r\n.\r\n", "451 ").await;
}

/// A name server without names. Returns its address.
async fn empty_name_server() -> SocketAddr {
    /// The response and recursion bits, and the code for names that do not exist (RFC 1035 section 4.1.1).
    const NO_SUCH_NAME: [u8; 2] = [0x81, 0x83];
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut query = [0; 1500];
        while let Ok((length, client)) = socket.recv_from(&mut query).await {
            query[2..4].copy_from_slice(&NO_SUCH_NAME);
            // The records of EDNS follow the question, which ends after the name, type and class.
            let end = query[12..length].iter().position(|byte| *byte == 0).map_or(length, |end| 12 + end + 5);
            query[6..12].fill(0);
            let _ = socket.send_to(&query[..end.min(length)], client).await;
        }
    });
    address
}
