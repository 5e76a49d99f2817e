//! Reads an mbox file.

use std::collections::HashMap;
use std::io::{self, BufRead};

use mailapi_model::{Blob, Timestamp};
use sha2::{Digest, Sha256};

use super::headers::State;
use super::separator::{self, MAX_SEPARATOR};
use crate::line_ends::{Filling, Form, WithCrlf};
use crate::{ArchiveError, ArchivedMessage, MOST_MESSAGES, ReadSettings, SourceKey};

/// Longer lines are read in pieces of this size.
const MAX_PIECE: usize = 8 * 1024;

/// Number of bytes that are read without the beginning of another message, as a multiple of the longest message. A longer
/// one is passed over, but a sparse file takes no space on disk and hours to read.
const MOST_LENGTHS: u64 = 64;

/// The same in bytes where messages must be short.
const LEAST_LIMIT: u64 = 4 * 1024 * 1024;

/// Reads the messages of an mbox file, in order.
pub struct MboxReader<R> {
    input: R,
    place: String,
    settings: ReadSettings,
    /// The last piece of a line.
    piece: Vec<u8>,
    starts_line: bool,
    /// The time of the separator that was read last.
    begun: Option<Timestamp>,
    number: u64,
    /// How often a message occurred, by the first bytes of its digest.
    seen: HashMap<[u8; 8], u32>,
    is_over: bool,
}

impl<R: BufRead> MboxReader<R> {
    /// Reads from a file; `place` names it in reports.
    ///
    /// # Errors
    /// If it is not empty and does not begin with a `From ` line.
    pub fn new(input: R, place: &str, settings: ReadSettings) -> Result<Self, ArchiveError> {
        let mut reader = Self {
            input,
            place: place.to_owned(),
            settings,
            piece: Vec::new(),
            starts_line: true,
            begun: None,
            number: 0,
            seen: HashMap::new(),
            is_over: false,
        };
        loop {
            if !reader.next_piece().map_err(|error| reader.failed(error))? {
                reader.is_over = true;
                return Ok(reader);
            }
            if !is_blank(&reader.piece) {
                break;
            }
        }
        reader.begun = separator::read(line_of(&reader.piece));
        match reader.begun {
            Some(_) => Ok(reader),
            None => Err(ArchiveError::Form {
                place: reader.place,
                reason: "is not an mbox file: it does not begin with a line such as `From ann@example.org Fri Nov 20 10:15:30 2026`",
            }),
        }
    }

    fn failed(&self, error: io::Error) -> ArchiveError {
        ArchiveError::File { place: self.place.clone(), error }
    }

    /// Reads a line, or a piece of a long one. Returns false at the end.
    fn next_piece(&mut self) -> io::Result<bool> {
        self.starts_line = self.piece.is_empty() || self.piece.ends_with(b"\n");
        self.piece.clear();
        while self.piece.len() < MAX_PIECE && !self.piece.ends_with(b"\n") {
            let available = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            if available.is_empty() {
                break;
            }
            let room = available.len().min(MAX_PIECE - self.piece.len());
            let taken = memchr::memchr(b'\n', &available[..room]).map_or(room, |at| at + 1);
            self.piece.extend_from_slice(&available[..taken]);
            self.input.consume(taken);
        }
        Ok(!self.piece.is_empty())
    }

    fn message(&mut self, begun: Timestamp) -> Result<Option<ArchivedMessage>, ArchiveError> {
        self.number += 1;
        if self.seen.len() >= MOST_MESSAGES {
            return Err(ArchiveError::Form { place: self.place.clone(), reason: "has more than 10,000,000 messages" });
        }
        let mut message = Message::new(&self.settings);
        self.begun = None;
        let (mut read, most) =
            (0, (self.settings.max_message_bytes as u64).saturating_mul(MOST_LENGTHS).max(LEAST_LIMIT));
        loop {
            if !self.next_piece().map_err(|error| self.failed(error))? {
                self.is_over = true;
                break;
            }
            let may_separate = self.starts_line && message.held_blank.is_some() && self.piece.len() <= MAX_SEPARATOR;
            if may_separate && let Some(at) = separator::read(line_of(&self.piece)) {
                self.begun = Some(at);
                break;
            }
            read += self.piece.len() as u64;
            if read > most {
                let reason = "has a message that is far too long, so the rest of the file is not read";
                return Err(ArchiveError::Form { place: self.place.clone(), reason });
            }
            message.line(&self.piece, self.starts_line)?;
        }
        if message.state.is_of_the_file {
            return Ok(None);
        }
        let flags = message.state.flags();
        let internal_date = message.state.own.map_or(begun, |own| own.at);
        let (content, digest) = message.finish()?;
        let place = format!("{} message {}", self.place, self.number);
        let key = self.key(digest);
        Ok(Some(ArchivedMessage { place, key, uid: None, flags, internal_date: Some(internal_date), content }))
    }

    /// Equal messages are distinguished by their order.
    fn key(&mut self, digest: Sha256) -> SourceKey {
        let SourceKey(digest) = SourceKey::from_digest(digest);
        let short = std::array::from_fn(|at| digest[at]);
        let count = self.seen.entry(short).or_default();
        *count += 1;
        SourceKey::of(&[b"mbox", &digest, &count.to_be_bytes()])
    }
}

impl<R: BufRead> Iterator for MboxReader<R> {
    type Item = Result<ArchivedMessage, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let begun = self.begun.filter(|_| !self.is_over)?;
            match self.message(begun) {
                Ok(Some(message)) => return Some(Ok(message)),
                Ok(None) => {}
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

fn line_of(piece: &[u8]) -> &[u8] {
    let line = piece.strip_suffix(b"\n").unwrap_or(piece);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn is_blank(piece: &[u8]) -> bool {
    matches!(piece, b"\n" | b"\r\n")
}

/// A message being read.
struct Message {
    filling: Filling,
    lines: WithCrlf,
    digest: Sha256,
    state: State,
    is_in_header: bool,
    is_first_line: bool,
    /// The last header line was taken, and so are those that continue it.
    took_last: bool,
    /// An empty line that may belong to the next separator.
    held_blank: Option<Vec<u8>>,
    written: u64,
}

impl Message {
    fn new(settings: &ReadSettings) -> Self {
        Self {
            filling: Filling::new(settings.buffer.writer(), settings.max_message_bytes),
            lines: WithCrlf::new(Form::Lines),
            digest: Sha256::new(),
            state: State::default(),
            is_in_header: true,
            is_first_line: true,
            took_last: false,
            // A separator may follow another one at once.
            held_blank: Some(Vec::new()),
            written: 0,
        }
    }

    fn line(&mut self, piece: &[u8], starts_line: bool) -> Result<(), ArchiveError> {
        if starts_line && self.is_in_header && self.takes_header(piece) {
            return Ok(());
        }
        // The rest of a long line that was taken.
        if !starts_line && self.is_in_header && self.took_last {
            return Ok(());
        }
        if let Some(blank) = self.held_blank.take() {
            self.write(&blank)?;
        }
        if starts_line && is_blank(piece) {
            self.held_blank = Some(piece.to_vec());
            return Ok(());
        }
        self.write(if starts_line { unquoted(piece) } else { piece })
    }

    fn takes_header(&mut self, piece: &[u8]) -> bool {
        let is_first = std::mem::take(&mut self.is_first_line);
        if is_blank(piece) {
            self.is_in_header = false;
            return false;
        }
        if !matches!(piece.first(), Some(b' ' | b'\t')) {
            self.took_last = self.state.takes(&String::from_utf8_lossy(line_of(piece)), is_first);
            if is_first && self.state.own.is_some_and(|own| own.is_verbatim) {
                self.lines = WithCrlf::new(Form::Verbatim);
            }
        } else if self.state.own.is_some() {
            // Our own lines are never continued.
            self.took_last = false;
        }
        if self.took_last {
            // Nothing of the message was read yet, so a separator may follow.
            self.held_blank.get_or_insert_default();
        }
        self.took_last
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let Self { filling, lines, digest, written, .. } = self;
        lines.push(bytes, &mut |bytes| {
            *written += bytes.len() as u64;
            digest.update(bytes);
            filling.push(bytes)
        })?;
        Ok(())
    }

    /// Returns the message and the digest of its bytes.
    fn finish(self) -> Result<(Option<Blob>, Sha256), ArchiveError> {
        let Some(own) = self.state.own else {
            // The empty line at the end belongs to the format.
            return Ok((self.filling.finish()?, self.digest));
        };
        let octets = usize::try_from(own.octets).unwrap_or(usize::MAX);
        let is_longer_by_a_line_end = (1..=2).contains(&self.written.saturating_sub(own.octets));
        let content = self.filling.finish()?;
        // The format cannot end inside a line, but the message did.
        let content = content.map(|content| if is_longer_by_a_line_end { content.slice(0..octets) } else { content });
        Ok((content, self.digest))
    }
}

/// Removes one `>` of a quoted line (mboxrd).
fn unquoted(line: &[u8]) -> &[u8] {
    let text = line.iter().position(|byte| *byte != b'>').unwrap_or(line.len());
    if text > 0 && line[text..].starts_with(b"From ") { &line[1..] } else { line }
}
