//! Arbitrary server input, split anywhere: no panic, and the same events.

use mailapi_imap::client::{ClientError, ClientLimits, Command, Connection, Event, FetchAttribute, Section, Untagged};
use proptest::prelude::*;

/// All events of a connection that requests a message and receives `input` in pieces of `size` octets. The pieces
/// of one body are joined.
fn events(input: &[u8], size: usize, streaming: bool) -> Vec<Result<Event, ClientError>> {
    events_and_bodies(input, size, streaming).0
}

/// All events, and the octets of all bodies.
fn events_and_bodies(input: &[u8], size: usize, streaming: bool) -> (Vec<Result<Event, ClientError>>, Vec<u8>) {
    let limits = ClientLimits { max_line: 400, max_literal: 60, max_depth: 4, max_answer: 4000 };
    let mut connection = Connection::new(limits);
    connection.feed(b"* OK ready\r\n");
    assert!(matches!(connection.poll(), Ok(Event::Greeting(_))));
    let command = Command::uid_fetch(&[7], &[FetchAttribute::Section(Section::message())]);
    connection.start(if streaming { command.streaming() } else { command }).unwrap();
    let (mut events, mut bodies) = (Vec::new(), Vec::new());
    for piece in input.chunks(size.max(1)) {
        connection.feed(piece);
        loop {
            let event = connection.poll();
            if matches!(event, Ok(Event::BodyPiece(_))) {
                bodies.extend_from_slice(connection.body_piece());
            }
            match (event, events.last_mut()) {
                (Ok(Event::NeedMore), _) => break,
                (Ok(Event::BodyPiece(more)), Some(Ok(Event::BodyPiece(piece)))) => *piece += more,
                (Err(error), _) => {
                    events.push(Err(error));
                    return (events, bodies);
                }
                (event, _) => events.push(event),
            }
        }
    }
    (events, bodies)
}

fn lines() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "* 3 EXISTS",
        "* 1 EXPUNGE",
        "* OK [UIDVALIDITY 7] fine {5}",
        "* BYE gone",
        "* CAPABILITY IMAP4rev1 LITERAL+",
        "* 1 FETCH (UID 7 BODY[] {3}\r\nabc FLAGS (\\Seen $x))",
        "* 1 FETCH (BODY[1.2.MIME]<5> \"x\" UID 7 BODY[HEADER.FIELDS (A \"B\")] {9}\r\nA: b\r\n\r\n\r )",
        "* 1 FETCH (BODYSTRUCTURE ((((((\"a\" \"b\" NIL NIL NIL \"7bit\" 1) \"m\") \"m\") \"m\") \"m\") \"m\"))",
        "* 1 FETCH (ENVELOPE (NIL {1}\r\ns NIL NIL NIL NIL NIL NIL NIL NIL) BINARY.SIZE[1] 5)",
        "* LIST (\\Noselect) \"/\" &AOk-",
        "* STATUS INBOX (MESSAGES 5 X 6)",
        "* ESEARCH (TAG \"a1\") UID ALL 1:5",
        "* SEARCH 1 2",
        "* QUOTA \"\" (STORAGE 1 2)",
        "+ go on",
        "a1 OK done",
        "a1 NO [AUTHENTICATIONFAILED] no",
        "a2 OK what",
    ]);
    let odd = "[ -~]{0,30}(\\{[0-9]{1,2}\\})?";
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => odd.prop_map(String::from)]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..300), streaming in any::<bool>()) {
        events(&input, 64, streaming);
    }

    #[test]
    fn pieces_do_not_matter(lines in prop::collection::vec(lines(), 0..12), size in 1usize..50, streaming in any::<bool>()) {
        let input = lines.join("\r\n") + "\r\n";
        prop_assert_eq!(
            events_and_bodies(input.as_bytes(), size, streaming),
            events_and_bodies(input.as_bytes(), input.len(), streaming)
        );
    }
}

#[test]
fn what_is_too_long_ends_the_connection() {
    let line = format!("* OK {}\r\n", "x".repeat(500));
    assert_eq!(events(line.as_bytes(), 50, false), [Err(ClientError::TooLong)]);
    let literal = b"* 1 FETCH (BODY[] {61}\r\n";
    assert_eq!(events(literal, 50, false), [Err(ClientError::TooLong)]);
    assert_eq!(events(literal, 50, true), [Ok(Event::BodyBegin(61))]);
    let structure = b"* 1 FETCH (BODYSTRUCTURE {61}\r\n";
    let skipped = [&structure[..], &[b'x'; 61], b")\r\n* 3 EXISTS\r\n"].concat();
    for streaming in [false, true] {
        let expected = [Untagged::TooLong(1), Untagged::Exists(3)].map(|untagged| Ok(Event::Untagged(untagged)));
        assert_eq!(events(&skipped, 50, streaming), expected);
    }
    let endless = b"* 1 FETCH (BODY[] {99999999999999999999999}\r\n";
    assert_eq!(events(endless, 50, true), [Ok(Event::BodyBegin(u64::MAX))]);
}

#[test]
fn an_unexpected_answer_ends_the_connection() {
    for input in ["a2 OK what\r\n", "+ go on\r\n", "x\r\n", "* \r\n"] {
        assert!(matches!(events(input.as_bytes(), 50, false)[..], [Err(_)]), "{input}");
    }
}
