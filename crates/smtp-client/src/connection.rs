//! One connection to a server.

use std::future::Ready;
use std::sync::Arc;

use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Capabilities, Cause, Client, ClientConfig, ClientStep, Failure, Outcome, TransactionStep};
use tokio::net::ToSocketAddrs;

use crate::outbound_message::OutboundMessage;
use crate::socket::Socket;
use crate::time_limits::{Deadline, TimeLimits};

/// A connection that is ready for messages.
pub struct Connection {
    client: Client,
    socket: Socket,
    limits: TimeLimits,
}

impl Connection {
    /// Connects, encrypts and logs in as `config` requires. `host` is the name in the server's certificate. A password
    /// is sent without TLS to a loopback address only, whatever `config` allows.
    ///
    /// # Errors
    /// The stage at which the server was lost or refused the session.
    pub async fn open(
        address: impl ToSocketAddrs,
        host: &str,
        mut config: ClientConfig,
        tls: &Arc<rustls::ClientConfig>,
        limits: TimeLimits,
    ) -> Result<Self, Failure> {
        let setup = Deadline::after(limits.setup);
        let due = |limit| Deadline::after(limit).min(setup);
        let (mut socket, peer) = Socket::connect(address, due(limits.connect)).await.map_err(Failure::Connect)?;
        config.auth_without_tls = peer.ip().is_loopback();
        let mut client = Client::new(config);
        // One deadline covers a whole reply, so a server cannot extend it by sending single bytes.
        let mut reply_due = due(limits.greeting);
        loop {
            match client.step()? {
                ClientStep::Ready => return Ok(Self { client, socket, limits }),
                ClientStep::StartTls => {
                    let encrypted = socket.encrypt(host, tls, due(limits.greeting)).await;
                    socket = encrypted.map_err(|cause| client.abandon(cause))?;
                    client.tls_established();
                    reply_due = due(limits.greeting);
                }
                ClientStep::Write(bytes) => {
                    let written = socket.write(&bytes, due(limits.write)).await;
                    written.map_err(|cause| client.abandon(cause))?;
                    reply_due = due(limits.greeting);
                }
                ClientStep::Read => {
                    let read = socket.read(reply_due).await.map_err(|cause| client.abandon(cause))?;
                    client.push(read);
                }
            }
        }
    }

    /// Returns the server's extensions.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.client.capabilities()
    }

    /// Returns whether the connection is encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.client.is_encrypted()
    }

    /// Sends one message.
    pub async fn send(&mut self, envelope: &Envelope, message: &OutboundMessage) -> Outcome {
        self.transmit(envelope, message, None::<Ready<bool>>).await
    }

    /// Sends the envelope at once, and the message when `committed` returns true. If it returns false, nothing of the
    /// message was written, and the outcome is [`Cause::Withdrawn`]. If the server did not wait, the outcome is
    /// [`Cause::NotAwaited`].
    pub async fn send_when(
        &mut self,
        committed: impl Future<Output = bool>,
        envelope: &Envelope,
        message: &OutboundMessage,
    ) -> Outcome {
        self.transmit(envelope, message, Some(committed)).await
    }

    async fn transmit(
        &mut self,
        envelope: &Envelope,
        message: &OutboundMessage,
        mut committed: Option<impl Future<Output = bool>>,
    ) -> Outcome {
        let Self { client, socket, limits } = self;
        let end = Deadline::after(limits.message);
        let mut transaction = client.transaction(envelope, message.facts());
        let (mut given, mut replies_before) = (0, 0);
        let mut reply_limit = limits.reply;
        let mut reply_due = Deadline::after(reply_limit);
        loop {
            let step = transaction.step();
            if matches!(step, TransactionStep::WriteEnd(_)) {
                reply_limit = limits.final_reply;
            }
            match step {
                TransactionStep::Done => return transaction.finish(),
                TransactionStep::Write(bytes) | TransactionStep::WriteEnd(bytes) => {
                    if let Err(cause) = socket.write(&bytes, Deadline::after(limits.write).min(end)).await {
                        // A server that closes early often sends the reason.
                        let last_words = socket.read(Deadline::after(limits.reply).min(end)).await;
                        return transaction.broke_off(last_words.unwrap_or_default(), cause);
                    }
                    reply_due = Deadline::after(reply_limit);
                }
                TransactionStep::Message => {
                    if let Some(committed) = committed.take() {
                        if !committed.await {
                            return transaction.abandon(Cause::Withdrawn);
                        }
                        // Nothing of the message was written, so a retry is safe.
                        if socket.has_input() {
                            return transaction.abandon(Cause::NotAwaited);
                        }
                    }
                    match message.piece(given).await {
                        Ok((piece, is_last)) => {
                            given += piece.len();
                            transaction.give(&piece, is_last);
                        }
                        Err(error) => return transaction.abandon(Cause::Unreadable(error.to_string())),
                    }
                }
                TransactionStep::Read => {
                    // Only a complete reply extends the time-out.
                    if transaction.replies_read() > replies_before {
                        (replies_before, reply_due) = (transaction.replies_read(), Deadline::after(reply_limit));
                    }
                    match socket.read(reply_due.min(end)).await {
                        Ok(read) => transaction.push(read),
                        Err(cause) => return transaction.abandon(cause),
                    }
                }
            }
        }
    }

    /// Returns whether the connection can carry another message, without a round trip. A connection that the server
    /// closed, or that has unread input, cannot: the input would be read as the reply to MAIL.
    pub fn is_reusable(&mut self) -> bool {
        if self.socket.has_input() {
            // Part of the input is lost, so the session ends here.
            self.client.quit();
        }
        self.client.is_ready()
    }

    /// Sends QUIT and closes the connection.
    pub async fn close(mut self) {
        let due = Deadline::after(self.limits.connect);
        let quit = self.client.quit();
        // The session ends whether or not the server reads QUIT.
        let _ = self.socket.write(&quit, due).await;
        self.socket.close(due).await;
    }
}
