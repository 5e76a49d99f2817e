//! imap-codec as an oracle: this crate must read what imap-codec writes, and the other way around.

use std::borrow::Cow;

use crate::memory_host::MemoryHost;
use imap_codec::CommandCodec;
use imap_codec::decode::Decoder as _;
use imap_codec::encode::Encoder as _;
use jiff::Timestamp;
use mailapi_imap::Flags;
use mailapi_imap::server::command::TaggedCommand;
use mailapi_imap::server::mime::{
    Address, BodyStructure, Disposition, Envelope, Extension, Multipart, PartRange, SinglePart, SinglePartKind,
};
use mailapi_imap::server::session::{Effect, Reply, Session, SessionConfig, Step};
use mailapi_imap::server::{Binary, MessageSource, ObjectId};
use mailapi_imap::token::{FrameReader, Limits, Poll, Side};

/// Commands of the standard, and of extensions that both sides support.
const COMMANDS: &[&str] = &[
    "a CAPABILITY",
    "a NOOP",
    "a LOGOUT",
    "a STARTTLS",
    "a CHECK",
    "a CLOSE",
    "a UNSELECT",
    "a EXPUNGE",
    "a IDLE",
    "a NAMESPACE",
    "a ID NIL",
    "a ID (\"name\" \"x\" \"version\" NIL)",
    "a ENABLE CONDSTORE",
    "a LOGIN joe \"a b\"",
    "a LOGIN {3}\r\njoe {6+}\r\nsecret",
    "a LOGIN \"q\\\"\\\\\" {2}\r\n\r\n",
    "a AUTHENTICATE PLAIN",
    "a AUTHENTICATE PLAIN AGpvZQBzZWNyZXQ=",
    "a AUTHENTICATE PLAIN =",
    "a SELECT inbox",
    "a EXAMINE \"a b\"",
    "a CREATE &U,BTFw-",
    "a DELETE Tom&-Jerry",
    "a RENAME a {3}\r\nb/c",
    "a SUBSCRIBE x",
    "a UNSUBSCRIBE x]y",
    "a LIST \"\" *",
    "a LIST a/ \"%\"",
    "a LIST \"\" \"\"",
    "a LSUB \"\" {1}\r\n*",
    "a STATUS x (MESSAGES UNSEEN UIDNEXT)",
    "a STATUS x (RECENT UIDVALIDITY SIZE)",
    "a APPEND x {4}\r\nabcd",
    "a APPEND x (\\Seen $Junk) {4+}\r\nab\r\n",
    "a APPEND INBOX () \" 7-Feb-1994 21:52:25 -0800\" {1}\r\n\n",
    "a COPY 1:2,4 x",
    "a UID COPY * x",
    "a MOVE 1 x",
    "a UID MOVE 1:* x",
    "a UID EXPUNGE 3:5,*",
    "a STORE 1 FLAGS (\\Seen)",
    "a STORE 1:* +FLAGS.SILENT (\\Deleted kw)",
    "a UID STORE 5 -FLAGS ()",
    "a GETQUOTA \"\"",
    "a GETQUOTAROOT INBOX",
    "a FETCH 1 ALL",
    "a FETCH 1:* FULL",
    "a FETCH 2 FAST",
    "a UID FETCH 1:* (FLAGS UID INTERNALDATE RFC822.SIZE)",
    "a FETCH 1 (ENVELOPE BODY BODYSTRUCTURE)",
    "a FETCH 1 BODY[]",
    "a FETCH 1 (BODY[1.2.HEADER] BODY.PEEK[TEXT]<0.100> BODY[3.MIME])",
    "a FETCH 1 BODY.PEEK[1.HEADER.FIELDS.NOT (From {2}\r\nTo \"x y\")]",
    "a FETCH 1 (RFC822 RFC822.HEADER RFC822.TEXT)",
    "a SEARCH ALL",
    "a SEARCH CHARSET UTF-8 TEXT {3}\r\nabc",
    "a UID SEARCH 1:3,5 UNSEEN NOT DELETED",
    "a SEARCH OR FROM a (TO b CC c BCC d SUBJECT e) HEADER X-Y \"\"",
    "a SEARCH BEFORE 1-Feb-1994 SINCE 2-Mar-2020 ON 3-Apr-2021",
    "a SEARCH SENTBEFORE 1-Jan-2000 SENTON 2-Jan-2000 SENTSINCE 3-Jan-2000 LARGER 5 SMALLER 7",
    "a SEARCH ANSWERED UNANSWERED DRAFT UNDRAFT FLAGGED UNFLAGGED RECENT NEW OLD KEYWORD a UNKEYWORD b BODY x UID 4:*",
];

fn parse(bytes: &[u8]) -> Result<TaggedCommand, String> {
    let limits = Limits::default();
    let mut reader = FrameReader::new(Side::Server, limits.clone());
    reader.accept_messages();
    reader.feed(bytes);
    loop {
        match reader.poll() {
            Poll::NeedContinuation => {}
            Poll::Frame(frame) => {
                return TaggedCommand::parse(frame, &limits, false).map_err(|(_, error)| error.to_string());
            }
            other => return Err(format!("{other:?}")),
        }
    }
}

#[test]
fn its_commands_are_read() {
    for command in COMMANDS {
        let line = format!("{command}\r\n");
        let ours = parse(line.as_bytes()).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let theirs = decode_theirs(line.as_bytes()).unwrap_or_else(|| panic!("{command:?} is unknown to imap-codec"));
        let again = parse(&theirs).unwrap_or_else(|error| panic!("{command:?} encoded: {error}"));
        assert_eq!(format!("{ours:?}"), format!("{again:?}"), "{command:?}");
    }
}

/// Decodes with imap-codec, and encodes again in its own form.
fn decode_theirs(line: &[u8]) -> Option<Vec<u8>> {
    let codec = CommandCodec::default();
    let (rest, command) = match codec.decode(line) {
        Ok(decoded) => decoded,
        Err(imap_codec::decode::CommandDecodeError::LiteralFound { .. }) => return Some(line.to_vec()),
        Err(_) => return None,
    };
    assert!(rest.is_empty());
    Some(codec.encode(&command).dump())
}

/// A message with every feature of a structure, and texts that try to break out of strings.
struct Rich;

const NASTY: &str = "a\"b\\c\r\n* BYE \u{e9}\u{1F600} {5}";

fn single(kind: SinglePartKind) -> BodyStructure {
    BodyStructure::Single(Box::new(SinglePart {
        kind,
        parameters: vec![("name".into(), NASTY.into())],
        id: Some("<id@x>".into()),
        description: Some(NASTY.into()),
        encoding: "base64".into(),
        bytes: 10,
        md5: Some("md5".into()),
        extension: Extension {
            disposition: Some(Disposition {
                kind: "attachment".into(),
                parameters: vec![("filename".into(), NASTY.into())],
            }),
            languages: vec!["en".into(), "de".into()],
            location: Some("http://x/".into()),
        },
    }))
}

impl MessageSource for Rich {
    fn uid(&self) -> u32 {
        1
    }
    fn flags(&self) -> &Flags {
        const NONE: &Flags = &Flags::new();
        NONE
    }
    fn modseq(&self) -> u64 {
        5
    }
    fn internal_date(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn save_date(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn size(&self) -> u64 {
        3
    }
    fn envelope(&self) -> Envelope {
        let address = Address::Mailbox {
            name: Some(NASTY.into()),
            route: Some(NASTY.into()),
            local_part: "a b".into(),
            domain: "x.test".into(),
        };
        Envelope {
            date: Some("Mon, 1 Jan 2024 00:00:00 +0000".into()),
            subject: Some(NASTY.repeat(40)),
            from: vec![address.clone()],
            to: vec![Address::GroupStart("friends".into()), address.clone(), Address::GroupEnd],
            cc: vec![address.clone(), address],
            message_id: Some("<m@x>".into()),
            ..Envelope::default()
        }
    }
    fn body_structure(&self) -> BodyStructure {
        let text = single(SinglePartKind::Text { subtype: "plain".into(), lines: 2 });
        let image = single(SinglePartKind::Basic { media_type: "image".into(), subtype: "png".into() });
        let message =
            single(SinglePartKind::Message { envelope: Box::new(self.envelope()), body: text.clone(), lines: 5 });
        let empty = BodyStructure::Multipart(Multipart {
            parts: vec![],
            subtype: "alternative".into(),
            parameters: vec![],
            extension: Extension::default(),
        });
        BodyStructure::Multipart(Multipart {
            parts: vec![text, image, message, empty],
            subtype: "mixed".into(),
            parameters: vec![("boundary".into(), "=\"x".into())],
            extension: Extension::default(),
        })
    }
    fn email_id(&self) -> ObjectId {
        ObjectId::email(1)
    }
    fn binary(&self, path: &[u32]) -> Binary<'_> {
        if path.is_empty() { Binary::Octets(Cow::Borrowed(b"a\0)")) } else { Binary::Missing }
    }
    fn preview(&self) -> String {
        NASTY.into()
    }
    fn section(&self, path: &[u32], _: PartRange) -> Option<Cow<'_, [u8]>> {
        path.is_empty().then_some(Cow::Borrowed(b"a\xff)"))
    }
}

#[test]
fn rich_structures_are_readable() {
    let config = SessionConfig { plaintext_login: true, ..SessionConfig::default() };
    let mut session = Session::new(config, false);
    let mut host = MemoryHost::new();
    session.feed(b"a LOGIN joe secret\r\nb EXAMINE INBOX\r\n");
    host.drive(&mut session);
    session.take_output();
    session.feed(
        b"c FETCH 1 (FLAGS UID ENVELOPE BODY BODYSTRUCTURE BODY[] RFC822.HEADER BODY[2] BODY[HEADER.FIELDS (a)]<1.1>)\r\n",
    );
    let Step::Run(Effect::Fetch { .. }) = session.step() else { panic!("no fetch") };
    session.write_message(&Rich);
    session.finish(Ok(Reply::Done), None);
    let output = session.take_output();
    assert!(!output.windows(7).any(|window| window == b"\r\n* BYE"));
    crate::oracle::accept_responses(&output);
}
