//! Reading of arbitrary messages.

use std::convert::Infallible;

use mailapi_backend::mime::{
    Header, Limits, MessageStructure, PartTree, PartTreeContent, SearchableText, TransferDecoder, TransferEncoding,
    any_text, beginning, comparable, decode, delivered_to, fold, header_block, header_lines, headers, in_seven_bits,
    matches, returned_mail, returned_mail_in, snippet, with_ascii_header,
};
use mailapi_backend::{MessageSummary, SearchText};
use mailapi_model::{Blob, EmailAddress, Timestamp};

use crate::script::Script;

/// Limits that a short message reaches.
const SMALL: Limits = Limits {
    max_depth: 3,
    max_parts: 5,
    max_bodies: 2,
    max_messages: 2,
    max_address_bytes: 60,
    max_parameter_bytes: 40,
    max_line_bytes: 50,
    max_header_bytes: 200,
    max_fields: 5,
    max_report_bytes: 100,
    max_forwarded_header_bytes: 60,
    max_filename_characters: 24,
    max_listed_subject_characters: 10,
    max_listed_correspondents: 2,
    max_listed_name_bytes: 12,
    max_listed_identifier_bytes: 12,
};
const SNIPPET_CHARACTERS: usize = 200;

/// Checks every rule for one input.
pub(crate) fn check(input: &[u8]) {
    let (script, raw) = Script::split(input);
    let structure = MessageStructure::of(raw);
    check_structure(raw, &structure, &Limits::default());
    check_structure(raw, &MessageStructure::with_limits(raw, &SMALL), &SMALL);
    check_pieces(script, raw, &structure);
    check_opened(raw, &structure);
    check_header(raw);
    for limits in [&Limits::default(), &SMALL] {
        let tree = PartTree::with_limits(raw, limits);
        assert_eq!((tree.header.start, tree.body.end), (0, raw.len()));
        let parts = check_tree(&tree);
        assert!(parts <= limits.max_parts.max(1) + limits.max_messages, "{parts} parts");
    }
    check_texts(raw, &structure);
    check_conversions(raw);
    let _ = MessageStructure::from_bytes(raw);
}

/// A converted message is ASCII, has as many parts, and needs no further conversion.
fn check_conversions(raw: &[u8]) {
    let message = Blob::from(raw.to_vec());
    if let Ok(header) = with_ascii_header(&message) {
        let converted = header.to_bytes().unwrap();
        assert!(header_block(&converted).is_ascii());
    }
    if let Ok(converted) = in_seven_bits(&message) {
        let bytes = converted.to_bytes().unwrap();
        assert!(bytes.is_ascii());
        assert_eq!(parts(&PartTree::of(&bytes)), parts(&PartTree::of(raw)));
    }
}

fn parts(tree: &PartTree) -> usize {
    1 + match &tree.content {
        PartTreeContent::Leaf => 0,
        PartTreeContent::Multipart(children) => children.iter().map(parts).sum(),
        PartTreeContent::Message(message) => parts(message),
    }
}

fn check_structure(raw: &[u8], structure: &MessageStructure, limits: &Limits) {
    assert!(structure.header_len <= raw.len() as u64);
    assert!(structure.bodies.len() <= 2 * limits.max_bodies);
    let bodies = structure.bodies.iter().map(|body| body.span);
    for span in bodies.chain(structure.attachments.iter().map(|attachment| attachment.span)) {
        assert!(span.offset >= structure.header_len && span.offset + span.length <= raw.len() as u64);
    }
    for (index, attachment) in structure.attachments.iter().enumerate() {
        let info = &attachment.info;
        assert_eq!(info.index as usize, index);
        assert!(!info.filename.is_empty());
        assert!(info.filename.chars().count() <= limits.max_filename_characters, "{}", info.filename);
        let texts = [Some(&info.filename), Some(&info.content_type), info.content_id.as_ref()];
        assert!(!texts.into_iter().flatten().any(|text| text.chars().any(char::is_control)), "{info:?}");
        assert_eq!(info.size, decode(attachment.span.encoding, attachment.span.of(raw)).len() as u64);
    }
    assert!(structure.attachments.len() <= limits.max_parts);
    assert!(structure.to.len().max(structure.cc.len()) <= limits.max_listed_correspondents);
    assert!(structure.subject.chars().count() <= limits.max_listed_subject_characters);
    assert!(structure.message_id.len() <= limits.max_listed_identifier_bytes);
    for person in std::iter::once(&structure.from).chain(&structure.to).chain(&structure.cc) {
        assert!(person.name.len().max(person.email.len()) <= limits.max_listed_name_bytes);
        assert!(!person.name.chars().chain(person.email.chars()).any(char::is_control), "{person:?}");
    }
    assert!(!structure.subject.chars().chain(structure.message_id.chars()).any(char::is_control));
    assert_eq!(MessageStructure::from_bytes(&structure.to_bytes()).as_ref(), Ok(structure));
}

/// A message that is not in memory is read in the same way.
fn check_pieces(script: Script<'_>, raw: &[u8], structure: &MessageStructure) {
    let (mut pieces, mut rest) = (Vec::new(), raw);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(script.piece(pieces.len()).min(rest.len()));
        pieces.push(Blob::from(piece.to_vec()));
        rest = after;
    }
    let blob = Blob::joined(pieces);
    assert_eq!(&MessageStructure::of_bytes(&blob).expect("memory can be read"), structure);
    let read = returned_mail(raw);
    assert_eq!(returned_mail_in(&blob, structure).expect("memory can be read"), read);
    let reports = read.reports;
    assert!(!reports.iter().any(|report| report.diagnostic.chars().any(char::is_control)), "{reports:?}");
    for encoding in [TransferEncoding::Identity, TransferEncoding::Base64, TransferEncoding::QuotedPrintable] {
        let (mut decoder, mut decoded, mut number, mut rest) = (TransferDecoder::new(encoding), Vec::new(), 0, raw);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(script.piece(number).min(rest.len()));
            decoder.push(piece, &mut decoded);
            (number, rest) = (number + 1, after);
        }
        decoder.finish(&mut decoded);
        assert_eq!(decoded, decode(encoding, raw), "{encoding:?} depends on the pieces");
        assert!(decoded.len() <= raw.len(), "{encoding:?} grows");
    }
}

/// Opened from its stored structure, a message is the same as read at once.
fn check_opened(raw: &[u8], structure: &MessageStructure) {
    let (at, size) = (Timestamp::from_seconds(0), raw.len() as u64);
    let whole = MessageStructure::uncut(raw).into_full_message(raw, 1, size, Vec::new(), at);
    for person in std::iter::once(&whole.summary.from).chain(&whole.summary.to).chain(&whole.cc) {
        assert!(person.email.is_empty() || EmailAddress::as_given(&person.email).is_ok(), "{person:?}");
    }
    let bodies: Vec<_> = structure.bodies.iter().map(|body| body.span.of(raw)).collect();
    let header = structure.header().of(raw);
    // A store keeps the recipient beside the structure.
    let recipient = whole.summary.recipient.clone();
    let summary = MessageSummary { recipient, ..structure.summary(1, size, Vec::new(), at) };
    let opened = structure.full_message(summary, header, &bodies);
    assert_eq!(opened, whole);
    for (name, value) in &opened.headers {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(
            !value.chars().any(|letter| letter.is_control() && !matches!(letter, '\n' | '\t')),
            "{name}: {value:?}"
        );
    }
}

fn check_header(raw: &[u8]) {
    let block = header_block(raw);
    assert!(raw.starts_with(block));
    let lines: Vec<u8> = header_lines(raw).flatten().copied().collect();
    assert!(block.starts_with(&lines));
    // At the end of a message a CR alone counts as an empty line.
    assert!(matches!(&block[lines.len()..], b"" | b"\n" | b"\r\n" | b"\r"));
    let header = Header::of(block);
    for name in ["Subject", "From", "To", "Content-Type", "Content-Disposition", "Date", "Message-ID"] {
        let texts = header.texts(name).chain(header.people(name)).chain(header.text(name));
        for text in texts.chain(header.parameters(name).map(|parameters| parameters.value)) {
            assert!(!text.contains(['\r', '\n']), "{name}: {text:?}");
        }
        let _ = (header.written(name), header.addresses(name));
    }
    assert!(header.lines().all(|line| !line.contains(['\r', '\n'])));
    assert!(header.day().is_none_or(|(_, month, day)| (1..=12).contains(&month) && (1..=31).contains(&day)));
    assert!(delivered_to(&headers(block)).all(|address| address.contains('@')));
}

/// Returns the number of parts.
fn check_tree(tree: &PartTree) -> usize {
    assert_eq!(tree.header.end, tree.body.start);
    assert!(tree.header.start <= tree.header.end && tree.body.start <= tree.body.end);
    let mut at = tree.body.start;
    let mut inside = |part: &PartTree| {
        assert!(part.header.start >= at && part.body.end <= tree.body.end, "{:?} in {:?}", part.body, tree.body);
        at = part.body.end;
        check_tree(part)
    };
    match &tree.content {
        PartTreeContent::Leaf => 1,
        PartTreeContent::Multipart(parts) => {
            assert!(!parts.is_empty());
            1 + parts.iter().map(inside).sum::<usize>()
        }
        PartTreeContent::Message(message) => 1 + inside(message),
    }
}

fn check_texts(raw: &[u8], structure: &MessageStructure) {
    let searchable = SearchableText::of(raw, structure);
    let joined = searchable.joined();
    assert_eq!(joined.split('\n').count(), 5);
    let html = SearchableText::of_html(&String::from_utf8_lossy(raw));
    assert!(!html.body.contains(['\r', '\n']));
    let _ = any_text(raw, true, |text| {
        assert!(!text.contains(['\r', '\n']));
        false
    });
    let Ok(beginning) = beginning(structure, |span| Ok::<_, Infallible>(span.of(raw)));
    assert!(beginning.chars().count() <= SNIPPET_CHARACTERS && !beginning.contains(['\r', '\n']));
    assert_eq!(fold(&fold(&joined)), fold(&joined), "folding is complete");
    assert!(!comparable(&joined).contains('\0'));
    // A word of the message is found in it. Beyond ASCII the next character may combine with the last of the word.
    for word in joined.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|_| joined.is_ascii()).take(9) {
        let Ok(query) = word.parse::<SearchText>() else { continue };
        assert!(matches(&joined, &query), "{word}");
        let found = snippet(&joined, &query);
        assert!(found.chars().count() <= SNIPPET_CHARACTERS && !found.contains(['\r', '\n']));
    }
}
