//! A persistent SMTP connection (RFC 5321) that pipelines the envelope (RFC 2920).

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::outcome::{Failure, Outcome};

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An encoded message.
#[derive(Debug, Clone)]
pub(crate) struct Mail {
    envelope: Vec<u8>,
    content: Vec<u8>,
}

impl Mail {
    /// Encodes a message. Its lines must end with CRLF and not begin with a dot.
    pub(crate) fn new(from: &str, to: &str, message: &str) -> Self {
        let envelope = format!("MAIL FROM:<{from}>\r\nRCPT TO:<{to}>\r\nDATA\r\n").into_bytes();
        Self { envelope, content: format!("{message}.\r\n").into_bytes() }
    }
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream, buffer: Vec::new() };
        connection.expect(220).await?;
        connection.stream.write_all(b"EHLO bench.example\r\n").await?;
        connection.expect(250).await?;
        Ok(connection)
    }

    /// Logs in (RFC 4954, with the initial response of RFC 4616).
    pub(crate) async fn log_in(&mut self, user: &str, password: &str) -> Outcome {
        let response = STANDARD.encode(format!("\0{user}\0{password}"));
        self.stream.write_all(format!("AUTH PLAIN {response}\r\n").as_bytes()).await?;
        self.expect(235).await
    }

    /// Sends a message; returns once the server has accepted it.
    pub(crate) async fn send(&mut self, mail: &Mail) -> Outcome {
        self.stream.write_all(&mail.envelope).await?;
        for code in [250, 250, 354] {
            self.expect(code).await?;
        }
        self.stream.write_all(&mail.content).await?;
        self.expect(250).await
    }

    /// Reads one reply; fails on another code.
    async fn expect(&mut self, code: u16) -> Outcome {
        loop {
            if let Some(end) = reply_end(&self.buffer) {
                let reply = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end);
                if reply.starts_with(&code.to_string()) {
                    return Ok(());
                }
                return Err(Failure::new(format!("SMTP answered {reply:?}, expected {code}")));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(Failure::new("the SMTP server closed the connection"));
            }
        }
    }
}

/// The end of the first reply: a line whose fourth octet is not a hyphen (RFC 5321 section 4.2.1).
fn reply_end(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    loop {
        let line = bytes[start..].iter().position(|byte| *byte == b'\n')? + 1;
        if bytes.get(start + 3) != Some(&b'-') {
            return Some(start + line);
        }
        start += line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_several_lines_is_one_reply() {
        assert_eq!(reply_end(b"250-one\r\n250-two\r\n250 thr"), None);
        assert_eq!(reply_end(b"250-one\r\n250 two\r\n354 "), Some(18));
    }
}
