//! An SMTP session over a connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mailapi_smtp::server::{Answer, Config, Message, Question, Session, Step};
use mailapi_smtp::{Credentials, RcptTo, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::message_pace::MessagePace;
use super::{Body, Host, SmtpSettings};
use crate::coming::Coming;
use crate::net::{Arrival, FirstBytes, ServerTls, Shutdown, Stream, encrypt};

/// Resources of the listener for a session.
pub(crate) struct SessionSetup<'a> {
    pub(crate) session: Config,
    pub(crate) settings: &'a SmtpSettings,
    pub(crate) tls: Option<&'a ServerTls>,
    /// Time for an incoming message after the shutdown signal.
    pub(crate) grace: Duration,
}

/// Serves a client until one side closes the session.
///
/// # Errors
/// If the connection breaks, or the client does not read the output in time.
pub(crate) async fn converse(
    arrival: Arrival,
    session_setup: SessionSetup<'_>,
    host: &mut impl Host,
) -> io::Result<()> {
    let SessionSetup { mut session, settings, tls, grace } = session_setup;
    let buffer = host.buffer();
    session.piece_bytes = buffer.settings().max_memory_bytes;
    let mut session = Session::new(session);
    if arrival.stream.is_tls() {
        session.tls_established();
    }
    let mut conversation = Conversation {
        replies: session.greeting().encode(),
        session,
        stream: arrival.stream,
        peer: arrival.peer,
        first_bytes: FirstBytes::new(),
        settings,
        tls,
        coming: Coming::new(buffer),
        message_pace: MessagePace::default(),
        end: Instant::now() + settings.session_timeout,
        shutdown: arrival.shutdown,
        grace,
        leave_at: None,
    };
    conversation.run(host).await
}

struct Conversation<'a> {
    stream: Stream,
    peer: SocketAddr,
    first_bytes: FirstBytes,
    session: Session,
    settings: &'a SmtpSettings,
    tls: Option<&'a ServerTls>,
    /// Collected replies, written before the next read.
    replies: Vec<u8>,
    /// The pieces of the message that the client is sending.
    coming: Coming,
    message_pace: MessagePace,
    /// End of the session's time limit.
    end: Instant,
    shutdown: Shutdown,
    grace: Duration,
    /// Deadline, set if the shutdown signal came in the middle of a message.
    leave_at: Option<Instant>,
}

/// Reason why a wait for the client ended.
enum Wait {
    Data(usize),
    TooSlow,
    Leaving,
}

impl Conversation<'_> {
    async fn run(&mut self, host: &mut impl Host) -> io::Result<()> {
        let mut buffer = vec![0; self.settings.read_bytes.max(1)];
        while self.advance(host).await? {
            match self.wait(&mut buffer).await? {
                Wait::Data(0) => return Ok(()),
                Wait::Data(read) => {
                    if let Some(foreign) = self.first_bytes.look(&buffer[..read]) {
                        tracing::info!(peer = %self.peer, protocol = ?foreign, "SMTP session refused");
                        self.say(&Reply::new(554, (5, 5, 1), foreign.reason())).await?;
                        break;
                    }
                    self.message_pace.read(read);
                    self.session.push(&buffer[..read]);
                }
                Wait::TooSlow => return self.say(&Reply::new(421, (4, 4, 2), "Time-out, closing connection")).await,
                Wait::Leaving => return self.say(&Reply::new(421, (4, 3, 2), "The server is shutting down")).await,
            }
        }
        // A client may disconnect right after QUIT.
        let _ = timeout(self.settings.write_timeout, self.stream.shutdown()).await;
        Ok(())
    }

    /// Processes the input. Returns whether more input is expected.
    async fn advance(&mut self, host: &mut impl Host) -> io::Result<bool> {
        loop {
            match self.session.step() {
                Step::Reply(reply) => {
                    if !self.session.is_receiving() {
                        self.coming.forget();
                    }
                    reply.encode_into(&mut self.replies);
                }
                Step::Keep(piece) => {
                    if let Err(error) = self.coming.keep(&piece).await {
                        tracing::warn!(%error, "message received over SMTP could not be buffered");
                        self.session.lose();
                    }
                }
                Step::Ask(question) => {
                    let answer = match question {
                        Question::Mail(mail) => host.may_send(&mail).await,
                        Question::Rcpt(recipient) => self.check_recipient(&recipient, host).await,
                        Question::Authenticate(credentials) => self.log_in(credentials, host).await,
                        Question::Message(message) => self.take(message, host).await,
                    };
                    self.session.answer(answer);
                }
                Step::StartTls => {
                    // The client starts the handshake only after it has the reply to STARTTLS.
                    self.write().await?;
                    self.start_tls().await?;
                    self.session.tls_established();
                    host.tls_established();
                }
                Step::NeedMore => {
                    self.write().await?;
                    return Ok(true);
                }
                Step::Close => {
                    self.write().await?;
                    return Ok(false);
                }
            }
        }
    }

    /// Delays each refusal after the first ones, to slow down clients that probe for addresses.
    async fn check_recipient(&self, recipient: &RcptTo, host: &mut impl Host) -> Answer {
        let answer = host.may_receive(recipient).await;
        if let Answer::Refuse(reply) = &answer
            && self.session.counts_refusal(reply)
        {
            tokio::time::sleep(self.settings.refusal_delay(self.session.refused_recipients())).await;
        }
        answer
    }

    async fn log_in(&mut self, credentials: Credentials, host: &mut impl Host) -> Answer {
        let answer = host.log_in(credentials).await;
        self.coming = Coming::new(host.buffer());
        answer
    }

    async fn take(&mut self, mut message: Message, host: &mut impl Host) -> Answer {
        match Body::complete(&mut self.coming, std::mem::take(&mut message.data)).await {
            Ok(body) => host.take(message, body).await,
            Err(error) => {
                tracing::warn!(%error, "message received over SMTP could not be buffered");
                Answer::Refuse(Reply::new(
                    452,
                    (4, 3, 1),
                    "The message cannot be stored at the moment, try again later",
                ))
            }
        }
    }

    async fn start_tls(&mut self) -> io::Result<()> {
        let tls = self.tls.ok_or_else(|| io::Error::other("STARTTLS without a certificate"))?;
        encrypt(tls, &mut self.stream).await
    }

    async fn wait(&mut self, buffer: &mut [u8]) -> io::Result<Wait> {
        if self.leave_at.is_some() && !self.session.is_receiving() {
            return Ok(Wait::Leaving);
        }
        let due = self.message_pace.due(self.session.is_receiving(), self.settings.idle_timeout).unwrap_or(self.end);
        loop {
            let silence = (Instant::now() + self.settings.idle_timeout).min(self.end).min(due);
            let leave_at = self.leave_at;
            tokio::select! {
                // The shutdown is checked first, even with a busy client.
                biased;
                () = leave(&mut self.shutdown, leave_at) => {
                    // A message in transfer gets the grace period; any other session ends now.
                    if !self.session.is_receiving() || self.leave_at.is_some() {
                        return Ok(Wait::Leaving);
                    }
                    self.leave_at = Some(Instant::now() + self.grace);
                }
                read = timeout_at(silence, self.stream.read(buffer)) => {
                    return match read {
                        Ok(read) => read.map(Wait::Data),
                        Err(_) => Ok(Wait::TooSlow),
                    };
                }
            }
        }
    }

    async fn say(&mut self, reply: &Reply) -> io::Result<()> {
        reply.encode_into(&mut self.replies);
        self.write().await
    }

    async fn write(&mut self) -> io::Result<()> {
        if self.replies.is_empty() {
            return Ok(());
        }
        let written = async {
            self.stream.write_all(&self.replies).await?;
            self.stream.flush().await
        };
        timeout(self.settings.write_timeout, written).await??;
        self.replies.clear();
        Ok(())
    }
}

/// Waits for the shutdown signal, or after it for the end of the grace period.
async fn leave(shutdown: &mut Shutdown, leave_at: Option<Instant>) {
    match leave_at {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => shutdown.requested().await,
    }
}
