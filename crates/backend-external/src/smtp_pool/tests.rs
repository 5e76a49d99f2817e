//! Tests of the pool with a server that closes connections at any time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mailapi_model::Secret;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{End, Outcome};
use mailapi_testkit::{SmtpSink, turns_of_the_runtime};
use mailapi_tls::{Trust, client_config};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{CommitGate, SmtpPool, SmtpSettings};
use crate::TlsMode;

fn settings(address: SocketAddr) -> SmtpSettings {
    SmtpSettings::new(address.ip().to_string(), address.port())
}

fn pool(settings: SmtpSettings) -> SmtpPool {
    SmtpPool::new(settings, client_config(&Trust::System).unwrap())
}

async fn send(pool: &SmtpPool) -> Result<Outcome, String> {
    send_when(pool, CommitGate::opened()).await
}

async fn send_when(pool: &SmtpPool, commit_gate: CommitGate) -> Result<Outcome, String> {
    let envelope = Envelope::new("ann@example.org", ["bob@example.net"]);
    pool.send(&envelope, b"Subject: hello\r\n\r\nhello\r\n".to_vec().into(), commit_gate).await
}

fn is_accepted(outcome: &Result<Outcome, String>) -> bool {
    matches!(outcome, Ok(Outcome { end: End::Accepted(_), .. }))
}

/// A server that counts connections and closes each one after some messages.
struct Impatient {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    messages: Arc<AtomicUsize>,
}

impl Impatient {
    async fn start(messages_each: usize, farewell: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, messages) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let server = Self { address, connections: connections.clone(), messages: messages.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, messages_each, messages.clone(), farewell));
            }
        });
        server
    }

    fn counted(&self) -> (usize, usize) {
        (self.connections.load(Ordering::SeqCst), self.messages.load(Ordering::SeqCst))
    }
}

async fn serve(stream: TcpStream, messages_each: usize, messages: Arc<AtomicUsize>, farewell: &str) -> Option<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"220 here\r\n").await.ok()?;
    let (mut in_data, mut left) = (false, messages_each);
    while let Some(line) = lines.next_line().await.ok()? {
        let reply = match line.get(..4).unwrap_or(&line) {
            "." => {
                in_data = false;
                messages.fetch_add(1, Ordering::SeqCst);
                left -= 1;
                "250 2.0.0 Ok: queued as 4jWk1\r\n"
            }
            _ if in_data => continue,
            "EHLO" => "250-here\r\n250-AUTH LOGIN PLAIN\r\n250 PIPELINING\r\n",
            "AUTH" if line == "AUTH PLAIN AGFwaQBodW50ZXIy" => "235 2.7.0 Welcome\r\n",
            "AUTH" => "535 5.7.8 Authentication credentials invalid\r\n",
            "DATA" => {
                in_data = true;
                "354 go\r\n"
            }
            _ => "250 2.0.0 Ok\r\n",
        };
        writer.write_all(reply.as_bytes()).await.ok()?;
        if left == 0 {
            return writer.write_all(farewell.as_bytes()).await.ok();
        }
    }
    None
}

#[tokio::test]
async fn a_dead_server_is_reached_no_more_for_a_while() {
    // A loopback address that no other test uses, so that the port is not reassigned meanwhile.
    let address = TcpListener::bind("127.0.0.10:0").await.unwrap().local_addr().unwrap();
    let pool = pool(SmtpSettings { failures_until_pause: 2, pause: Duration::from_secs(60), ..settings(address) });
    for _ in 0..2 {
        assert!(send(&pool).await.unwrap_err().contains("refused"));
    }
    // The server is back, but is not contacted before the pause ends.
    let listener = TcpListener::bind(address).await.unwrap();
    assert!(pool.check().await.unwrap_err().contains("refused"));
    assert!(tokio::time::timeout(Duration::from_millis(1), listener.accept()).await.is_err());
}

#[tokio::test]
async fn a_password_goes_nowhere_in_the_clear_and_tls_is_insisted_on() {
    let sink = SmtpSink::start().await;
    let with_tls = pool(SmtpSettings { tls: TlsMode::StartTls, ..settings(sink.address()) });
    assert!(send(&with_tls).await.unwrap_err().contains("STARTTLS"));
    let with_user = SmtpSettings {
        username: Some("api".to_owned()),
        password: Secret::new("hunter2".to_owned()).into(),
        ..settings(sink.address())
    };
    assert!(!format!("{with_user:?}").contains("hunter2"));
    assert!(send(&pool(with_user)).await.unwrap_err().contains("AUTH PLAIN"));
    assert_eq!(sink.received(), []);
}

#[tokio::test]
async fn a_configured_user_logs_in_and_a_wrong_password_fails() {
    let server = Impatient::start(100, "").await;
    let with_password = |password: &str| SmtpSettings {
        username: Some("api".to_owned()),
        password: Secret::new(password.to_owned()).into(),
        ..settings(server.address)
    };
    let refused = send(&pool(with_password("wrong"))).await.unwrap_err();
    assert!(refused.contains("AUTH was refused: 535"), "{refused}");
    assert!(is_accepted(&send(&pool(with_password("hunter2"))).await));
    assert_eq!(server.counted().1, 1);
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut impatient = settings(address);
    impatient.time_limits.setup = Duration::from_millis(20);
    let refused = send(&pool(impatient)).await.unwrap_err();
    assert!(refused.contains("connection lost at the greeting: timed out after 20ms"), "{refused}");
}

#[tokio::test]
async fn one_connection_carries_many_messages() {
    let server = Impatient::start(100, "").await;
    let pool = pool(settings(server.address));
    for _ in 0..5 {
        assert!(is_accepted(&send(&pool).await));
    }
    assert_eq!(server.counted(), (1, 5));
    assert_eq!(pool.idle_connections(), 1);
}

#[tokio::test]
async fn a_connection_that_died_idle_is_replaced_silently() {
    for farewell in ["", "421 4.4.2 mx.example.org Error: timeout exceeded\r\n"] {
        let server = Impatient::start(1, farewell).await;
        let pool = pool(settings(server.address));
        for _ in 0..5 {
            assert!(is_accepted(&send(&pool).await));
        }
        assert_eq!(server.counted(), (5, 5));
    }
}

#[tokio::test]
async fn a_server_that_gives_up_at_the_gate_gets_a_new_connection() {
    for messages_before in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = pool(settings(listener.local_addr().unwrap()));
        let messages = Arc::new(AtomicUsize::new(0));
        let (opener, commit_gate) = CommitGate::closed();
        let server = async {
            leave_while_the_message_is_awaited(listener.accept().await.unwrap().0, messages_before).await;
            opener.open();
            tokio::spawn(serve(listener.accept().await.unwrap().0, 1, messages.clone(), ""));
        };
        let sender = async {
            for _ in 0..messages_before {
                assert!(is_accepted(&send(&pool).await));
            }
            send_when(&pool, commit_gate).await
        };
        let ((), sent) = tokio::join!(server, sender);
        assert!(is_accepted(&sent), "{sent:?}");
        assert_eq!(messages.load(Ordering::SeqCst), 1);
    }
}

/// Accepts `messages` messages, and disconnects when the next one is due.
async fn leave_while_the_message_is_awaited(stream: TcpStream, mut messages: usize) {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 here\r\n").await.unwrap();
    let mut in_data = false;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let reply = match line.trim_end() {
            "." => {
                in_data = false;
                messages -= 1;
                "250 2.0.0 Ok: queued as 4jWk1\r\n"
            }
            _ if in_data => continue,
            "DATA" if messages == 0 => break,
            "DATA" => {
                in_data = true;
                "354 go\r\n"
            }
            _ => "250 2.0.0 Ok\r\n",
        };
        stream.write_all(reply.as_bytes()).await.unwrap();
    }
    stream.write_all(b"354 go\r\n").await.unwrap();
    turns_of_the_runtime().await;
    stream.write_all(b"421 4.4.2 Timeout exceeded\r\n").await.unwrap();
    drop(stream);
    turns_of_the_runtime().await;
}

#[tokio::test]
async fn a_send_waiting_at_its_gate_holds_no_later_permit() {
    let server = Impatient::start(100, "").await;
    let pool = pool(SmtpSettings { max_connections: 1, ..settings(server.address) });
    let (first_opener, first) = CommitGate::closed();
    let (second_opener, second) = CommitGate::closed();
    let (_, third) = CommitGate::closed();
    let storing = async {
        turns_of_the_runtime().await;
        second_opener.open();
        first_opener.open();
    };
    let sent = tokio::join!(send_when(&pool, first), send_when(&pool, second), send_when(&pool, third), storing);
    assert!(is_accepted(&sent.0) && is_accepted(&sent.1), "{sent:?}");
    assert_eq!(sent.2.unwrap_err(), "the message was withdrawn");
    assert_eq!(server.counted(), (1, 2));
}

#[tokio::test]
async fn a_message_whose_reply_is_lost_is_never_sent_again() {
    let sink = SmtpSink::start().await;
    let pool = pool(settings(sink.address()));
    assert!(is_accepted(&send(&pool).await));
    sink.hang_up_after_data(1);
    let outcome = send(&pool).await.unwrap();
    assert!(matches!(outcome.end, End::OutcomeUnknown(_)), "{outcome:?}");
    assert_eq!(sink.received().len(), 2);
    assert_eq!(pool.idle_connections(), 0);
    assert!(is_accepted(&send(&pool).await));
}

#[tokio::test]
async fn connections_are_bounded_and_waiting_ends() {
    let server = Impatient::start(100, "").await;
    let bounded = Arc::new(pool(SmtpSettings { max_connections: 2, ..settings(server.address) }));
    let sends = (0..20).map(|_| {
        let pool = bounded.clone();
        tokio::spawn(async move { is_accepted(&send(&pool).await) })
    });
    for sent in sends.collect::<Vec<_>>() {
        assert!(sent.await.unwrap());
    }
    assert!(server.counted().0 <= 2, "{:?}", server.counted());
    let wait_timeout = Duration::from_millis(20);
    let busy = pool(SmtpSettings { max_connections: 1, wait_timeout, ..settings(server.address) });
    let _held = busy.connection_permit().await.unwrap();
    assert!(send(&busy).await.unwrap_err().contains("no connection became free"));
    assert_eq!(busy.check().await, Ok(()));
}

#[tokio::test]
async fn what_is_not_used_is_closed() {
    let server = Impatient::start(100, "").await;
    let pool = pool(SmtpSettings { idle_lifetime: Duration::ZERO, ..settings(server.address) });
    assert!(is_accepted(&send(&pool).await));
    assert_eq!(pool.idle_connections(), 0);
}
