//! The client and the server of this crate connected to each other.

use crate::memory_host::MemoryHost;
use mailapi_imap::Password;
use mailapi_imap::client::{
    Capabilities, ClientError, ClientLimits, Code, Command, Connection, Event, FetchAttribute, FetchedMessage, Section,
    SectionText, StatusItem, StatusResponse, Untagged,
};
use mailapi_imap::server::session::{Session, SessionConfig, Step};

struct Talk {
    host: MemoryHost,
    session: Session,
    client: Connection,
    piece: usize,
}

impl Talk {
    /// Connects both sides, which exchange octets in pieces of this size.
    fn begin(piece: usize, starttls: bool) -> Self {
        let config = SessionConfig { plaintext_login: !starttls, starttls, ..SessionConfig::default() };
        let session = Session::new(config, false);
        let client = Connection::new(ClientLimits::default());
        let mut talk = Self { host: MemoryHost::new(), session, client, piece };
        assert!(matches!(talk.next(), Event::Greeting(status) if status.is_ok()));
        talk
    }

    fn logged_in(piece: usize) -> Self {
        let mut talk = Self::begin(piece, false);
        assert!(talk.ask(Command::login("joe", &Password::new("secret".into()))).0.is_ok());
        talk
    }

    fn next(&mut self) -> Event {
        loop {
            match self.client.poll().expect("a valid response") {
                Event::NeedMore => self.exchange(),
                event => return event,
            }
        }
    }

    fn exchange(&mut self) {
        let said = self.client.take_output();
        for piece in said.chunks(self.piece) {
            self.session.feed(piece);
            if matches!(self.host.drive(&mut self.session), Step::StartTls) {
                let answer = self.session.take_output();
                self.client.feed(&answer);
                self.session.tls_started();
                return;
            }
        }
        self.host.drive(&mut self.session);
        let answer = self.session.take_output();
        assert!(!answer.is_empty(), "deadlock: client and server both wait");
        self.client.feed(&answer);
    }

    fn ask(&mut self, command: Command) -> (StatusResponse, Vec<Untagged>) {
        self.client.start(command).unwrap();
        let mut data = Vec::new();
        loop {
            match self.next() {
                Event::Untagged(untagged) => data.push(untagged),
                Event::Done(status) => return (status, data),
                other => panic!("{other:?}"),
            }
        }
    }

    fn fetch(&mut self, command: Command) -> Vec<FetchedMessage> {
        let (status, data) = self.ask(command);
        assert!(status.is_ok(), "{status:?}");
        data.into_iter()
            .filter_map(|one| if let Untagged::Fetch(message) = one { Some(*message) } else { None })
            .collect()
    }
}

#[test]
fn a_wrong_password_is_refused_with_its_code() {
    let mut talk = Talk::begin(9, false);
    let (status, _) = talk.ask(Command::login("joe", &Password::new("wrong".into())));
    assert_eq!(status.code, Some(Code::AuthenticationFailed));
}

#[test]
fn what_does_not_exist_is_refused() {
    let mut talk = Talk::logged_in(7);
    let (status, _) = talk.ask(Command::examine("Köln & more"));
    assert_eq!(status.code, Some(Code::NonExistent));
    talk.ask(Command::examine("INBOX"));
    assert_eq!(talk.fetch(Command::uid_fetch(&[3, 4_294_967_295], &[FetchAttribute::Flags])), []);
}

#[test]
fn starttls_discards_capabilities_from_clear_text() {
    let mut talk = Talk::begin(100, true);
    assert!(talk.client.capabilities().is_some_and(|capabilities| capabilities.has("STARTTLS")));
    assert!(talk.ask(Command::start_tls()).0.is_ok());
    assert_eq!(talk.client.capabilities(), None);
    assert!(talk.ask(Command::capability()).0.is_ok());
    let capabilities = talk.client.capabilities().unwrap().clone();
    assert!(!capabilities.has("STARTTLS") && capabilities.has("AUTH=PLAIN"));
    let plain = Command::authenticate_plain("", "joe", &Password::new("secret".into()), &capabilities);
    assert!(talk.ask(plain).0.is_ok());
}

#[test]
fn messages_are_fetched_however_the_bytes_come() {
    for piece in [1, 3, 1000] {
        let mut talk = Talk::logged_in(piece);
        let (status, responses) = talk.ask(Command::examine("INBOX"));
        assert_eq!(status.code, Some(Code::ReadOnly));
        assert!(responses.contains(&Untagged::Exists(3)));
        let uid_validity =
            |one: &Untagged| matches!(one, Untagged::Status(status) if status.code == Some(Code::UidValidity(7)));
        assert!(responses.iter().any(uid_validity));
        let attributes = [
            FetchAttribute::Flags,
            FetchAttribute::Size,
            FetchAttribute::Arrived,
            FetchAttribute::Envelope,
            FetchAttribute::BodyStructure,
            FetchAttribute::Section(Section::header_fields(&["SUBJECT"])),
            FetchAttribute::SectionSlice(Section::part(&[1]), 0, 3),
        ];
        let messages = talk.fetch(Command::fetch(2, 3, &attributes));
        assert_eq!(messages.iter().map(|message| message.uid).collect::<Vec<_>>(), [Some(2), Some(4)]);
        let last = &messages[1];
        assert_eq!((last.arrived, last.flags.as_deref()), (Some(836_000_000), Some(&["$Junk".to_owned()][..])));
        assert_eq!(last.envelope.as_ref().unwrap().subject.as_deref(), Some(&b"three"[..]));
        assert_eq!(last.section(&[], &SectionText::SomeHeaderFields), Some(&b"Subject: three\r\n\r\n"[..]));
        assert_eq!(last.section(&[1], &SectionText::All), Some(&b"thi"[..]));
        assert_eq!(last.size, Some(41));
    }
}

#[test]
fn a_body_comes_in_pieces() {
    let mut talk = Talk::logged_in(50);
    talk.ask(Command::examine("INBOX"));
    let command = Command::uid_fetch(&[2], &[FetchAttribute::Section(Section::message())]).streaming();
    talk.client.start(command).unwrap();
    assert_eq!(talk.next(), Event::BodyBegin(40));
    assert_eq!(talk.next(), Event::BodyPiece(40));
    assert_eq!(talk.client.body_piece(), b"From: b@x.test\r\nSubject: two\r\n\r\nsecond\r\n");
    assert_eq!(talk.next(), Event::BodyEnd);
    assert!(matches!(talk.next(), Event::Untagged(Untagged::Fetch(message)) if message.uid == Some(2)));
    assert!(matches!(talk.next(), Event::Done(status) if status.is_ok()));
    assert!(talk.client.is_ready());
}

#[test]
fn a_message_is_appended_in_pieces() {
    let mut talk = Talk::logged_in(50);
    let message = b"Message-ID: <draft@x.test>\r\nSubject: four\r\n\r\nfourth\r\n";
    talk.client.start(Command::append("INBOX", &["\\Draft", "\\Seen"], message.len() as u64)).unwrap();
    assert_eq!(talk.next(), Event::ContentWanted);
    for piece in message.chunks(7) {
        talk.client.send_content(piece).unwrap();
    }
    assert_eq!(talk.client.send_content(b"x"), Err(ClientError::Unexpected), "the message has no further octets");
    let Event::Done(status) = talk.next() else { panic!("an answer") };
    let Some(Code::AppendUid(7, uid)) = status.code else { panic!("{status:?}") };
    talk.ask(Command::select("INBOX"));
    let (_, found) = talk.ask(Command::uid_search_header("Message-ID", "<draft@x.test>"));
    assert_eq!(found, [Untagged::Found([uid].into_iter().collect())]);
    assert!(talk.ask(Command::uid_delete(uid)).0.is_ok());
    let (_, marked) = talk.ask(Command::uid_search_deleted());
    assert_eq!(marked, found);
    assert!(talk.ask(Command::uid_expunge(uid)).0.is_ok());
    assert_eq!(talk.fetch(Command::uid_fetch(&[uid], &[FetchAttribute::Flags])), []);
}

#[test]
fn a_refused_message_is_not_sent() {
    let mut talk = Talk::logged_in(50);
    let (status, _) = talk.ask(Command::append("Nowhere", &[], 1 << 40));
    assert!(!status.is_ok() && talk.client.is_ready(), "{status:?}");
}

#[test]
fn state_changing_or_waiting_commands_never_overlap() {
    let login = || Command::login("joe", &Password::new("secret".into()));
    for (first, second) in [
        (Command::noop(), login()),
        (login(), Command::noop()),
        (Command::start_tls(), Command::noop()),
        (Command::uid_search("a\nb", &Capabilities::default()), Command::noop()),
    ] {
        let mut talk = Talk::begin(50, false);
        assert_eq!(talk.client.start_both(first, second), Err(ClientError::Unexpected));
        assert!(talk.client.is_ready() && talk.client.take_output().is_empty());
    }
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let mut talk = Talk::logged_in(50);
    talk.ask(Command::examine("INBOX"));
    talk.client.start_both(Command::fetch(1, 2, &[FetchAttribute::Flags]), Command::noop()).unwrap();
    assert_eq!(talk.client.start(Command::noop()), Err(ClientError::Unexpected));
    for _ in 0..2 {
        assert!(matches!(talk.next(), Event::Untagged(Untagged::Fetch(_))));
    }
    assert!(matches!(talk.next(), Event::Done(status) if status.is_ok()));
    assert!(!talk.client.is_ready());
    assert!(matches!(talk.next(), Event::Done(status) if status.is_ok()));
    assert!(talk.client.is_ready());
}

#[test]
fn an_early_answer_is_returned_in_the_order_of_the_commands() {
    let mut connection = Connection::new(ClientLimits::default());
    connection.feed(b"* OK ready\r\n");
    assert!(matches!(connection.poll(), Ok(Event::Greeting(_))));
    connection.start_both(Command::fetch(1, 1, &[FetchAttribute::Flags]), Command::noop()).unwrap();
    assert_eq!(connection.take_output(), b"a1 FETCH 1:1 (UID FLAGS)\r\na2 NOOP\r\n");
    connection.feed(b"a2 OK first\r\n* 3 EXISTS\r\na1 NO second\r\n");
    assert_eq!(connection.poll(), Ok(Event::Untagged(Untagged::Exists(3))));
    assert!(matches!(connection.poll(), Ok(Event::Done(status)) if status.text == "second"));
    assert!(matches!(connection.poll(), Ok(Event::Done(status)) if status.text == "first"));
    assert!(connection.is_ready());
    connection.start_both(Command::fetch(1, 1, &[FetchAttribute::Flags]), Command::noop()).unwrap();
    connection.feed(b"a4 OK once\r\na4 OK twice\r\n");
    assert_eq!(connection.poll(), Err(ClientError::Unexpected));
}

#[test]
fn searches_find_and_folders_are_counted() {
    let mut talk = Talk::logged_in(20);
    talk.ask(Command::examine("INBOX"));
    for text in ["SECOND", "two", "b@x"] {
        let search = Command::uid_search(text, talk.client.capabilities().unwrap());
        let (status, responses) = talk.ask(search);
        assert!(status.is_ok(), "{status:?}");
        let found = responses.iter().find_map(|one| if let Untagged::Found(found) = one { Some(found) } else { None });
        assert_eq!(found.unwrap().newest_first().collect::<Vec<_>>(), [2], "{text}");
    }
    let (_, responses) = talk.ask(Command::uid_search("é", &Default::default()));
    assert!(responses.iter().any(|one| matches!(one, Untagged::Found(found) if found.is_empty())));
    let (_, responses) = talk.ask(Command::list_all(&[StatusItem::Messages, StatusItem::Unseen, StatusItem::Size]));
    let inbox = responses.iter().find_map(|one| match one {
        Untagged::FolderStatus(status) if status.name.as_deref() == Some("INBOX") => Some(status),
        _ => None,
    });
    let inbox = inbox.expect("the inbox");
    assert_eq!((inbox.messages, inbox.unseen, inbox.size), (Some(3), Some(2), Some(120)));
    let (_, responses) = talk.ask(Command::quota_root("INBOX"));
    assert!(responses.iter().any(|one| matches!(one, Untagged::Quota(resources) if resources[0].limit == 1024)));
}

fn greeted() -> Connection {
    let mut connection = Connection::new(ClientLimits::default());
    connection.feed(b"* OK ready\r\n");
    assert!(matches!(connection.poll(), Ok(Event::Greeting(_))));
    connection
}

/// A late response, or one about another message, must not be used for this command.
#[test]
fn contents_that_nothing_asked_for_end_the_connection() {
    let body = || FetchAttribute::Section(Section::message());
    let uid_fetch = || Command::uid_fetch(&[5, 9], &[body()]);
    for (command, answer) in [
        (Command::noop(), "* 1 FETCH (UID 5 BODY[] {2}\r\nhi)\r\n"),
        (
            Command::examine("INBOX"),
            "* 1 FETCH (UID 5 BODYSTRUCTURE (\"text\" \"plain\" NIL NIL NIL \"7bit\" 1 1))\r\n",
        ),
        (uid_fetch(), "* 1 FETCH (UID 7 BODY[] {2}\r\nhi)\r\n"),
        (uid_fetch(), "* 1 FETCH (BODY[] {2}\r\nhi)\r\n"),
        (uid_fetch(), "* 1 FETCH (UID 5 BODY[1] {2}\r\nhi)\r\n"),
        (uid_fetch(), "* 1 FETCH (UID 5 BODY[]<7> {2}\r\nhi)\r\n"),
        (uid_fetch().streaming(), "* 1 FETCH (UID 7 BODY[] {2}\r\n"),
        (uid_fetch().streaming(), "* 1 FETCH (UID 5 BODY[1] {2}\r\n"),
        (uid_fetch().streaming(), "* 1 FETCH (BODY[] {0}\r\n UID 7)\r\n"),
        (Command::fetch(2, 3, &[body()]), "* 1 FETCH (UID 5 BODY[] {2}\r\nhi)\r\n"),
        (Command::fetch(2, 3, &[FetchAttribute::Flags]), "* 2 FETCH (UID 5 BODY[] {2}\r\nhi)\r\n"),
        (Command::noop(), "* SEARCH 1 2\r\n"),
        (Command::uid_search("x", &Capabilities::default()), "* ESEARCH (TAG \"a0\") UID ALL 1\r\n"),
    ] {
        let mut connection = greeted();
        connection.start(command).unwrap();
        connection.feed(answer.as_bytes());
        let ended = loop {
            match connection.poll() {
                Ok(Event::NeedMore) => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        assert_eq!(ended, Some(ClientError::Unexpected), "{answer}");
    }
}

#[test]
fn news_may_come_at_any_time() {
    let body = || FetchAttribute::Section(Section::message());
    for command in [Command::noop(), Command::examine("INBOX"), Command::uid_fetch(&[5], &[body()]).streaming()] {
        let mut connection = greeted();
        connection.start(command).unwrap();
        connection.feed(
            b"* 3 FETCH (FLAGS (\\Seen))\r\n* 2 FETCH (UID 9 FLAGS () MODSEQ (7) RFC822.SIZE 4)\r\n* 4 EXISTS\r\n",
        );
        for _ in 0..3 {
            assert!(matches!(connection.poll(), Ok(Event::Untagged(_))));
        }
    }
}
