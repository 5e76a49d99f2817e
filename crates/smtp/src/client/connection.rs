//! A connection from its greeting until it is ready for transactions.

use std::fmt;

use super::body::MessageFacts;
use super::capabilities::Capabilities;
use super::commands;
use super::config::{ClientConfig, TlsPolicy};
use super::outcome::{Failure, Stage};
use super::reply_reader::ReplyReader;
use super::transaction::Transaction;
use crate::envelope::Envelope;
use crate::reply::Reply;

/// What the host has to do to bring the connection up.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientStep {
    /// Write these bytes.
    Write(Vec<u8>),
    /// Read from the server, [`Client::push`] it.
    Read,
    /// Do the TLS handshake, then call [`Client::tls_established`].
    StartTls,
    /// A transaction can begin.
    Ready,
}

/// The bytes stay out: they may hold a password.
impl fmt::Debug for ClientStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(bytes) => write!(formatter, "Write({} bytes)", bytes.len()),
            Self::Read => formatter.write_str("Read"),
            Self::StartTls => formatter.write_str("StartTls"),
            Self::Ready => formatter.write_str("Ready"),
        }
    }
}

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    pub(super) config: ClientConfig,
    pub(super) reader: ReplyReader,
    pub(super) capabilities: Capabilities,
    pub(super) state: State,
    /// The server may still have the envelope of an earlier transaction; RSET clears it before the next one.
    pub(super) needs_reset: bool,
    tls: bool,
}

/// Which reply the connection waits for, or what else it is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Greeting,
    Ehlo,
    Helo,
    StartTls,
    /// The host does the handshake.
    Handshake,
    /// The handshake is done, EHLO comes again.
    Encrypted,
    Auth,
    Ready,
    /// A transaction runs, or was dropped in the middle.
    Busy,
    Closed(Failure),
}

impl Client {
    /// A client on a connection that was just opened. Where TLS is implicit, the handshake comes first and
    /// [`Client::tls_established`] is called before the first step.
    pub fn new(config: ClientConfig) -> Self {
        Self {
            reader: ReplyReader::new(config.max_reply_line_bytes, config.max_reply_lines),
            config,
            capabilities: Capabilities::default(),
            state: State::Greeting,
            needs_reset: false,
            tls: false,
        }
    }

    /// Takes what was read from the server, in pieces of any size.
    pub fn push(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
    }

    /// Tells what comes next until the connection is ready. After an error the connection is of no use; the
    /// same error comes again. A transaction that was dropped before its end leaves it so, too.
    pub fn step(&mut self) -> Result<ClientStep, Failure> {
        match &self.state {
            State::Encrypted => return Ok(self.send_ehlo()),
            State::Ready => return Ok(ClientStep::Ready),
            State::Handshake => return Ok(ClientStep::StartTls),
            State::Closed(failure) => return Err(failure.clone()),
            State::Busy => return Err(Failure::Lost("a transaction was cut short".to_owned())),
            _ => {}
        }
        let step = match self.reader.next() {
            Ok(Some(reply)) => self.on_reply(reply),
            Ok(None) => Ok(ClientStep::Read),
            Err(what) => Err(Failure::Protocol(what)),
        };
        step.inspect_err(|failure| self.close(failure.clone()))
    }

    /// Tells that the handshake asked for by [`ClientStep::StartTls`], or the one before the greeting, is done.
    /// After STARTTLS the session begins anew with EHLO (RFC 3207 section 4.2).
    pub fn tls_established(&mut self) {
        self.tls = true;
        if self.state == State::Handshake {
            self.state = State::Encrypted;
        }
    }

    /// Begins a transaction. The message is sent as it is, apart from dot-stuffing and line ends: a bare CR
    /// or LF becomes CRLF, a missing CRLF at the end is added. On a connection that is not ready the
    /// transaction fails at once.
    pub fn transaction<'a>(&'a mut self, envelope: &'a Envelope, message: &'a [u8]) -> Transaction<'a> {
        Transaction::begin(self, envelope, MessageFacts::of(message), Some(message))
    }

    /// The same for a message that is given piece by piece ([`TransactionStep::Message`]). `facts` have seen all of it.
    pub fn transaction_in_pieces<'a>(&'a mut self, envelope: &'a Envelope, facts: MessageFacts) -> Transaction<'a> {
        Transaction::begin(self, envelope, facts, None)
    }

    /// Whether a transaction can begin. Unrequested data from the server, even half a reply, ends the connection: it
    /// would be read as the reply to MAIL.
    pub(super) fn begin_transaction(&mut self) -> Result<(), Failure> {
        if self.step()? != ClientStep::Ready {
            return Err(Failure::Protocol("not ready"));
        }
        let failure = match self.reader.next() {
            Ok(None) if self.reader.is_empty() => return Ok(()),
            Ok(Some(reply)) if reply.code == 421 => Failure::Closing(reply),
            Ok(_) => Failure::Protocol("a reply came that nothing had asked for"),
            Err(what) => Failure::Protocol(what),
        };
        self.close(failure.clone());
        Err(failure)
    }

    /// Ends the session: the bytes to write before the connection is closed. No reply needs to be waited for.
    pub fn quit(&mut self) -> Vec<u8> {
        self.close(Failure::Lost("QUIT was sent".to_owned()));
        b"QUIT\r\n".to_vec()
    }

    /// Whether a transaction can begin. A warm connection on which the server has said something
    /// unasked, usually 421, is not ready.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready && self.reader.is_empty()
    }

    /// What the server offers, as of its last answer to EHLO.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    pub(super) fn close(&mut self, failure: Failure) {
        self.state = State::Closed(failure);
    }

    fn on_reply(&mut self, reply: Reply) -> Result<ClientStep, Failure> {
        if reply.code == 421 {
            return Err(Failure::Closing(reply));
        }
        match &self.state {
            State::Greeting if reply.is_positive() => Ok(self.send_ehlo()),
            State::Greeting => Err(refused(Stage::Connect, reply)),
            State::Ehlo if reply.is_positive() => {
                self.capabilities = Capabilities::of(&reply);
                self.after_hello()
            }
            // A server without extensions (RFC 5321 section 3.2).
            State::Ehlo if matches!(reply.code, 500 | 502 | 504) => {
                self.state = State::Helo;
                let helo = commands::hello("HELO", &self.config.hello_name);
                Ok(ClientStep::Write(helo))
            }
            State::Helo if reply.is_positive() => {
                self.capabilities = Capabilities::default();
                self.after_hello()
            }
            State::Ehlo | State::Helo => Err(refused(Stage::Hello, reply)),
            State::StartTls if reply.is_positive() => self.begin_handshake(),
            State::StartTls if self.config.tls == TlsPolicy::Required => Err(refused(Stage::StartTls, reply)),
            State::StartTls => self.after_tls(),
            State::Auth if reply.is_positive() => Ok(self.ready()),
            _ => Err(refused(Stage::Auth, reply)),
        }
    }

    fn send_ehlo(&mut self) -> ClientStep {
        self.state = State::Ehlo;
        ClientStep::Write(commands::hello("EHLO", &self.config.hello_name))
    }

    fn after_hello(&mut self) -> Result<ClientStep, Failure> {
        if self.tls || self.config.tls == TlsPolicy::Never {
            return self.after_tls();
        }
        if self.capabilities.starttls {
            self.state = State::StartTls;
            return Ok(ClientStep::Write(b"STARTTLS\r\n".to_vec()));
        }
        match self.config.tls {
            TlsPolicy::Required => Err(Failure::TlsNotOffered),
            _ => self.after_tls(),
        }
    }

    /// What came behind the reply to STARTTLS was said in the clear and must not count as said in secret.
    fn begin_handshake(&mut self) -> Result<ClientStep, Failure> {
        if !self.reader.is_empty() {
            return Err(Failure::Protocol("there is text behind the reply to STARTTLS"));
        }
        self.state = State::Handshake;
        Ok(ClientStep::StartTls)
    }

    fn after_tls(&mut self) -> Result<ClientStep, Failure> {
        let Some(credentials) = &self.config.credentials else {
            return Ok(self.ready());
        };
        if !self.tls && !self.config.auth_without_tls {
            return Err(Failure::AuthWithoutTls);
        }
        if !self.capabilities.auth_plain {
            return Err(Failure::AuthNotOffered);
        }
        let auth = commands::auth_plain(credentials);
        self.state = State::Auth;
        Ok(ClientStep::Write(auth))
    }

    fn ready(&mut self) -> ClientStep {
        self.state = State::Ready;
        ClientStep::Ready
    }
}

fn refused(stage: Stage, reply: Reply) -> Failure {
    Failure::Refused { stage, reply }
}
