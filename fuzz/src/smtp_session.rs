//! The server side of SMTP and submission against arbitrary clients.
//!
//! The first run feeds the octets line by line and compares each line with a small model of the protocol. Further runs
//! cut the same octets elsewhere and must have the same record: the same replies, and the same questions to the host.

use mailapi_smtp::server::{Answer, Config, Message, MessageBudget, Question, Role, Session, Share, Step};
use mailapi_smtp::{MailFrom, RcptTo, Reply};

use crate::cut::Cut;
use crate::script::Script;

/// Returns the bytes of memory that the thread uses. The tests of the crates do not count them, and return 0.
pub(crate) type Heap = fn() -> usize;

const MAX_MESSAGE_BYTES: usize = 300;
const MAX_RECIPIENTS: usize = 3;
const MAX_LINE_BYTES: usize = 160;
const MAX_AUTH_LINE_BYTES: usize = 240;
const SPARE_BYTES: usize = 16;
const BUDGET_BYTES: usize = 1000;
/// RFC 5321 section 4.5.3.1.5, with the code and CRLF.
const MAX_REPLY_LINE_BYTES: usize = 512;
/// Memory of a session between two reads: a message, an unfinished line, the envelope, and one read.
const MAX_HELD_BYTES: usize = 4096;
/// A client that repeats itself this long must not make the session grow.
const REPEATED_BYTES: usize = 12 * 1024;

/// What a session did, without the requests for input.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Reply(Reply),
    Asked(Box<Question>),
    StartTls,
    Close,
}

/// Checks every rule for one input.
pub(crate) fn check(input: &[u8], heap: Heap) {
    let (script, bytes) = Script::split(input);
    let by_line = ByLine::check(script, bytes);
    for cut in [Cut::None, Cut::Octets, Cut::Script] {
        let record = Feed::new(script, bytes, &by_line.tls_offsets).run(cut);
        assert_eq!(record, by_line.record, "{cut:?} changes what the session does");
    }
    let repeated = bytes.repeat(REPEATED_BYTES.div_ceil(bytes.len().max(1)));
    Feed { measures: Some(heap), ..Feed::new(script, &repeated, &by_line.tls_offsets) }.run(Cut::Script);
    Feed { loses: true, ..Feed::new(script, bytes, &by_line.tls_offsets) }.run(Cut::Script);
}

/// A session and its host.
struct Conversation<'a> {
    session: Session,
    script: Script<'a>,
    budget: Option<MessageBudget>,
    questions: usize,
    /// The pieces of the message being received.
    kept: Vec<u8>,
    /// The memory of accepted messages, which the host still has.
    rooms: Vec<Share>,
}

impl<'a> Conversation<'a> {
    fn new(script: Script<'a>) -> Self {
        let (first, second) = (script.choice(0), script.choice(1));
        let role = match first & 1 {
            0 => Role::Inbound,
            _ => Role::Submission { auth_without_tls: first & 4 != 0 },
        };
        let streams = second & 1 != 0;
        // With both, the reserved memory depends on the pieces, and so do the refusals.
        let budget = (second & 2 != 0 && !streams).then(|| MessageBudget::new(BUDGET_BYTES));
        let mut session = Session::new(Config {
            tls_available: first & 2 != 0,
            max_message_bytes: MAX_MESSAGE_BYTES,
            max_recipients: MAX_RECIPIENTS,
            max_line_bytes: MAX_LINE_BYTES,
            max_auth_line_bytes: MAX_AUTH_LINE_BYTES,
            max_errors: 6,
            max_refused_recipients: 4,
            max_idle_commands: 8,
            budget: budget.clone(),
            piece_bytes: if streams { 16 } else { usize::MAX },
            spare_bytes: SPARE_BYTES,
            ..Config::new("mx.example", role)
        });
        if first & 8 != 0 {
            session.tls_established();
        }
        Self { session, script, budget, questions: 0, kept: Vec::new(), rooms: Vec::new() }
    }

    /// Steps until the session does something that is not a piece of a message. `None` is a request for input.
    fn next(&mut self, loses: bool) -> Option<Event> {
        loop {
            let event = match self.session.step() {
                Step::NeedMore => return None,
                Step::Keep(piece) => {
                    assert!(!piece.is_empty());
                    if loses && self.script.choice(self.questions + self.kept.len()) > 12 {
                        self.session.lose();
                    }
                    self.kept.extend(piece);
                    continue;
                }
                Step::Reply(reply) => {
                    if !self.session.is_receiving() {
                        self.kept.clear();
                    }
                    Event::Reply(reply)
                }
                Step::Ask(Question::Message(message)) => {
                    let Message { envelope, data, client_name, protocol, room } = message;
                    self.rooms.push(room);
                    let data = [std::mem::take(&mut self.kept), data].concat();
                    let message = Message { envelope, data, client_name, protocol, room: Share::default() };
                    Event::Asked(Box::new(Question::Message(message)))
                }
                Step::Ask(question) => Event::Asked(Box::new(question)),
                Step::StartTls => Event::StartTls,
                Step::Close => Event::Close,
            };
            assert!(self.budget.as_ref().is_none_or(|budget| budget.used() <= BUDGET_BYTES));
            return Some(event);
        }
    }

    /// Answers a question as the script says. Returns whether the answer accepts, or the refusal.
    fn answer(&mut self, question: &Question) -> Result<(), Reply> {
        let choice = self.script.choice(2 + self.questions);
        self.questions += 1;
        let refusal = match choice {
            10 => Reply::new(450, (4, 2, 0), "Later"),
            11 => Reply::new(550, (5, 1, 1), "No"),
            12 => Reply::new(554, (5, 7, 1), "No\r250 2.0.0 yes\nat all\0"),
            13 => Reply::new(421, (4, 3, 2), "Leaving"),
            // A host that forgets to answer.
            14 => return Err(Reply::new(451, (4, 3, 0), "Local error, try again later")),
            15 => Reply::new(535, (5, 7, 8), "Authentication credentials invalid"),
            _ => {
                let is_message = matches!(question, Question::Message(_));
                self.session.answer(if is_message { Answer::Queued("Q1".to_owned()) } else { Answer::Accept });
                return Ok(());
            }
        };
        self.session.answer(Answer::Refuse(refusal.clone()));
        Err(refusal)
    }
}

impl Drop for Conversation<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.rooms.clear();
        self.session = Session::new(Config::new("mx.example", Role::Inbound));
        assert!(self.budget.as_ref().is_none_or(|budget| budget.used() == 0), "memory was not returned to the budget");
    }
}

/// A run without the model.
struct Feed<'a> {
    conversation: Conversation<'a>,
    bytes: &'a [u8],
    /// The end of each STARTTLS. Octets that came with it in one piece are sent again after the handshake: the session
    /// must have dropped them.
    tls_offsets: &'a [usize],
    /// Measures the memory of the session instead of recording.
    measures: Option<Heap>,
    /// The host loses pieces of messages.
    loses: bool,
}

impl<'a> Feed<'a> {
    fn new(script: Script<'a>, bytes: &'a [u8], tls_offsets: &'a [usize]) -> Self {
        Self { conversation: Conversation::new(script), bytes, tls_offsets, measures: None, loses: false }
    }

    fn run(mut self, cut: Cut) -> Vec<Event> {
        let before = self.measures.map_or(0, |heap| heap());
        let (mut record, mut offset, mut pieces, mut handshakes) = (Vec::new(), 0, 0, 0);
        while offset < self.bytes.len() {
            let rest = &self.bytes[offset..];
            let piece = cut.piece(rest, self.conversation.script, pieces);
            (offset, pieces) = (offset + piece.len(), pieces + 1);
            self.conversation.session.push(piece);
            while let Some(event) = self.conversation.next(self.loses) {
                match &event {
                    Event::Asked(question) => drop(self.conversation.answer(question)),
                    Event::StartTls => {
                        self.conversation.session.tls_established();
                        // A run that loses messages may meet STARTTLS elsewhere.
                        offset = self.tls_offsets.get(handshakes).copied().unwrap_or(offset);
                        handshakes += 1;
                    }
                    Event::Reply(_) => {}
                    Event::Close => {
                        record.push(event);
                        return record;
                    }
                }
                if self.measures.is_none() {
                    record.push(event);
                }
            }
            if let Some(heap) = self.measures {
                self.conversation.rooms.clear();
                let held = heap().saturating_sub(before);
                assert!(held <= MAX_HELD_BYTES, "the session holds {held} bytes");
            }
        }
        record
    }
}

/// What the next line of the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Command,
    Auth,
    Data,
    /// A chunk, with the number of its octets that are still to come.
    Chunk {
        left: u64,
        is_last: bool,
        is_accepted: bool,
    },
}

/// A run line by line, and what the protocol allows at each of them.
struct ByLine<'a> {
    conversation: Conversation<'a>,
    record: Vec<Event>,
    tls_offsets: Vec<usize>,
    phase: Phase,
    /// The text after DATA, or that of the chunks.
    text: Vec<u8>,
    /// Whether chunks of the message have come.
    has_chunks: bool,
    /// Whether the client introduced itself, and with EHLO.
    hello: Option<bool>,
    is_submission: bool,
    authenticated: bool,
    mail: Option<MailFrom>,
    recipients: Vec<RcptTo>,
    has_closed: bool,
}

impl<'a> ByLine<'a> {
    fn check(script: Script<'a>, bytes: &[u8]) -> Self {
        let mut run = Self {
            conversation: Conversation::new(script),
            record: Vec::new(),
            tls_offsets: Vec::new(),
            phase: Phase::Command,
            text: Vec::new(),
            has_chunks: false,
            hello: None,
            is_submission: script.choice(0) & 1 != 0,
            authenticated: false,
            mail: None,
            recipients: Vec::new(),
            has_closed: false,
        };
        check_reply(&run.conversation.session.greeting());
        let mut offset = 0;
        while offset < bytes.len() {
            let rest = &bytes[offset..];
            let end = match run.phase {
                Phase::Chunk { left, .. } => rest.len().min(usize::try_from(left).unwrap_or(usize::MAX)),
                _ => rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1),
            };
            let line = &rest[..end];
            offset += line.len();
            if run.phase == Phase::Command
                && let Some((left, is_last)) = chunk_of(line)
            {
                run.phase = Phase::Chunk { left, is_last, is_accepted: run.accepts_chunk() };
                run.conversation.session.push(line);
                if left > 0 {
                    run.before_chunk();
                } else {
                    run.on_line(b"", offset);
                }
            } else {
                run.conversation.session.push(line);
                run.on_line(line, offset);
            }
            if run.has_closed {
                run.conversation.session.push(b"NOOP\r\n");
                assert_eq!(run.conversation.next(false), Some(Event::Close), "the session is over");
                break;
            }
        }
        run
    }

    fn accepts_chunk(&self) -> bool {
        let has_room = self.conversation.budget.as_ref().is_none_or(|budget| budget.used() < BUDGET_BYTES);
        self.mail.is_some() && !self.recipients.is_empty() && (self.has_chunks || has_room)
    }

    /// BDAT itself has no reply, unless it is one command too many.
    fn before_chunk(&mut self) {
        let Some(event) = self.conversation.next(false) else { return };
        assert!(matches!(&event, Event::Reply(reply) if reply.code == 421), "{event:?}");
        assert_eq!(self.conversation.next(false), Some(Event::Close));
        self.record.extend([event, Event::Close]);
        self.has_closed = true;
    }

    fn on_line(&mut self, line: &[u8], offset: usize) {
        let is_complete = line.ends_with(b"\n");
        if let Phase::Chunk { left, is_accepted, .. } = &mut self.phase {
            *left -= line.len() as u64;
            if *is_accepted {
                self.text.extend_from_slice(line);
            }
        }
        let phase = self.phase;
        if phase == Phase::Data {
            self.text.extend_from_slice(line);
        }
        let ends_text = phase == Phase::Data && (self.text == b".\r\n" || self.text.ends_with(b"\r\n.\r\n"));
        let mut replies = 0;
        let mut expected = None;
        while let Some(event) = self.conversation.next(false) {
            match &event {
                Event::Asked(question) => {
                    assert!(expected.is_none() && replies == 0, "one question, before the reply");
                    self.on_question(phase, question);
                    let answer = self.conversation.answer(question);
                    if answer.is_ok() {
                        self.on_accepted(question);
                    }
                    expected = Some(answer);
                }
                Event::Reply(reply) => {
                    replies += 1;
                    check_reply(reply);
                    match &expected {
                        Some(Ok(())) => assert!(reply.is_positive(), "{reply}"),
                        Some(Err(refusal)) => {
                            assert!(reply == refusal || reply.code == 421, "{reply}");
                            if self.phase == Phase::Auth {
                                self.phase = Phase::Command;
                            }
                        }
                        None if phase == Phase::Data => self.check_refused_text(expected_text(&self.text), reply),
                        None if matches!(phase, Phase::Chunk { .. }) => self.check_chunk(phase, reply),
                        None => self.on_reply(line, reply),
                    }
                }
                Event::StartTls => self.on_start_tls(offset),
                Event::Close => {
                    let last = self.record.last();
                    assert!(matches!(last, Some(Event::Reply(reply)) if matches!(reply.code, 221 | 421)), "{last:?}");
                    self.has_closed = true;
                }
            }
            self.record.push(event);
            if self.has_closed {
                break;
            }
        }
        if let Some(Event::Reply(reply)) = self.record.last() {
            assert!(!matches!(reply.code, 221 | 421), "the session goes on after {reply}");
        }
        match phase {
            Phase::Data => assert_eq!(replies, usize::from(ends_text), "one reply to a message, at its end"),
            Phase::Chunk { left, .. } => {
                assert_eq!(replies, usize::from(left == 0), "one reply to a chunk, at its end")
            }
            _ if is_complete => assert_eq!(replies, 1, "one reply to each line: {:?}", line.escape_ascii().to_string()),
            _ => assert!(replies <= 1),
        }
        match phase {
            Phase::Data if ends_text => {
                self.phase = Phase::Command;
                self.end_transaction();
            }
            Phase::Chunk { left: 0, is_last, is_accepted } => {
                self.phase = Phase::Command;
                let goes_on = matches!(self.record.last(), Some(Event::Reply(reply)) if reply.code == 250);
                if is_last || !is_accepted || !goes_on {
                    self.end_transaction();
                } else {
                    self.has_chunks = true;
                }
            }
            _ => {}
        }
        let is_receiving = self.conversation.session.is_receiving();
        let is_data = matches!(self.phase, Phase::Data | Phase::Chunk { is_accepted: true, .. });
        assert_eq!(is_receiving, !self.has_closed && (is_data || self.has_chunks));
    }

    fn end_transaction(&mut self) {
        (self.mail, self.has_chunks) = (None, false);
        self.recipients.clear();
        self.text.clear();
    }

    fn on_question(&self, phase: Phase, question: &Question) {
        match question {
            Question::Mail(_) => {
                assert!(self.hello.is_some() && self.mail.is_none() && phase == Phase::Command);
                assert!(!self.is_submission || self.authenticated, "mail needs a login");
            }
            Question::Rcpt(_) => {
                assert!(self.mail.is_some() && phase == Phase::Command, "no recipient without a sender");
                assert!(self.recipients.len() < MAX_RECIPIENTS && !self.has_chunks);
            }
            Question::Authenticate(_) => self.may_authenticate(),
            Question::Message(message) => {
                let expected = match phase {
                    Phase::Data => expected_text(&self.text),
                    Phase::Chunk { left: 0, is_last: true, is_accepted: true } => expected_chunks(&self.text),
                    _ => panic!("a message in {phase:?}"),
                };
                assert_eq!(Some(&message.envelope.mail), self.mail.as_ref());
                assert_eq!(message.envelope.recipients, self.recipients);
                assert!(!self.recipients.is_empty(), "no message without a recipient");
                assert_eq!(Ok(message.data.as_slice()), expected.as_deref());
                assert!(!message.client_name.chars().any(char::is_control));
                let is_encrypted = message.protocol.contains("SMTPS");
                assert!(!is_encrypted || self.conversation.session.is_tls());
                let is_extended = self.hello == Some(true) || message.envelope.mail.smtputf8;
                assert_eq!(message.protocol.ends_with('A'), self.authenticated && is_extended);
            }
        }
    }

    fn may_authenticate(&self) {
        let allows_plaintext = self.conversation.script.choice(0) & 4 != 0;
        assert!(self.is_submission && self.hello == Some(true) && !self.authenticated && self.mail.is_none());
        assert!(self.conversation.session.is_tls() || allows_plaintext, "no password in clear text");
    }

    fn on_accepted(&mut self, question: &Question) {
        match question {
            Question::Mail(mail) => self.mail = Some(mail.clone()),
            Question::Rcpt(recipient) => self.recipients.push(recipient.clone()),
            Question::Authenticate(_) => self.authenticated = true,
            Question::Message(_) => {}
        }
        if self.phase == Phase::Auth {
            self.phase = Phase::Command;
        }
    }

    /// A reply that needs no question.
    fn on_reply(&mut self, line: &[u8], reply: &Reply) {
        let verb = line.split(|byte| matches!(byte, b' ' | b'\r' | b'\n')).next().unwrap_or_default();
        let is = |wanted: &str| verb.eq_ignore_ascii_case(wanted.as_bytes());
        match reply.code {
            250 if self.phase == Phase::Command && ["EHLO", "HELO", "RSET"].iter().any(|verb| is(verb)) => {
                self.end_transaction();
                if !is("RSET") {
                    self.hello = Some(is("EHLO"));
                }
            }
            354 => {
                assert!(self.phase == Phase::Command && is("DATA"));
                assert!(self.mail.is_some() && !self.recipients.is_empty(), "no text without a recipient");
                assert!(!self.has_chunks, "RFC 3030 section 2");
                self.phase = Phase::Data;
            }
            334 => {
                self.may_authenticate();
                self.phase = Phase::Auth;
            }
            235 => panic!("logged in without a question"),
            220 => assert!(is("STARTTLS")),
            221 => assert!(is("QUIT")),
            _ if self.phase == Phase::Auth => {
                assert!(reply.is_permanent() || reply.code == 421, "{reply}");
                self.phase = Phase::Command;
            }
            250 => assert!(is("NOOP"), "{reply}"),
            code => assert!(matches!(code, 214 | 252 | 400..600), "{reply}"),
        }
    }

    /// A message that does not reach the host.
    fn check_refused_text(&self, text: Result<Vec<u8>, u16>, reply: &Reply) {
        match text {
            // 421 replaces the reply to the last of too many errors.
            Err(code) => assert!(reply.code == code || (code == 550 && reply.code == 421), "{reply}"),
            Ok(_) => assert!(self.conversation.budget.is_some() && reply.code == 452, "{reply}"),
        }
    }

    /// The reply to a chunk that does not reach the host.
    fn check_chunk(&self, phase: Phase, reply: &Reply) {
        let Phase::Chunk { is_last, is_accepted, .. } = phase else { unreachable!() };
        if !is_accepted {
            assert!(matches!(reply.code, 421 | 452 | 503 | 554), "{reply}");
        } else if is_last {
            self.check_refused_text(expected_chunks(&self.text), reply);
        } else {
            // LF may still follow a CR at the end.
            let certain = self.text.strip_suffix(b"\r").unwrap_or(&self.text);
            match chunks_so_far(certain) {
                Ok(()) if matches!(reply.code, 250 | 421) => {}
                so_far => self.check_refused_text(so_far.map(|()| Vec::new()), reply),
            }
        }
    }

    fn on_start_tls(&mut self, offset: usize) {
        let last = self.record.last();
        assert!(matches!(last, Some(Event::Reply(reply)) if reply.code == 220), "{last:?}");
        assert!(!self.conversation.session.is_tls() && self.conversation.script.choice(0) & 2 != 0);
        self.conversation.session.tls_established();
        self.tls_offsets.push(offset);
        (self.hello, self.authenticated) = (None, false);
        self.end_transaction();
    }
}

/// Returns the number of octets that follow BDAT, and whether they are the last ones; `None` for any other line.
fn chunk_of(line: &[u8]) -> Option<(u64, bool)> {
    let is_short = line.len() <= MAX_LINE_BYTES;
    let text = str::from_utf8(line).ok().filter(|_| is_short)?.strip_suffix("\r\n")?;
    let words: Vec<&str> = text.split(' ').collect();
    let (number, is_last) = match words.as_slice() {
        [verb, number] if verb.eq_ignore_ascii_case("BDAT") => (number, false),
        [verb, number, last] if verb.eq_ignore_ascii_case("BDAT") && last.eq_ignore_ascii_case("LAST") => {
            (number, true)
        }
        _ => return None,
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| is_number)?, is_last))
}

/// Returns the code that refuses chunks before the last one.
fn chunks_so_far(text: &[u8]) -> Result<(), u16> {
    let characters: String = text.iter().map(|&byte| char::from(byte)).collect();
    if characters.replace("\r\n", "").contains(['\r', '\n']) {
        return Err(550);
    }
    if text.len() > MAX_MESSAGE_BYTES { Err(552) } else { Ok(()) }
}

/// Returns the message in chunks that have ended, or the code that refuses it.
fn expected_chunks(text: &[u8]) -> Result<Vec<u8>, u16> {
    let mut message = text.to_vec();
    if !(message.is_empty() || message.ends_with(b"\r\n")) {
        message.extend_from_slice(b"\r\n");
    }
    chunks_so_far(text).and_then(|()| chunks_so_far(&message)).map(|()| message)
}

/// Returns the message in a text that has ended, or the code that refuses it.
fn expected_text(text: &[u8]) -> Result<Vec<u8>, u16> {
    let body = text.strip_suffix(b".\r\n").expect("the text has ended");
    let mut message = Vec::new();
    for line in body.split_inclusive(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r\n").filter(|line| !line.contains(&b'\r')).ok_or(550_u16)?;
        message.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        message.extend_from_slice(b"\r\n");
    }
    if message.len() > MAX_MESSAGE_BYTES { Err(552) } else { Ok(message) }
}

/// Nothing from the client may end a line of a reply, or make it longer than clients must accept.
fn check_reply(reply: &Reply) {
    let wire = reply.encode();
    let lines = wire.strip_suffix(b"\r\n").expect("a reply ends with a line end").split(|&byte| byte == b'\n');
    let count = reply.text.split('\n').count();
    assert_eq!(lines.clone().count(), count);
    for (number, line) in lines.enumerate() {
        let line = if number + 1 < count { line.strip_suffix(b"\r").expect("CR before LF") } else { line };
        assert!(line.iter().all(|byte| matches!(byte, b' '..=b'~')), "RFC 5321 section 4.2 allows ASCII only: {reply}");
        assert!(line.len() + 2 <= MAX_REPLY_LINE_BYTES, "{} octets in one line", line.len() + 2);
        let code: String = line[..3].iter().map(|&byte| char::from(byte)).collect();
        assert_eq!(code, reply.code.to_string());
        assert_eq!(line[3], if number + 1 < count { b'-' } else { b' ' });
    }
}
