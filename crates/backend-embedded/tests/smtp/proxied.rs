//! Clients behind proxies, and PROXY headers of others.

use std::net::SocketAddr;

use mailapi_backend_embedded::ListenerSettings;
use mailapi_backend_embedded::net::ServerTls;

use crate::mail_host::MailHost;
use crate::socket::Line;
use crate::tls::certificate;

const PROXY: [u8; 4] = [127, 0, 0, 2];
const ANNOUNCED: &[u8] = b"PROXY TCP4 192.0.2.7 127.0.0.1 40000 25\r\n";
const OTHER: &[u8] = b"PROXY TCP4 192.0.2.8 127.0.0.1 40000 25\r\n";
/// Version 2, of the client 2001:db8::7, with a field to skip.
const SECOND_VERSION: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x28\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x9c\x40\0\x19\x04\0\x01\0";

/// A server behind a proxy that announces its clients at each listener.
async fn host_behind(change: impl FnOnce(&mut ListenerSettings)) -> MailHost {
    MailHost::open_with(|listeners, _| {
        let proxy = "127.0.0.2 smtp submission submissions imap imaps".parse().unwrap();
        listeners.trusted_proxies = vec![proxy];
        change(listeners);
    })
    .await
}

/// Connects as the proxy and sends this first.
async fn through_proxy(listener: SocketAddr, first: &[u8]) -> Line {
    let mut line = Line::from(PROXY, listener).await;
    line.send(first).await;
    line
}

async fn send_to_ann(line: &mut Line) {
    assert!(line.reply().await.starts_with("220 "));
    for command in ["EHLO client.example", "MAIL FROM:<zoe@far.example>", "RCPT TO:<ann@here.example>"] {
        assert!(line.say(command).await.starts_with("250 "), "{command}");
    }
    assert!(line.say("DATA").await.starts_with("354 "));
    assert!(line.say("From: zoe@far.example\r\n\r\nHi\r\n.").await.starts_with("250 "));
}

#[tokio::test]
async fn a_proxy_that_does_not_announce_its_client_is_refused() {
    let host = host_behind(|_| {}).await;
    for (listener, refusal) in [(host.smtp, "421 4.7.0 "), (host.submission, "421 4.7.0 "), (host.imap, "* BYE ")] {
        for first in [&b"EHLO client.example\r\n"[..], b"PROXY TCP4 192.0.2.7\r\n"] {
            let mut line = through_proxy(listener, first).await;
            let answer = line.read().await.unwrap();
            assert!(answer.starts_with(refusal) && answer.contains("PROXY header is required"), "{answer}");
            assert!(line.read().await.is_none());
        }
    }
    assert!(host.judge.clients().is_empty());
}

#[tokio::test]
async fn a_header_of_others_ends_the_session_at_once() {
    let host = host_behind(|_| {}).await;
    let send = b"EHLO x\r\nMAIL FROM:<zoe@far.example>\r\nRCPT TO:<ann@here.example>\r\nDATA\r\nHi\r\n.\r\n";
    for listener in [host.smtp, host.submission, host.imap] {
        for first in [ANNOUNCED, SECOND_VERSION, b"POST / HTTP/1.1\r\n", b"\x16\x03\x01\x02\0\x01\r\n"] {
            let mut line = Line::to(listener).await;
            let greeting = line.read().await.unwrap();
            assert!(greeting.starts_with("220 ") || greeting.starts_with("* OK "), "{greeting}");
            line.send(&[first, send].concat()).await;
            let refusal = line.read().await.unwrap();
            assert!(refusal.starts_with("554 5.5.1 ") || refusal.starts_with("* BYE "), "{refusal}");
            assert_eq!(line.read().await, None, "nothing after {}", first.escape_ascii());
        }
    }
    assert!(host.judge.clients().is_empty());
}

#[tokio::test]
async fn the_announced_client_is_the_client_of_the_mail() {
    let host = host_behind(|_| {}).await;
    for first in [ANNOUNCED, SECOND_VERSION, b"PROXY UNKNOWN\r\n"] {
        send_to_ann(&mut through_proxy(host.smtp, first).await).await;
    }
    // Programs on this machine, and those of other networks, connect directly.
    send_to_ann(&mut Line::to(host.smtp).await).await;
    assert_eq!(host.judge.clients(), ["192.0.2.7", "2001:db8::7", "127.0.0.2", "127.0.0.1"]);
    assert!(host.inbox("ann@here.example").await[0].contains("([192.0.2.7])"));
}

#[tokio::test]
async fn a_client_behind_a_proxy_is_not_on_this_machine() {
    let host = host_behind(|_| {}).await;
    let mut line = through_proxy(host.submission, ANNOUNCED).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    assert!(line.say("AUTH PLAIN AGFubkBoZXJlLmV4YW1wbGUAc2VjcmV0").await.starts_with("538 "));
    let mut line = through_proxy(host.imap, ANNOUNCED).await;
    assert!(line.read().await.unwrap().contains("LOGINDISABLED"));
}

#[tokio::test]
async fn limits_count_the_clients_behind_a_proxy() {
    let host = host_behind(|listeners| listeners.smtp_connections.max_connections_per_client = 1).await;
    let mut first = through_proxy(host.smtp, ANNOUNCED).await;
    assert!(first.reply().await.starts_with("220 "));
    let mut second = through_proxy(host.smtp, ANNOUNCED).await;
    assert!(second.reply().await.starts_with("421 4.7.0 Too many connections"));
    let mut other = through_proxy(host.smtp, OTHER).await;
    assert!(other.reply().await.starts_with("220 "));
    drop(first);
    // The server sees the end of the first connection some steps later.
    loop {
        let mut again = through_proxy(host.smtp, ANNOUNCED).await;
        if again.reply().await.starts_with("220 ") {
            break;
        }
    }
}

#[tokio::test]
async fn the_header_comes_before_tls() {
    let (pem, key) = certificate();
    let tls = ServerTls::from_pem(pem.as_bytes(), key.as_bytes()).unwrap();
    let host = host_behind(|listeners| listeners.tls = Some(tls)).await;
    for listener in [host.submissions, host.imaps] {
        let mut line = through_proxy(listener, ANNOUNCED).await;
        assert!(line.start_tls().await);
        let greeting = line.read().await.unwrap();
        assert!(greeting.starts_with("220 ") || greeting.starts_with("* OK "), "{greeting}");
        assert!(!Line::from(PROXY, listener).await.start_tls().await, "without a header");
        assert!(Line::to(listener).await.start_tls().await, "of others");
    }
}
