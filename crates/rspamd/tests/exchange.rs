//! Exchanges with a scripted rspamd: broken ones first.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mailapi_model::{Blob, BlobSource, EmailAddress, QueueId};
use mailapi_rspamd::{Action, CheckedMail, Rspamd, RspamdError, Verdict};
use mailapi_testkit::ScriptedRspamd;

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

fn client_of(server: &ScriptedRspamd) -> Rspamd {
    Rspamd::new(server.address().parse().unwrap())
}

async fn checked(client: &Rspamd, message: impl Into<Blob>) -> Result<Verdict, RspamdError> {
    let recipients: Vec<EmailAddress> = ["ann@here.example", "bob@here.example"].map(|it| it.parse().unwrap()).to_vec();
    let mail = CheckedMail {
        hostname: "mx.here.example",
        client: CLIENT,
        client_host: Some("mx.far.example"),
        client_name: "far\u{e9}",
        sender: "zoe@far.example",
        recipients: &recipients,
        queue_id: &QueueId("Q1".to_owned()),
        message: message.into(),
    };
    client.check(&mail).await
}

/// A source that counts the largest read.
struct Counted {
    length: usize,
    largest: AtomicUsize,
    fails_at: usize,
}

impl BlobSource for Counted {
    fn len(&self) -> usize {
        self.length
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<usize> {
        if offset >= self.fails_at {
            return Err(io::Error::other("the disk is gone"));
        }
        let length = buffer.len().min(self.length - offset);
        self.largest.fetch_max(length, Ordering::Relaxed);
        buffer[..length].fill(b'a');
        Ok(length)
    }
}

#[tokio::test]
async fn without_a_server_there_is_no_verdict() {
    let server = ScriptedRspamd::start().await;
    let client = client_of(&server);
    drop(server);
    tokio::task::yield_now().await;
    let error = checked(&client, b"Hello".to_vec()).await.unwrap_err();
    assert!(matches!(error, RspamdError::NoConnection(_) | RspamdError::NoAnswer(_)), "{error}");
    assert!(client.ping().await.is_err());
}

#[tokio::test]
async fn what_is_no_verdict_is_an_error() {
    let server = ScriptedRspamd::start().await;
    let client = client_of(&server);
    for answer in [
        "",
        "\0\u{1}garbage",
        "220 mx.here.example ESMTP\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 20\r\n\r\n{\"action\":\"reject\"}\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
    ] {
        server.sends(answer.as_bytes());
        let error = checked(&client, b"Hello".to_vec()).await.unwrap_err();
        assert!(!error.to_string().is_empty(), "{answer:?}: {error}");
        assert!(client.ping().await.is_err(), "{answer:?}");
    }
}

#[tokio::test]
async fn a_head_of_any_length_does_not_fill_memory() {
    let server = ScriptedRspamd::start().await;
    server.sends(format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "a".repeat(8 * 1024 * 1024)).as_bytes());
    let error = checked(&client_of(&server), b"Hello".to_vec()).await.unwrap_err();
    assert!(matches!(error, RspamdError::NoAnswer(_)), "{error}");
}

#[tokio::test]
async fn an_answer_of_64_megabytes_is_not_read_to_its_end() {
    let server = ScriptedRspamd::start().await;
    server.floods(64 * 1024 * 1024);
    let error = checked(&client_of(&server), b"Hello".to_vec()).await.unwrap_err();
    assert_eq!(error.to_string(), "rspamd gave no valid answer: length limit exceeded");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_given_up() {
    let server = ScriptedRspamd::start().await;
    server.hangs();
    let client = client_of(&server);
    let long = vec![b'a'; 8 * 1024 * 1024];
    assert!(matches!(checked(&client, long).await, Err(RspamdError::TimedOut)));
    assert!(matches!(client.ping().await, Err(RspamdError::TimedOut)));
}

#[tokio::test]
async fn an_unreadable_message_gives_no_verdict() {
    let server = ScriptedRspamd::start().await;
    let source = Counted { length: 300_000, largest: AtomicUsize::new(0), fails_at: 100_000 };
    let error = checked(&client_of(&server), Blob::elsewhere(Arc::new(source))).await.unwrap_err();
    assert!(matches!(error, RspamdError::NoAnswer(_)), "{error}");
    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn the_server_sees_the_envelope_and_the_message() {
    let server = ScriptedRspamd::start().await;
    server.finds("add header", 7.25, "");
    let verdict = checked(&client_of(&server), b"From: zoe@far.example\r\n\r\nHello".to_vec()).await.unwrap();
    assert_eq!(verdict, Verdict { action: Action::Mark, score: 7.25, required: 15.0, text: None });
    let request = server.requests().remove(0);
    assert!(request.head.starts_with("POST /checkv2 HTTP/1.1\r\n"), "{}", request.head);
    for (field, values) in [
        ("Host", vec![server.address()]),
        ("Ip", vec!["192.0.2.7".to_owned()]),
        ("Hostname", vec!["mx.far.example".to_owned()]),
        ("Helo", vec!["far\u{e9}".to_owned()]),
        ("From", vec!["zoe@far.example".to_owned()]),
        ("Rcpt", vec!["ann@here.example".to_owned(), "bob@here.example".to_owned()]),
        ("Queue-Id", vec!["Q1".to_owned()]),
        ("MTA-Name", vec!["mx.here.example".to_owned()]),
    ] {
        assert_eq!(request.field(field), values, "{field}");
    }
    assert_eq!(request.message, b"From: zoe@far.example\r\n\r\nHello");
}

#[tokio::test]
async fn a_long_message_is_streamed_in_pieces() {
    let server = ScriptedRspamd::start().await;
    let source = Arc::new(Counted { length: 3_000_000, largest: AtomicUsize::new(0), fails_at: usize::MAX });
    let message = Blob::joined([b"X: y\r\n\r\n".to_vec().into(), Blob::elsewhere(source.clone())]);
    let verdict = checked(&client_of(&server), message).await.unwrap();
    assert_eq!(verdict.action, Action::Accept);
    let received = server.requests().remove(0).message;
    assert!(received.len() == 3_000_008 && received.ends_with(b"aaa") && received.starts_with(b"X: y"));
    assert!(source.largest.load(Ordering::Relaxed) <= 64 * 1024);
}

#[tokio::test]
async fn a_ping_is_answered() {
    let server = ScriptedRspamd::start().await;
    server.answers("pong\r\n");
    client_of(&server).ping().await.unwrap();
    assert!(server.requests()[0].head.starts_with("GET /ping HTTP/1.1\r\n"));
}
