//! A scripted IMAP client.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than any reply takes, so that a test without a reply fails instead of waiting forever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    commands: u32,
}

/// The response to a command.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The untagged responses with their literals.
    pub(crate) untagged: Vec<String>,
    /// The tagged line without its tag.
    pub(crate) end: String,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream), commands: 0 }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends to a server that may have disconnected.
    pub(crate) async fn send_if_open(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Returns the next response with its literals; `None` at the end of the connection.
    pub(crate) async fn response(&mut self) -> Option<Vec<u8>> {
        timeout(PATIENCE, self.read_response()).await.expect("an answer in time")
    }

    /// Returns the next response as text.
    pub(crate) async fn line(&mut self) -> Option<String> {
        self.response().await.map(|response| String::from_utf8_lossy(&response).into_owned())
    }

    async fn read_response(&mut self) -> Option<Vec<u8>> {
        let mut response = Vec::new();
        loop {
            let before = response.len();
            self.stream.read_until(b'\n', &mut response).await.ok().filter(|read| *read > 0)?;
            let line = response[before..].strip_suffix(b"\r\n").expect("a whole line").to_vec();
            response.truncate(before + line.len());
            let Some(length) = literal_length(&line) else { return Some(response) };
            let mut literal = vec![0; length];
            self.stream.read_exact(&mut literal).await.ok()?;
            response.extend_from_slice(b"\n");
            response.extend(literal);
        }
    }

    /// Runs a command.
    pub(crate) async fn run(&mut self, command: &str) -> Answer {
        self.run_bytes(command.as_bytes()).await
    }

    pub(crate) async fn run_bytes(&mut self, command: &[u8]) -> Answer {
        self.commands += 1;
        let tag = format!("t{} ", self.commands);
        self.send(&[tag.as_bytes(), command, b"\r\n"].concat()).await;
        let mut untagged = Vec::new();
        loop {
            let line = self.line().await.expect("an answer before the end of the connection");
            match line.strip_prefix(&tag) {
                Some(end) => return Answer { untagged, end: end.to_owned() },
                None => untagged.push(line),
            }
        }
    }

    /// Runs a command that must succeed. Returns its untagged responses.
    pub(crate) async fn ok(&mut self, command: &str) -> Vec<String> {
        let answer = self.run(command).await;
        assert!(answer.end.starts_with("OK"), "{command}: {answer:?}");
        answer.untagged
    }

    /// Appends a message with a non-synchronizing literal.
    pub(crate) async fn append(&mut self, folder: &str, flags: &str, message: &str) -> Answer {
        let message = message.replace('\n', "\r\n");
        self.run(&format!("APPEND \"{folder}\" ({flags}) {{{}+}}\r\n{message}", message.len())).await
    }

    /// Starts IDLE.
    pub(crate) async fn idle(&mut self) {
        self.send(b"i IDLE\r\n").await;
        assert_eq!(self.line().await.as_deref(), Some("+ idling"));
    }

    /// Ends IDLE. Returns the responses received until then.
    pub(crate) async fn done(&mut self) -> Vec<String> {
        self.send(b"DONE\r\n").await;
        let mut said = Vec::new();
        loop {
            match self.line().await.unwrap() {
                line if line.starts_with("i OK") => return said,
                line => said.push(line),
            }
        }
    }
}

fn literal_length(line: &[u8]) -> Option<usize> {
    let inner = line.strip_suffix(b"}")?;
    let digits = &inner[inner.iter().rposition(|byte| *byte == b'{')? + 1..];
    std::str::from_utf8(digits).ok()?.parse().ok()
}
