//! Moves bytes between an SMTP client and its connection.

use std::io;
use std::time::Duration;

use futures_util::FutureExt;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::{Cause, Client, ClientStep, Failure, Outcome, TransactionStep};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::DeliveryAgentSettings;
use super::outbound_message::OutboundMessage;
use crate::net::Stream;

/// A connection that is ready for transactions.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) stream: Stream,
    /// `host[address]:port`.
    pub(super) relay: String,
    /// Number of messages sent over it.
    pub(super) used: usize,
}

/// Sets the connection up until it is ready or needs TLS. Returns whether it needs TLS.
pub(super) async fn bring_up(
    client: &mut Client,
    stream: &mut Stream,
    settings: &DeliveryAgentSettings,
) -> Result<bool, Failure> {
    let mut buffer = vec![0; settings.read_bytes.max(1)];
    // One deadline covers the whole reply, so a server cannot extend it by sending single bytes.
    let mut due = Instant::now() + settings.greeting_timeout;
    loop {
        match client.step()? {
            ClientStep::Ready => return Ok(false),
            ClientStep::StartTls => return Ok(true),
            ClientStep::Write(bytes) => {
                write(stream, &bytes, settings.write_timeout).await.map_err(|error| client.abandon(cause(&error)))?;
                due = Instant::now() + settings.greeting_timeout;
            }
            ClientStep::Read => {
                let read = read(stream, &mut buffer, due).await.map_err(|error| client.abandon(cause(&error)))?;
                client.push(&buffer[..read]);
            }
        }
    }
}

impl Link {
    /// Sends one message within the time limit of a message.
    ///
    /// # Errors
    /// If the message cannot be read locally. The server has not accepted it.
    pub(super) async fn send(
        &mut self,
        envelope: &Envelope,
        outbound: &OutboundMessage,
        settings: &DeliveryAgentSettings,
    ) -> io::Result<Outcome> {
        let end = Instant::now() + settings.message_timeout;
        let mut buffer = vec![0; settings.read_bytes.max(1)];
        self.used += 1;
        let mut transaction = outbound.begin(&mut self.client, envelope);
        let (mut given, mut replies_before) = (0, 0);
        let mut due = Instant::now() + settings.reply_timeout;
        loop {
            match transaction.step() {
                TransactionStep::Done => return Ok(transaction.finish()),
                TransactionStep::Write(bytes) | TransactionStep::WriteEnd(bytes) => {
                    let written = write(&mut self.stream, &bytes, settings.write_timeout);
                    if let Err(error) = timeout_at(end, written).await.unwrap_or_else(|_| Err(too_slow())) {
                        // A server that closes early often sends the reason.
                        let due = end.min(Instant::now() + settings.reply_timeout);
                        let said = read(&mut self.stream, &mut buffer, due).await.unwrap_or(0);
                        return Ok(transaction.broke_off(&buffer[..said], cause(&error)));
                    }
                    due = Instant::now() + settings.reply_timeout;
                }
                TransactionStep::Message => match outbound.piece(given).await {
                    Ok((piece, is_last)) => {
                        given += piece.len();
                        transaction.give(&piece, is_last);
                    }
                    Err(error) => {
                        // Without the final dot the server has no message, and the connection is unusable.
                        transaction.abandon(Cause::Unreadable(error.to_string()));
                        return Err(error);
                    }
                },
                TransactionStep::Read => {
                    // Only a complete reply extends the time-out.
                    if transaction.replies_read() > replies_before {
                        (replies_before, due) = (transaction.replies_read(), Instant::now() + settings.reply_timeout);
                    }
                    match read(&mut self.stream, &mut buffer, end.min(due)).await {
                        Ok(read) => transaction.push(&buffer[..read]),
                        Err(error) => return Ok(transaction.abandon(cause(&error))),
                    }
                }
            }
        }
    }

    /// Returns whether the connection can carry another message. A closed connection, or one with unread
    /// data, cannot: the data would be read as the reply to MAIL.
    pub(super) fn is_usable(&mut self) -> bool {
        self.client.is_ready() && self.stream.read(&mut [0; 1]).now_or_never().is_none()
    }

    /// Ends the session. A failure to send QUIT has no consequence.
    pub(super) async fn quit(mut self, settings: &DeliveryAgentSettings) {
        if self.client.is_ready() {
            let goodbye = self.client.quit();
            let _ = write(&mut self.stream, &goodbye, settings.connect_timeout).await;
        }
    }
}

async fn write(stream: &mut Stream, bytes: &[u8], within: Duration) -> io::Result<()> {
    let written = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    timeout(within, written).await.unwrap_or_else(|_| Err(too_slow()))
}

/// Reads at least one byte.
async fn read(stream: &mut Stream, buffer: &mut [u8], due: Instant) -> io::Result<usize> {
    match timeout_at(due, stream.read(buffer)).await.unwrap_or_else(|_| Err(too_slow()))? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
        read => Ok(read),
    }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the server takes too long")
}

fn cause(error: &io::Error) -> Cause {
    Cause::Io(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mailapi_model::{Blob, BlobSource};
    use mailapi_smtp::client::{ClientConfig, End};
    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A source that can be read only once.
    struct Failing(std::sync::atomic::AtomicBool);

    impl BlobSource for Failing {
        fn len(&self) -> usize {
            20
        }

        fn read_at(&self, _: usize, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.swap(true, std::sync::atomic::Ordering::SeqCst) {
                return Err(io::Error::other("the disk is broken"));
            }
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }

    /// Accepts all commands up to the message. Returns the received text.
    async fn server(listener: TcpListener) -> String {
        let (reader, mut writer) = listener.accept().await.unwrap().0.into_split();
        let mut lines = BufReader::new(reader).lines();
        writer.write_all(b"220 mx.example\r\n").await.unwrap();
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            let reply: &[u8] = if line == "DATA" { b"354 go\r\n" } else { b"250 ok\r\n" };
            writer.write_all(reply).await.unwrap();
            if line == "DATA" {
                return lines.next_line().await.unwrap_or_default().unwrap_or_default();
            }
        }
    }

    /// Answers the first commands, then starts a reply that never ends: one byte per minute.
    async fn dripping(listener: TcpListener, answers: usize) {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        for answer in ["220 mx.example\r\n", "250 mx.example\r\n", "250 ok\r\n"].into_iter().take(answers) {
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.read_line(&mut String::new()).await.unwrap();
        }
        while stream.write_all(b"2").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_drips_bytes_gets_no_time_for_each() {
        let settings = DeliveryAgentSettings::default();
        for answers in 0..4 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut stream = Stream::plain(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap()).unwrap();
            let server = tokio::spawn(dripping(listener, answers));
            let mut client = Client::new(ClientConfig::new("mail.example"));
            let begun = Instant::now();
            let up = bring_up(&mut client, &mut stream, &settings).await;
            assert_eq!(up.is_ok(), answers >= 2, "{answers}: {up:?}");
            let mut allowed = settings.greeting_timeout;
            if up.is_ok() {
                let outbound = OutboundMessage::of(b"Subject: x\r\n\r\n".to_vec().into()).await.unwrap();
                let mut link = Link { client, stream, relay: "mx.example".to_owned(), used: 0 };
                let envelope = Envelope::new("ann@mail.example", ["zoe@far.example"]);
                let outcome = link.send(&envelope, &outbound, &settings).await.unwrap();
                assert!(matches!(outcome.end, End::Failed(Failure::Lost { .. })), "{outcome:?}");
                allowed = settings.reply_timeout;
            }
            assert!(begun.elapsed() < allowed + Duration::from_secs(60), "{answers}: {:?}", begun.elapsed());
            server.abort();
        }
    }

    #[tokio::test]
    async fn a_message_that_cannot_be_read_here_is_no_word_of_the_server() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = Stream::plain(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap()).unwrap();
        let server = tokio::spawn(server(listener));
        let settings = DeliveryAgentSettings::default();
        let mut client = Client::new(ClientConfig::new("mail.example"));
        bring_up(&mut client, &mut stream, &settings).await.unwrap();
        let outbound = OutboundMessage::of(Blob::elsewhere(Arc::new(Failing(false.into())))).await.unwrap();
        let mut link = Link { client, stream, relay: "mx.example".to_owned(), used: 0 };
        let sent = link.send(&Envelope::new("ann@mail.example", ["zoe@far.example"]), &outbound, &settings).await;
        assert_eq!(sent.unwrap_err().to_string(), "the disk is broken");
        assert!(!link.client.is_ready());
        drop(link);
        assert_eq!(server.await.unwrap(), "", "nothing of the message, and no final dot");
    }
}
