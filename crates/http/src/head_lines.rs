//! Refuses heads of requests with a bare LF.
//!
//! RFC 9112 section 2.2 lets a server take a bare LF for the end of a line, and hyper does. A proxy in front may not, and
//! would then see other requests than this server: a client could hide one from the proxy's rules. To find the heads,
//! their bodies are skipped by their lengths.

/// The beginning of a line that is kept: enough for a name of a field that ends a body, and its value.
const KEPT: usize = 64;
/// The beginning of other lines that is kept: enough to see whether a line is empty.
const KEPT_OF_OTHERS: usize = 2;
/// What replaces a bare LF. No head has it anywhere, so the parser refuses the request.
const SPOILED: u8 = 0;

/// Where the bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a head, before its first line has ended.
    RequestLine,
    Fields(Framing),
    Body(u64),
    ChunkSize,
    Chunk(u64),
    Trailers,
    /// After a head that the parser refuses; the connection ends.
    Refused,
}

/// How the body after a head ends (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Framing {
    length: u64,
    is_chunked: bool,
}

/// The lines of heads in the bytes of a connection, in pieces of any size.
#[derive(Debug)]
pub(crate) struct HeadLines {
    place: Place,
    /// The beginning of the current line.
    line: Vec<u8>,
    /// The last byte of the current line.
    last: u8,
}

impl HeadLines {
    pub(crate) const fn new() -> Self {
        Self { place: Place::RequestLine, line: Vec::new(), last: 0 }
    }

    /// Looks at bytes before the parser gets them, and spoils the first bare LF in a head.
    pub(crate) fn look(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            at += match &mut self.place {
                Place::Refused => return,
                Place::Body(left) | Place::Chunk(left) => {
                    let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    *left -= skipped as u64;
                    if *left == 0 {
                        self.place =
                            if matches!(self.place, Place::Body(_)) { Place::RequestLine } else { Place::ChunkSize };
                    }
                    skipped
                }
                _ => self.read_line(&mut bytes[at..]),
            };
        }
    }

    /// Reads a line or the beginning of one, and returns its length.
    fn read_line(&mut self, bytes: &mut [u8]) -> usize {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            self.keep(bytes);
            return bytes.len();
        };
        self.keep(&bytes[..end]);
        if self.last != b'\r' {
            // The parser refuses a line feed in the extension of a chunk, and would ignore another byte.
            if self.place != Place::ChunkSize {
                bytes[end] = SPOILED;
            }
            self.place = Place::Refused;
        } else {
            self.place = self.after_line();
        }
        self.line.clear();
        self.last = 0;
        end + 1
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.last = *last;
            let room = self.kept(bytes).saturating_sub(self.line.len());
            self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Returns how many bytes are kept of the line that goes on like this.
    fn kept(&self, bytes: &[u8]) -> usize {
        match self.line.first().or(bytes.first()) {
            Some(b'c' | b'C' | b't' | b'T') => KEPT,
            _ if self.place == Place::ChunkSize => KEPT,
            _ => KEPT_OF_OTHERS,
        }
    }

    fn after_line(&self) -> Place {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        match self.place {
            // Empty lines before a request are ignored (RFC 9112 section 2.2).
            Place::RequestLine if line.is_empty() => Place::RequestLine,
            Place::RequestLine => Place::Fields(Framing::default()),
            Place::Fields(framing) if line.is_empty() => framing.body(),
            Place::Fields(framing) => Place::Fields(framing.with(line)),
            Place::ChunkSize => after_size(line),
            Place::Trailers if line.is_empty() => Place::RequestLine,
            place => place,
        }
    }
}

impl Framing {
    /// Reads a field. The parser refuses contradictions.
    fn with(mut self, field: &[u8]) -> Self {
        let Some(colon) = field.iter().position(|byte| *byte == b':') else { return self };
        let (name, value) = (&field[..colon], field[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            self.length = number(value, 10).unwrap_or_default();
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = value.to_ascii_lowercase().ends_with(b"chunked");
        }
        self
    }

    const fn body(self) -> Place {
        match self {
            Self { is_chunked: true, .. } => Place::ChunkSize,
            Self { length: 0, .. } => Place::RequestLine,
            Self { length, .. } => Place::Body(length),
        }
    }
}

/// Reads the size of a chunk, whose data ends in CRLF (RFC 9112 section 7.1).
fn after_size(line: &[u8]) -> Place {
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    match number(size, 16) {
        Some(0) => Place::Trailers,
        Some(size) => Place::Chunk(size.saturating_add(2)),
        None => Place::Refused,
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, radix).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the bytes as the parser gets them, when they arrive in pieces of this size.
    fn parsed(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut bytes, mut lines) = (bytes.to_vec(), HeadLines::new());
        bytes.chunks_mut(piece).for_each(|piece| lines.look(piece));
        bytes
    }

    #[test]
    fn a_bare_line_feed_in_any_head_is_spoiled() {
        const LENGTH: &str = "POST / HTTP/1.1\r\nHost: x\r\ncontent-length: 3\r\n\r\n\na\n";
        const CHUNKS: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\n\na\n\r\n0\r\nX: y\r\n\r\n";
        for before in ["", "\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", LENGTH, CHUNKS] {
            for head in [
                "\n",
                "GET / HTTP/1.1\n",
                "GET / HTTP/1.1\r\nHost: x\n",
                "GET / HTTP/1.1\r\nHost: x\r\n\n",
                "GET / HTTP/1.1\r\nX: a\r\r\nHost: x\n",
            ] {
                let start = head.strip_suffix('\n').unwrap();
                let expected = format!("{before}{start}\0Y: z\r\n\r\n");
                let read = parsed(format!("{before}{head}Y: z\r\n\r\n").as_bytes(), 5);
                assert_eq!(String::from_utf8(read).unwrap(), expected);
            }
        }
    }

    #[test]
    fn bodies_and_the_sizes_of_chunks_are_left_alone() {
        for bytes in [
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a\nb\r\nc\r\n0\r\n\r\nGET / HTTP/1.1\n\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\nc\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nCONTENT-LENGTH:  5 \r\n\r\n\n\n\n\n\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-encoding: chunked\r\n\r\nA\r\n\n\n\n\n\n\n\n\n\n\n\r\n00\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        ] {
            for piece in 1..20 {
                assert_eq!(String::from_utf8(parsed(bytes.as_bytes(), piece)).unwrap(), bytes);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_alike_however_they_are_split(
            bytes in "((GET|POST) / HTTP\r\n)?((content-length: [0-9]{1,2}|transfer-encoding: chunked|a: b)\r?\n){0,3}(\r?\n)?([0-9a-f]{0,2}\r?\n|[a-z\r\n]{0,9}){0,4}",
            piece in 1..30_usize
        ) {
            let (whole, split) = (parsed(bytes.as_bytes(), 1000), parsed(bytes.as_bytes(), piece));
            prop_assert_eq!(&whole, &split);
            prop_assert!(whole.iter().filter(|byte| **byte == SPOILED).count() <= 1);
        }
    }
}
