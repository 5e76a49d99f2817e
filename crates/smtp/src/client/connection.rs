//! A connection from its greeting until it is ready for transactions.

use std::fmt;

use super::body::MessageFacts;
use super::capabilities::Capabilities;
use super::commands;
use super::config::{ClientConfig, TlsPolicy};
use super::outcome::{Cause, Failure, Stage};
use super::reply_reader::ReplyReader;
use super::transaction::Transaction;
use crate::envelope::Envelope;
use crate::reply::Reply;

/// Next action of the host while the connection is set up.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientStep {
    /// Write these bytes.
    Write(Vec<u8>),
    /// Read from the server and pass the bytes to [`Client::push`].
    Read,
    /// Do the TLS handshake, then call [`Client::tls_established`].
    StartTls,
    /// A transaction can begin.
    Ready,
}

/// `Debug` hides the bytes: they may contain a password.
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
    /// The server may still have the envelope of an earlier transaction; the next one starts with RSET.
    pub(super) needs_reset: bool,
    tls: bool,
}

/// State of the connection: mostly the reply that it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Greeting,
    Ehlo,
    Helo,
    StartTls,
    /// The host performs the TLS handshake.
    Handshake,
    /// The handshake is complete; EHLO is sent again.
    Encrypted,
    Auth,
    Ready,
    /// A transaction is active, or was dropped before its end.
    Busy,
    Closed(Failure),
}

impl Client {
    /// Returns a client for a newly opened connection.
    pub fn new(config: ClientConfig) -> Self {
        let is_implicit = config.tls == TlsPolicy::Implicit;
        Self {
            reader: ReplyReader::default(),
            config,
            capabilities: Capabilities::default(),
            state: if is_implicit { State::Handshake } else { State::Greeting },
            needs_reset: false,
            tls: false,
        }
    }

    /// Adds bytes read from the server, in pieces of any size.
    pub fn push(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
    }

    /// Returns the next action until the connection is ready.
    ///
    /// # Errors
    /// After an error the connection is unusable, and each further call returns the same error. Dropping an
    /// unfinished transaction has the same effect.
    pub fn step(&mut self) -> Result<ClientStep, Failure> {
        match &self.state {
            State::Encrypted => return Ok(self.send_ehlo()),
            State::Ready => return Ok(ClientStep::Ready),
            State::Handshake => return Ok(ClientStep::StartTls),
            State::Closed(failure) => return Err(failure.clone()),
            // The dropped transaction may have left a reply unread, or a message incomplete.
            State::Busy => return Err(Failure::Closed),
            _ => {}
        }
        let step = match self.reader.next() {
            Ok(Some(reply)) => self.on_reply(reply),
            Ok(None) => Ok(ClientStep::Read),
            Err(what) => Err(Failure::Protocol(what)),
        };
        step.inspect_err(|failure| self.close(failure.clone()))
    }

    /// Returns whether the connection is encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.tls
    }

    /// Reports that the handshake requested by [`ClientStep::StartTls`] is complete. After STARTTLS the session
    /// restarts with EHLO (RFC 3207 section 4.2).
    pub fn tls_established(&mut self) {
        self.tls = true;
        self.state = match self.config.tls {
            TlsPolicy::Implicit => State::Greeting,
            _ => State::Encrypted,
        };
    }

    /// Abandons a connection that is not ready yet, after a time-out, a network error or a failed TLS handshake.
    pub fn abandon(&mut self, cause: Cause) -> Failure {
        let failure = match self.state {
            State::Handshake => Failure::Handshake(cause),
            State::Greeting => Failure::Lost { stage: Stage::Greeting, cause },
            State::StartTls => Failure::Lost { stage: Stage::StartTls, cause },
            State::Auth => Failure::Lost { stage: Stage::Auth, cause },
            _ => Failure::Lost { stage: Stage::Hello, cause },
        };
        self.close(failure.clone());
        failure
    }

    /// Starts a transaction. `facts` describe the whole message, which the host passes in pieces
    /// ([`TransactionStep::Message`]). The message is dot-stuffed, a bare CR or LF becomes CRLF, and a missing
    /// CRLF at the end is added; it is not changed otherwise. On a connection that is not ready, the
    /// transaction fails at once.
    ///
    /// [`TransactionStep::Message`]: super::TransactionStep::Message
    pub fn transaction<'a>(&'a mut self, envelope: &'a Envelope, facts: MessageFacts) -> Transaction<'a> {
        Transaction::begin(self, envelope, facts)
    }

    /// Checks that a transaction can start. Unsolicited data from the server, even half a reply, ends the
    /// connection: it would be read as the reply to MAIL.
    pub(super) fn begin_transaction(&mut self) -> Result<(), Failure> {
        if self.step()? != ClientStep::Ready {
            return Err(Failure::Protocol("session not ready"));
        }
        let failure = match self.reader.next() {
            Ok(None) if self.reader.is_empty() => return Ok(()),
            Ok(Some(reply)) if reply.code == 421 => Failure::Closing(reply),
            Ok(_) => Failure::Protocol("unsolicited reply"),
            Err(what) => Failure::Protocol(what),
        };
        self.close(failure.clone());
        Err(failure)
    }

    /// Ends the session. Returns the bytes to write before closing; the host need not wait for a reply.
    pub fn quit(&mut self) -> Vec<u8> {
        self.close(Failure::Closed);
        b"QUIT\r\n".to_vec()
    }

    /// Returns whether a transaction can start. An idle connection with an unsolicited reply, usually 421, is
    /// not ready.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready && self.reader.is_empty()
    }

    /// Returns the extensions of the last reply to EHLO.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
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
            State::Greeting => Err(refused(Stage::Greeting, reply)),
            State::Ehlo if reply.is_positive() => {
                self.capabilities = Capabilities::of(&reply);
                self.after_hello()
            }
            // A server without extensions rejects EHLO (RFC 5321 section 3.2).
            State::Ehlo if matches!(reply.code, 500 | 502 | 504) => {
                self.state = State::Helo;
                let helo = commands::hello("HELO", &self.config.hello_name);
                Ok(ClientStep::Write(helo))
            }
            // The reply to HELO lists no extensions.
            State::Helo if reply.is_positive() => {
                self.capabilities = Capabilities::default();
                self.after_hello()
            }
            State::Ehlo | State::Helo => Err(refused(Stage::Hello, reply)),
            State::StartTls if reply.is_positive() => self.begin_handshake(),
            State::StartTls if self.config.tls == TlsPolicy::Required => Err(refused(Stage::StartTls, reply)),
            // TLS is optional here: continue in clear text (RFC 7435).
            State::StartTls => self.after_tls(),
            State::Auth if reply.is_positive() => Ok(self.ready()),
            // Only the reply to AUTH is left.
            _ => Err(refused(Stage::Auth, reply)),
        }
    }

    fn send_ehlo(&mut self) -> ClientStep {
        self.state = State::Ehlo;
        ClientStep::Write(commands::hello("EHLO", &self.config.hello_name))
    }

    fn after_hello(&mut self) -> Result<ClientStep, Failure> {
        // STARTTLS is forbidden on an encrypted connection (RFC 3207).
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

    /// Starts the TLS handshake.
    fn begin_handshake(&mut self) -> Result<ClientStep, Failure> {
        // Bytes after the reply to STARTTLS arrived in clear text and must not be read as encrypted
        // (CVE-2011-0411).
        if !self.reader.is_empty() {
            return Err(Failure::Protocol("data after the reply to STARTTLS"));
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
