//! imap-codec as an oracle for the client. Its responses must be read with the same meaning, and it must be able to
//! decode the client's commands.

use imap_codec::decode::Decoder as _;
use imap_codec::encode::Encoder as _;
use imap_codec::{CommandCodec, ResponseCodec};
use mailapi_imap::Password;
use mailapi_imap::client::{
    Capabilities, ClientLimits, Command, Connection, Event, FetchAttribute, Section, SectionText, StatusItem,
};

/// Responses of the standard, and of extensions that both sides support.
const RESPONSES: &[&str] = &[
    "* 172 EXISTS",
    "* 44 EXPUNGE",
    "* OK [UIDVALIDITY 3857529045] UIDs valid",
    "* OK [UIDNEXT 4392] Predicted next UID",
    "* NO Disk is 98% full, please delete unnecessary data",
    "* BYE Autologout; idle for too long",
    "* CAPABILITY IMAP4REV1 STARTTLS AUTH=PLAIN LITERAL+",
    "* LIST (\\Noselect) \"/\" ~/Mail/foo",
    "* LIST () NIL \"a b\"",
    "* LIST (\\Marked \\HasNoChildren) \".\" {3}\r\na\"b",
    "* STATUS blurdybloop (MESSAGES 231 UIDNEXT 44292 UNSEEN 3 SIZE 4000000000)",
    "* SEARCH 2 3 6",
    "* SEARCH",
    "* 23 FETCH (FLAGS (\\Seen $Junk) RFC822.SIZE 44827 UID 7)",
    "* 23 FETCH (INTERNALDATE \"17-Jul-1996 02:44:25 -0700\")",
    "* 12 FETCH (UID 9 BODY[] {2}\r\nhi BODY[1.2] NIL BODY[HEADER]<7> \"x\" BODY[2.MIME] \"\" BODY[3.TEXT] \"y\")",
    "* 12 FETCH (UID 9 BODY[HEADER.FIELDS (SUBJECT FROM)] {3}\r\n\r\n\r)",
    "* 12 FETCH (UID 9 ENVELOPE (\"Wed, 17 Jul 1996 02:23:25 -0700 (PDT)\" \"a \\\"quoted\\\" subject\" \
     ((\"Terry Gray\" NIL \"gray\" \"cac.example\")) ((NIL NIL \"gray\" \"cac.example\")) NIL \
     ((NIL NIL \"imap\" \"cac.example\")(\"A\" NIL \"b\" \"c\")) NIL NIL \"<in@reply>\" \"<B27397@cac.example>\"))",
    "* 12 FETCH (UID 9 BODYSTRUCTURE (\"TEXT\" \"PLAIN\" (\"CHARSET\" \"US-ASCII\" \"name\" {1}\r\n\") \"<i@x>\" \"d\" \"7BIT\" 3028 92 NIL NIL NIL NIL))",
    "* 12 FETCH (UID 9 BODYSTRUCTURE ((\"TEXT\" \"PLAIN\" NIL NIL NIL \"7BIT\" 1152 23 \"md5\" (\"inline\" (\"filename\" \"x\")) (\"en\" \"de\") \"loc\")\
     (\"APPLICATION\" \"PDF\" NIL NIL NIL \"BASE64\" 4554 NIL (\"attachment\" NIL)) \"MIXED\" (\"boundary\" \"b\") NIL NIL NIL))",
    "* 12 FETCH (UID 9 BODYSTRUCTURE ((\"message\" \"rfc822\" NIL NIL NIL \"7bit\" 42 (NIL \"s\" NIL NIL NIL NIL NIL NIL NIL NIL) \
     (\"text\" \"plain\" NIL NIL NIL \"7bit\" 8 0 NIL NIL NIL NIL) 2 NIL NIL NIL NIL) \"mixed\" NIL NIL NIL NIL))",
    "a1 OK [READ-ONLY] EXAMINE completed",
    "a1 NO [AUTHORIZATIONFAILED] no such user",
    "a1 BAD command unknown",
];

/// A command that requests the data of this response.
fn command_for(response: &[u8]) -> Command {
    let response = String::from_utf8_lossy(response);
    let sections = [
        Section::message(),
        Section::part(&[1, 2]),
        Section { part: vec![2], text: SectionText::Mime },
        Section { part: vec![3], text: SectionText::Text },
        Section::header_fields(&["SUBJECT", "FROM"]),
    ];
    let mut attributes = vec![FetchAttribute::Envelope, FetchAttribute::BodyStructure];
    attributes.push(FetchAttribute::SectionSlice(Section::header(), 7, 1));
    attributes.extend(sections.map(FetchAttribute::Section));
    match response.split_whitespace().nth(1) {
        Some("SEARCH" | "ESEARCH") => Command::uid_search("x", &Capabilities::default()),
        _ if response.contains(" FETCH ") => Command::fetch(1, 100, &attributes),
        _ => Command::noop(),
    }
}

fn event(bytes: &[u8]) -> Event {
    let mut connection = Connection::new(ClientLimits::default());
    connection.feed(b"* OK ready\r\n");
    assert!(matches!(connection.poll(), Ok(Event::Greeting(_))));
    connection.start(command_for(bytes)).unwrap();
    connection.feed(bytes);
    connection.poll().unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(bytes)))
}

#[test]
fn responses_of_the_oracle_mean_the_same() {
    for text in RESPONSES {
        let text = format!("{text}\r\n");
        let (rest, response) =
            ResponseCodec::default().decode(text.as_bytes()).unwrap_or_else(|error| panic!("{error:?} in {text}"));
        assert!(rest.is_empty(), "{text}");
        let written = ResponseCodec::default().encode(&response).dump();
        assert_eq!(event(&written), event(text.as_bytes()), "{}", String::from_utf8_lossy(&written));
    }
}

#[test]
fn the_oracle_reads_every_command() {
    let sasl = Capabilities::default();
    let password = Password::new("a \"b\" é".to_owned());
    let attributes = [
        FetchAttribute::Flags,
        FetchAttribute::Size,
        FetchAttribute::Arrived,
        FetchAttribute::Envelope,
        FetchAttribute::BodyStructure,
        FetchAttribute::Section(Section::part(&[1, 2])),
        FetchAttribute::Section(Section::header()),
        FetchAttribute::SectionSlice(Section::message(), 7, 65_536),
        FetchAttribute::Section(Section::header_fields(&["FROM", "MESSAGE-ID"])),
    ];
    let commands = [
        Command::capability(),
        Command::noop(),
        Command::logout(),
        Command::start_tls(),
        Command::authenticate_plain("bob", "api", &password, &sasl),
        Command::login("bob*api", &password),
        Command::examine("Projekte/Köln & \"more\" \\"),
        Command::select("%*"),
        Command::list_all(&[]),
        Command::list_separator(),
        Command::status("a b", &[StatusItem::Messages, StatusItem::Unseen, StatusItem::Size]),
        Command::fetch(1, 50, &attributes),
        Command::uid_fetch(&[1, 2, 3, 9], &attributes),
        Command::uid_search("a \"b\" ]) é", &sasl),
        Command::delete_all(),
        Command::expunge(),
    ];
    for command in commands {
        let mut connection = Connection::new(ClientLimits::default());
        connection.feed(b"* OK [CAPABILITY LITERAL+] ready\r\n");
        connection.poll().unwrap();
        connection.start(command).unwrap();
        let bytes = connection.take_output();
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        match CommandCodec::default().decode(&bytes) {
            Ok((rest, _)) => assert!(rest.is_empty(), "{shown}"),
            Err(error) => panic!("{error:?} in {shown}"),
        }
    }
}
