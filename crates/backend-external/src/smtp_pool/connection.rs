//! One connection to the SMTP server: drives the session logic of `mailapi_smtp` over a socket, with time-outs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use mailapi_backend::CommitGate;
use mailapi_smtp::client::{
    Cause, Client, ClientConfig, ClientStep, Failure, Outcome, TlsPolicy, Transaction, TransactionStep,
};
use mailapi_smtp::{Credentials, Envelope, Password};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::outbound_message::OutboundMessage;
use super::settings::SmtpSettings;
use crate::TlsMode;

/// Bytes per read; replies are short.
const READ_BYTES: usize = 4096;

/// A byte stream, with or without TLS.
trait Blob: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Blob for T {}

/// A connection that accepts mail.
pub(super) struct Connection {
    client: Client,
    stream: Box<dyn Blob>,
    /// The read buffer, reused for all messages.
    read: Box<[u8]>,
    /// When it was last used.
    pub(super) used_at: Instant,
}

impl Connection {
    /// Connects, encrypts and authenticates according to the settings.
    pub(super) async fn open(settings: &SmtpSettings, tls: &Arc<rustls::ClientConfig>) -> Result<Self, String> {
        match timeout(settings.connect_timeout, Self::bring_up(settings, tls)).await {
            Ok(opened) => opened,
            Err(_) => Err(format!("no answer within {:?}", settings.connect_timeout)),
        }
    }

    async fn bring_up(settings: &SmtpSettings, tls: &Arc<rustls::ClientConfig>) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect((settings.host.as_str(), settings.port)).await.map_err(text)?;
        // Small commands must leave at once, so turn off Nagle's algorithm.
        stream.set_nodelay(true).map_err(text)?;
        let is_loopback = stream.peer_addr().map_err(text)?.ip().is_loopback();
        let mut client = Client::new(client_config(settings, is_loopback));
        let is_encrypted = settings.tls == TlsMode::Implicit || !greet(&mut client, &mut stream).await?;
        let mut stream: Box<dyn Blob> = if is_encrypted {
            let name = ServerName::try_from(settings.host.clone()).map_err(|error| error.to_string())?;
            let encrypted = TlsConnector::from(tls.clone()).connect(name, stream).await.map_err(text)?;
            client.tls_established();
            Box::new(encrypted)
        } else {
            Box::new(stream)
        };
        if !greet(&mut client, &mut stream).await? {
            return Err(Failure::Protocol("TLS was asked for twice").to_string());
        }
        Ok(Self { client, stream, read: vec![0; READ_BYTES].into(), used_at: Instant::now() })
    }

    /// Whether the connection can be used, without asking the server. A server that closes an idle connection sends a
    /// reply first, which is then readable.
    pub(super) fn is_alive(&mut self) -> bool {
        self.client.is_ready() && !has_spoken(&mut self.stream)
    }

    /// Whether another message can be sent.
    pub(super) fn is_ready(&self) -> bool {
        self.client.is_ready()
    }

    /// Transmits one message. The envelope is sent first; the message waits for the commit gate. If the gate stays
    /// closed, the connection is dropped, which the server treats as an aborted message.
    pub(super) async fn send(
        &mut self,
        settings: &SmtpSettings,
        envelope: &Envelope,
        outbound: &OutboundMessage,
        commit_gate: &mut CommitGate,
    ) -> Outcome {
        let mut transaction = outbound.begin(&mut self.client, envelope);
        let mut given = 0;
        let mut patience = settings.command_timeout;
        let mut reply_due = ReplyDue::new(patience);
        loop {
            match transaction.step() {
                TransactionStep::Done => break,
                step @ (TransactionStep::Write(_) | TransactionStep::WriteEnd(_)) => {
                    let bytes = match step {
                        TransactionStep::WriteEnd(bytes) => {
                            patience = settings.data_timeout;
                            bytes
                        }
                        TransactionStep::Write(bytes) => bytes,
                        _ => Vec::new(),
                    };
                    if let Err(reason) = write(&mut self.stream, &bytes, settings.command_timeout).await {
                        // A server that closes early may have sent the reason.
                        let said = within(settings.command_timeout, self.stream.read(&mut self.read)).await;
                        return transaction.broke_off(&self.read[..said.unwrap_or(0)], reason);
                    }
                    reply_due = ReplyDue::new(patience);
                }
                TransactionStep::Message if !commit_gate.is_open().await => {
                    return transaction.abandon(Cause::Withdrawn);
                }
                // If the server gave up waiting after DATA, nothing was transmitted, so a retry is safe.
                TransactionStep::Message if given == 0 && has_spoken(&mut self.stream) => {
                    return transaction.abandon(Cause::NotAwaited);
                }
                TransactionStep::Message => match outbound.piece(given).await {
                    Ok((piece, is_last)) => {
                        given += piece.len();
                        transaction.give(&piece, is_last);
                    }
                    Err(error) => return transaction.abandon(Cause::Unreadable(error.to_string())),
                },
                TransactionStep::Read => match reply_due.read(&transaction, &mut self.stream, &mut self.read).await {
                    Ok(0) => return transaction.abandon(Cause::Closed),
                    Ok(count) => transaction.push(&self.read[..count]),
                    Err(reason) => return transaction.abandon(reason),
                },
            }
        }
        let outcome = transaction.finish();
        self.used_at = Instant::now();
        outcome
    }

    /// Sends QUIT and closes the connection.
    pub(super) async fn close(mut self, patience: Duration) {
        let quit = self.client.quit();
        // Whether the server still receives it is irrelevant.
        let _ = write(&mut self.stream, &quit, patience).await;
        let _ = within(patience, self.stream.shutdown()).await;
    }
}

fn client_config(settings: &SmtpSettings, is_loopback: bool) -> ClientConfig {
    let credentials = settings.username.as_ref().map(|username| Credentials {
        username: username.clone(),
        password: Password::new(settings.password.get().into_inner()),
    });
    let tls = match settings.tls {
        TlsMode::StartTls => TlsPolicy::Required,
        TlsMode::None | TlsMode::Implicit => TlsPolicy::Never,
    };
    ClientConfig { tls, credentials, auth_without_tls: is_loopback, ..ClientConfig::new(settings.hello_name.as_str()) }
}

/// Drives the session until it accepts mail. Returns false if a TLS handshake is due.
async fn greet<S: AsyncRead + AsyncWrite + Unpin>(client: &mut Client, stream: &mut S) -> Result<bool, String> {
    let mut read = [0; READ_BYTES];
    loop {
        match client.step().map_err(|failure| failure.to_string())? {
            ClientStep::Ready => return Ok(true),
            ClientStep::StartTls => return Ok(false),
            ClientStep::Write(bytes) => {
                stream.write_all(&bytes).await.map_err(|error| error.to_string())?;
                stream.flush().await.map_err(|error| error.to_string())?;
            }
            ClientStep::Read => match stream.read(&mut read).await.map_err(|error| error.to_string())? {
                0 => return Err("the server closed the connection".to_owned()),
                count => client.push(&read[..count]),
            },
        }
    }
}

/// The deadline for the next complete reply. Single bytes do not extend it.
struct ReplyDue {
    patience: Duration,
    at: Instant,
    replies_before: usize,
}

impl ReplyDue {
    fn new(patience: Duration) -> Self {
        Self { patience, at: Instant::now() + patience, replies_before: 0 }
    }

    async fn read(
        &mut self,
        transaction: &Transaction<'_>,
        stream: &mut Box<dyn Blob>,
        buffer: &mut [u8],
    ) -> Result<usize, Cause> {
        if transaction.replies_read() > self.replies_before {
            *self = Self { replies_before: transaction.replies_read(), ..Self::new(self.patience) };
        }
        within(self.at.saturating_duration_since(Instant::now()), stream.read(buffer)).await
    }
}

/// Whether the server sent something unsolicited, or closed the connection.
fn has_spoken(stream: &mut Box<dyn Blob>) -> bool {
    stream.read(&mut [0; 1]).now_or_never().is_some()
}

async fn write(stream: &mut Box<dyn Blob>, bytes: &[u8], patience: Duration) -> Result<(), Cause> {
    within(patience, async {
        stream.write_all(bytes).await?;
        stream.flush().await
    })
    .await
}

async fn within<T>(patience: Duration, work: impl Future<Output = std::io::Result<T>>) -> Result<T, Cause> {
    match timeout(patience, work).await {
        Ok(done) => done.map_err(|error| Cause::Io(error.to_string())),
        Err(_) => Err(Cause::TimedOut(patience)),
    }
}
