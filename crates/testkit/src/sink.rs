//! A scripted remote mail server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A message that the sink accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The address of MAIL.
    pub sender: String,
    /// The accepted addresses of RCPT.
    pub recipients: Vec<String>,
    /// The message after dot-unstuffing.
    pub data: Vec<u8>,
}

/// Accepts all mail on a loopback port, except for scripted rejections.
pub struct SmtpSink {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    received: Mutex<Vec<Received>>,
    /// Scripted replies for recipients, in order; afterwards they are accepted.
    replies: Mutex<HashMap<String, Vec<String>>>,
    /// Scripted replies after DATA, in order; afterwards messages are accepted.
    data_replies: Mutex<Vec<String>>,
    /// Number of connections to close right after the final dot, without a reply.
    hang_ups: Mutex<usize>,
    /// Extensions in the reply to EHLO, if other than the usual ones.
    extensions: Mutex<Option<Vec<String>>>,
    /// Number of recipients in one message, and the reply to further ones.
    limit: Mutex<Option<(usize, String)>>,
    /// Commands RCPT so far.
    recipients_named: AtomicUsize,
    /// Connections so far.
    connections: AtomicUsize,
}

/// Extensions that a sink offers.
const EXTENSIONS: [&str; 6] = ["PIPELINING", "SIZE 52428800", "8BITMIME", "ENHANCEDSTATUSCODES", "DSN", "SMTPUTF8"];

impl SmtpSink {
    /// Starts a sink.
    ///
    /// # Panics
    /// When there is no free loopback port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("the address it listens on");
        let shared = Arc::new(Shared::default());
        let for_sessions = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                for_sessions.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(session(stream, for_sessions.clone()));
            }
        });
        Self { address, shared, task }
    }

    /// Returns the address of its listener.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Scripts replies for the next RCPT commands for `recipient`, one each.
    pub fn refuse(&self, recipient: &str, replies: &[&str]) {
        let replies = replies.iter().map(ToString::to_string).collect();
        self.shared.replies.lock().unwrap().insert(recipient.to_lowercase(), replies);
    }

    /// Scripts replies for the next messages, one each.
    pub fn refuse_data(&self, replies: &[&str]) {
        self.shared.data_replies.lock().unwrap().extend(replies.iter().map(ToString::to_string));
    }

    /// Sets the extensions that the sink offers from now on.
    pub fn offer(&self, extensions: &[&str]) {
        let extensions = extensions.iter().map(ToString::to_string).collect();
        *self.shared.extensions.lock().unwrap() = Some(extensions);
    }

    /// Accepts at most `most` recipients in one message; further ones get this reply.
    pub fn limit_recipients(&self, most: usize, reply: &str) {
        *self.shared.limit.lock().unwrap() = Some((most, reply.to_owned()));
    }

    /// Returns the number of RCPT commands so far.
    #[must_use]
    pub fn recipients_named(&self) -> usize {
        self.shared.recipients_named.load(Ordering::Relaxed)
    }

    /// Returns the number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Makes the sink accept the next `times` messages, but close the connection instead of replying.
    pub fn hang_up_after_data(&self, times: usize) {
        *self.shared.hang_ups.lock().unwrap() = times;
    }

    /// Returns the messages accepted so far.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }
}

impl Drop for SmtpSink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn session(stream: TcpStream, shared: Arc<Shared>) -> Option<()> {
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut message = Received { sender: String::new(), recipients: Vec::new(), data: Vec::new() };
    writer.write_all(b"220 sink.example ESMTP\r\n").await.ok()?;
    let mut line = String::new();
    while reader.read_line(&mut line).await.ok()? > 0 {
        let command = line.trim_end().to_owned();
        line.clear();
        let verb = command.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        let reply = match verb.as_str() {
            "EHLO" => shared.ehlo(),
            "MAIL" => {
                message.sender = address_in(&command);
                message.recipients.clear();
                "250 2.1.0 Ok".to_owned()
            }
            "RCPT" => shared.rcpt(&mut message, address_in(&command)),
            "DATA" if message.recipients.is_empty() => "554 5.5.1 No valid recipients".to_owned(),
            "DATA" => {
                writer.write_all(b"354 Go ahead\r\n").await.ok()?;
                message.data = read_data(&mut reader).await?;
                shared.data(&message)?
            }
            "RSET" | "NOOP" | "HELO" => "250 2.0.0 Ok".to_owned(),
            "QUIT" => {
                writer.write_all(b"221 2.0.0 Bye\r\n").await.ok()?;
                return Some(());
            }
            _ => "502 5.5.1 Not here".to_owned(),
        };
        writer.write_all(format!("{reply}\r\n").as_bytes()).await.ok()?;
    }
    Some(())
}

impl Shared {
    fn ehlo(&self) -> String {
        let extensions = self.extensions.lock().unwrap();
        let usual = || EXTENSIONS.map(str::to_owned).to_vec();
        let mut lines = extensions.clone().unwrap_or_else(usual);
        lines.insert(0, "sink.example".to_owned());
        let last = lines.pop().unwrap_or_default();
        lines.iter().map(|line| format!("250-{line}\r\n")).collect::<String>() + &format!("250 {last}")
    }

    fn rcpt(&self, message: &mut Received, recipient: String) -> String {
        self.recipients_named.fetch_add(1, Ordering::Relaxed);
        if let Some((most, reply)) = &*self.limit.lock().unwrap()
            && message.recipients.len() >= *most
        {
            return reply.clone();
        }
        let mut replies = self.replies.lock().unwrap();
        if let Some(left) = replies.get_mut(&recipient.to_lowercase())
            && !left.is_empty()
        {
            return left.remove(0);
        }
        message.recipients.push(recipient);
        "250 2.1.5 Ok".to_owned()
    }

    /// Returns the reply to the message; `None` closes the connection.
    fn data(&self, message: &Received) -> Option<String> {
        let mut replies = self.data_replies.lock().unwrap();
        if !replies.is_empty() {
            return Some(replies.remove(0));
        }
        let mut received = self.received.lock().unwrap();
        received.push(message.clone());
        let mut hang_ups = self.hang_ups.lock().unwrap();
        if *hang_ups > 0 {
            *hang_ups -= 1;
            return None;
        }
        Some(format!("250 2.0.0 Ok: queued as SINK{}", received.len()))
    }
}

fn address_in(command: &str) -> String {
    let start = command.find('<').map_or(0, |at| at + 1);
    let end = command.find('>').unwrap_or(command.len());
    command[start.min(end)..end].to_owned()
}

async fn read_data(reader: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<u8>> {
    let (mut data, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).await.ok()? == 0 {
            return None;
        }
        if line == b".\r\n" {
            return Some(data);
        }
        data.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
    }
}
