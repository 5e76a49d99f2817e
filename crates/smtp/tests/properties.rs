//! Properties that hold for any bytes from outside, in pieces of any size.

use mailapi_smtp::client::{Cause, Client, ClientConfig, ClientStep, End, MessageFacts, TransactionStep};
use mailapi_smtp::server::{Answer, Config, Question, Role, Session, Step};
use mailapi_smtp::{Envelope, Reply};
use proptest::prelude::*;
use proptest::sample::Index;

/// Bytes that often resemble a dialog, so that many get past the first commands.
fn client_bytes() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        4 => proptest::sample::select(vec![
            "EHLO a\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n", "EHLO a\r\n", "HELO a\r\n", "MAIL FROM:<a@b>\r\n", "MAIL FROM:<a@b> SIZE=9999\r\n", "RCPT TO:<c@d>\r\n",
            "DATA\r\n", "BDAT 3\r\n", "BDAT 4 LAST\r\n", "\r\n.\r\n", "\n.\n", ".\r\n", "\r.\r", ".", "\r", "\n", "\r\n", "\0", "x", "RSET\r\n",
            "NOOP\r\n", "QUIT\r\n", "AUTH PLAIN AGEAYg==\r\n", "AUTH LOGIN\r\n", "YQ==\r\n", "*\r\n", "VRFY a\r\n",
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(fragment, 0..30).prop_map(|fragments| fragments.concat())
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut start = 0;
    let piece = |end| {
        let piece = &bytes[start..end];
        start = end;
        piece
    };
    ends.into_iter().map(piece).collect()
}

fn session(role: Role) -> Session {
    Session::new(Config {
        max_message_bytes: 60,
        max_recipients: 2,
        max_line_bytes: 80,
        max_auth_line_bytes: 120,
        max_errors: 5,
        ..Config::new("mx.example", role)
    })
}

/// Returns all steps of a session for these pieces, except requests for more input. Some questions are
/// refused.
fn steps(mut session: Session, pieces: &[&[u8]]) -> Vec<Step> {
    let mut steps = Vec::new();
    for piece in pieces {
        session.push(piece);
        loop {
            let step = session.step();
            match &step {
                Step::NeedMore => break,
                Step::Ask(_) if steps.len() % 7 == 6 => {
                    session.answer(Answer::Refuse(Reply::new(450, (4, 0, 0), "not now")));
                }
                Step::Ask(_) => session.answer(Answer::Accept),
                _ => {}
            }
            let closed = step == Step::Close;
            steps.push(step);
            if closed {
                return steps;
            }
        }
    }
    steps
}

/// Runs a client against a server that sends `bytes` regardless of the client's writes.
fn run_client(bytes: &[u8], cuts: &[Index]) -> (Vec<u8>, Option<End>) {
    let mut client = Client::new(ClientConfig::new("a.example"));
    let mut written = Vec::new();
    let mut pieces = pieces(bytes, cuts).into_iter();
    loop {
        match client.step() {
            Ok(ClientStep::Write(bytes)) => written.extend(bytes),
            Ok(ClientStep::Ready) => break,
            Ok(ClientStep::Read) => match pieces.next() {
                Some(piece) => client.push(piece),
                None => return (written, None),
            },
            Ok(ClientStep::StartTls) | Err(_) => return (written, None),
        }
    }
    let envelope = Envelope::new("a@b.example", ["c@d.example", "e@d.example"]);
    let mut transaction = client.transaction(&envelope, MessageFacts::of(b"x\r\n"));
    loop {
        match transaction.step() {
            TransactionStep::Write(bytes) | TransactionStep::WriteEnd(bytes) => written.extend(bytes),
            TransactionStep::Read => match pieces.next() {
                Some(piece) => transaction.push(piece),
                None => return (written, Some(transaction.abandon(Cause::Closed).end)),
            },
            TransactionStep::Message => transaction.give(b"x\r\n", true),
            TransactionStep::Done => return (written, Some(transaction.finish().end)),
        }
    }
}

fn server_bytes() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        6 => proptest::sample::select(vec![
            "220 a\r\n", "250 ok\r\n", "250-a\r\n250-PIPELINING\r\n250 SIZE\r\n", "250-", "354 go\r\n", "550 5.1.1 no\r\n",
            "421 4.0.0 bye\r\n", "450 4.2.0 later\r\n", "250 2.0.0 queued as A\r\n", "\r\n", "x",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..10),
    ];
    let start = "220 a\r\n250-a\r\n250 PIPELINING\r\n".as_bytes().to_vec();
    (any::<bool>(), proptest::collection::vec(fragment, 0..20)).prop_map(move |(begin_well, fragments)| {
        let start = if begin_well { start.clone() } else { Vec::new() };
        [start, fragments.concat()].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn how_bytes_are_cut_changes_nothing(
        bytes in client_bytes(),
        cuts in proptest::collection::vec(any::<Index>(), 0..20),
        submission in any::<bool>(),
    ) {
        let role = match submission {
            true => Role::Submission { auth_without_tls: true },
            false => Role::Inbound,
        };
        let whole = steps(session(role), &[&bytes]);
        prop_assert_eq!(&steps(session(role), &pieces(&bytes, &cuts)), &whole);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&steps(session(role), &single), &whole);
    }

    #[test]
    fn a_message_that_is_taken_has_no_bare_line_end(bytes in client_bytes()) {
        for step in steps(session(Role::Inbound), &[&bytes]) {
            if let Step::Ask(Question::Message(message)) = step {
                let text = message.data.escape_ascii().to_string().replace("\\r\\n", "");
                prop_assert!(!text.contains("\\r") && !text.contains("\\n"));
                prop_assert!(message.data.is_empty() || message.data.ends_with(b"\r\n"));
            }
        }
    }

    #[test]
    fn no_server_brings_the_client_down(
        bytes in server_bytes(),
        cuts in proptest::collection::vec(any::<Index>(), 0..10),
    ) {
        run_client(&bytes, &cuts);
    }

    #[test]
    fn a_message_arrives_as_it_was_sent(
        lines in proptest::collection::vec("(\\.{0,3}|\\x00)[a-z.\\xe9]{0,12}\\.?", 0..12),
        piece_bytes in 1_usize..40,
        cut in 1_usize..40,
    ) {
        let message: Vec<u8> = lines.iter().flat_map(|line| [line.as_bytes(), b"\r\n"].concat()).collect();
        prop_assert_eq!(&sent_and_received(&message, piece_bytes, cut), &message);
    }

    #[test]
    fn any_bytes_arrive_with_their_line_ends_made_right(
        message in proptest::collection::vec(proptest::sample::select(b".\r\nx\0".to_vec()), 0..40),
        piece_bytes in 1_usize..10,
    ) {
        let mut expected = message.escape_ascii().to_string();
        expected = expected.replace("\\r\\n", "\n").replace("\\r", "\n").replace("\\n", "\n");
        if !expected.is_empty() && !expected.ends_with('\n') {
            expected.push('\n');
        }
        let expected = expected.replace("\\x00", "\0").replace('\n', "\r\n");
        prop_assert_eq!(&sent_and_received(&message, piece_bytes, 5), expected.as_bytes());
    }
}

/// Sends a message from the client to the server. Returns what the server's host received.
fn sent_and_received(message: &[u8], piece_bytes: usize, cut: usize) -> Vec<u8> {
    let mut server = Session::new(Config { piece_bytes, ..Config::new("mx.example", Role::Inbound) });
    let mut client = Client::new(ClientConfig::new("a.example"));
    let mut received = Vec::new();
    client.push(&server.greeting().encode());
    loop {
        match client.step().expect("the connection must succeed") {
            ClientStep::Write(bytes) => client.push(&serve(&mut server, &bytes, cut, &mut received)),
            ClientStep::Ready => break,
            step => panic!("{step:?}"),
        }
    }
    let envelope = Envelope::new("a@b.example", ["c@d.example"]);
    let mut facts = MessageFacts::new();
    message.chunks(piece_bytes).for_each(|piece| facts.see(piece));
    assert_eq!(facts, MessageFacts::of(message));
    let mut pieces = message.chunks(piece_bytes).peekable();
    let mut transaction = client.transaction(&envelope, facts);
    loop {
        match transaction.step() {
            TransactionStep::Message => {
                let piece = pieces.next().unwrap_or_default();
                transaction.give(piece, pieces.peek().is_none());
            }
            TransactionStep::Write(bytes) | TransactionStep::WriteEnd(bytes) => {
                let replies = serve(&mut server, &bytes, cut, &mut received);
                transaction.push(&replies);
            }
            TransactionStep::Read => panic!("the server must have replied"),
            TransactionStep::Done => break,
        }
    }
    assert!(matches!(transaction.finish().end, End::Accepted(_)));
    assert!(client.is_ready());
    received
}

fn serve(server: &mut Session, bytes: &[u8], cut: usize, received: &mut Vec<u8>) -> Vec<u8> {
    let mut replies = Vec::new();
    for piece in bytes.chunks(cut) {
        server.push(piece);
        loop {
            match server.step() {
                Step::NeedMore => break,
                Step::Reply(reply) => reply.encode_into(&mut replies),
                Step::Ask(question) => {
                    if let Question::Message(message) = question {
                        received.extend(message.data);
                    }
                    server.answer(Answer::Accept);
                }
                Step::Keep(piece) => received.extend(piece),
                step => panic!("{step:?}"),
            }
        }
    }
    replies
}
