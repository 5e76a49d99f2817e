//! The IMAP client against hostile servers.

use mailapi_imap::Password;
use mailapi_imap::client::{
    ClientError, ClientLimits, Command, Connection, Event, FetchAttribute, Section, SectionText, StatusItem, Untagged,
};
use mailapi_imap::server::command::{Command as ReadCommand, CommandError, TaggedCommand};
use mailapi_imap::token::{Frame, FrameReader, Limits, Part, Poll, Side};

use crate::cut::Cut;
use crate::script::Script;

/// Returns the bytes of memory that the thread uses. The tests of the crates do not count them, and return 0.
pub(crate) type Heap = fn() -> usize;

/// Commands of one connection.
const MAX_COMMANDS: usize = 6;
/// Memory of a connection between two reads: one unfinished response, and the commands in flight.
const MAX_HELD_BYTES: usize = 8 * 1024;
/// A message that looks like commands.
const APPENDED: &[u8] = b"Subject: x\r\n\r\na9 LOGOUT\r\n";
/// Memory of each literal in it besides its octets. A response may have 20,000 of them, which no limit here lowers.
const HELD_BYTES_OF_LITERAL: usize = 256;
/// A server that repeats itself this long must not make the connection grow.
const REPEATED_BYTES: usize = 24 * 1024;
const USER: &str = "jo\"e\\ {3}";
const PASSWORD: &str = "sec\r\na9 LOGOUT\r\né";

/// What a client did. The pieces of one body are joined.
#[derive(Debug, Default, PartialEq, Eq)]
struct Record {
    events: Vec<Result<Event, ClientError>>,
    bodies: Vec<u8>,
    /// The output for each command.
    output: Vec<Vec<u8>>,
}

/// Checks every rule for one input.
pub(crate) fn check(input: &[u8], heap: Heap) {
    let (script, bytes) = Script::split(input);
    let mut single = Conversation::new(script);
    single.feed(bytes, Cut::Octets);
    check_output(&single.record.output);
    for cut in [Cut::None, Cut::Script] {
        let mut conversation = Conversation { restarts: single.restarts.clone(), ..Conversation::new(script) };
        conversation.feed(bytes, cut);
        assert_eq!(conversation.record, single.record, "{cut:?} changes what the client does");
    }
    check_memory(script, bytes, heap);
}

fn check_memory(script: Script<'_>, bytes: &[u8], heap: Heap) {
    let mut conversation = Conversation::new(script);
    let repetitions = REPEATED_BYTES.div_ceil(bytes.len().max(1));
    for _ in 0..repetitions {
        conversation.feed(bytes, Cut::Script);
    }
    let Conversation { connection, .. } = conversation;
    let before = heap();
    drop(connection);
    let held = before.saturating_sub(heap());
    let literals = repetitions * bytes.iter().filter(|&&byte| byte == b'{').count();
    assert!(held <= MAX_HELD_BYTES + literals * HELD_BYTES_OF_LITERAL, "the connection holds {held} bytes");
}

struct Conversation<'a> {
    connection: Connection,
    script: Script<'a>,
    record: Record,
    started: usize,
    done: usize,
    /// The kind of the command in flight, or of the last one.
    kind: Option<u8>,
    /// The offsets after the answers to STARTTLS. What came with one in the same piece is sent again: the client
    /// must have dropped it.
    restarts: Vec<usize>,
    changes: usize,
    is_starting_tls: bool,
    /// Octets of the streamed body that are still to come.
    body: Option<u64>,
}

impl<'a> Conversation<'a> {
    fn new(script: Script<'a>) -> Self {
        let limits = ClientLimits { max_line: 400, max_literal: 100, max_depth: 4, max_answer: 2000 };
        Self {
            connection: Connection::new(limits),
            script,
            record: Record::default(),
            started: 0,
            done: 0,
            kind: None,
            restarts: Vec::new(),
            changes: 0,
            is_starting_tls: false,
            body: None,
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self.record.events.last(), Some(Err(_)))
    }

    fn feed(&mut self, bytes: &[u8], cut: Cut) {
        let (mut offset, mut pieces) = (0, 0);
        while offset < bytes.len() && !self.has_failed() {
            let rest = &bytes[offset..];
            let piece = cut.piece(rest, self.script, pieces);
            (offset, pieces) = (offset + piece.len(), pieces + 1);
            self.connection.feed(piece);
            while self.poll() {
                if !self.is_starting_tls {
                    continue;
                }
                self.is_starting_tls = false;
                if cut == Cut::Octets {
                    self.restarts.push(offset);
                }
                offset = self.restarts.get(self.changes).copied().unwrap_or(offset);
                self.changes += 1;
            }
        }
    }

    /// Takes the next event. Returns whether another one may follow without more input.
    fn poll(&mut self) -> bool {
        let event = self.connection.poll();
        self.collect();
        let is_first = self.record.events.is_empty();
        match &event {
            Ok(Event::NeedMore) => return false,
            Ok(Event::Greeting(_)) => assert!(is_first, "one greeting"),
            Ok(Event::Done(status)) => {
                self.done += 1;
                assert!(!is_first && self.body.is_none() && self.done <= self.started, "an answer to no command");
                self.is_starting_tls = self.kind == Some(5) && status.is_ok();
            }
            Ok(Event::BodyBegin(size)) => {
                assert!(matches!(self.kind, Some(1 | 2)) && self.body.is_none() && self.done < self.started);
                self.body = Some(*size);
            }
            Ok(Event::BodyPiece(length)) => {
                let piece = self.connection.body_piece();
                assert!(*length > 0 && piece.len() == *length);
                self.record.bodies.extend_from_slice(piece);
                let rest = self.body.and_then(|rest| rest.checked_sub(*length as u64));
                self.body = Some(rest.expect("no more octets than announced"));
            }
            Ok(Event::BodyEnd) => assert_eq!(self.body.take(), Some(0), "all announced octets came"),
            Ok(Event::ContentWanted) => self.send_content(),
            Ok(Event::Untagged(untagged)) => self.on_untagged(untagged),
            Err(_) => {}
        }
        let is_over = event.is_err();
        match (event, self.record.events.last_mut()) {
            (Ok(Event::BodyPiece(more)), Some(Ok(Event::BodyPiece(piece)))) => *piece += more,
            (event, _) => self.record.events.push(event),
        }
        if !is_over && self.connection.is_ready() {
            self.start_next();
        }
        !is_over
    }

    fn collect(&mut self) {
        let output = self.connection.take_output();
        match self.record.output.last_mut() {
            Some(command) => command.extend(output),
            None => assert!(output.is_empty(), "output before a command"),
        }
    }

    /// Sends the message of APPEND, which a server may ask for once.
    fn send_content(&mut self) {
        assert!(self.kind == Some(12) && self.done < self.started, "no command has content");
        for piece in APPENDED.chunks(5) {
            assert_eq!(self.connection.send_content(piece), Ok(()));
        }
        assert_eq!(self.connection.send_content(b"x"), Err(ClientError::Unexpected), "all of it was sent");
        self.collect();
    }

    fn on_untagged(&self, untagged: &Untagged) {
        let is_in_flight = self.done < self.started;
        match untagged {
            Untagged::Fetch(message) if message.has_contents() => {
                assert!(matches!(self.kind, Some(0..=2 | 9)) && is_in_flight, "contents that no command requested");
                assert!(message.uid.is_some(), "contents of an unknown message");
            }
            Untagged::Found(_) => assert!(is_in_flight && matches!(self.kind, Some(3 | 4)), "a result of no search"),
            _ => {}
        }
    }

    fn start_next(&mut self) {
        if self.started >= MAX_COMMANDS {
            return;
        }
        let attributes = [FetchAttribute::Flags, FetchAttribute::Section(Section::message())];
        let capabilities = self.connection.capabilities().cloned().unwrap_or_default();
        let password = Password::new(PASSWORD.to_owned());
        let kind = self.script.choice(self.started) % 13;
        self.kind = Some(kind);
        self.record.output.push(Vec::new());
        let command = match kind {
            0 => Command::uid_fetch(&[7, 9], &attributes),
            1 => Command::uid_fetch(&[7], &attributes).streaming(),
            2 => Command::fetch(1, 3, &slices()).streaming(),
            3 => Command::uid_search("é\r\nx", &capabilities),
            4 => Command::uid_search_from(7, &capabilities),
            5 => Command::start_tls(),
            6 => Command::login(USER, &password),
            7 => Command::authenticate_plain("ann", USER, &password, &capabilities),
            8 => Command::list_all(&[StatusItem::Messages, StatusItem::Size]),
            9 => {
                let both = self.connection.start_both(Command::fetch(1, 2, &structure()), Command::noop());
                assert_eq!(both, Ok(()));
                self.started += 2;
                self.collect();
                return;
            }
            10 => Command::status("a\r\nb é", &[StatusItem::UidNext]),
            12 => Command::append("a\r\nb é", &["\\Draft"], APPENDED.len() as u64),
            _ => Command::noop(),
        };
        assert_eq!(self.connection.start(command), Ok(()));
        assert_eq!(self.connection.start(Command::noop()), Err(ClientError::Unexpected), "one command at a time");
        self.started += 1;
        self.collect();
    }
}

fn slices() -> [FetchAttribute; 2] {
    let header = Section { part: vec![1, 2], text: SectionText::Mime };
    [FetchAttribute::Section(header), FetchAttribute::SectionSlice(Section::part(&[1]), 5, 10)]
}

fn structure() -> [FetchAttribute; 3] {
    [
        FetchAttribute::Envelope,
        FetchAttribute::BodyStructure,
        FetchAttribute::Section(Section::header_fields(&["SUBJECT"])),
    ]
}

/// Our own server must read what the client writes for each command, and no value may end the command. A server can
/// answer instead of asking for a literal: then nothing follows the announcement.
fn check_output(output: &[Vec<u8>]) {
    let mut number = 0;
    for command in output {
        let mut reader = FrameReader::new(Side::Server, Limits::default());
        reader.feed(command);
        let mut frames = Vec::new();
        loop {
            match reader.poll() {
                Poll::NeedMore => break,
                Poll::NeedContinuation => {}
                Poll::Frame(frame) => frames.push(frame),
                other => panic!("{other:?}"),
            }
        }
        assert!(command.ends_with(b"\r\n") && frames.len() <= 2);
        if frames.is_empty() {
            number += 1;
            assert!(command.starts_with(format!("a{number} ").as_bytes()) && command.ends_with(b"}\r\n"));
        }
        for frame in frames {
            // The answer of AUTHENTICATE is a line of base64.
            if let [Part::Text(line)] = frame.parts()
                && !line.contains(&b' ')
            {
                assert!(line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte)));
                continue;
            }
            number += 1;
            check_command(frame, number);
        }
    }
}

fn check_command(frame: Frame, number: usize) {
    let (tag, command) = match TaggedCommand::parse(frame, &Limits::default(), false) {
        Ok(TaggedCommand { tag, command }) => (tag, Some(command)),
        // No mailbox has a name with line ends.
        Err((Some(tag), CommandError::Refused { .. })) => (tag, None),
        Err((tag, error)) => panic!("{tag:?} is no command: {error}"),
    };
    assert_eq!(tag, format!("a{number}"));
    if let Some(ReadCommand::Login { username, password }) = command {
        assert_eq!((username.as_str(), password.expose()), (USER, PASSWORD));
    }
}
