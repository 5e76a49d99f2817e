//! A remote mail server that checks its client strictly, with reactions chosen by the test.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::Received;

/// The command or input that a strict server is about to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// MAIL with this sender.
    Mail(String),
    /// RCPT with this address.
    Rcpt(String),
    /// DATA with an accepted recipient.
    Data,
    /// DATA without an envelope or a recipient.
    DataWithoutRecipients,
    /// The first line of a message. `Yes` means no reply yet.
    Midway,
    /// The end of a message.
    Dot,
    /// RSET.
    Reset,
}

/// The server's reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Accepts.
    Yes,
    /// Rejects with this code.
    No(u16),
    /// Replies 421 and closes the connection.
    Closing,
    /// Closes the connection without a reply.
    HangUp,
    /// After a dot: accepts the message and closes the connection without a reply. Elsewhere like `HangUp`.
    TakeAndHangUp,
    /// After a dot: accepts the message and sends text that is not a reply. Elsewhere like `HangUp`.
    TakeAndMumble,
}

/// The messages that all sessions of a server accepted, and the faults of their clients.
#[derive(Debug, Default)]
pub struct StrictRecord {
    /// Each envelope with its message.
    pub taken: Vec<Received>,
    /// Each command that a client tracking the server's state would not send.
    pub faults: Vec<String>,
}

/// One session: bytes in, bytes out.
pub struct StrictSmtp {
    decide: Box<dyn FnMut(&Moment) -> Reaction + Send>,
    record: Arc<Mutex<StrictRecord>>,
    pipelining: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    envelope: Option<Received>,
    data: Data,
    /// RSET or MAIL was rejected: commands pipelined after it are not faults.
    forgives: bool,
    closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    No,
    Begins,
    Goes,
    /// The message was rejected before its end.
    Refused,
}

impl StrictSmtp {
    /// Returns a session that has just sent its greeting.
    pub fn new(
        record: Arc<Mutex<StrictRecord>>,
        pipelining: bool,
        decide: impl FnMut(&Moment) -> Reaction + Send + 'static,
    ) -> Self {
        Self {
            decide: Box::new(decide),
            record,
            pipelining,
            input: Vec::new(),
            output: b"220 strict.example ESMTP\r\n".to_vec(),
            envelope: None,
            data: Data::No,
            forgives: false,
            closed: false,
        }
    }

    /// Processes bytes from the client, and answers each complete line.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while !self.closed
            && let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n")
        {
            let line: Vec<u8> = self.input.drain(..end + 2).collect();
            match self.data {
                Data::No => self.command(&String::from_utf8_lossy(&line[..end])),
                _ => self.message_line(&line),
            }
        }
    }

    /// Returns the replies since the last call.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Returns whether the session has closed the connection; earlier replies can still be read.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    fn command(&mut self, line: &str) {
        match line.split([' ', ':']).next().unwrap_or_default() {
            "EHLO" if self.pipelining => self.say("250-strict.example\r\n250-PIPELINING\r\n250 8BITMIME"),
            "EHLO" => self.say("250 strict.example"),
            "MAIL" => self.mail(address_in(line)),
            "RCPT" => self.rcpt(address_in(line)),
            "DATA" => self.data(),
            "RSET" => {
                self.forgives = self.pipelining;
                if self.agrees(&Moment::Reset, "reset") {
                    self.envelope = None;
                    self.forgives = false;
                    self.say("250 reset");
                }
            }
            "QUIT" => {
                self.say("221 bye");
                self.closed = true;
            }
            _ => self.fault(line, "500 what"),
        }
    }

    fn mail(&mut self, sender: String) {
        if self.envelope.is_some() && self.forgives {
            return self.say("503 nested MAIL");
        }
        if self.envelope.is_some() {
            return self.fault(&format!("MAIL of {sender} within a transaction"), "503 nested MAIL");
        }
        self.forgives = self.pipelining;
        if self.agrees(&Moment::Mail(sender.clone()), &sender) {
            self.forgives = false;
            self.say(&format!("250 {sender}"));
            self.envelope = Some(Received { sender, recipients: Vec::new(), data: Vec::new() });
        }
    }

    fn rcpt(&mut self, recipient: String) {
        if self.envelope.is_none() {
            return self.out_of_order("RCPT");
        }
        if self.agrees(&Moment::Rcpt(recipient.clone()), &recipient) {
            self.say(&format!("250-{recipient}\r\n250 {recipient}"));
            self.envelope.as_mut().expect("an envelope").recipients.push(recipient);
        }
    }

    fn data(&mut self) {
        let has_no_recipients = self.envelope.as_ref().is_none_or(|envelope| envelope.recipients.is_empty());
        if self.envelope.is_none() && !self.forgives {
            return self.fault("DATA without MAIL", "503 MAIL first");
        }
        let name = self.envelope.as_ref().map(|envelope| envelope.sender.clone()).unwrap_or_default();
        let moment = if has_no_recipients { Moment::DataWithoutRecipients } else { Moment::Data };
        if self.agrees(&moment, &name) {
            self.data = Data::Begins;
            self.say("354 go ahead");
        }
    }

    fn message_line(&mut self, line: &[u8]) {
        if self.data == Data::Begins {
            self.data = Data::Goes;
            let name = self.envelope.as_ref().map(|envelope| envelope.sender.clone()).unwrap_or_default();
            if !self.agrees(&Moment::Midway, &name) {
                self.data = Data::Refused;
            }
        }
        if line != b".\r\n" {
            if let Some(envelope) = &mut self.envelope {
                envelope.data.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
            }
            return;
        }
        let refused = self.data == Data::Refused;
        self.data = Data::No;
        let envelope = self.envelope.take();
        match envelope {
            _ if self.closed || refused => {}
            Some(envelope) if !envelope.recipients.is_empty() => self.dot(envelope),
            _ => self.fault("a dot without recipients", "554 no recipients"),
        }
    }

    fn dot(&mut self, envelope: Received) {
        let name = envelope.sender.clone();
        let reaction = (self.decide)(&Moment::Dot);
        // Record before replying: the test may check as soon as its client has the reply.
        if matches!(reaction, Reaction::Yes | Reaction::TakeAndHangUp | Reaction::TakeAndMumble) {
            self.record().taken.push(envelope);
        }
        match reaction {
            Reaction::Yes => self.say("250 2.0.0 Ok: queued as STRICT"),
            Reaction::TakeAndMumble => self.say("well"),
            other => _ = self.react(other, &name),
        }
    }

    fn out_of_order(&mut self, what: &str) {
        match self.forgives {
            true => self.say("503 MAIL first"),
            false => self.fault(&format!("{what} without MAIL"), "503 MAIL first"),
        }
    }

    /// Returns whether the server accepts; otherwise it has already replied.
    fn agrees(&mut self, moment: &Moment, name: &str) -> bool {
        let reaction = (self.decide)(moment);
        self.react(reaction, name)
    }

    fn react(&mut self, reaction: Reaction, name: &str) -> bool {
        match reaction {
            Reaction::Yes => return true,
            Reaction::No(code) => self.say(&format!("{code}-not\r\n{code} {name}")),
            Reaction::Closing => {
                self.say(&format!("421 {name}"));
                self.closed = true;
            }
            Reaction::HangUp | Reaction::TakeAndHangUp | Reaction::TakeAndMumble => self.closed = true,
        }
        false
    }

    fn fault(&mut self, what: &str, reply: &str) {
        self.record().faults.push(what.to_owned());
        self.say(reply);
    }

    fn say(&mut self, reply: &str) {
        self.output.extend_from_slice(reply.as_bytes());
        self.output.extend_from_slice(b"\r\n");
    }

    fn record(&self) -> MutexGuard<'_, StrictRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address_in(command: &str) -> String {
    let start = command.find('<').map_or(0, |at| at + 1);
    let end = command.find('>').unwrap_or(command.len());
    command[start.min(end)..end].to_owned()
}

/// Strict sessions on a loopback port; every second one lacks PIPELINING.
pub struct StrictServer {
    address: SocketAddr,
    record: Arc<Mutex<StrictRecord>>,
    task: JoinHandle<()>,
}

impl StrictServer {
    /// Starts a server.
    ///
    /// # Panics
    /// When no loopback port is free.
    pub async fn start(decide: impl Fn(&Moment) -> Reaction + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("the address it listens on");
        let (record, decide) = (Arc::<Mutex<StrictRecord>>::default(), Arc::new(decide));
        let of_sessions = record.clone();
        let task = tokio::spawn(async move {
            let mut pipelining = false;
            while let Ok((stream, _)) = listener.accept().await {
                pipelining = !pipelining;
                let decide = decide.clone();
                let session = StrictSmtp::new(of_sessions.clone(), pipelining, move |moment| decide(moment));
                tokio::spawn(serve(session, stream));
            }
        });
        Self { address, record, task }
    }

    /// Returns the address of its listener.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the messages that its sessions accepted, and the faults of their clients.
    pub fn record(&self) -> MutexGuard<'_, StrictRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StrictServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a session. Replies are sent in two pieces, so that clients must reassemble them.
async fn serve(mut session: StrictSmtp, mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut buffer = [0; 4096];
    loop {
        let said = session.output();
        let (first, second) = said.split_at(said.len() / 2);
        stream.write_all(first).await.ok()?;
        tokio::task::yield_now().await;
        stream.write_all(second).await.ok()?;
        if session.is_closed() {
            return None;
        }
        match stream.read(&mut buffer).await.ok()? {
            0 => return None,
            read => session.push(&buffer[..read]),
        }
    }
}
