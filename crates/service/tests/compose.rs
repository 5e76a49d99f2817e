//! Composed messages; `compose/*.eml` contain the expected bytes (with LF for CRLF).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mail_parser::{HeaderForm, MimeHeaders};
use mailapi_backend::mime::{Header, MessageStructure, SearchableText, header_block, headers};
use mailapi_backend::{Buffer, BufferSettings};
use mailapi_model::{AttachmentFields, Blob, Draft, DraftFields, DraftLimits, MessageId, Timestamp};
use mailapi_service::mail::{Form, compose, compose_large};
use proptest::prelude::*;
use proptest::sample::select;

fn fields() -> DraftFields {
    DraftFields {
        from: "Ann Lee <ann@example.org>".into(),
        to: vec!["bob@example.net".into()],
        subject: Some("Invoice 17".into()),
        text: Some("Dear Bob,\n\nplease find it below.\n".into()),
        ..DraftFields::default()
    }
}

fn stamp() -> (MessageId, Timestamp) {
    let id = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap();
    (id, Timestamp::parse_date_or_time("2026-11-20T10:15:30Z").unwrap())
}

fn composed(fields: DraftFields) -> String {
    let draft = Draft::parse(fields, &DraftLimits::default()).unwrap();
    let (id, now) = stamp();
    String::from_utf8(compose(&draft, Form::Sent, id, now).unwrap()).unwrap()
}

/// Composes with the attachments and the message in files.
fn composed_in_files(mut fields: DraftFields, buffer: &Buffer) -> String {
    for file in &mut fields.attachments {
        let mut elsewhere = buffer.writer();
        elsewhere.write(&file.content.take().unwrap().to_bytes().unwrap()).unwrap();
        file.content = Some(elsewhere.finish().unwrap());
    }
    let draft = Draft::parse(fields, &DraftLimits::default()).unwrap();
    let (id, now) = stamp();
    let message = compose_large(&draft, Form::Sent, id, now, buffer).unwrap();
    String::from_utf8(message.to_bytes().unwrap().into()).unwrap()
}

fn expect(name: &str, fields: DraftFields) {
    let message = composed(fields);
    assert!(!message.replace("\r\n", "").contains(['\r', '\n']), "every line ends with CRLF");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/compose/{name}.eml"));
    let shown = message.replace("\r\n", "\n");
    if !path.exists() {
        std::fs::write(&path, &shown).unwrap();
        panic!("{name}.eml is new: read it, and run the test again");
    }
    assert_eq!(shown, std::fs::read_to_string(&path).unwrap(), "{name}.eml");
}

#[test]
fn a_plain_text() {
    expect("plain_text", fields());
}

#[test]
fn text_and_html() {
    expect("text_and_html", DraftFields { html: Some("<p>Dear Bob</p>".into()), ..fields() });
}

#[test]
fn inline_pictures_are_related_and_files_are_mixed() {
    let picture = AttachmentFields {
        filename: "logo.png".into(),
        content: Some(vec![0x89, b'P', b'N', b'G'].into()),
        content_type: Some("image/png".into()),
        content_id: Some("<logo>".into()),
    };
    let report = AttachmentFields {
        filename: "Übersicht 2026.csv".into(),
        content: Some(b"a;b\n".to_vec().into()),
        content_type: Some("text/csv; charset=utf-8".into()),
        content_id: None,
    };
    let html = Some("<img src=\"cid:logo\">".to_owned());
    expect("inline_and_attached", DraftFields { html, attachments: vec![picture, report], ..fields() });
}

#[test]
fn what_is_not_ascii_is_encoded_and_bcc_is_not_shown() {
    expect(
        "not_ascii",
        DraftFields {
            from: "Jürgen Groß <juergen@bücher.example>".into(),
            to: vec!["\"Müller, Käthe\" <kaethe@example.net>".into(), "bob@example.net".into()],
            cc: vec!["eve@example.net".into()],
            bcc: vec!["secret@example.net".into()],
            subject: Some("Grüße aus Köln ☃".into()),
            text: Some("Schöne Grüße\n.\n..\nFrom here\n".into()),
            reply_to: Some("Büro <office@example.org>".into()),
            headers: vec![("X-Campaign".into(), "Frühling".into()), ("X-Id".into(), "17".into())],
            ..fields()
        },
    );
}

#[test]
fn an_empty_subject_and_an_empty_body_are_a_message() {
    expect("empty", DraftFields { subject: None, text: Some(String::new()), ..fields() });
}

#[test]
fn a_stored_draft_names_its_hidden_recipients_and_may_lack_all() {
    let (id, now) = stamp();
    let stored = |fields: DraftFields| {
        let draft = Draft::parse_unfinished(fields, &DraftLimits::default()).unwrap();
        String::from_utf8(compose(&draft, Form::Stored, id, now).unwrap()).unwrap()
    };
    let bcc = vec!["\"Müller, Käthe\" <kaethe@example.net>".into(), "eve@example.net".into()];
    let message = stored(DraftFields { bcc, ..fields() });
    let parsed = mail_parser::MessageParser::default().parse(message.as_bytes()).unwrap();
    let hidden: Vec<_> = parsed.bcc().unwrap().iter().map(|one| (one.name(), one.address())).collect();
    let expected = [(Some("Müller, Käthe"), Some("kaethe@example.net")), (None, Some("eve@example.net"))];
    assert_eq!(hidden, expected, "{message}");
    let bare = stored(DraftFields { from: "ann@example.org".into(), ..DraftFields::default() });
    let (head, body) = bare.split_once("\r\n\r\n").unwrap();
    assert!(!head.contains("To:") && head.contains("text/plain") && body.trim().is_empty(), "{bare}");
}

fn from_base64(lines: &str) -> Vec<u8> {
    STANDARD.decode(lines.replace("\r\n", "")).unwrap()
}

fn file(filename: &str, content_type: Option<&str>) -> AttachmentFields {
    let (filename, content) = (filename.to_owned(), Some(b"x\r\n".to_vec().into()));
    AttachmentFields { filename, content, content_type: content_type.map(str::to_owned), content_id: None }
}

#[test]
fn an_attached_message_is_embedded_or_becomes_a_file() {
    let forwarded = |content: &str| {
        let content = Some(content.as_bytes().to_vec().into());
        let file = AttachmentFields { content, ..file("forwarded.eml", Some("message/rfc822")) };
        composed(DraftFields { attachments: vec![file], ..fields() })
    };
    let clean = "From: eve@example.com\r\nSubject: Before\r\n\r\nA line.\r\n";
    let message = forwarded(clean);
    assert!(message.contains("Content-Type: message/rfc822\r\n"), "{message}");
    assert!(message.contains(&format!("Content-Transfer-Encoding: 7bit\r\n\r\n{clean}\r\n--=_mixed")), "{message}");
    let parsed = mail_parser::MessageParser::default().parse(message.as_bytes()).unwrap();
    assert_eq!(parsed.attachment(0).unwrap().message().unwrap().subject(), Some("Before"));

    for unclean in ["Subject: LF\n\nalone\n", "Subject: ä\r\n\r\n", "Subject: NUL\r\n\r\n\0"] {
        let message = forwarded(unclean);
        assert!(message.contains("Content-Type: application/octet-stream\r\n"), "{message}");
        let parsed = mail_parser::MessageParser::default().parse(message.as_bytes()).unwrap();
        assert_eq!(parsed.attachment(0).unwrap().contents(), unclean.as_bytes());
    }
}

#[test]
fn nul_in_a_text_is_encoded() {
    let message = composed(DraftFields { text: Some("a\0b\nä\n".into()), html: Some("<p>\0</p>".into()), ..fields() });
    assert!(!message.contains('\0'));
    let parsed = mail_parser::MessageParser::default().parse(message.as_bytes()).unwrap();
    assert_eq!(parsed.body_text(0).unwrap(), "a\0b\r\nä\r\n");
    assert_eq!(parsed.body_html(0).unwrap(), "<p>\0</p>");
    assert_eq!(message.matches("charset=\"utf-8\"").count(), 2, "{message}");
}

#[test]
fn what_looks_encoded_arrives_as_it_was_given() {
    let fake = "=?utf-8?q?a=0D=0AB=2Eexe?=";
    let message = composed(DraftFields {
        subject: Some(fake.into()),
        headers: vec![("X-Fake".into(), format!("see {fake}"))],
        attachments: vec![file(fake, Some(&format!("text/csv; name=\"{fake}\"")))],
        ..fields()
    });
    assert!(!message.contains("=?utf-8?q?"), "{message}");
    let parsed = mail_parser::MessageParser::default().parse(message.as_bytes()).unwrap();
    assert_eq!(parsed.subject(), Some(fake));
    assert_eq!(parsed.header_as("X-Fake", HeaderForm::Text)[0].as_text(), Some(&*format!("see {fake}")));
    let attached = parsed.attachment(0).unwrap();
    assert_eq!(attached.content_disposition().unwrap().attribute("filename"), Some(fake));
    assert_eq!(attached.content_type().unwrap().attribute("name"), Some(fake));
    let structure = mailapi_backend::mime::MessageStructure::of(message.as_bytes());
    assert_eq!((structure.subject.as_str(), structure.attachments[0].info.filename.as_str()), (fake, fake));
}

#[test]
fn spaces_stay_where_a_line_could_be_folded() {
    for before in 1..100 {
        let text = format!("{}  z", "a".repeat(before));
        let headers = vec![("X-Test".into(), text.clone())];
        let message = composed(DraftFields { subject: Some(text.clone()), headers, ..fields() });
        let parsed = mail_parser::MessageParser::default().parse(message.as_bytes()).unwrap();
        assert_eq!(parsed.subject(), Some(&*text), "{message}");
        assert_eq!(parsed.header_as("X-Test", HeaderForm::Text)[0].as_text(), Some(&*text), "{message}");
    }
}

/// The subject as the product reads it in lists, searches and over IMAP, and the header.
fn read_by_us(message: &str) -> [String; 4] {
    let block = header_block(message.as_bytes());
    let header = headers(block).into_iter().find(|(name, _)| name == "X-Test").unwrap().1;
    let searched = SearchableText::of_header(block).subject;
    [MessageStructure::of(message.as_bytes()).subject, searched, Header::of(block).text("Subject").unwrap(), header]
}

#[test]
fn outer_and_inner_spaces_are_read_as_they_were_sent() {
    for text in ["  a  b  ", " a", "a  ", "  ", "  \u{e4}  ", &format!("  {}  z  ", "a ".repeat(50))] {
        let headers = vec![("X-Test".into(), text.to_owned())];
        let message = composed(DraftFields { subject: Some(text.to_owned()), headers, ..fields() });
        assert_eq!(read_by_us(&message), [text; 4], "{message}");
    }
}

#[test]
fn a_header_for_programs_stays_as_it_is_however_long() {
    let link = format!("<https://example.org/unsubscribe?token={}>", "0123456789".repeat(20));
    let value = format!("<mailto:leave@example.org?subject=leave>, {link}");
    let headers = vec![("List-Unsubscribe".into(), value.clone())];
    let message = composed(DraftFields { headers, ..fields() });
    assert!(message.replace("\r\n", "").contains(&format!("List-Unsubscribe: {value}")), "{message}");
}

#[test]
fn a_media_type_keeps_its_parameters() {
    for (given, written) in [
        ("text/plain; name=\"a;b\"; charset=utf-8", "text/plain; name=\"a;b\"; charset=\"utf-8\""),
        ("text/plain;name=\"a\\\"b\"", "text/plain; name=\"a\\\"b\""),
        ("text/plain; format = flowed ;;x; a b=c", "text/plain; format=\"flowed\""),
        ("text/plain; name=\"open", "text/plain; name=\"open\""),
    ] {
        let message = composed(DraftFields { attachments: vec![file("a", Some(given))], ..fields() });
        assert!(message.contains(&format!("\r\nContent-Type: {written}\r\n")), "{given}: {message}");
    }
}

#[test]
fn old_programs_find_the_name_of_a_file() {
    let composed_with = |filename: &str, content_type| {
        composed(DraftFields { attachments: vec![file(filename, content_type)], ..fields() })
    };
    let plain = composed_with("plan.pdf", Some("application/pdf"));
    assert!(plain.contains("\r\nContent-Type: application/pdf\r\n"), "ASCII needs no second name: {plain}");
    let named = composed_with("Übersicht.csv", Some("text/csv; name=\"a.csv\""));
    assert!(named.contains("\r\nContent-Type: text/csv; name=\"a.csv\"\r\n"), "{named}");
    let message = composed_with("Übersicht.csv", Some("text/csv"));
    assert!(message.contains("\r\nContent-Type: text/csv; name=\"=?utf-8?B?w5xiZXJzaWNodC5jc3Y=?=\"\r\n"), "{message}");
    assert!(message.contains("filename*=UTF-8''%C3%9Cbersicht.csv\r\n"), "{message}");
    let long = "Übersicht über alle Projekte und ihre Kosten im Jahr 2026, mit Anlagen.csv";
    let message = composed_with(long, Some("text/csv"));
    assert!(message.lines().all(|line| line.len() <= 78), "{message}");
    let structure = MessageStructure::of(message.as_bytes());
    assert_eq!(structure.attachments[0].info.filename, long);
    let block = message.split("\r\n\r\n").find(|block| block.contains("name=")).unwrap();
    let content_type = Header::of(block.as_bytes()).written("Content-Type").unwrap();
    let word = |word: &str| String::from_utf8(from_base64(word.strip_suffix("?=").unwrap())).unwrap();
    let words: String = content_type
        .replace('"', " ")
        .split_whitespace()
        .filter_map(|text| text.strip_prefix("=?utf-8?B?"))
        .map(word)
        .collect();
    assert_eq!(words, long);
}

/// Texts of which some look like encoded words, and some are long without a character that needs encoding.
fn tricky_text() -> impl Strategy<Value = String> {
    let any = prop::collection::vec(tricky_piece(), 1..12).prop_map(|pieces| pieces.concat()).boxed();
    let ascii = any.clone().prop_map(|text| text.replace(|c: char| !c.is_ascii(), "  ")).boxed();
    let outer = ("[ ]{0,3}", ascii.clone(), "[ ]{0,3}").prop_map(|(before, text, behind)| before + &text + &behind);
    // The product shows a Unicode line end as a space, and lists 1,000 characters of a subject.
    let shown = |text: String| text.replace(['\u{2028}', '\u{2029}'], "x").chars().take(1_000).collect();
    prop_oneof![any, ascii, outer].prop_map(shown)
}

fn tricky_piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(vec!["=?utf-8?q?", "=?", "?=", "?", "=", " ", "  ", "_", "\"", "\\", "=0D=0A", "fake", "ä☃", "\u{1f600}"])
            .prop_map(str::to_owned),
        1 => "[ -~]{0,40}",
        1 => "\\PC{0,20}",
        1 => "[a-z]{60,200}",
    ]
}

/// The subject, the header, the file name and a person's name of each message, as Python's email package reads
/// them.
fn read_by_python(messages: &[String]) -> Vec<[String; 4]> {
    use std::io::Write;
    const SCRIPT: &str = "import email, email.policy, json, sys\n\
        for message in json.load(sys.stdin):\n\
        \x20   read = email.message_from_bytes(message.encode(), policy=email.policy.default)\n\
        \x20   names = [part.get_filename() for part in read.iter_attachments()]\n\
        \x20   person = read['Cc'].addresses[1].display_name\n\
        \x20   for text in [read['Subject'], read['X-Test'], names[0], person]: print(text.encode().hex())\n";
    let mut python = std::process::Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let json = serde_json::to_vec(messages).unwrap();
    python.stdin.take().unwrap().write_all(&json).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = |line: &str| {
        let byte = |at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
        String::from_utf8((0..line.len()).step_by(2).map(byte).collect()).unwrap()
    };
    let texts: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(text).collect();
    texts.chunks(4).map(|texts| texts.to_vec().try_into().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Third-party readers return the given text.
    #[test]
    fn any_text_arrives_as_it_was_given(texts in prop::collection::vec(tricky_text(), 1..60)) {
        // Readers drop spaces at the ends of a file name, and file systems limit its length.
        let name = |text: &str| format!("a{}z", &text[..text.floor_char_boundary(150)]);
        // Quotes are not part of a person's name, and a bracket ends it.
        let person = |text: &str| format!("a{}z", text.replace(['"', '\\', '<', '>'], "'"));
        let message = |text: &String| {
            let headers = vec![("X-Test".into(), text.clone())];
            let cc = vec!["dan@example.org".into(), format!("{} <eve@example.org>", person(text))];
            let attachments = vec![file(&name(text), None)];
            composed(DraftFields { subject: Some(text.clone()), headers, cc, attachments, ..fields() })
        };
        let messages: Vec<String> = texts.iter().map(message).collect();
        for ((text, message), python) in texts.iter().zip(&messages).zip(read_by_python(&messages)) {
            prop_assert!(message.split("\r\n").all(|line| line.len() <= 998));
            let parsed = mail_parser::MessageParser::default().parse(message.as_bytes()).unwrap();
            let attached = parsed.attachment(0).unwrap();
            let custom = parsed.header_as("X-Test", HeaderForm::Text);
            let read = [
                parsed.subject().unwrap_or_default(),
                custom[0].as_text().unwrap_or_default(),
                // mail-parser keeps folding within quotes.
                &attached.content_disposition().unwrap().attribute("filename").unwrap_or_default().replace("\r\n", ""),
                parsed.cc().unwrap().as_list().unwrap()[1].name().unwrap_or_default(),
            ];
            let given = [text, text, &name(text), &person(text)];
            prop_assert_eq!(read, given, "mail-parser: {}", message);
            let own = mailapi_backend::mime::MessageStructure::of(message.as_bytes());
            prop_assert_eq!(&own.attachments[0].info.filename, &name(text), "our own: {}", message);
            prop_assert_eq!(read_by_us(message), [text.clone(), text.clone(), text.clone(), text.clone()], "our own: {}", message);
            let [subject, custom, attached, named] = python.each_ref().map(String::as_str);
            prop_assert_eq!(&[subject, custom, attached][..], &given.map(String::as_str)[..3], "Python: {}", message);
            // Python's package adds a space between the encoded words of a name, and drops rare spaces.
            let without_spaces = |text: &str| text.replace(char::is_whitespace, "");
            prop_assert_eq!(without_spaces(named), without_spaces(&person(text)), "Python: {}", message);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// For any input, all lines end with CRLF and fit SMTP, no value adds a header, and the text arrives unchanged.
    #[test]
    fn nothing_that_a_caller_writes_breaks_the_message(
        subject in "\\PC{0,120}",
        name in "[^<>\"\\\\\\p{C}]{0,40}",
        header in "\\PC{0,400}",
        filename in "\\PC{1,60}",
        text in "(\\PC|[\r\n\t.\0]){0,300}",
    ) {
        let file = AttachmentFields { filename, content: Some(vec![0, 13, 10, 255].into()), ..AttachmentFields::default() };
        let draft = DraftFields {
            from: format!("{name} <ann@example.org>"),
            subject: Some(subject.clone()),
            headers: vec![("X-Test".into(), header)],
            text: Some(text.clone()),
            attachments: vec![file],
            ..fields()
        };
        let message = composed(draft);
        prop_assert!(!message.replace("\r\n", "").contains(['\r', '\n']));
        prop_assert!(message.split("\r\n").all(|line| line.len() <= 998));
        let head = message.split("\r\n\r\n").next().unwrap();
        let names: Vec<&str> = head
            .split("\r\n")
            .filter(|line| !line.starts_with([' ', '\t']))
            .map(|line| line.split(':').next().unwrap())
            .collect();
        let expected =
            ["Date", "Message-ID", "From", "To", "Subject", "X-Test", "MIME-Version", "Content-Type"];
        prop_assert_eq!(names, expected);
        let parsed = mail_parser::MessageParser::default().parse(message.as_bytes()).unwrap();
        prop_assert_eq!(parsed.subject().unwrap_or_default().trim(), subject.trim());
        let read = parsed.body_text(0).unwrap_or_default().replace("\r\n", "\n");
        let written = text.replace("\r\n", "\n").replace('\r', "\n");
        prop_assert_eq!(read.trim_end_matches('\n'), written.trim_end_matches('\n'));
    }

    /// Content in memory and on disk yields the same message, and arrives unchanged.
    #[test]
    fn files_arrive_byte_for_byte_wherever_they_lie(
        text in "(\\PC|[\r\n\0]){0,300}",
        files in prop::collection::vec(
            (
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..70_000),
                    "([a-z ,;]{0,70}\r?\n){0,200}[a-z= ]{0,90}".prop_map(String::into_bytes),
                    ("[\0 -~]{1,60}[\r\n]{1,2}", 1_usize..2000).prop_map(|(line, times)| line.repeat(times).into_bytes()),
                ],
                select(vec![None, Some("text/csv; charset=utf-8"), Some("text/html"), Some("image/png")]),
                any::<bool>(),
            ),
            0..4,
        ),
        max_memory_bytes in 0_usize..1000,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let settings = BufferSettings { max_memory_bytes, ..BufferSettings::new(directory.path()) };
        let buffer = Buffer::new(settings);
        let file = |(content, content_type, inline): (Vec<u8>, Option<&str>, bool)| AttachmentFields {
            filename: "a".to_owned(),
            content: Some(Blob::from(content)),
            content_type: content_type.map(str::to_owned),
            content_id: inline.then(|| "picture".to_owned()),
        };
        let (inline, attached): (Vec<_>, Vec<_>) = files.iter().partition(|(_, _, inline)| *inline);
        let expected: Vec<&[u8]> = inline.iter().chain(&attached).map(|(content, ..)| &content[..]).collect();
        let attachments = files.iter().cloned().map(file).collect();
        let draft = DraftFields { text: Some(text), attachments, ..fields() };
        let message = composed(draft.clone());
        prop_assert!(!message.contains('\0') && message.split("\r\n").all(|line| line.len() <= 998));
        let parsed = mail_parser::MessageParser::default().parse(message.as_bytes()).unwrap();
        // The reader would decode the bytes of a text as characters.
        let files = parsed.parts.iter().filter(|part| part.content_disposition().is_some());
        let arrived: Vec<Vec<u8>> = files.map(|part| from_base64(&message[part.offset_body as usize..part.offset_end as usize])).collect();
        prop_assert!(arrived == expected);
        prop_assert_eq!(composed_in_files(draft, &buffer), message);
    }
}
