//! Connections to servers that are slow, silent or gone.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mailapi_model::{Blob, BlobSource};
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Cause, ClientConfig, End, Failure, Stage, TlsPolicy};
use mailapi_smtp_client::{Connection, OutboundMessage, TimeLimits};
use mailapi_tls::{Trust, client_config};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

const MINUTE: Duration = Duration::from_secs(60);

const LIMITS: TimeLimits = TimeLimits {
    connect: MINUTE,
    greeting: Duration::from_secs(5 * 60),
    setup: Duration::from_secs(60 * 60),
    write: Duration::from_secs(3 * 60),
    reply: Duration::from_secs(10 * 60),
    final_reply: Duration::from_secs(20 * 60),
    message: Duration::from_secs(30 * 60),
};

const MESSAGE: &[u8] = b"Subject: x\r\n\r\nhello\r\n";

async fn open(address: SocketAddr, tls: TlsPolicy, limits: TimeLimits) -> Result<Connection, Failure> {
    let config = ClientConfig { tls, ..ClientConfig::new("mail.example") };
    Connection::open(address, "mx.example", config, &client_config(&Trust::Anybody).unwrap(), limits).await
}

async fn ready_at(address: SocketAddr) -> Connection {
    open(address, TlsPolicy::Never, LIMITS).await.expect("a connection")
}

fn envelope() -> Envelope {
    Envelope::new("ann@mail.example", ["zoe@far.example"])
}

async fn message(content: impl Into<Blob>) -> OutboundMessage {
    OutboundMessage::of(content.into()).await.unwrap()
}

fn failed(stage: Stage, cause: Cause) -> End {
    End::Failed(Failure::Lost { stage, cause })
}

/// The server's end of a connection.
struct Server(BufReader<TcpStream>);

impl Server {
    /// Runs the server for one connection.
    async fn start<F: Future<Output: Send + 'static> + Send + 'static>(
        serve: impl FnOnce(Self) -> F + Send + 'static,
    ) -> (SocketAddr, JoinHandle<F::Output>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = async move { serve(Self(BufReader::new(listener.accept().await.unwrap().0))).await };
        (address, tokio::spawn(task))
    }

    /// Returns the next line, or an empty text at the end.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap_or_default();
        line
    }

    async fn say(&mut self, text: &str) -> bool {
        self.0.write_all(text.as_bytes()).await.is_ok()
    }

    /// Sends the greeting, and replies to all commands up to DATA.
    async fn up_to_data(&mut self) {
        self.say("220 mx.example\r\n").await;
        while self.line().await != "DATA\r\n" && self.say("250 ok\r\n").await {}
    }

    /// Reads the rest of a message, with its final dot.
    async fn rest_of_message(&mut self) {
        while !matches!(self.line().await.as_str(), ".\r\n" | "") {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_single_bytes_gets_no_more_time() {
    for replies in 0..4 {
        // Starts a reply that never ends: one byte per minute.
        let (address, server) = Server::start(move |mut server| async move {
            for reply in ["220 mx.example\r\n", "250 mx.example\r\n", "250 ok\r\n"].into_iter().take(replies) {
                server.say(reply).await;
                server.line().await;
            }
            while server.say("2").await {
                sleep(MINUTE).await;
            }
        })
        .await;
        let begun = Instant::now();
        let (stage, limit) = match open(address, TlsPolicy::Never, LIMITS).await {
            Err(Failure::Lost { stage, cause }) => {
                assert_eq!(cause, Cause::TimedOut(LIMITS.greeting));
                (stage, LIMITS.greeting)
            }
            opened => {
                let outcome = opened.expect("a connection").send(&envelope(), &message(MESSAGE.to_vec()).await).await;
                let End::Failed(Failure::Lost { stage, cause }) = outcome.end else { panic!("{outcome:?}") };
                assert_eq!(cause, Cause::TimedOut(LIMITS.reply));
                (stage, LIMITS.reply)
            }
        };
        assert_eq!(stage, [Stage::Greeting, Stage::Hello, Stage::Mail, Stage::Rcpt][replies]);
        assert!(begun.elapsed() < limit + MINUTE, "{stage}: {:?}", begun.elapsed());
        server.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn the_setup_has_a_limit_of_its_own() {
    // Each reply comes within its limit.
    let (address, server) = Server::start(|mut server| async move {
        for reply in ["220 mx.example\r\n", "250-mx.example\r\n250 STARTTLS\r\n", "220 go\r\n"] {
            sleep(4 * MINUTE).await;
            server.say(reply).await;
            server.line().await;
        }
    })
    .await;
    let limits = TimeLimits { setup: 10 * MINUTE, ..LIMITS };
    let failure = open(address, TlsPolicy::Required, limits).await.err();
    assert_eq!(failure, Some(Failure::Lost { stage: Stage::StartTls, cause: Cause::TimedOut(10 * MINUTE) }));
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn the_reply_to_the_message_has_a_limit_of_its_own() {
    // The end of a message is announced by the session; its bytes may look like anything.
    for content in ["", "a", "a\r\n", "a\r\n.\r\n", "\r\n.\r\n", ".", "a\r"] {
        for (minutes, is_accepted) in [(15, true), (25, false)] {
            let (address, server) = Server::start(move |mut server| async move {
                server.up_to_data().await;
                server.say("354 go\r\n").await;
                server.rest_of_message().await;
                sleep(minutes * MINUTE).await;
                server.say("250 2.0.0 Ok: queued as A1\r\n").await;
            })
            .await;
            let mut connection = ready_at(address).await;
            let outcome = connection.send(&envelope(), &message(content.as_bytes().to_vec()).await).await;
            let cause = Cause::TimedOut(LIMITS.final_reply);
            match outcome.end {
                End::Accepted(_) => assert!(is_accepted, "{content:?}"),
                end => {
                    assert_eq!(end, End::OutcomeUnknown(Failure::Lost { stage: Stage::Message, cause }));
                    assert!(!is_accepted, "{content:?}");
                    assert!(!connection.is_reusable());
                }
            }
            server.abort();
        }
    }
}

#[tokio::test]
async fn a_lost_connection_is_unknown_only_after_the_final_dot() {
    for after_the_dot in [false, true] {
        let (address, server) = Server::start(move |mut server| async move {
            server.up_to_data().await;
            if after_the_dot {
                server.say("354 go\r\n").await;
                server.rest_of_message().await;
            }
        })
        .await;
        let outcome = ready_at(address).await.send(&envelope(), &message(MESSAGE.to_vec()).await).await;
        match outcome.end {
            End::OutcomeUnknown(Failure::Lost { stage: Stage::Message, .. }) => assert!(after_the_dot),
            End::Failed(Failure::Lost { stage: Stage::Data, .. }) => assert!(!after_the_dot),
            end => panic!("{end:?}"),
        }
        server.await.unwrap();
    }
}

#[tokio::test]
async fn an_unreadable_message_sends_no_final_dot() {
    let (address, server) = Server::start(|mut server| async move {
        server.up_to_data().await;
        server.say("354 go\r\n").await;
        server.line().await
    })
    .await;
    let mut connection = ready_at(address).await;
    let unreadable = message(Blob::elsewhere(Arc::new(ReadOnce(false.into())))).await;
    let outcome = connection.send(&envelope(), &unreadable).await;
    assert_eq!(outcome.end, failed(Stage::Message, Cause::Unreadable("the disk is broken".to_owned())));
    assert!(!connection.is_reusable());
    drop(connection);
    assert_eq!(server.await.unwrap(), "", "nothing of the message, and no final dot");
}

/// A source that can be read only once.
struct ReadOnce(AtomicBool);

impl BlobSource for ReadOnce {
    fn len(&self) -> usize {
        20
    }

    fn read_at(&self, _: usize, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.swap(true, Ordering::SeqCst) {
            return Err(io::Error::other("the disk is broken"));
        }
        buffer.fill(b'x');
        Ok(buffer.len())
    }
}

#[tokio::test]
async fn a_message_waits_for_its_commit() {
    let (address, server) = Server::start(|mut server| async move {
        server.up_to_data().await;
        server.say("354 go\r\n").await;
        server.line().await
    })
    .await;
    let outcome = ready_at(address).await.send_when(ready(false), &envelope(), &message(MESSAGE.to_vec()).await).await;
    assert_eq!(outcome.end, failed(Stage::Message, Cause::Withdrawn));
    assert_eq!(server.await.unwrap(), "", "nothing of a withdrawn message");

    let (address, server) = Server::start(|mut server| async move {
        server.up_to_data().await;
        server.say("354 go\r\n421 4.4.2 too late\r\n").await;
        server.line().await
    })
    .await;
    let mut connection = ready_at(address).await;
    // The 421 arrives with the 354, or while the commit is awaited.
    let outcome = connection.send_when(ready(true), &envelope(), &message(MESSAGE.to_vec()).await).await;
    assert!(matches!(outcome.end, End::Failed(_)), "{outcome:?}");
    drop(connection);
    assert_eq!(server.await.unwrap(), "", "nothing of a message after a 421");
}

#[tokio::test]
async fn unsolicited_input_ends_a_kept_connection() {
    for late in ["250 late\r\n", "421 4.4.2 bye\r\n", "25", ""] {
        let (go_on, awaited) = oneshot::channel::<()>();
        let (address, server) = Server::start(move |mut server| async move {
            server.up_to_data().await;
            server.say("354 go\r\n").await;
            server.rest_of_message().await;
            server.say("250 ok\r\n").await;
            awaited.await.unwrap();
            server.say(late).await;
            // The connection stays open, unless its end is the input.
            (!late.is_empty()).then_some(server)
        })
        .await;
        let mut connection = ready_at(address).await;
        let outcome = connection.send(&envelope(), &message(MESSAGE.to_vec()).await).await;
        assert!(matches!(outcome.end, End::Accepted(_)), "{outcome:?}");
        assert!(connection.is_reusable());
        go_on.send(()).unwrap();
        let _open = server.await.unwrap();
        let noticed = async {
            while connection.is_reusable() {
                tokio::task::yield_now().await;
            }
        };
        timeout(MINUTE, noticed).await.expect("the input is noticed");
        assert!(!connection.is_reusable(), "{late:?}");
        let outcome = connection.send(&envelope(), &message(MESSAGE.to_vec()).await).await;
        assert_eq!(outcome.end, End::Failed(Failure::Closed));
    }
}

#[tokio::test]
async fn implicit_tls_comes_before_the_greeting() {
    let made = rcgen::generate_simple_self_signed(["mx.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (address, server) = Server::start(|server| async move {
        let mut stream =
            BufReader::new(TlsAcceptor::from(Arc::new(config)).accept(server.0.into_inner()).await.unwrap());
        stream.write_all(b"220 mx.example\r\n").await.unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        stream.write_all(b"250-mx.example\r\n250 STARTTLS\r\n").await.unwrap();
        stream.read_line(&mut line).await.unwrap();
        line
    })
    .await;
    open(address, TlsPolicy::Implicit, LIMITS).await.expect("a connection").close().await;
    assert_eq!(server.await.unwrap(), "EHLO mail.example\r\nQUIT\r\n");

    // A server without TLS.
    let (address, server) = Server::start(|mut server| async move { server.say("220 mx.example\r\n").await }).await;
    let failure = open(address, TlsPolicy::Implicit, LIMITS).await.err();
    assert!(matches!(failure, Some(Failure::Handshake(Cause::Io(_)))), "{failure:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_down_is_not_connected() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failure = open(address, TlsPolicy::Never, LIMITS).await.err();
    assert!(matches!(failure, Some(Failure::Connect(Cause::Io(_)))), "{failure:?}");
}
