//! A persistent HTTP/1.1 connection (RFC 9112). Requests are encoded in advance and written at once; responses
//! are read into a reused buffer.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::outcome::{Failure, Outcome};

/// Bytes read at once when a body is only counted.
const READ_BYTES: usize = 256 * 1024;

/// An encoded request.
#[derive(Debug, Clone)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A `GET` of an absolute path; an empty `token` is omitted.
    pub(crate) fn get(path: &str, token: &str) -> Self {
        Self(format!("GET {path} HTTP/1.1\r\nHost: bench\r\n{}\r\n", token_line(token)).into_bytes())
    }

    /// A `GET` of a page of the console.
    pub(crate) fn page(path: &str, token: &str) -> Self {
        Self(format!("GET {path} HTTP/1.1\r\nHost: bench\r\nCookie: __Host-mailapi={token}\r\n\r\n").into_bytes())
    }

    /// A `DELETE` of an absolute path.
    pub(crate) fn delete(path: &str, token: &str) -> Self {
        Self(format!("DELETE {path} HTTP/1.1\r\nHost: bench\r\n{}\r\n", token_line(token)).into_bytes())
    }

    /// A `POST` with a JSON body.
    pub(crate) fn post(path: &str, token: &str, body: &Value) -> Self {
        Self::post_bytes(path, token, body.to_string().as_bytes())
    }

    /// A `POST` with encoded JSON.
    pub(crate) fn post_bytes(path: &str, token: &str, body: &[u8]) -> Self {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: bench\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            token_line(token),
            body.len()
        );
        Self([head.as_bytes(), body].concat())
    }

    /// The encoded request.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds the header of a trusted proxy that forwards the request for `client`.
    pub(crate) fn forwarded_for(mut self, client: Ipv4Addr) -> Self {
        let line_end = self.0.windows(2).position(|two| two == b"\r\n").map_or(0, |at| at + 2);
        self.0.splice(line_end..line_end, format!("X-Forwarded-For: {client}\r\n").into_bytes());
        self
    }
}

fn token_line(token: &str) -> String {
    if token.is_empty() { String::new() } else { format!("X-MAILAPI-TOKEN: {token}\r\n") }
}

/// The status of a response, and the position of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    status: u16,
    bytes: usize,
    body_bytes: u64,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Writes a request and reads the whole response. Returns its status and body.
    pub(crate) async fn exchange(&mut self, request: &Request) -> Outcome<(u16, &[u8])> {
        let head = self.ask(request).await?;
        let end = head.bytes + usize::try_from(head.body_bytes)?;
        self.buffer.reserve(end.saturating_sub(self.buffer.len()));
        while self.buffer.len() < end {
            self.read_more().await?;
        }
        Ok((head.status, &self.buffer[head.bytes..end]))
    }

    /// Writes a request and reads a response of any size. Returns its status and the length of the body.
    pub(crate) async fn count_body(&mut self, request: &Request) -> Outcome<(u16, u64)> {
        let head = self.ask(request).await?;
        let mut count = (self.buffer.len() - head.bytes) as u64;
        while count < head.body_bytes {
            self.buffer.clear();
            self.buffer.reserve(READ_BYTES);
            count += self.read_more().await? as u64;
        }
        Ok((head.status, count))
    }

    /// Returns the JSON of a response; fails on another status.
    pub(crate) async fn json(&mut self, request: &Request, status: u16) -> Outcome<Value> {
        let (found, body) = self.exchange(request).await?;
        if found != status {
            let body = String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
            return Err(Failure::new(format!("answered {found}, expected {status}: {body}")));
        }
        Ok(serde_json::from_slice(body)?)
    }

    async fn ask(&mut self, request: &Request) -> Outcome<Head> {
        self.stream.write_all(&request.0).await?;
        self.buffer.clear();
        loop {
            self.read_more().await?;
            if let Some(head) = head(&self.buffer)? {
                return Ok(head);
            }
        }
    }

    async fn read_more(&mut self) -> Outcome<usize> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(Failure::new("the server closed the connection")),
            count => Ok(count),
        }
    }
}

/// Parses the head once it is complete.
fn head(bytes: &[u8]) -> Outcome<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.get(9..12)).and_then(|status| status.parse().ok());
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    match (status, length) {
        (Some(status), Some(body_bytes)) => Ok(Some(Head { status, bytes: end + 4, body_bytes })),
        _ => Err(Failure::new(format!("an answer without status or length: {text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_length_is_refused() {
        assert!(head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(head(b"nonsense\r\n\r\n").is_err());
    }

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let whole = b"HTTP/1.1 202 Accepted\r\nContent-Length: 12\r\nx: y\r\n\r\n{";
        for cut in 0..whole.len() - 1 {
            assert_eq!(head(&whole[..cut]).unwrap(), None, "{cut}");
        }
        assert_eq!(head(whole).unwrap(), Some(Head { status: 202, bytes: whole.len() - 1, body_bytes: 12 }));
    }
}
