//! Reads an mbox file.

use std::collections::HashMap;
use std::io::{self, BufRead, Seek, SeekFrom};

use mailapi_model::Blob;
use sha2::{Digest, Sha256};

use super::headers::State;
use super::separator::{self, MAX_SEPARATOR, Separator};
use crate::line_ends::{Filling, Form, WithCrlf};
use crate::{ArchiveError, ArchivedMessage, MOST_MESSAGES, ReadSettings, SourceKey};

/// Editors write a mark of the encoding before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
    /// The piece after that one, if it is read already.
    ahead: Option<Vec<u8>>,
    /// The separator that was read last.
    begun: Option<Separator>,
    number: u64,
    /// How often a message occurred, by the first bytes of its digest.
    seen: HashMap<[u8; 8], u32>,
    is_over: bool,
}

impl<R: BufRead + Seek> MboxReader<R> {
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
            ahead: None,
            begun: None,
            number: 0,
            seen: HashMap::new(),
            is_over: false,
        };
        reader.begin().map_err(|error| reader.failed(error))?;
        if reader.begun.is_some() || reader.is_over {
            return Ok(reader);
        }
        let reason = "is not an mbox file: it does not begin with a line such as `From ann@example.org Fri Nov 20 10:15:30 2026`";
        Err(ArchiveError::Form { place: reader.place, reason })
    }

    /// Reads up to the first separator.
    fn begin(&mut self) -> io::Result<()> {
        loop {
            if !self.next_piece()? {
                self.is_over = true;
                return Ok(());
            }
            if self.piece.starts_with(BYTE_ORDER_MARK) {
                self.piece.drain(..BYTE_ORDER_MARK.len());
            }
            if !is_blank(&self.piece) {
                self.begun = self.separator(true)?;
                return Ok(());
            }
        }
    }

    fn failed(&self, error: io::Error) -> ArchiveError {
        ArchiveError::File { place: self.place.clone(), error }
    }

    /// Reads a line, or a piece of a long one. Returns false at the end.
    fn next_piece(&mut self) -> io::Result<bool> {
        self.starts_line = self.piece.is_empty() || self.piece.ends_with(b"\n");
        match self.ahead.take() {
            Some(ahead) => self.piece = ahead,
            None => read_piece(&mut self.input, &mut self.piece)?,
        }
        Ok(!self.piece.is_empty())
    }

    /// Returns the separator that the last piece is. One without a time follows an empty line, and a header field follows it.
    /// One with a time needs neither: Dovecot and mutt read it so, and a message may end without an empty line.
    fn separator(&mut self, follows_blank: bool) -> io::Result<Option<Separator>> {
        if !self.starts_line || self.piece.len() > MAX_SEPARATOR {
            return Ok(None);
        }
        let line = line_of(&self.piece);
        if let Some(at) = separator::read(line) {
            return Ok(Some(Separator { at: Some(at) }));
        }
        if !follows_blank || !separator::is_bare(line) {
            return Ok(None);
        }
        let mut next = Vec::new();
        read_piece(&mut self.input, &mut next)?;
        let begins_header = separator::begins_field(line_of(&next));
        self.ahead = Some(next);
        Ok(begins_header.then_some(Separator { at: None }))
    }

    /// Returns the length of a body that may contain separators: that of its header, if a separator or the end of the
    /// file follows there (the variants mboxcl and mboxcl2). 0 if it does not fit.
    fn fitting_length(&mut self, length: u64) -> io::Result<u64> {
        if length == 0 || length > self.most_bytes() || self.ahead.is_some() {
            return Ok(0);
        }
        let here = self.input.stream_position()?;
        let fits = self.ends_at(here.saturating_add(length))?;
        self.input.seek(SeekFrom::Start(here))?;
        Ok(if fits { length } else { 0 })
    }

    /// Returns whether a message ends at this position of the file.
    fn ends_at(&mut self, end: u64) -> io::Result<bool> {
        let mut last = [0];
        self.input.seek(SeekFrom::Start(end.saturating_sub(1)))?;
        match self.input.read_exact(&mut last) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        let (mut is_line, mut follows_blank, mut piece) = (last == *b"\n", false, Vec::new());
        // The end of the last line, and the empty line between messages.
        for _ in 0..=2 {
            read_piece(&mut self.input, &mut piece)?;
            if piece.is_empty() {
                return Ok(true);
            }
            let line = line_of(&piece);
            if !is_blank(&piece) {
                let is_bare = follows_blank && separator::is_bare(line);
                return Ok(is_line && (is_bare || separator::read(line).is_some()));
            }
            (follows_blank, is_line) = (is_line, true);
        }
        Ok(false)
    }

    /// Returns the maximum number of bytes that are read without the beginning of another message.
    fn most_bytes(&self) -> u64 {
        (self.settings.max_message_bytes as u64).saturating_mul(MOST_LENGTHS).max(LEAST_LIMIT)
    }

    fn message(&mut self, begun: Separator) -> Result<Option<ArchivedMessage>, ArchiveError> {
        self.number += 1;
        if self.seen.len() >= MOST_MESSAGES {
            return Err(ArchiveError::Form { place: self.place.clone(), reason: "has more than 10,000,000 messages" });
        }
        let mut message = Message::new(&self.settings);
        self.read_into(&mut message)?;
        if message.state.is_of_the_file {
            return Ok(None);
        }
        let ((flags, lost_flags), special_use) = (message.state.flags(), message.state.special_use());
        let internal_date = message.state.own.map(|own| own.at).or(begun.at);
        let (content, digest) = message.finish()?;
        let place = format!("{} message {}", self.place, self.number);
        let key = self.key(digest);
        Ok(Some(ArchivedMessage { place, key, uid: None, flags, lost_flags, special_use, internal_date, content }))
    }

    /// Reads up to the next separator.
    fn read_into(&mut self, message: &mut Message) -> Result<(), ArchiveError> {
        (self.begun, message.room) = (None, self.most_bytes());
        loop {
            if !self.next_piece().map_err(|error| self.failed(error))? {
                self.is_over = true;
                return Ok(());
            }
            if message.verbatim_left == 0 {
                let follows_blank = message.held_blank.is_some();
                self.begun = self.separator(follows_blank).map_err(|error| self.failed(error))?;
                if self.begun.is_some() {
                    return Ok(());
                }
            }
            message.room = message.room.checked_sub(self.piece.len() as u64).ok_or_else(|| ArchiveError::Form {
                place: self.place.clone(),
                reason: "has a message that is far too long, so the rest of the file is not read",
            })?;
            let was_in_header = message.is_in_header;
            message.line(&self.piece, self.starts_line)?;
            if was_in_header && !message.is_in_header {
                let length = message.state.content_length;
                message.verbatim_left = self.fitting_length(length).map_err(|error| self.failed(error))?;
            }
        }
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

impl<R: BufRead + Seek> Iterator for MboxReader<R> {
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

/// Returns whether a file with this beginning is an mbox file.
pub(crate) fn begins_mbox(sample: &[u8]) -> bool {
    let sample = sample.strip_prefix(BYTE_ORDER_MARK).unwrap_or(sample);
    let mut lines = sample.split_inclusive(|byte| *byte == b'\n').skip_while(|line| is_blank(line));
    let Some(first) = lines.next().map(line_of) else { return false };
    let mut is_bare =
        || separator::is_bare(first) && lines.next().is_some_and(|next| separator::begins_field(line_of(next)));
    separator::read(first).is_some() || is_bare()
}

/// Reads a line, or a piece of a long one; nothing at the end.
fn read_piece(input: &mut impl BufRead, piece: &mut Vec<u8>) -> io::Result<()> {
    piece.clear();
    while piece.len() < MAX_PIECE && !piece.ends_with(b"\n") {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            break;
        }
        let room = available.len().min(MAX_PIECE - piece.len());
        let taken = memchr::memchr(b'\n', &available[..room]).map_or(room, |at| at + 1);
        piece.extend_from_slice(&available[..taken]);
        input.consume(taken);
    }
    Ok(())
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
    /// Bytes of the body that contain neither separators nor quoted lines.
    verbatim_left: u64,
    /// Bytes that may be read.
    room: u64,
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
            verbatim_left: 0,
            room: 0,
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
        if self.verbatim_left > 0 {
            self.verbatim_left = self.verbatim_left.saturating_sub(piece.len() as u64);
            return self.write(piece);
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
        } else {
            self.state.continues(&String::from_utf8_lossy(line_of(piece)));
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
