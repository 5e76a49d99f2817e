//! Splits a byte stream into frames.

use super::frame::{Frame, Part};
use super::limits::Limits;

/// The side of the connection that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Reads commands: literals without `+` need a continuation request.
    Server,
    /// Reads responses: literals follow at once, and the text of a status response never announces one.
    Client,
}

/// A result of [`FrameReader::poll`].
#[derive(Debug, PartialEq, Eq)]
pub enum Poll {
    /// No complete frame; feed more bytes.
    NeedMore,
    /// The peer waits for `+ ...` before it sends a literal.
    NeedContinuation,
    /// A piece of the messages of an incomplete APPEND. The frame contains the last piece and the number of octets
    /// before it. One piece may end in a later message than it began.
    Keep {
        /// The octets.
        bytes: Vec<u8>,
        /// Whether this is the first piece of a command: pieces kept earlier can be discarded.
        is_first: bool,
    },
    /// A whole command or response.
    Frame(Frame),
    /// A literal was too large. The command was dropped; the next one can be read.
    Refused(Refusal),
    /// A line, or the sum of rejected literals, exceeds its limit; the connection cannot continue.
    Overrun,
}

/// A command or response dropped before it was complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The tag of the command, if it is readable.
    pub tag: Option<String>,
    /// Whether the literal was a message of an APPEND, and too large (completed with `NO [TOOBIG]`, RFC 7889 section 3).
    pub message: bool,
    /// The sequence number of a FETCH response that was too long.
    pub skipped: Option<u32>,
}

/// A result of `FrameReader::poll_line`.
#[derive(Debug, PartialEq, Eq)]
pub enum LinePoll {
    /// No complete line; feed more bytes.
    NeedMore,
    /// A line without its end.
    Line(Vec<u8>),
    /// The line exceeds its limit; the connection cannot continue.
    Overrun,
}

/// A result of `FrameReader::poll_streaming`.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamPoll {
    /// Nothing complete; feed more bytes.
    NeedMore,
    /// The literal of a body section begins; this number of octets follows in pieces.
    Begin(u64),
    /// This number of further octets is available from [`FrameReader::piece`].
    Piece(usize),
    /// The literal is complete; the rest of its response follows.
    End,
    /// A whole response. A streamed literal is empty in it.
    Frame(Frame),
    /// A literal that is not streamed was too large, and its response was dropped.
    Refused(Refusal),
    /// A line, or the sum of rejected literals, exceeds its limit; the connection cannot continue.
    Overrun,
}

enum State {
    Text,
    Literal {
        remaining: u64,
    },
    /// A literal that is returned in pieces.
    Streamed {
        remaining: u64,
    },
}

struct Announced {
    prefix: usize,
    size: u64,
    sync: bool,
}

/// Literals of a response before one that is streamed. The head is parsed again for each, and a client requests one
/// section at a time.
const MOST_BEFORE_STREAM: usize = 16;

/// Bytes kept from the end of a skipped line, enough for the announcement of a literal.
const LINE_TAIL: usize = 32;

/// An incremental reader. A line ends with CRLF; a bare LF is accepted too, as by common servers.
pub struct FrameReader {
    limits: Limits,
    side: Side,
    takes_messages: bool,
    input: Vec<u8>,
    start: usize,
    scanned: usize,
    /// Length of the last piece; it ends at `start`.
    piece: usize,
    frame: Frame,
    /// Bytes of the frame's text.
    text: usize,
    /// How many literals the frame has.
    literals: usize,
    /// Bytes that they were announced with; those handed out in pieces do not count.
    announced: u64,
    state: State,
    refused: Option<Refusal>,
    discarded: u64,
}

impl FrameReader {
    /// Creates a reader. Large APPEND literals are accepted only after [`Self::accept_messages`].
    pub fn new(side: Side, limits: Limits) -> Self {
        Self {
            limits,
            side,
            takes_messages: false,
            input: Vec::new(),
            start: 0,
            scanned: 0,
            piece: 0,
            frame: Frame::default(),
            text: 0,
            literals: 0,
            announced: 0,
            state: State::Text,
            refused: None,
            discarded: 0,
        }
    }

    /// Accepts APPEND messages of up to `max_message` bytes from now on. Initially off, so that an
    /// unauthenticated client cannot make the server hold messages.
    pub fn accept_messages(&mut self) {
        self.takes_messages = true;
    }

    /// Adds bytes from the connection. Only after `NeedMore`: memory use then stays within the limits plus one
    /// read.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input().extend_from_slice(bytes);
    }

    /// The input buffer, for reading straight into it. Append only, and only after `NeedMore`.
    pub fn input(&mut self) -> &mut Vec<u8> {
        self.input.drain(..self.start);
        self.scanned -= self.start;
        (self.start, self.piece) = (0, 0);
        &mut self.input
    }

    /// The response whose streamed literal has just begun, closed as if it ended after the literal.
    pub fn head(&self) -> Frame {
        let mut head = self.frame.clone();
        head.parts.push(Part::Text(b")".to_vec()));
        head
    }

    /// The octets of the last [`StreamPoll::Piece`]; valid until more input is added.
    pub fn piece(&self) -> &[u8] {
        &self.input[self.start - self.piece..self.start]
    }

    /// Discards all unread input. Plain text sent along with STARTTLS must not count as commands (RFC 9051
    /// section 6.2.1).
    pub fn clear(&mut self) {
        self.input.clear();
        (self.start, self.scanned, self.piece) = (0, 0, 0);
        self.reset_frame();
    }

    /// Returns the next frame.
    pub fn poll(&mut self) -> Poll {
        loop {
            if let State::Literal { remaining } = self.state {
                if !self.take_literal(remaining) {
                    return self.message_piece().unwrap_or(Poll::NeedMore);
                }
                self.state = State::Text;
            }
            let line = match self.take_line() {
                LinePoll::NeedMore => return Poll::NeedMore,
                LinePoll::Overrun => return Poll::Overrun,
                LinePoll::Line(line) => line,
            };
            if let Some(outcome) = self.end_of_line(line) {
                return outcome;
            }
        }
    }

    /// Returns the next response, and streams the literals of body sections of any size (RFC 3501 section 7.4.2,
    /// `BODY[<section>]`).
    pub(crate) fn poll_streaming(&mut self) -> StreamPoll {
        if let State::Streamed { remaining } = self.state {
            return self.take_piece(remaining);
        }
        loop {
            if let State::Literal { remaining } = self.state {
                if !self.take_literal(remaining) {
                    return StreamPoll::NeedMore;
                }
                self.state = State::Text;
            }
            let line = match self.take_line() {
                LinePoll::NeedMore => return StreamPoll::NeedMore,
                LinePoll::Overrun => return StreamPoll::Overrun,
                LinePoll::Line(line) => line,
            };
            if let Some(size) = self.begin_stream(&line) {
                return StreamPoll::Begin(size);
            }
            match self.end_of_line(line) {
                Some(Poll::Frame(frame)) => return StreamPoll::Frame(frame),
                Some(Poll::Refused(refusal)) => return StreamPoll::Refused(refusal),
                Some(Poll::Overrun) => return StreamPoll::Overrun,
                Some(Poll::NeedMore | Poll::NeedContinuation | Poll::Keep { .. }) | None => {}
            }
        }
    }

    fn begin_stream(&mut self, line: &[u8]) -> Option<u64> {
        let announced = self.announced(line)?;
        let text = &line[..announced.prefix];
        if self.refused.is_some() || self.literals >= MOST_BEFORE_STREAM || !ends_with_section(text) {
            return None;
        }
        self.literals += 1;
        self.text += text.len();
        self.frame.parts.extend([Part::Text(text.to_vec()), Part::Literal(Vec::new())]);
        self.state = State::Streamed { remaining: announced.size };
        Some(announced.size)
    }

    fn take_piece(&mut self, remaining: u64) -> StreamPoll {
        if remaining == 0 {
            self.state = State::Text;
            return StreamPoll::End;
        }
        let there = self.input.len() - self.start;
        let take = usize::try_from(remaining).unwrap_or(usize::MAX).min(there);
        if take == 0 {
            return StreamPoll::NeedMore;
        }
        self.start += take;
        (self.scanned, self.piece) = (self.start, take);
        self.state = State::Streamed { remaining: remaining - take as u64 };
        StreamPoll::Piece(take)
    }

    /// Returns the next line without looking for literals: for a response to a SASL challenge, and for `DONE`.
    pub(crate) fn poll_line(&mut self) -> LinePoll {
        self.take_line()
    }

    fn take_line(&mut self) -> LinePoll {
        let room = if self.is_skipping() { LINE_TAIL } else { self.limits.max_line.saturating_sub(self.text) };
        let Some(at) = memchr::memchr(b'\n', &self.input[self.scanned..]) else {
            // Remember the scanned part: a slow peer must not cause repeated scans of one line.
            self.scanned = self.input.len();
            let there = &self.input[self.start..];
            // A final CR may belong to the line end.
            let line = there.strip_suffix(b"\r").unwrap_or(there);
            return if line.len() <= room || self.skip_text(self.input.len()) {
                LinePoll::NeedMore
            } else {
                LinePoll::Overrun
            };
        };
        let end = self.scanned + at;
        let line = &self.input[self.start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (line, is_long) = (line.to_vec(), line.len() > room);
        if is_long && !self.skip_text(end) {
            return LinePoll::Overrun;
        }
        self.start = end + 1;
        self.scanned = self.start;
        LinePoll::Line(line)
    }

    fn is_skipping(&self) -> bool {
        self.refused.as_ref().is_some_and(|refusal| refusal.skipped.is_some())
    }

    /// Starts skipping the current response if it is a FETCH response. Other long responses end the connection: the
    /// missing part of a search result or list cannot be requested again.
    fn begin_skip(&mut self) -> bool {
        let start = match self.frame.parts.first() {
            Some(Part::Text(text)) => text,
            _ => &self.input[self.start..],
        };
        let number = fetched_number(start).filter(|_| self.side == Side::Client && self.refused.is_none());
        if number.is_some() {
            self.refused = Some(Refusal { tag: None, message: false, skipped: number });
            // Text after the skipped part must not be read as the beginning of a response.
            self.frame.parts = vec![Part::Text(Vec::new())];
        }
        number.is_some()
    }

    /// Drops the text of a skipped FETCH response up to `end`, except its last octets. False if it cannot be
    /// skipped.
    fn skip_text(&mut self, end: usize) -> bool {
        if !self.is_skipping() && !self.begin_skip() {
            return false;
        }
        let dropped = (end - self.start).saturating_sub(LINE_TAIL);
        self.start += dropped;
        self.scanned = self.scanned.max(self.start);
        self.discarded = self.discarded.saturating_add(dropped as u64);
        self.discarded <= self.limits.max_discarded
    }

    /// Moves the available octets of a literal; returns whether it is complete.
    fn take_literal(&mut self, remaining: u64) -> bool {
        let there = self.input.len() - self.start;
        let take = usize::try_from(remaining).unwrap_or(usize::MAX).min(there);
        let bytes = &self.input[self.start..self.start + take];
        if self.refused.is_none()
            && let Some(Part::Literal(literal)) = self.frame.parts.last_mut()
        {
            literal.extend_from_slice(bytes);
        }
        self.start += take;
        self.scanned = self.start;
        let remaining = remaining - take as u64;
        self.state = State::Literal { remaining };
        remaining == 0
    }

    /// Returns a piece of the messages once it is large enough. At least one octet of the last one stays for the frame.
    fn message_piece(&mut self) -> Option<Poll> {
        let State::Literal { remaining: 1.. } = self.state else { return None };
        let is_taken = self.takes_messages && self.refused.is_none() && self.may_be_message();
        if !is_taken || self.messages_held() <= self.limits.message_piece {
            return None;
        }
        let is_first = self.frame.kept.is_empty();
        let bytes = self.frame.take_literals(self.frame.second_argument());
        Some(Poll::Keep { bytes, is_first })
    }

    /// The octets of messages in memory.
    fn messages_held(&self) -> usize {
        let held = |part: &Part| if let Part::Literal(literal) = part { literal.len() } else { 0 };
        self.frame.parts.iter().skip(self.frame.second_argument()).map(held).sum()
    }

    fn end_of_line(&mut self, mut line: Vec<u8>) -> Option<Poll> {
        let announced = self.announced(&line);
        if let Some(announced) = &announced {
            line.truncate(announced.prefix);
        }
        if self.refused.is_none() {
            self.text += line.len();
            self.frame.parts.push(Part::Text(line));
        }
        match announced {
            None => Some(self.complete()),
            Some(announced) => self.begin_literal(&announced),
        }
    }

    fn complete(&mut self) -> Poll {
        let refused = self.refused.take();
        let frame = std::mem::take(&mut self.frame);
        self.reset_frame();
        refused.map_or(Poll::Frame(frame), Poll::Refused)
    }

    fn begin_literal(&mut self, announced: &Announced) -> Option<Poll> {
        let waits = announced.sync && self.side == Side::Server;
        if self.refused.is_none() && !self.fits(announced.size) {
            // A body section is requested with a bounded size, so a larger one is not skipped.
            let is_section = matches!(self.frame.parts.last(), Some(Part::Text(text)) if ends_with_section(text));
            if is_section || !self.begin_skip() {
                let message =
                    self.may_be_message() && (!self.takes_messages || announced.size > self.limits.max_message as u64);
                self.refused = Some(Refusal { tag: self.frame.tag(), message, skipped: None });
            }
        }
        if self.refused.is_some() {
            // A tagged NO instead of a continuation request makes the client give up the command.
            if waits {
                return Some(self.complete());
            }
            self.discarded = self.discarded.saturating_add(announced.size);
            // Servers send large literals only in FETCH responses.
            if self.discarded > self.limits.max_discarded || (self.side == Side::Client && !self.is_skipping()) {
                return Some(Poll::Overrun);
            }
        } else {
            self.literals += 1;
            self.announced += announced.size;
            self.frame.parts.push(Part::Literal(Vec::new()));
        }
        self.state = State::Literal { remaining: announced.size };
        waits.then_some(Poll::NeedContinuation)
    }

    fn fits(&self, size: u64) -> bool {
        let limits = &self.limits;
        let (each, total, count) = if self.takes_messages && self.may_be_message() {
            // The name of the mailbox may be a literal too.
            let (names, name_bytes) = if self.frame.second_argument() > 1 { (1, limits.max_literal) } else { (0, 0) };
            let total = limits.max_messages_bytes.saturating_add(name_bytes);
            (limits.max_message, total, limits.max_messages.saturating_add(names))
        } else {
            (limits.max_literal, limits.max_literal, limits.max_literals)
        };
        let count = count.min(limits.max_literals);
        self.literals < count && size <= each as u64 && self.announced.saturating_add(size) <= total as u64
    }

    /// Whether the last literal, or the one that is announced next, may be a message of an APPEND. The first argument is
    /// the mailbox name, which may be a literal too.
    fn may_be_message(&self) -> bool {
        let is_append = self.frame.verb().is_some_and(|verb| verb.eq_ignore_ascii_case(b"APPEND"));
        self.side == Side::Server && is_append && self.frame.parts.len() >= self.frame.second_argument()
    }

    fn announced(&self, line: &[u8]) -> Option<Announced> {
        if self.side == Side::Client && self.frame.parts.is_empty() && is_status_response(line) {
            return None;
        }
        announced_literal(line)
    }

    fn reset_frame(&mut self) {
        self.frame = Frame::default();
        (self.text, self.literals, self.announced) = (0, 0, 0);
        self.state = State::Text;
        self.refused = None;
        self.discarded = 0;
    }
}

/// The sequence number of a FETCH response, from its beginning.
fn fetched_number(start: &[u8]) -> Option<u32> {
    let rest = start.strip_prefix(b"* ")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b" FETCH (")?;
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

fn is_status_response(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == b' ');
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    first == b"+"
        || [&b"OK"[..], b"NO", b"BAD", b"BYE", b"PREAUTH"].iter().any(|word| second.eq_ignore_ascii_case(word))
}

/// Whether the text ends with the name of a body section: `BODY[2] ` or `BODY[]<0> `. No other value of a FETCH
/// response ends in an unquoted bracket.
fn ends_with_section(text: &[u8]) -> bool {
    let name = text.trim_ascii_end();
    let without_origin = name.strip_suffix(b">").and_then(|name| {
        let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        name[..name.len() - digits].strip_suffix(b"<")
    });
    without_origin.unwrap_or(name).ends_with(b"]")
}

/// Reads `{n}` or `{n+}` at the end of a line (RFC 3501 section 4.3, RFC 7888). A number above the range of `u64`
/// becomes the maximum, which every limit rejects.
fn announced_literal(line: &[u8]) -> Option<Announced> {
    let inner = line.strip_suffix(b"}")?;
    let prefix = inner.iter().rposition(|&byte| byte == b'{')?;
    let digits = &inner[prefix + 1..];
    let (digits, sync) = digits.strip_suffix(b"+").map_or((digits, true), |digits| (digits, false));
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(Announced { prefix, size, sync })
}

#[cfg(test)]
mod tests {
    use super::super::frame::Kept;
    use super::*;
    use proptest::prelude::*;

    fn small() -> Limits {
        Limits { max_line: 64, max_literal: 16, max_message: 32, max_discarded: 100, ..Limits::default() }
    }

    fn server() -> FrameReader {
        FrameReader::new(Side::Server, small())
    }

    #[test]
    fn a_response_that_is_too_long_is_skipped_whole() {
        let long = format!(
            "* 7 FETCH (UID 9 BODYSTRUCTURE (\"{}\" {{3}}\r\n\r\n) {{4+}}\r\n\r\n\r\n \"x\"))\r\n",
            "a".repeat(60)
        );
        let wire = format!("* 6 FETCH (UID 8)\r\n{long}* 8 FETCH (UID 10)\r\n");
        // The result must not depend on how the octets are split.
        let literal = format!("* 7 FETCH (BODYSTRUCTURE ({{18}}\r\n{} NIL))\r\n", "\r\n* 9 FETCH (a b c");
        for (wire, size) in (1..wire.len()).map(|size| (wire.clone(), size)).chain([(wire.replace(&long, &literal), 3)])
        {
            let mut reader = FrameReader::new(Side::Client, Limits { max_line: 40, max_discarded: 200, ..small() });
            let mut polled = Vec::new();
            for piece in wire.as_bytes().chunks(size) {
                reader.feed(piece);
                loop {
                    match reader.poll() {
                        Poll::NeedMore => break,
                        poll => polled.push(poll),
                    }
                }
            }
            let refusal = Refusal { tag: None, message: false, skipped: Some(7) };
            assert_eq!(polled.len(), 3, "{size}: {polled:?}");
            assert!(matches!(&polled[0], Poll::Frame(_)) && matches!(&polled[2], Poll::Frame(_)));
            assert_eq!(polled[1], Poll::Refused(refusal));
        }
    }

    #[test]
    fn only_a_fetch_response_is_skipped_and_not_for_ever() {
        let limits = Limits { max_line: 40, max_discarded: 100, ..small() };
        for start in ["* SEARCH", "* LIST (", "a1 OK", "* 7 EXISTS", "* 99999999999 FETCH ("] {
            let mut reader = FrameReader::new(Side::Client, limits.clone());
            reader.feed(format!("{start}{}\r\n", " 1".repeat(30)).as_bytes());
            assert_eq!(reader.poll(), Poll::Overrun, "{start}");
        }
        let mut reader = FrameReader::new(Side::Client, limits);
        reader.feed(b"* 7 FETCH (");
        let mut polls = (0..50).map(|_| {
            reader.feed(b"aaaaaaaa");
            reader.poll()
        });
        assert!(polls.any(|poll| poll == Poll::Overrun));
    }

    #[test]
    fn before_the_log_in_no_literal_comes_in_pieces() {
        let mut reader = FrameReader::new(Side::Server, Limits { message_piece: 5, ..small() });
        reader.feed(b"a APPEND INBOX {16+}\r\n0123456789abcde");
        assert_eq!(reader.poll(), Poll::NeedMore);
        reader.feed(b"f\r\n");
        assert!(matches!(reader.poll(), Poll::Frame(frame) if frame.kept_bytes() == 0));
    }

    #[test]
    fn a_long_message_comes_in_pieces_and_other_literals_do_not() {
        let limits = Limits { message_piece: 5, max_literal: 6, ..small() };
        let mut reader = FrameReader::new(Side::Server, limits);
        reader.accept_messages();
        let mut polls = Vec::new();
        for text in ["a APPEND {6+}\r\ndra", "fts {20+}\r\n01234", "56789", "abcdefghi", "j", "\r\n"] {
            reader.feed(text.as_bytes());
            polls.push(reader.poll());
        }
        let keep = |bytes: &str, is_first| Poll::Keep { bytes: bytes.as_bytes().to_vec(), is_first };
        let Some(Poll::Frame(frame)) = polls.pop() else { panic!("{polls:?}") };
        assert_eq!(frame.kept, [Kept { part: 3, bytes: 19 }]);
        let expected = [Part::Literal(b"drafts".to_vec()), Part::Text(b" ".to_vec()), Part::Literal(b"j".to_vec())];
        assert!(frame.parts()[1..4] == expected);
        let more = || Poll::NeedMore;
        assert_eq!(polls, [more(), more(), keep("0123456789", true), keep("abcdefghi", false), more()]);
    }

    #[test]
    fn many_short_messages_take_no_more_memory_than_a_long_one() {
        let limits = Limits { message_piece: 20, max_messages_bytes: 1000, max_line: 1000, ..small() };
        let mut reader = FrameReader::new(Side::Server, limits);
        reader.accept_messages();
        reader.feed(b"a APPEND x");
        let (mut kept, mut expected) = (Vec::new(), Vec::new());
        for n in 0..30 {
            let message = format!("message {n:02}");
            expected.extend_from_slice(message.as_bytes());
            for text in [format!(" () {{{}+}}\r\n", message.len()), message] {
                reader.feed(text.as_bytes());
                while let Poll::Keep { bytes, is_first } = reader.poll() {
                    assert_eq!(is_first, kept.is_empty());
                    kept.extend(bytes);
                }
                assert!(reader.messages_held() <= 30);
            }
        }
        reader.feed(b"\r\n");
        let Poll::Frame(frame) = reader.poll() else { panic!() };
        assert_eq!(frame.kept_bytes(), kept.len());
        for part in frame.parts() {
            if let Part::Literal(rest) = part {
                kept.extend(rest);
            }
        }
        assert_eq!(kept, expected);
    }

    #[test]
    fn the_messages_of_a_command_have_a_number_and_a_sum() {
        for (limits, accepted) in [
            (Limits { max_messages: 3, max_messages_bytes: 1000, max_line: 1000, ..small() }, 3),
            (Limits { max_messages_bytes: 50, max_literal: 0, max_line: 1000, ..small() }, 5),
            (Limits { max_literals: 4, max_messages_bytes: 1000, max_line: 1000, ..small() }, 4),
        ] {
            let mut reader = FrameReader::new(Side::Server, limits);
            reader.accept_messages();
            reader.feed(b"a APPEND x");
            for _ in 0..accepted {
                reader.feed(b" {10}\r\n");
                assert_eq!(reader.poll(), Poll::NeedContinuation);
                reader.feed(b"0123456789");
                assert_eq!(reader.poll(), Poll::NeedMore);
            }
            reader.feed(b" {10}\r\n");
            let refusal = Refusal { tag: Some("a".into()), message: false, skipped: None };
            assert_eq!(reader.poll(), Poll::Refused(refusal));
        }
    }

    #[test]
    fn the_name_of_a_mailbox_is_no_message_however_long() {
        let limits = Limits { message_piece: 4, max_literal: 6, ..small() };
        for before in ["a APPEND ", "a append", "a APPEND  "] {
            let mut reader = FrameReader::new(Side::Server, limits.clone());
            reader.accept_messages();
            reader.feed(format!("{before}{{20+}}\r\n012345678901234").as_bytes());
            assert_eq!(reader.poll(), Poll::NeedMore, "{before}");
            reader.feed(b"INBOX {8+}\r\nmessage!\r\n");
            let refusal = Refusal { tag: Some("a".into()), message: false, skipped: None };
            assert_eq!(reader.poll(), Poll::Refused(refusal), "{before}");
        }
    }

    fn text(parts: &[&str]) -> Poll {
        Poll::Frame(Frame::new(parts.iter().map(|part| Part::Text(part.as_bytes().to_vec())).collect()))
    }

    /// All results for `input`, fed in pieces of `size` bytes.
    fn outcomes(input: &[u8], size: usize) -> Vec<Poll> {
        let mut reader = server();
        reader.accept_messages();
        let mut all = Vec::new();
        for chunk in input.chunks(size) {
            reader.feed(chunk);
            loop {
                match reader.poll() {
                    Poll::NeedMore => break,
                    Poll::Overrun => {
                        all.push(Poll::Overrun);
                        return all;
                    }
                    other => all.push(other),
                }
            }
        }
        all
    }

    #[test]
    fn a_line_beyond_the_cap_ends_the_connection() {
        let mut reader = server();
        reader.feed(&[b'a'; 65]);
        assert_eq!(reader.poll(), Poll::Overrun);
    }

    #[test]
    fn literals_without_bytes_are_not_free() {
        for (side, start) in [(Side::Server, "a LOGIN "), (Side::Client, "* LIST ")] {
            let mut reader = FrameReader::new(side, Limits { max_literals: 20, ..small() });
            reader.feed(start.as_bytes());
            for _ in 0..100 {
                reader.feed(b"{0+}\r\n");
                if reader.poll() == Poll::Overrun {
                    break;
                }
            }
            assert!(reader.frame.parts.len() <= 42, "{start}");
        }
    }

    #[test]
    fn a_large_literal_that_waits_is_refused_at_once() {
        let mut reader = server();
        reader.accept_messages();
        reader.feed(b"a1 APPEND x {33}\r\na2 NOOP\r\n");
        let refusal = Refusal { tag: Some("a1".into()), message: true, skipped: None };
        assert_eq!(reader.poll(), Poll::Refused(refusal));
        assert_eq!(reader.poll(), text(&["a2 NOOP"]));
    }

    #[test]
    fn a_large_literal_that_does_not_wait_is_skipped() {
        let mut reader = server();
        reader.feed(b"a1 APPEND x {20+}\r\n01234567\r\n9012345678 {2+}\r\nab\r\na2 NOOP\r\n");
        let refusal = Refusal { tag: Some("a1".into()), message: true, skipped: None };
        assert_eq!(reader.poll(), Poll::Refused(refusal));
        assert_eq!(reader.poll(), text(&["a2 NOOP"]));
    }

    #[test]
    fn too_much_to_skip_ends_the_connection() {
        let mut reader = server();
        reader.feed(b"a1 APPEND x {99999999999999999999999999+}\r\n");
        assert_eq!(reader.poll(), Poll::Overrun);
    }

    #[test]
    fn strangers_cannot_bring_messages() {
        let mut reader = server();
        reader.feed(b"a1 APPEND x {20}\r\n");
        assert!(matches!(reader.poll(), Poll::Refused(_)));
    }

    #[test]
    fn literals_become_parts() {
        let mut reader = server();
        reader.feed(b"a1 LOGIN {3}\r\n");
        assert_eq!(reader.poll(), Poll::NeedContinuation);
        assert_eq!(reader.poll(), Poll::NeedMore);
        reader.feed(b"joe {2+}\r\n\r\n\r\n");
        let expected = Frame::new(vec![
            Part::Text(b"a1 LOGIN ".to_vec()),
            Part::Literal(b"joe".to_vec()),
            Part::Text(b" ".to_vec()),
            Part::Literal(b"\r\n".to_vec()),
            Part::Text(Vec::new()),
        ]);
        assert_eq!(reader.poll(), Poll::Frame(expected));
    }

    #[test]
    fn a_status_text_announces_no_literal_to_a_client() {
        let mut reader = FrameReader::new(Side::Client, small());
        reader.feed(b"* OK see {5}\r\n* 1 FETCH {2}\r\nab)\r\n");
        assert_eq!(reader.poll(), text(&["* OK see {5}"]));
        assert!(matches!(reader.poll(), Poll::Frame(frame) if frame.parts().len() == 3));
    }

    #[test]
    fn a_line_of_maximum_length_is_read_with_a_split_end() {
        for (length, is_read) in [(64, true), (65, false)] {
            let line = "x".repeat(length);
            let mut reader = FrameReader::new(Side::Client, small());
            reader.feed(format!("{line}\r").as_bytes());
            let expected = if is_read { Poll::NeedMore } else { Poll::Overrun };
            assert_eq!(reader.poll(), expected, "{length}");
            reader.feed(b"\n");
            let expected = if is_read { text(&[&line]) } else { Poll::Overrun };
            assert_eq!(reader.poll(), expected, "{length}");
        }
    }

    /// All results of a client's reader for `input`, with adjacent pieces joined, and the octets of all pieces.
    fn streamed(input: &[u8], size: usize) -> (Vec<StreamPoll>, Vec<u8>) {
        let mut reader = FrameReader::new(Side::Client, small());
        let (mut all, mut bytes) = (Vec::new(), Vec::new());
        for chunk in input.chunks(size) {
            reader.feed(chunk);
            loop {
                let polled = reader.poll_streaming();
                if matches!(polled, StreamPoll::Piece(_)) {
                    bytes.extend_from_slice(reader.piece());
                }
                match (polled, all.last_mut()) {
                    (StreamPoll::NeedMore, _) => break,
                    (StreamPoll::Overrun, _) => {
                        all.push(StreamPoll::Overrun);
                        return (all, bytes);
                    }
                    (StreamPoll::Piece(more), Some(StreamPoll::Piece(piece))) => *piece += more,
                    (other, _) => all.push(other),
                }
            }
        }
        (all, bytes)
    }

    #[test]
    fn sections_without_bytes_are_not_handed_out_for_ever() {
        let limits = Limits { max_line: 1_000_000, ..small() };
        let mut reader = FrameReader::new(Side::Client, limits);
        reader.feed(b"* 1 FETCH (");
        let mut begun = 0;
        for _ in 0..100 {
            reader.feed(b"BODY[] {0}\r\n");
            while let StreamPoll::Begin(_) | StreamPoll::End = reader.poll_streaming() {
                begun += 1;
            }
        }
        assert_eq!(begun, 2 * MOST_BEFORE_STREAM);
    }

    #[test]
    fn only_the_literal_of_a_section_is_streamed() {
        let (polled, _) = streamed(b"* 1 FETCH (ENVELOPE ({17}\r\n01234567890123456 x) UID 1)\r\n", 7);
        assert!(matches!(polled[..], [StreamPoll::Refused(_)]), "{polled:?}");
        for name in ["BODY[]", "BODY[1.2]<30>"] {
            let (polled, bytes) = streamed(
                format!("* 1 FETCH ({name} {{20}}\r\n0123456789\r\n{{5}}\r\nabc UID 7)\r\n* 2\r\n").as_bytes(),
                5,
            );
            assert_eq!(polled[..3], [StreamPoll::Begin(20), StreamPoll::Piece(20), StreamPoll::End]);
            assert_eq!(bytes, b"0123456789\r\n{5}\r\nabc");
            assert!(matches!(&polled[3..], [StreamPoll::Frame(_), StreamPoll::Frame(_)]), "{polled:?}");
        }
    }

    proptest! {
        #[test]
        fn a_stream_does_not_depend_on_chunks(
            lines in prop::collection::vec("(\\* 1 FETCH )?[ -~]{0,12}(BODY\\[\\](<0>)? \\{[0-9]{1,2}\\})?\r?\n", 0..8),
            size in 1usize..40,
        ) {
            let input = lines.concat();
            prop_assert_eq!(streamed(input.as_bytes(), size), streamed(input.as_bytes(), input.len().max(1)));
        }

        #[test]
        fn chunks_do_not_matter(
            lines in prop::collection::vec("[ -~]{0,20}(\\{[0-9]{1,2}\\+?\\})?\r?\n", 0..8),
            size in 1usize..40,
        ) {
            let input = lines.concat();
            prop_assert_eq!(outcomes(input.as_bytes(), size), outcomes(input.as_bytes(), input.len().max(1)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..300), size in 1usize..40) {
            outcomes(&input, size);
        }
    }
}
