//! Messages of every kind: `mime/<name>.txt` holds the expected reading of each `mime/<name>.eml`. Hostile messages
//! are in `mime_hostile.rs`.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::Path;

use mailapi_backend::mime::{MessageStructure, SearchableText, decode, headers};

/// Formats everything that a reader of the message sees.
fn shown(raw: &[u8]) -> String {
    let structure = MessageStructure::of(raw);
    let header = &raw[..usize::try_from(structure.header_len).unwrap()];
    let Ok((plain, html)) = structure.decode_bodies(|span| Ok::<_, Infallible>(span.of(raw)));
    let mut text = format!("message_id: {}\n", structure.message_id);
    let _ = writeln!(text, "from: {:?}\nto: {:?}\ncc: {:?}", structure.from, structure.to, structure.cc);
    let _ = writeln!(text, "subject: {}\ndate: {:?}", structure.subject, structure.date);
    for (name, value) in headers(header) {
        let _ = writeln!(text, "header {name}: {value:?}");
    }
    let _ = writeln!(text, "text: {:?}", plain);
    let _ = writeln!(text, "html: {:?}", html);
    for attachment in &structure.attachments {
        let (info, content) = (&attachment.info, decode(attachment.span.encoding, attachment.span.of(raw)));
        assert_eq!(info.size, content.len() as u64);
        let _ = writeln!(
            text,
            "attachment {}: {:?} {} {} bytes, id {:?}: {}",
            info.index,
            info.filename,
            info.content_type,
            info.size,
            info.content_id,
            content.escape_ascii()
        );
    }
    let _ = writeln!(text, "searchable:\n{}", SearchableText::of(raw, &structure).joined());
    text
}

#[test]
fn every_message_is_read_as_its_text_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mime");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "eml") {
            continue;
        }
        let is = shown(&std::fs::read(&path).unwrap());
        let expected = path.with_extension("txt");
        let should = std::fs::read_to_string(&expected).unwrap_or_default();
        if is != should {
            let actual = path.with_extension("actual");
            std::fs::write(&actual, &is).unwrap();
            panic!("{} differs from {}", actual.display(), expected.display());
        }
        count += 1;
    }
    assert!(count >= 7, "the messages are missing");
}
