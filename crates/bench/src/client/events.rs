//! `GET /events/stream`: Server-Sent Events in a chunked response (RFC 9112 section 7.1).

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::http::Request;
use crate::mail_site::api;
use crate::outcome::{Failure, Outcome};

/// Maximum time of a start: the server sends a comment at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open stream.
#[derive(Debug)]
pub(crate) struct EventStream {
    stream: TcpStream,
    body: Chunked,
    /// The position to resume at.
    cursor: String,
}

impl EventStream {
    /// Opens a stream of events of these types after a cursor. Returns once the server follows the log.
    pub(crate) async fn open(address: SocketAddr, token: &str, types: &str, after: &str) -> Outcome<Self> {
        let request = Request::get(&api(&format!("/events/stream?types={types}&after={after}")), token);
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        stream.write_all(request.bytes()).await?;
        let mut events = Self { stream, body: Chunked::default(), cursor: after.to_owned() };
        timeout(PATIENCE, events.read_head()).await??;
        Ok(events)
    }

    /// The position after the last event that was read.
    pub(crate) fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Waits for the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Outcome<Option<Value>> {
        loop {
            while let Some(piece) = self.body.piece() {
                if let Some(event) = self.read_piece(&piece)? {
                    return Ok(Some(event));
                }
            }
            if self.stream.read_buf(&mut self.body.raw).await? == 0 {
                return Ok(None);
            }
            self.body.decode()?;
        }
    }

    /// Reads up to the first comment.
    async fn read_head(&mut self) -> Outcome {
        loop {
            let head_end = self.body.raw.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = head_end {
                let head: Vec<u8> = self.body.raw.drain(..end + 4).collect();
                if !head.starts_with(b"HTTP/1.1 200") {
                    return Err(Failure::new(format!("no event stream: {}", String::from_utf8_lossy(&head))));
                }
                break;
            }
            self.read_more().await?;
        }
        loop {
            self.body.decode()?;
            if let Some(comment) = self.body.piece() {
                return self.read_piece(&comment).map(drop);
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> Outcome {
        match self.stream.read_buf(&mut self.body.raw).await? {
            0 => Err(Failure::new("the server closed the event stream at its start")),
            _ => Ok(()),
        }
    }

    /// Notes the position, and returns the event unless the piece is a comment.
    fn read_piece(&mut self, piece: &str) -> Outcome<Option<Value>> {
        let mut event = None;
        for line in piece.lines() {
            match line.split_once(": ") {
                Some(("id", cursor)) => cursor.clone_into(&mut self.cursor),
                Some(("data", json)) => event = Some(serde_json::from_str(json)?),
                Some(("event", "truncated")) => return Err(Failure::new("the stream lost events")),
                _ => {}
            }
        }
        Ok(event)
    }
}

/// The text of a chunked body.
#[derive(Debug, Default)]
struct Chunked {
    /// Bytes that are not decoded yet.
    raw: Vec<u8>,
    part: Part,
    text: Vec<u8>,
}

/// The part of a chunk that comes next.
#[derive(Debug, Default)]
enum Part {
    #[default]
    Size,
    /// This many bytes, and a line end.
    Data(usize),
}

impl Chunked {
    /// Decodes as much as there is.
    fn decode(&mut self) -> Outcome {
        loop {
            match self.part {
                Part::Size => {
                    let Some(end) = self.raw.windows(2).position(|two| two == b"\r\n") else { return Ok(()) };
                    let size = usize::from_str_radix(std::str::from_utf8(&self.raw[..end])?, 16)?;
                    self.raw.drain(..end + 2);
                    self.part = Part::Data(size);
                }
                Part::Data(0) if self.raw.len() < 2 => return Ok(()),
                Part::Data(0) => {
                    self.raw.drain(..2);
                    self.part = Part::Size;
                }
                Part::Data(_) if self.raw.is_empty() => return Ok(()),
                Part::Data(left) => {
                    let count = left.min(self.raw.len());
                    self.text.extend(self.raw.drain(..count));
                    self.part = Part::Data(left - count);
                }
            }
        }
    }

    /// Removes the next piece from the text: lines up to an empty one.
    fn piece(&mut self) -> Option<String> {
        let end = self.text.windows(2).position(|two| two == b"\n\n")?;
        let piece: Vec<u8> = self.text.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&piece).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(chunks: &[&[u8]]) -> Outcome<Vec<String>> {
        let (mut body, mut pieces) = (Chunked::default(), Vec::new());
        for chunk in chunks {
            body.raw.extend_from_slice(chunk);
            body.decode()?;
            pieces.extend(std::iter::from_fn(|| body.piece()));
        }
        Ok(pieces)
    }

    #[test]
    fn a_chunk_without_a_size_is_refused() {
        assert!(pieces(&[b"id: 1\r\n\r\n"]).is_err());
        assert!(pieces(&[b"-1\r\nx\r\n"]).is_err());
    }

    #[test]
    fn events_do_not_depend_on_how_the_bytes_are_split() {
        let bytes = b"8\r\nid: 1\n\ni\r\nd\r\nd: 2\ndata: {}\r\n3\r\n\n\n:\r\n0\r\n\r\n";
        let whole = pieces(&[bytes]).unwrap();
        assert_eq!(whole, ["id: 1\n\n", "id: 2\ndata: {}\n\n"]);
        for cut in 0..=bytes.len() {
            let (one, other) = bytes.split_at(cut);
            assert_eq!(pieces(&[one, other]).unwrap(), whole, "{cut}");
        }
    }
}
