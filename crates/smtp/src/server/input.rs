//! Unread bytes from the client, and their command lines.

/// Unread input. Reading advances a cursor; the next push drops the bytes before it.
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    read: usize,
    /// The rest of an overlong line is still to be skipped.
    skipping: bool,
}

/// Reason why a line is not a valid command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadLine {
    /// Longer than the limit. Reported once, when the limit is exceeded.
    TooLong,
    /// The line ends in a bare LF or contains a bare CR (RFC 5321 section 2.3.8 allows CRLF only).
    BareLineEnd,
    /// The line contains control characters, or bytes that are not UTF-8.
    NotText,
}

impl Input {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.read = 0;
    }

    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.read += count;
    }

    /// Returns the next line without its CRLF, or `None` if it is incomplete. `limit` returns the maximum
    /// length with CRLF for a line with the given beginning.
    pub(super) fn line(&mut self, limit: impl Fn(&[u8]) -> usize) -> Option<Result<String, BadLine>> {
        if self.skipping {
            let end = self.line_end();
            self.read += end.unwrap_or(self.unread().len());
            self.skipping = end.is_none();
            end?;
        }
        let limit = limit(self.unread());
        let Some(end) = self.line_end() else {
            if self.unread().len() < limit {
                return None;
            }
            self.clear();
            self.skipping = true;
            return Some(Err(BadLine::TooLong));
        };
        let result = if end > limit { Err(BadLine::TooLong) } else { text_of(&self.unread()[..end]) };
        self.read += end;
        Some(result)
    }

    /// Returns the number of unread bytes up to and including the next LF.
    fn line_end(&self) -> Option<usize> {
        let at = self.unread().iter().position(|&byte| byte == b'\n')?;
        Some(at + 1)
    }
}

fn text_of(line: &[u8]) -> Result<String, BadLine> {
    let text = line.strip_suffix(b"\r\n").ok_or(BadLine::BareLineEnd)?;
    if text.contains(&b'\r') {
        return Err(BadLine::BareLineEnd);
    }
    let text = std::str::from_utf8(text).map_err(|_| BadLine::NotText)?;
    if text.chars().any(char::is_control) {
        return Err(BadLine::NotText);
    }
    Ok(text.to_owned())
}
