//! Converts errors of the HTTP parser to the form of all other errors.
//!
//! hyper rejects invalid requests itself: no service sees the request, and the response has no body. The response is
//! therefore replaced before it is written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::head_lines::HeadLines;
use crate::wrapped_stream::forward_flush_and_shutdown;

/// Longer than the head of any response of hyper's own.
const BARE_HEAD: usize = 200;

/// A stream that replaces hyper's own error responses, and makes hyper refuse heads that it would accept.
pub(crate) struct ParserErrors<S> {
    stream: S,
    /// A line ended since the last response, so an oversized head is not just an oversized request line.
    line_ended: bool,
    lines: HeadLines,
    replacement: Option<Replacement>,
}

/// A response that replaces another.
struct Replacement {
    bytes: Vec<u8>,
    sent: usize,
}

impl<S> ParserErrors<S> {
    pub(crate) const fn new(stream: S) -> Self {
        Self { stream, line_ended: false, lines: HeadLines::new(), replacement: None }
    }
}

/// The replacement for a response of hyper's own; `None` for every other response.
fn replacement(answer: &[u8], line_ended: bool) -> Option<Replacement> {
    let (status, message) = match answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)? {
        b"400" => ("400 Bad Request", "The request is not valid HTTP/1.1."),
        b"414" => ("414 URI Too Long", "The request target is too long."),
        b"431" if !line_ended => ("414 URI Too Long", "The request target is too long."),
        b"431" => ("431 Request Header Fields Too Large", "The header fields are too many or too long."),
        _ => return None,
    };
    // Responses of the service have a content type or a body.
    let head = std::str::from_utf8(answer).ok().filter(|head| head.len() < BARE_HEAD && head.ends_with("\r\n\r\n"))?;
    let has = |name: &str| head.lines().any(|line| line.starts_with(name));
    if !has("content-length: 0") || has("content-type") {
        return None;
    }
    let date = head.lines().find(|line| line.starts_with("date: ")).unwrap_or("date: Thu, 01 Jan 1970 00:00:00 GMT");
    let body = format!(r#"{{"success":false,"error":"BAD_REQUEST","message":"{message}"}}"#);
    let bytes = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\
         cache-control: no-store\r\nx-content-type-options: nosniff\r\n{date}\r\n\r\n{body}",
        body.len()
    );
    Some(Replacement { bytes: bytes.into(), sent: 0 })
}

impl<S: AsyncWrite + Unpin> ParserErrors<S> {
    /// Sends the replacement, if there is one. Ready when all of it is sent.
    fn replace(&mut self, context: &mut Context<'_>, answer: &[u8]) -> Poll<Option<io::Result<usize>>> {
        if self.replacement.is_none() {
            self.replacement = replacement(answer, self.line_ended);
        }
        let Some(replacement) = &mut self.replacement else { return Poll::Ready(None) };
        while replacement.sent < replacement.bytes.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &replacement.bytes[replacement.sent..])) {
                Ok(0) => return Poll::Ready(Some(Err(io::ErrorKind::WriteZero.into()))),
                Ok(sent) => replacement.sent += sent,
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        self.replacement = None;
        Poll::Ready(Some(Ok(answer.len())))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ParserErrors<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.lines.look(&mut buffer.filled_mut()[before..]);
        if !self.line_ended {
            self.line_ended = buffer.filled()[before..].contains(&b'\n');
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ParserErrors<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(replaced) = ready!(self.replace(context, bytes)) {
            return Poll::Ready(replaced);
        }
        self.line_ended = false;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = pieces.iter().find(|piece| !piece.is_empty()).map_or(&[][..], |piece| piece);
        if let Some(replaced) = ready!(self.replace(context, first)) {
            return Poll::Ready(replaced);
        }
        self.line_ended = false;
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    forward_flush_and_shutdown!();
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[test]
    fn an_answer_of_a_service_is_left_alone() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad",
            "HTTP/1.1 4",
            "",
        ] {
            assert!(replacement(answer.as_bytes(), true).is_none(), "{answer}");
        }
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_gets_all_of_the_error() {
        let (server, mut client) = duplex(7);
        let mut server = ParserErrors::new(server);
        let bare = b"HTTP/1.1 431 X\r\ncontent-length: 0\r\ndate: now\r\n\r\n";
        let writing = async {
            server.write_all(bare).await.unwrap();
            drop(server);
        };
        let mut answer = String::new();
        let ((), read) = tokio::join!(writing, client.read_to_string(&mut answer));
        read.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 414 ") && head.ends_with("\r\ndate: now"), "{head}");
        assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{answer}");
    }
}
