//! The server side of IMAP against arbitrary clients, with mailboxes in memory.
//!
//! The first run feeds the octets line by line and literal by literal, and checks each response. Further runs cut the
//! same octets elsewhere and must have the same output and the same effects.

use std::ops::Range;

use mailapi_imap::Flags;
use mailapi_imap::client::{ClientError, ClientLimits, Connection, Event};
use mailapi_imap::server::session::{Effect, Failure, Session, SessionConfig, Step};
use mailapi_imap::token::Limits;

use crate::cut::Cut;
use crate::hostile_message;
use crate::memory_host::MemoryHost;
use crate::script::Script;

/// Returns the bytes of memory that the thread uses. The tests of the crates do not count them, and return 0.
pub(crate) type Heap = fn() -> usize;

const MAX_LINE_BYTES: usize = 300;
const MAX_MESSAGE_BYTES: usize = 300;
/// Mail programs copy a mailbox into itself. The host must not grow for ever.
const MAX_HOST_MESSAGES: usize = 20;
const MAX_HOST_MAILBOXES: usize = 24;
/// The longest answer to one command: its line can name a structure of two kilobytes fifty times, for each message.
const MAX_OUTPUT_BYTES: usize = 4 * 1024 * 1024;
/// Memory of a session between two reads: one unfinished command, and the messages of the selected mailbox.
const MAX_HELD_BYTES: usize = 8 * 1024;
/// A client that repeats itself this long must not make the session grow.
const REPEATED_BYTES: usize = 24 * 1024;
/// A short command may have a long answer.
const MAX_REPETITIONS: usize = 200;

/// What a session did: its output, and its effects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Record {
    output: Vec<u8>,
    effects: Vec<String>,
}

/// Checks every rule for one input.
pub(crate) fn check(input: &[u8], heap: Heap) {
    let (script, bytes) = Script::split(input);
    let by_line = ByLine::check(script, bytes, false);
    for cut in [Cut::None, Cut::Octets, Cut::Script] {
        let mut conversation = Conversation::new(script);
        conversation.feed(bytes, cut, &by_line.restarts);
        let record = conversation.record;
        let differs = record.output.iter().zip(&by_line.record.output).position(|(one, other)| one != other);
        let shown = |record: &Record| {
            record.output[differs.unwrap_or_default()..]
                .escape_ascii()
                .to_string()
                .chars()
                .take(200)
                .collect::<String>()
        };
        let both = (shown(&record), shown(&by_line.record));
        assert!(record == by_line.record, "{cut:?} changes what the session does: {both:?}");
    }
    if bytes.to_ascii_uppercase().windows(4).any(|word| word == b"IDLE") {
        ByLine::check(script, bytes, true);
    }
    check_memory(script, bytes, heap);
}

fn check_memory(script: Script<'_>, bytes: &[u8], heap: Heap) {
    let mut conversation = Conversation::new(script);
    for _ in 0..REPEATED_BYTES.div_ceil(bytes.len().max(1)).min(MAX_REPETITIONS) {
        conversation.feed(bytes, Cut::Script, &[]);
    }
    let Conversation { session, .. } = conversation;
    let before = heap();
    drop(session);
    let held = before.saturating_sub(heap());
    assert!(held <= MAX_HELD_BYTES, "the session holds {held} bytes");
}

/// A session and its host.
struct Conversation<'a> {
    session: Session,
    host: MemoryHost,
    script: Script<'a>,
    record: Record,
    /// The pieces of messages for the next APPEND.
    kept: Vec<u8>,
    has_logged_in: bool,
    has_closed: bool,
}

impl<'a> Conversation<'a> {
    fn new(script: Script<'a>) -> Self {
        let first = script.choice(0);
        let limits = Limits {
            max_line: MAX_LINE_BYTES,
            max_literal: 100,
            max_literals: 6,
            max_message: MAX_MESSAGE_BYTES,
            max_messages: 3,
            max_messages_bytes: 700,
            message_piece: if first & 8 != 0 { 20 } else { usize::MAX },
            max_discarded: 1000,
            max_depth: 4,
            max_list_patterns: 3,
            max_pattern: 60,
            max_mailbox_name: 60,
        };
        let config = SessionConfig {
            limits,
            starttls: first & 2 != 0,
            plaintext_login: first & 4 == 0,
            ..SessionConfig::default()
        };
        let session = Session::new(config, first & 1 != 0);
        let (record, kept) = (Record::default(), Vec::new());
        let mut host = MemoryHost::new();
        host.write = match script.choice(1) & 12 {
            0 => host.write,
            4 => hostile_message::write,
            _ => hostile_message::write_spans,
        };
        let mut conversation = Self { session, host, script, record, kept, has_logged_in: false, has_closed: false };
        conversation.collect();
        conversation
    }

    /// Takes the output. Returns its range in the record.
    fn collect(&mut self) -> Range<usize> {
        let start = self.record.output.len();
        self.record.output.append(&mut self.host.sent);
        self.record.output.extend(self.session.take_output());
        assert!(self.session.take_span().is_none(), "the host has sent all spans");
        start..self.record.output.len()
    }

    /// Steps until the session needs anything else than an effect.
    fn drive(&mut self) -> Step {
        loop {
            match self.session.step() {
                Step::Run(effect) => self.run(effect),
                Step::Keep { bytes, is_first } => {
                    assert!(self.has_logged_in, "no message is held for a stranger");
                    if is_first {
                        self.kept.clear();
                    }
                    self.kept.extend(bytes);
                }
                other => return other,
            }
        }
    }

    fn run(&mut self, mut effect: Effect) {
        let number = self.record.effects.len();
        let is_login = matches!(effect, Effect::Login { .. });
        assert_ne!(is_login, self.has_logged_in, "{effect:?}");
        let mut described = format!("{effect:?}");
        if let Effect::Append { messages, .. } = &mut effect {
            let length: usize = messages.messages.iter().map(|message| message.length).sum();
            assert_eq!(length, messages.kept + messages.bytes.len());
            assert!(length <= 700 && messages.messages.iter().all(|one| (1..=MAX_MESSAGE_BYTES).contains(&one.length)));
            if messages.kept > 0 {
                assert_eq!(messages.kept, self.kept.len());
                messages.bytes.splice(..0, self.kept.drain(..));
            }
            described.push_str(&messages.bytes.escape_ascii().to_string());
        }
        self.record.effects.push(described);
        if self.script.choice(1) & 1 != 0 {
            self.change_elsewhere(self.script.choice(3 + number));
        }
        let fails = self.script.choice(1) & 2 != 0 && self.script.choice(4 + number) == 11;
        let result = match self.limit(&effect) {
            Some(failure) => Err(failure),
            None if fails => Err(Failure::Unavailable),
            None => self.host.run(&mut self.session, effect),
        };
        self.has_logged_in |= is_login && result.is_ok();
        let update = self.host.update(&self.session);
        self.session.finish(result, update);
    }

    fn limit(&self, effect: &Effect) -> Option<Failure> {
        let messages: usize = self.host.mailboxes.iter().map(|mailbox| mailbox.messages.len()).sum();
        match effect {
            Effect::Append { .. } | Effect::Copy { .. } if messages > MAX_HOST_MESSAGES => Some(Failure::OverQuota),
            Effect::Create { .. } if self.host.mailboxes.len() > MAX_HOST_MAILBOXES => Some(Failure::Limit),
            _ => None,
        }
    }

    /// Another session changes the inbox.
    fn change_elsewhere(&mut self, choice: u8) {
        let inbox = &mut self.host.mailboxes[0];
        let first = inbox.messages.first().map(|message| message.uid);
        match (choice, first) {
            (12, _) if inbox.messages.len() < MAX_HOST_MESSAGES => {
                inbox.deliver(Flags::from_words(["new"]), jiff::Timestamp::UNIX_EPOCH, b"Subject: new\r\n\r\nnew\r\n");
            }
            (13, Some(uid)) => inbox.flag(uid, Flags::from_words(["\\Answered", "else"])),
            (14, Some(uid)) => inbox.remove(uid),
            (15, _) => inbox.exists = false,
            _ => {}
        }
    }

    /// Feeds octets. After a change of the connection, those that came with it in one piece are sent again: the session
    /// must have dropped them.
    fn feed(&mut self, bytes: &[u8], cut: Cut, restarts: &[usize]) {
        let (mut offset, mut pieces, mut changes) = (0, 0, 0);
        while offset < bytes.len() && !self.has_closed {
            let rest = &bytes[offset..];
            let piece = cut.piece(rest, self.script, pieces);
            (offset, pieces) = (offset + piece.len(), pieces + 1);
            // The session reads only when it asks for it.
            if pieces == 1 && matches!(self.drive(), Step::Close) {
                self.has_closed = true;
                break;
            }
            self.session.feed(piece);
            loop {
                match self.drive() {
                    Step::StartTls => self.session.tls_started(),
                    Step::Compress => self.session.compression_started(),
                    Step::Close => {
                        self.has_closed = true;
                        break;
                    }
                    _ => break,
                }
                offset = restarts.get(changes).copied().unwrap_or(offset);
                changes += 1;
            }
            self.collect();
        }
    }
}

/// What the next octets of the client are.
#[derive(Debug, Clone)]
enum Expected {
    Command,
    /// The octets of a literal.
    Literal(usize),
    /// The rest of a command after a literal.
    Rest,
    /// The answer to `+` after AUTHENTICATE or IDLE.
    Line,
}

/// A run line by line, and what the protocol allows at each of them.
struct ByLine<'a> {
    conversation: Conversation<'a>,
    /// The offsets after STARTTLS and COMPRESS.
    restarts: Vec<usize>,
    record: Record,
    expected: Expected,
    /// The tag of the current command, if it has a valid one, and its name.
    tag: Option<String>,
    name: String,
    /// The number of messages in the selected mailbox, as the client counts them.
    count: Option<usize>,
    /// Strings may be UTF-8.
    utf8: bool,
    news_while_idle: bool,
    is_idle: bool,
}

impl<'a> ByLine<'a> {
    fn check(script: Script<'a>, bytes: &[u8], news_while_idle: bool) -> Self {
        let mut run = Self {
            conversation: Conversation::new(script),
            restarts: Vec::new(),
            record: Record::default(),
            expected: Expected::Command,
            tag: None,
            name: String::new(),
            count: None,
            utf8: false,
            news_while_idle,
            is_idle: false,
        };
        let all = 0..run.conversation.record.output.len();
        assert_eq!(run.responses(all).len(), 1, "a greeting");
        let mut offset = 0;
        while offset < bytes.len() && !run.conversation.has_closed {
            let rest = &bytes[offset..];
            let line = || rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| end + 1);
            let length = if let Expected::Literal(length) = run.expected { length.min(rest.len()) } else { line() };
            offset += length;
            run.on_piece(&rest[..length], offset);
        }
        if !run.conversation.has_closed {
            run.conversation.session.bye("Leaving");
            let range = run.conversation.collect();
            let responses = run.responses(range.clone());
            assert!(responses.len() == 1 && responses[0].starts_with(b"* BYE Leaving"));
            assert!(matches!(run.conversation.session.step(), Step::Close));
            run.conversation.record.output.truncate(range.start);
        }
        run.record = std::mem::take(&mut run.conversation.record);
        run
    }

    fn on_piece(&mut self, piece: &[u8], offset: usize) {
        self.conversation.session.feed(piece);
        let is_complete = piece.ends_with(b"\n");
        if let (Expected::Command, true) = (&self.expected, is_complete) {
            (self.tag, self.name) = tag_and_name(announced(piece).map_or(piece, |literal| &piece[..literal.start]));
        }
        let start = self.conversation.record.output.len();
        loop {
            let step = self.conversation.drive();
            match step {
                Step::StartTls => self.conversation.session.tls_started(),
                Step::Compress => self.conversation.session.compression_started(),
                Step::Close => {
                    self.conversation.has_closed = true;
                    break;
                }
                Step::Read | Step::Idle => break,
                Step::Run(_) | Step::Keep { .. } => unreachable!("the host carries them out"),
            }
            self.restarts.push(offset);
        }
        self.conversation.collect();
        let responses = self.responses(start..self.conversation.record.output.len());
        self.on_responses(piece, is_complete, &responses);
        if self.news_while_idle && self.is_idle && !self.conversation.has_closed {
            self.push_news();
        }
    }

    /// What changes while the client idles.
    fn push_news(&mut self) {
        let number = self.conversation.record.output.len();
        self.conversation.change_elsewhere(12 + (self.conversation.script.choice(number) & 3));
        if let Some(update) = self.conversation.host.update(&self.conversation.session) {
            self.conversation.session.folder_changed(update);
        }
        self.conversation.session.keepalive();
        self.conversation.has_closed = matches!(self.conversation.drive(), Step::Close);
        let range = self.conversation.collect();
        for response in self.responses(range) {
            assert!(response.starts_with(b"* "), "nothing else than news while the client idles");
            self.count_messages(&response);
        }
    }

    fn on_responses(&mut self, piece: &[u8], is_complete: bool, responses: &[Vec<u8>]) {
        let own = format!("{} ", self.tag.as_deref().unwrap_or("*"));
        let (mut completions, mut continuations, mut byes) = (0, 0, 0);
        for response in responses {
            let status = response.strip_prefix(own.as_bytes()).filter(|_| self.tag.is_some());
            let untagged = response.strip_prefix(b"* ");
            let is_refusal = |text: &[u8]| text.starts_with(b"BAD ") || text.starts_with(b"NO ");
            if response.starts_with(b"+ ") {
                continuations += 1;
            } else if let Some(status) = status {
                assert!(status.starts_with(b"OK ") || is_refusal(status), "{}", response.escape_ascii());
                completions += 1;
            } else if untagged.is_some_and(is_refusal) {
                assert_eq!(self.tag, None, "{} needs its tag", response.escape_ascii());
                completions += 1;
            } else {
                assert!(untagged.is_some(), "another tag than {own:?}: {}", response.escape_ascii());
                byes += usize::from(response.starts_with(b"* BYE "));
                // Numbers shift at the end of the command, or not at all.
                assert!(completions == 0 || response.starts_with(b"* BYE "), "{}", response.escape_ascii());
                self.count_messages(response);
            }
        }
        assert_eq!(byes, usize::from(self.conversation.has_closed), "BYE, and the end of the connection");
        let too_long = responses.last().is_some_and(|last| last.starts_with(b"* BYE Command is too long"));
        let literal = announced(piece).filter(|_| is_complete);
        let is_over = match (&self.expected, literal) {
            _ if too_long => {
                assert_eq!((completions, continuations), (0, 0));
                false
            }
            (Expected::Literal(length), _) => {
                assert!(responses.is_empty(), "a literal is not answered");
                let rest = length - piece.len();
                self.expected = if rest > 0 { Expected::Literal(rest) } else { Expected::Rest };
                false
            }
            _ if !is_complete => {
                assert!(responses.is_empty(), "half a line is not answered");
                false
            }
            (Expected::Line, _) => true,
            (_, Some(literal)) => {
                let waits = literal.waits;
                assert!(continuations <= usize::from(waits), "no continuation without need");
                assert_eq!(completions + continuations, usize::from(waits), "one answer to {{n}}, none to {{n+}}");
                let length = usize::try_from(literal.length).unwrap_or(usize::MAX);
                self.expected = match (completions, length) {
                    (0, 0) => Expected::Rest,
                    (0, length) => Expected::Literal(length),
                    _ => Expected::Command,
                };
                false
            }
            (_, None) if continuations == 1 && completions == 0 => {
                assert!(matches!(self.name.as_str(), "IDLE" | "AUTHENTICATE"), "{} does not wait", self.name);
                self.is_idle = self.name == "IDLE";
                self.expected = Expected::Line;
                false
            }
            (_, None) => true,
        };
        if is_over {
            assert_eq!((completions, continuations), (1, 0), "one completion of {:?} {}", self.tag, self.name);
            (self.expected, self.is_idle) = (Expected::Command, false);
        }
    }

    /// Counts messages as a client does.
    fn count_messages(&mut self, response: &[u8]) {
        let text = String::from_utf8_lossy(response);
        let mut words = text.trim_end().split(' ').skip(1);
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let number = first.parse::<usize>().ok();
        let opens = matches!(self.name.as_str(), "SELECT" | "EXAMINE");
        // RFC 3501 section 7.4.1, and RFC 7162 section 3.2.10 for VANISHED.
        let keeps_numbers = matches!(self.name.as_str(), "FETCH" | "STORE" | "SEARCH" | "SORT" | "THREAD");
        match (number, first, second) {
            (Some(number), _, "EXISTS") => {
                let grows = self.count.is_none_or(|count| number >= count);
                assert!(grows || opens, "{number} messages after {:?}", self.count);
                self.count = Some(number);
            }
            (Some(number), _, "EXPUNGE") => {
                let count = self.count.expect("a selected mailbox");
                assert!((1..=count).contains(&number), "message {number} of {count} was removed");
                assert!(!keeps_numbers, "EXPUNGE during {}", self.name);
                self.count = Some(count - 1);
            }
            (Some(number), _, "FETCH") => {
                let count = self.count.expect("a selected mailbox");
                assert!((1..=count).contains(&number), "message {number} of {count}");
            }
            (None, "VANISHED", uids) if uids != "(EARLIER)" => {
                let removed = set_size(uids);
                let count = self.count.expect("a selected mailbox");
                assert!(removed <= count && !keeps_numbers, "{removed} of {count} messages vanished");
                self.count = Some(count - removed);
            }
            (None, "ENABLED", _) => self.utf8 |= text.contains("UTF8=ACCEPT") || text.contains("IMAP4rev2"),
            _ => {}
        }
    }

    /// Splits output into responses, each of which must be well-formed.
    fn responses(&self, range: Range<usize>) -> Vec<Vec<u8>> {
        assert!(range.len() <= MAX_OUTPUT_BYTES, "{} octets of output", range.len());
        let mut rest = &self.conversation.record.output[range];
        let mut responses = Vec::new();
        // ENABLE takes effect within its own answer.
        let mut utf8 = self.utf8;
        while !rest.is_empty() {
            let (response, after) = rest.split_at(response_length(rest, utf8));
            utf8 |= response.starts_with(b"* ENABLED");
            check_reading(response);
            responses.push(response.to_vec());
            rest = after;
        }
        responses
    }
}

/// The literal that a line announces at its end.
struct Announced {
    start: usize,
    length: u64,
    waits: bool,
}

fn announced(line: &[u8]) -> Option<Announced> {
    let line = line.strip_suffix(b"\n")?;
    let text =
        std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line).rsplit(|&byte| byte == b'{').next()?).ok()?;
    let inner = text.strip_suffix('}')?;
    let (digits, waits) = inner.strip_suffix('+').map_or((inner, true), |digits| (digits, false));
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let start = line.iter().rposition(|&byte| byte == b'{')?;
    is_number.then(|| Announced { start, length: digits.parse().unwrap_or(u64::MAX), waits })
}

/// Returns the tag of a command line if it is valid, and the name of the command. The name of UID FETCH is UID: its
/// client does not depend on numbers.
fn tag_and_name(line: &[u8]) -> (Option<String>, String) {
    let text = String::from_utf8_lossy(line.strip_suffix(b"\r\n").or(line.strip_suffix(b"\n")).unwrap_or(line));
    let mut words = text.split(' ');
    let tag = words.next().unwrap_or_default();
    let is_tag = !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_graphic() && !b"(){%*\"\\+".contains(&byte));
    (is_tag.then(|| tag.to_owned()), words.next().unwrap_or_default().to_ascii_uppercase())
}

fn set_size(set: &str) -> usize {
    let number = |text: &str| text.parse::<usize>().expect("a UID");
    let size = |range: &str| range.split_once(':').map_or(1, |(from, to)| number(from).abs_diff(number(to)) + 1);
    set.split(',').map(size).sum()
}

/// Returns the length of the first response. It must be well-formed by RFC 3501 section 9.
fn response_length(output: &[u8], utf8: bool) -> usize {
    let shown = || output[..output.len().min(300)].escape_ascii().to_string();
    let line = output.windows(2).position(|pair| pair == b"\r\n").unwrap_or_else(|| panic!("no line end: {}", shown()));
    let is_data = output.starts_with(b"* ") && !is_status(&output[2..line]);
    if !is_data {
        let is_text = output[..line].iter().all(|byte| matches!(byte, b' '..=b'~'));
        assert!(is_text, "no text of one line: {}", shown());
        return line + 2;
    }
    let (mut at, mut depth) = (2, 0_usize);
    loop {
        let byte = *output.get(at).unwrap_or_else(|| panic!("an unfinished response: {}", shown()));
        at += 1;
        match byte {
            b'"' => at = quoted_end(output, at, utf8),
            b'{' => {
                let digits = output[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let length: usize = std::str::from_utf8(&output[at..at + digits]).unwrap().parse().expect("a length");
                let is_binary = output[at - 2] == b'~';
                assert!(output[at + digits..].starts_with(b"}\r\n"), "{}", shown());
                at += digits + 3;
                let literal = output.get(at..at + length).unwrap_or_else(|| panic!("a short literal: {}", shown()));
                assert!(is_binary || !literal.contains(&0), "NUL in a literal: {}", shown());
                at += length;
                let next = output.get(at).copied();
                assert!(matches!(next, Some(b' ' | b')' | b'\r' | b']')), "a long literal: {}", shown());
            }
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1).unwrap_or_else(|| panic!("too many parentheses: {}", shown())),
            b'\r' => {
                assert_eq!((output.get(at), depth), (Some(&b'\n'), 0), "{}", shown());
                return at + 1;
            }
            b' '..=b'~' => {}
            _ => panic!("octet {byte} outside a string: {}", shown()),
        }
    }
}

fn is_status(rest: &[u8]) -> bool {
    [&b"OK "[..], b"NO ", b"BAD ", b"BYE ", b"PREAUTH "].iter().any(|word| rest.starts_with(word))
}

fn quoted_end(output: &[u8], start: usize, utf8: bool) -> usize {
    let mut at = start;
    loop {
        match output[at] {
            b'"' => return at + 1,
            b'\\' => {
                assert!(matches!(output[at + 1], b'"' | b'\\'), "an escape in a quoted string");
                at += 2;
            }
            b' '..=b'~' => at += 1,
            byte => {
                assert!(utf8 && byte >= 0x80, "octet {byte} in a quoted string");
                at += 1;
            }
        }
    }
}

/// The client of this project must be able to read a response, even to a command that it did not send.
fn check_reading(response: &[u8]) {
    // It never asks for decoded parts, and does not know their names.
    if response.windows(7).any(|name| matches!(name, b"BINARY[" | b"BINARY.")) {
        return;
    }
    let mut client = Connection::new(ClientLimits::default());
    client.feed(b"* OK ready\r\n");
    assert!(matches!(client.poll(), Ok(Event::Greeting(_))));
    client.feed(response);
    match client.poll() {
        Ok(Event::Untagged(_)) | Err(ClientError::Unexpected) => {}
        other => panic!("{other:?} is read from {}", response.escape_ascii()),
    }
}
