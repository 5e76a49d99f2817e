//! Malicious and malformed messages: each has a result, and every part of it can be read.

use mailapi_backend::mime::{Limits, MessageStructure, SearchableText, decode, headers, matches};
use proptest::prelude::*;

fn text_of(raw: &[u8], structure: &MessageStructure) -> String {
    let Ok((text, _)) = structure.decode_bodies(|span| Ok::<_, std::convert::Infallible>(span.of(raw)));
    text.unwrap_or_default()
}

fn is_found(raw: &str, wanted: &str) -> bool {
    let structure = MessageStructure::of(raw.as_bytes());
    matches(&SearchableText::of(raw.as_bytes(), &structure).joined(), &wanted.parse().unwrap())
}

/// Returns `depth` nested multiparts; the innermost has a text.
fn nested(depth: usize) -> String {
    let open = |level| format!("Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n");
    let opened: String = (0..depth).map(open).collect();
    let closed: String = (0..depth).rev().map(|level| format!("\r\n--b{level}--")).collect();
    format!("{opened}Content-Type: text/plain\r\n\r\nthe needle{closed}\r\n")
}

#[test]
fn two_hundred_nested_multiparts_still_have_their_text() {
    let raw = nested(200);
    let structure = MessageStructure::of(raw.as_bytes());
    assert_eq!(text_of(raw.as_bytes(), &structure), "the needle");
    assert!(structure.attachments.is_empty());
}

#[test]
fn nesting_beyond_the_limit_is_shown_as_it_is_written() {
    let raw = nested(2000);
    assert!(is_found(&raw, "the needle"));
    let flat = MessageStructure::with_limits(raw.as_bytes(), &Limits { max_depth: 10, ..Limits::default() });
    assert!(text_of(raw.as_bytes(), &flat).contains("--b11\r\n"));
}

#[test]
fn parts_beyond_the_limit_stay_in_the_last_one() {
    let part = |n| format!("--b\r\nContent-Type: image/png\r\n\r\n{n}\r\n");
    let parts: String = (0..12_000).map(part).collect();
    let raw = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{parts}--b--\r\n");
    let structure = MessageStructure::of(raw.as_bytes());
    assert_eq!(structure.attachments.len(), Limits::default().max_parts - 1);
    let last = structure.attachments.last().unwrap();
    assert!(last.span.of(raw.as_bytes()).ends_with(b"11999"));
}

#[test]
fn a_message_without_header_is_its_text() {
    for raw in ["hello world\r\nsecond line", "\r\nhello world", "", "\0\0\0", "\u{feff}hello world"] {
        let structure = MessageStructure::of(raw.as_bytes());
        assert_eq!(text_of(raw.as_bytes(), &structure).trim_start(), raw.trim_start());
        assert_eq!((structure.subject.as_str(), structure.from.email.as_str(), structure.date), ("", "", None));
    }
}

#[test]
fn a_header_without_body_is_read() {
    let raw = b"Subject: only\r\nMessage-ID: <a@b>";
    let structure = MessageStructure::of(raw);
    assert_eq!((structure.subject.as_str(), structure.message_id.as_str()), ("only", "<a@b>"));
    assert_eq!(structure.header_len, raw.len() as u64);
    assert_eq!(text_of(raw, &structure), "");
}

#[test]
fn header_lines_of_twenty_kilobytes_are_read_whole() {
    let subject = "word ".repeat(4000);
    let raw =
        format!("Subject: {subject}\r\nX-Long: {}\r\nTo: {}\r\n\r\nx", "y".repeat(20_000), "a@b.example,".repeat(2000));
    let structure = MessageStructure::of_header_block(raw.as_bytes());
    assert_eq!(structure.subject, subject.trim());
    assert_eq!(structure.to.len(), 2000);
    assert_eq!(headers(raw.as_bytes())[1].1.len(), 20_000);
}

#[test]
fn no_line_end_and_no_control_character_leaves_a_header() {
    let raw = b"Subject: a\x00b\x07 =?utf-8?q?c=0D=0ABcc:_x?=\r\nFrom: =?utf-8?q?x=0Ay?= <a@b>\r\nMessage-ID: <a\x01b>\r\n\r\n";
    let structure = MessageStructure::of(raw);
    assert_eq!(structure.subject, "a b c Bcc: x");
    assert_eq!(structure.from.name, "x y");
    assert!(!structure.message_id.chars().any(char::is_control));
}

#[test]
fn beginnings_of_encoded_words_cost_no_more_than_other_text() {
    for beginning in ["=?", "=?a?q?x", "=?utf-8?b?QQ", "=?a?x?"] {
        let raw =
            format!("Subject: {0}\r\nTo: {0}\r\nContent-Type: text/plain; a={0}\r\n\r\nx", beginning.repeat(50_000));
        let structure = MessageStructure::of(raw.as_bytes());
        assert!(structure.subject.starts_with(beginning));
        assert_eq!(text_of(raw.as_bytes(), &structure), "x");
    }
}

#[test]
fn deep_html_is_searched_like_any_other() {
    let raw = format!("Content-Type: text/html\r\n\r\n{}the needle", "<div><b><blockquote>".repeat(40_000));
    assert!(is_found(&raw, "THE NEEDLE"));
}

#[test]
fn attachments_of_hostile_types_keep_their_names_in_one_line() {
    let raw = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: te\x01xt/pl\xe9ain; name=\"/etc/passwd\"\r\n\r\n1\r\n\
                --b\r\nContent-Type: image/png\r\nContent-Disposition: attachment; filename=\"a\r\n b/c\\d\"\r\n\r\n2\r\n\
                --b\r\nContent-Type: text/html; name=\"\"\r\nContent-Disposition: ATTACHMENT\r\n\r\n3\r\n--b--";
    let structure = MessageStructure::of(raw);
    let shown: Vec<_> =
        structure.attachments.iter().map(|a| (a.info.filename.as_str(), a.info.content_type.as_str())).collect();
    assert_eq!(
        shown,
        [("/etc/passwd", "application/octet-stream"), ("a b/cd", "image/png"), ("attachment-3.html", "text/html")]
    );
}

/// Generates lines of a MIME structure in any order.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("Content-Type: multipart/mixed; boundary=a"),
        Just("Content-Type: multipart/digest; boundary=b"),
        Just("Content-Type: message/rfc822"),
        Just("Content-Type: text/html; charset=utf-16"),
        Just("Content-Type: image/png; name*=utf-8''%FF%41"),
        Just("Content-Transfer-Encoding: base64"),
        Just("Content-Transfer-Encoding: quoted-printable"),
        Just("Content-Disposition: attachment; filename==?utf-8?q?=41?="),
        Just("Subject: =?utf-8?b?w6k=?="),
        Just("Date: Fri, 20 Nov 2026 10:15:30 +0000"),
        Just("To: a@b, \"c\" <d@e>, f: g@h;"),
        Just("--a"),
        Just("--b"),
        Just("--a--"),
        Just("--b--"),
        Just(""),
        Just("=41=\t"),
        Just("aGVsbG8="),
        Just("<p>&eacute;<!--"),
    ];
    (prop::collection::vec(line, 0..40), prop_oneof![Just("\r\n"), Just("\n"), Just("\r")])
        .prop_map(|(lines, end)| lines.join(end).into_bytes())
}

proptest! {
    #[test]
    fn every_sequence_of_bytes_is_a_message(
        raw in prop_oneof![lines(), prop::collection::vec(any::<u8>(), 0..300)],
    ) {
        let structure = MessageStructure::of(&raw);
        prop_assert!(structure.header_len <= raw.len() as u64);
        let bodies = structure.bodies.iter().map(|body| body.span);
        for span in bodies.chain(structure.attachments.iter().map(|attachment| attachment.span)) {
            prop_assert!(span.offset >= structure.header_len && span.offset + span.length <= raw.len() as u64);
        }
        for (index, attachment) in structure.attachments.iter().enumerate() {
            prop_assert_eq!(attachment.info.index as usize, index);
            prop_assert!(!attachment.info.filename.is_empty());
            let content = decode(attachment.span.encoding, attachment.span.of(&raw));
            prop_assert_eq!(attachment.info.size, content.len() as u64);
        }
        prop_assert_eq!(MessageStructure::from_bytes(&structure.to_bytes()), Ok(structure.clone()));
        prop_assert_eq!(SearchableText::of(&raw, &structure).joined().split('\n').count(), 5);
        let _ = headers(&raw);
    }
}

#[test]
fn endless_fields_are_cut_in_lists_and_whole_when_opened() {
    let people: String =
        (0..200).map(|n| format!("{} <p{n}@{}.example>, ", "n".repeat(500), "d".repeat(400))).collect();
    let raw = format!(
        "Message-ID: <{}@x>\r\nFrom: {}\r\nTo: {people}\r\nCc: {people}\r\nSubject: {}end\r\n\r\nhello\r\n",
        "i".repeat(5_000),
        format_args!("{} <{}@x.example>", "f".repeat(1_000), "l".repeat(1_000)),
        "ü".repeat(2_000_000),
    );
    let structure = MessageStructure::of(raw.as_bytes());
    assert!(structure.to_bytes().len() < 200_000, "{}", structure.to_bytes().len());
    let summary = structure.summary(1, raw.len() as u64, Vec::new(), mailapi_model::Timestamp::from_seconds(0));
    assert_eq!((summary.subject.chars().count(), summary.to.len(), structure.cc.len()), (1_000, 100, 100));
    assert_eq!((summary.to[0].name.len(), summary.from.name.len(), summary.message_id.len()), (320, 320, 998));
    let header = &raw.as_bytes()[..usize::try_from(structure.header_len).unwrap()];
    let opened = structure.full_message(summary, header, &[b"hello"]);
    assert!(opened.summary.subject.ends_with("end") && opened.summary.from.name.len() > 2_000);
    assert_eq!((opened.summary.to.len(), opened.cc.len(), opened.summary.to[0].name.len() > 900), (200, 200, true));
    let text = mailapi_backend::mime::SearchableText::of(raw.as_bytes(), &structure);
    assert!(text.subject.ends_with("end") && text.to.contains("p199@"), "a search looks into all of it");
}

#[test]
fn an_opened_message_is_whole_near_the_limits_of_lists() {
    for over in 0..8 {
        let (name, people) = ("ü".repeat(157 + over), "a@x.example, ".repeat(97 + over));
        for header in [
            format!("Message-ID: <{}@x>", "i".repeat(990 + over)),
            format!("Subject: {}", "ü".repeat(997 + over)),
            format!("From: {name} <f@x.example>"),
            format!("To: {name} <t@x.example>"),
            format!("Cc: {}@x.example", "c".repeat(306 + over)),
            format!("To: {people}"),
            format!("Cc: {people}"),
        ] {
            let raw = format!("{header}\r\n\r\nhello\r\n");
            let (cut, whole) = (MessageStructure::of(raw.as_bytes()), MessageStructure::uncut(raw.as_bytes()));
            let at = mailapi_model::Timestamp::from_seconds(0);
            let opened = cut.full_message(cut.summary(1, 9, Vec::new(), at), header.as_bytes(), &[b"hello"]);
            assert_eq!(opened.summary, whole.summary(1, 9, Vec::new(), at), "{over}");
            assert_eq!(opened.cc, whole.cc, "{over}");
        }
    }
}

#[test]
fn a_header_of_millions_of_fields_is_cut_at_the_limits() {
    let limits = mailapi_backend::mime::Limits::default();
    let people = "a@x.example, ".repeat(200);
    let mut raw = format!("Subject: hostile\r\nTo: {people}\r\n");
    let mut number = 0;
    while raw.len() < 2 * limits.max_header_bytes {
        raw.push_str(&format!("{number}:\r\n"));
        number += 1;
    }
    raw.push_str("\r\nhello\r\n");
    let (structure, at) = (MessageStructure::of(raw.as_bytes()), mailapi_model::Timestamp::from_seconds(0));
    assert_eq!(structure.header().length, limits.max_header_bytes as u64);
    let summary = structure.summary(1, 9, Vec::new(), at);
    let whole = MessageStructure::uncut(raw.as_bytes()).into_full_message(raw.as_bytes(), 1, 9, Vec::new(), at);
    let opened = structure.full_message(summary, structure.header().of(raw.as_bytes()), &[b"hello\r\n"]);
    assert_eq!((opened.headers.len(), opened.summary.to.len()), (limits.max_fields, 200));
    assert_eq!(opened, whole);
}
