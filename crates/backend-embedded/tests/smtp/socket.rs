//! The client's end of a dialog over a real connection.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mailapi_model::Outcome;
use mailapi_testkit::dialog::Peer;
use mailapi_tls::{Trust, client_config};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::mail_host::MailHost;

/// Longer than any reply takes, so that a test without a reply fails instead of waiting forever.
const PATIENCE: Duration = Duration::from_secs(60);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that reads lines.
pub(crate) struct Line {
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
}

impl Line {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    /// Connects from another address of this machine.
    pub(crate) async fn from(client: [u8; 4], address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((client, 0))).unwrap();
        Self::over(socket.connect(address).await.unwrap())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream: Box::new(stream), unread: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        // The server may have disconnected already, as some dialogs expect.
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    /// Returns the next line without its CRLF; `None` at the end of the connection.
    pub(crate) async fn read(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..end + 2).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let mut buffer = [0; 4096];
            match timeout(PATIENCE, self.stream.read(&mut buffer)).await.expect("an answer in time") {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.unread.extend_from_slice(&buffer[..read]),
            }
        }
    }

    /// Returns the last line of the next reply.
    pub(crate) async fn reply(&mut self) -> String {
        loop {
            let line = self.read().await.unwrap_or_else(|| "closed".to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return line;
            }
        }
    }

    /// Sends a line and returns the reply.
    pub(crate) async fn say(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.reply().await
    }

    pub(crate) async fn start_tls(&mut self) -> bool {
        if !self.unread.is_empty() {
            return false;
        }
        let tls = TlsConnector::from(client_config(&Trust::Anybody).unwrap());
        let plain = std::mem::replace(&mut self.stream, Box::new(tokio::io::empty()));
        let name = "mx.here.example".try_into().unwrap();
        let Ok(encrypted) = tls.connect(name, plain).await else { return false };
        self.stream = Box::new(encrypted);
        true
    }

    pub(crate) async fn hang_up(&mut self) {
        let _ = self.stream.shutdown().await;
    }
}

/// Plays dialogs against a server. After each message it reports the contents of the message store and the
/// queue.
pub(crate) struct SocketPeer {
    line: Line,
    runtime: Handle,
    host: Arc<MailHost>,
    seen: HashMap<&'static str, usize>,
    events: VecDeque<String>,
}

impl SocketPeer {
    pub(crate) async fn new(host: Arc<MailHost>, address: SocketAddr) -> Self {
        let (line, runtime) = (Line::to(address).await, Handle::current());
        Self { line, runtime, host, seen: HashMap::new(), events: VecDeque::new() }
    }

    /// `inbox mailbox "message"` for the messages of an INBOX, `queued recipient` for queued recipients.
    async fn look(&mut self) {
        for mailbox in ["ann@here.example", "bob@here.example", "full@here.example"] {
            let messages = self.host.inbox(mailbox).await;
            let seen = self.seen.entry(mailbox).or_default();
            for message in messages.iter().skip(*seen) {
                self.events.push_back(format!("inbox {mailbox} \"{}\"", message.escape_debug()));
            }
            *seen = messages.len();
        }
        let agent = self.host.agent(|_| {});
        let seen = self.host.events().await.len();
        // Without DNS records every remote recipient bounces, which shows the queued recipients.
        agent.deliver_due_once().await.unwrap();
        for event in self.host.events().await.iter().skip(seen).filter(|event| event.outcome == Outcome::Bounced) {
            let sender = event.sender.as_ref().map(ToString::to_string).unwrap_or_default();
            self.events.push_back(format!("queued <{sender}> <{}>", event.recipient));
        }
        for mailbox in ["ann@here.example", "bob@here.example"] {
            self.seen.insert(mailbox, self.host.inbox(mailbox).await.len());
        }
    }
}

impl Peer for SocketPeer {
    fn send(&mut self, bytes: &[u8]) {
        self.runtime.clone().block_on(self.line.send(bytes));
    }

    fn line(&mut self) -> Option<String> {
        let read = self.line.read();
        self.runtime.clone().block_on(async { tokio::time::timeout(PATIENCE, read).await.ok().flatten() })
    }

    fn is_closed(&mut self) -> bool {
        self.line().is_none()
    }

    fn start_tls(&mut self) -> bool {
        self.runtime.clone().block_on(self.line.start_tls())
    }

    fn host_event(&mut self) -> Option<String> {
        if self.events.is_empty() {
            self.runtime.clone().block_on(self.look());
        }
        self.events.pop_front()
    }

    fn hang_up(&mut self) {
        self.runtime.clone().block_on(self.line.hang_up());
    }
}
