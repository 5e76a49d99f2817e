//! ENVELOPE, BODYSTRUCTURE and section ranges, derived from the parsed message.

use std::collections::BTreeMap;
use std::ops::Range;

use mailapi_backend::mime::{
    AddressEntry, Header, PartTree, PartTreeContent, TransferDecoder, TransferEncoding, WrittenParameters,
};
use mailapi_imap::server::mime::{
    Address, BodyStructure, Disposition, Envelope, Extension, Multipart, PartContent, PartLayout, PartRange,
    SinglePart, SinglePartKind,
};

/// Returns the envelope of a message (RFC 3501 section 7.4.2) from its header block.
pub(super) fn envelope(header: &[u8]) -> Envelope {
    let header = Header::of(header);
    // A message has one field of each name (RFC 5322 section 3.6). If it has more, each address shows.
    let people = |name| header.all_addresses(name).map(address).collect();
    Envelope {
        date: header.written("Date"),
        subject: header.text("Subject"),
        from: people("From"),
        sender: people("Sender"),
        reply_to: people("Reply-To"),
        to: people("To"),
        cc: people("Cc"),
        bcc: people("Bcc"),
        in_reply_to: header.written("In-Reply-To"),
        message_id: header.written("Message-ID"),
    }
}

fn address(entry: AddressEntry) -> Address {
    match entry {
        AddressEntry::Mailbox { name, route, local_part, domain } => {
            Address::Mailbox { name: Some(name).filter(|name| !name.is_empty()), route, local_part, domain }
        }
        AddressEntry::GroupStart(name) => Address::GroupStart(name),
        AddressEntry::GroupEnd => Address::GroupEnd,
    }
}

/// The structure of a message, with part numbers as in IMAP.
#[derive(Debug, Clone)]
pub(super) struct Structure {
    layout: PartLayout,
    body: BodyStructure,
    headers: BTreeMap<Vec<u32>, Vec<u8>>,
    decoded: BTreeMap<Vec<u32>, Option<DecodedPart>>,
}

/// What BINARY needs of a part (RFC 3516).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecodedPart {
    /// The offset and length of its encoded bytes in the stored message.
    pub(super) encoded: (u64, u64),
    /// Its transfer encoding.
    pub(super) encoding: TransferEncoding,
    /// Its length without that encoding.
    pub(super) length: u64,
    /// Whether it contains NUL then.
    pub(super) has_nul: bool,
}

/// The parts that a FETCH needs besides the structure.
#[derive(Debug, Clone, Default)]
pub(super) struct WantedParts {
    /// Parts whose header blocks are kept.
    pub(super) headers: Vec<Vec<u32>>,
    /// Parts to decode.
    pub(super) decoded: Vec<Vec<u32>>,
}

impl Structure {
    /// Parses a stored message whose first `return_path_len` bytes are our own line.
    pub(super) fn of(stored: &[u8], return_path_len: usize, wanted: &WantedParts) -> Self {
        let message = &stored[return_path_len.min(stored.len())..];
        let tree = PartTree::of(message);
        let mut layout = layout(&tree, return_path_len);
        // The stored `Return-Path` line is part of the header.
        layout.header.start = 0;
        let header_of = |path: &Vec<u32>| {
            let range = layout.locate(path, PartRange::Header)?;
            Some((path.clone(), stored.get(range)?.to_vec()))
        };
        let headers = wanted.headers.iter().filter_map(header_of).collect();
        let decode = |path: &Vec<u32>| Some((path.clone(), decoded_part(stored, &layout, path)?));
        let decoded = wanted.decoded.iter().filter_map(decode).collect();
        Self { body: body(message, &tree), layout, headers, decoded }
    }

    /// Returns a decoded part; `Some(None)` if its transfer encoding is unknown.
    pub(super) fn decoded(&self, path: &[u32]) -> Option<Option<DecodedPart>> {
        self.decoded.get(path).copied()
    }

    /// Returns BODYSTRUCTURE.
    pub(super) const fn body(&self) -> &BodyStructure {
        &self.body
    }

    /// Returns the range of a section in the stored message.
    pub(super) fn locate(&self, path: &[u32], range: PartRange) -> Option<Range<u64>> {
        self.layout.locate(path, range).map(|range| range.start as u64..range.end as u64)
    }

    /// Returns one of the kept header blocks.
    pub(super) fn header(&self, path: &[u32]) -> Option<&[u8]> {
        self.headers.get(path).map(Vec::as_slice)
    }
}

/// Bytes of a part that are decoded at once to measure it.
const DECODED_AT_ONCE: usize = 16 * 1024;

/// Measures a part; `Some(None)` if its transfer encoding is unknown.
fn decoded_part(stored: &[u8], layout: &PartLayout, path: &[u32]) -> Option<Option<DecodedPart>> {
    let range = layout.locate(path, PartRange::All)?;
    // The whole message has no transfer encoding.
    let header = layout.locate(path, PartRange::Mime).and_then(|range| stored.get(range)).unwrap_or_default();
    let Some(encoding) = transfer_encoding(header) else { return Some(None) };
    let encoded = stored.get(range.clone())?;
    let (mut decoder, mut step) = (TransferDecoder::new(encoding), Vec::new());
    let (mut length, mut has_nul) = (0, false);
    let mut measure = |step: &mut Vec<u8>| {
        length += step.len() as u64;
        has_nul |= step.contains(&0);
        step.clear();
    };
    for piece in encoded.chunks(DECODED_AT_ONCE) {
        decoder.push(piece, &mut step);
        measure(&mut step);
    }
    decoder.finish(&mut step);
    measure(&mut step);
    let encoded = (range.start as u64, encoded.len() as u64);
    Some(Some(DecodedPart { encoded, encoding, length, has_nul }))
}

/// Returns the transfer encoding that a header block names; `None` for an unknown one.
fn transfer_encoding(header: &[u8]) -> Option<TransferEncoding> {
    let name = Header::of(header).written("Content-Transfer-Encoding").unwrap_or_default();
    match TransferEncoding::named(&name) {
        TransferEncoding::Identity => {
            let is_known = ["", "7bit", "8bit", "binary"].iter().any(|known| name.trim().eq_ignore_ascii_case(known));
            is_known.then_some(TransferEncoding::Identity)
        }
        encoding => Some(encoding),
    }
}

fn layout(tree: &PartTree, shift: usize) -> PartLayout {
    let shifted = |range: &Range<usize>| range.start + shift..range.end + shift;
    let content = match &tree.content {
        PartTreeContent::Leaf => PartContent::Leaf,
        PartTreeContent::Multipart(parts) => {
            PartContent::Multipart(parts.iter().map(|part| layout(part, shift)).collect())
        }
        PartTreeContent::Message(message) => PartContent::Message(Box::new(layout(message, shift))),
    };
    PartLayout { header: shifted(&tree.header), body: shifted(&tree.body), content }
}

fn body(message: &[u8], tree: &PartTree) -> BodyStructure {
    let header = Header::of(&message[tree.header.clone()]);
    let content_type = header.parameters("Content-Type").unwrap_or_default();
    let extension = extension(&header);
    let (media_type, subtype) = tree.media_type.split_once('/').unwrap_or((&tree.media_type, ""));
    if let PartTreeContent::Multipart(parts) = &tree.content {
        return BodyStructure::Multipart(Multipart {
            parts: parts.iter().map(|part| body(message, part)).collect(),
            subtype: subtype.to_owned(),
            parameters: content_type.parameters,
            extension,
        });
    }
    let bytes = &message[tree.body.clone()];
    BodyStructure::Single(Box::new(SinglePart {
        kind: kind(message, tree, media_type, subtype),
        parameters: content_type.parameters,
        id: header.written("Content-ID"),
        description: header.written("Content-Description"),
        encoding: header
            .written("Content-Transfer-Encoding")
            .filter(|e| !e.is_empty())
            .unwrap_or_else(|| "7bit".into()),
        bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        md5: header.written("Content-MD5"),
        extension,
    }))
}

fn kind(message: &[u8], tree: &PartTree, media_type: &str, subtype: &str) -> SinglePartKind {
    let lines = || {
        let count = message[tree.body.clone()].iter().filter(|byte| **byte == b'\n').count();
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    match (&tree.content, media_type) {
        (PartTreeContent::Message(inner), _) => SinglePartKind::Message {
            envelope: Box::new(envelope(&message[inner.header.clone()])),
            body: body(message, inner),
            lines: lines(),
        },
        (_, "text") => SinglePartKind::Text { subtype: subtype.to_owned(), lines: lines() },
        // An unparsed message needs another type: for message/rfc822 the grammar requires an envelope.
        (_, "message") if subtype == "rfc822" => basic("application", "octet-stream"),
        _ => basic(media_type, subtype),
    }
}

fn basic(media_type: &str, subtype: &str) -> SinglePartKind {
    SinglePartKind::Basic { media_type: media_type.to_owned(), subtype: subtype.to_owned() }
}

fn extension(header: &Header<'_>) -> Extension {
    let disposition = header.parameters("Content-Disposition");
    let disposition = disposition.filter(|disposition| !disposition.value.is_empty());
    let languages = header.written("Content-Language").unwrap_or_default();
    Extension {
        disposition: disposition.map(|WrittenParameters { value, parameters }| Disposition { kind: value, parameters }),
        languages: languages.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect(),
        location: header.written("Content-Location"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RETURN_PATH: &str = "Return-Path: <eve@elsewhere.example>\r\n";

    fn headers(paths: &[&[u32]]) -> WantedParts {
        WantedParts { headers: paths.iter().map(|path| path.to_vec()).collect(), decoded: Vec::new() }
    }

    #[test]
    fn a_decoded_part_is_measured() {
        let stored = format!(
            "{RETURN_PATH}Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 8bit\r\n\r\n--b\r\n\
             Content-Transfer-Encoding: BASE64 \r\n\r\naGkA\r\n--b\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\nx\r\n\
             --b\r\n\r\nplain\r\n--b--\r\n"
        );
        let paths = [vec![], vec![1], vec![2], vec![3], vec![4]];
        let wanted = WantedParts { decoded: paths.to_vec(), ..WantedParts::default() };
        let structure = Structure::of(stored.as_bytes(), RETURN_PATH.len(), &wanted);
        let length = |path: &[u32]| structure.decoded(path).map(|part| part.map(|part| (part.length, part.has_nul)));
        assert_eq!(length(&[]), Some(Some((stored.len() as u64, false))));
        assert_eq!([length(&[1]), length(&[3])], [Some(Some((3, true))), Some(Some((5, false)))]);
        assert_eq!([length(&[2]), length(&[4]), length(&[5])], [Some(None), None, None]);
    }

    fn section<'a>(stored: &'a str, structure: &Structure, path: &[u32], range: PartRange) -> Option<&'a str> {
        let span = structure.locate(path, range)?;
        Some(&stored[span.start as usize..span.end as usize])
    }

    #[test]
    fn sections_count_from_our_return_path_line() {
        let forwarded = "Subject: two\r\n\r\ninner\r\n";
        let stored = format!(
            "{RETURN_PATH}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\none\r\n\
             --b\r\nContent-Type: message/rfc822\r\n\r\n{forwarded}\r\n--b--\r\n"
        );
        let structure = Structure::of(stored.as_bytes(), RETURN_PATH.len(), &headers(&[&[2], &[1]]));
        let header = section(&stored, &structure, &[], PartRange::Header).unwrap();
        assert!(header.starts_with(RETURN_PATH) && header.ends_with("boundary=b\r\n\r\n"));
        assert_eq!(section(&stored, &structure, &[], PartRange::All), Some(stored.as_str()));
        assert_eq!(section(&stored, &structure, &[1], PartRange::All), Some("one"));
        assert_eq!(section(&stored, &structure, &[2], PartRange::All), Some(forwarded));
        assert_eq!(section(&stored, &structure, &[2], PartRange::Text), Some("inner\r\n"));
        assert_eq!(structure.header(&[2]), Some(&b"Subject: two\r\n\r\n"[..]));
        assert_eq!((structure.header(&[1]), structure.header(&[3])), (None, None));
    }

    #[test]
    fn a_body_structure_shows_what_the_header_says() {
        let message = "Content-Type: Text/HTML; charset=\"utf-8\" (comment)\r\nContent-ID: <1@x>\r\n\
            Content-Disposition: inline; filename*=utf-8''n%C3%A4h\r\nContent-Language: de, en\r\n\
            Content-Transfer-Encoding: 8BIT\r\n\r\none\r\ntwo\r\n";
        let structure = Structure::of(message.as_bytes(), 0, &headers(&[]));
        let BodyStructure::Single(part) = structure.body() else { panic!() };
        assert_eq!(part.kind, SinglePartKind::Text { subtype: "html".into(), lines: 2 });
        assert_eq!(part.parameters, [("charset".to_owned(), "utf-8".to_owned())]);
        assert_eq!((part.id.as_deref(), part.encoding.as_str(), part.bytes), (Some("<1@x>"), "8BIT", 10));
        let disposition = part.extension.disposition.as_ref().unwrap();
        assert_eq!(disposition.parameters, [("filename*".to_owned(), "utf-8''n%C3%A4h".to_owned())]);
        assert_eq!(part.extension.languages, ["de", "en"]);
    }

    #[test]
    fn an_envelope_is_decoded() {
        let envelope = envelope(b"Date: today\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\nFrom: Ann <ann@x.org>, odd\r\n\r\n");
        assert_eq!((envelope.date.as_deref(), envelope.subject.as_deref()), (Some("today"), Some("café")));
        let expected = Address::Mailbox {
            name: Some("Ann".into()),
            route: None,
            local_part: "ann".into(),
            domain: "x.org".into(),
        };
        assert_eq!(envelope.from[0], expected);
        assert_eq!((envelope.to.len(), envelope.message_id), (0, None));
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_structure(stored in prop::collection::vec(any::<u8>(), 0..300), line in 0_usize..20) {
            let structure = Structure::of(&stored, line, &WantedParts {
                decoded: vec![vec![], vec![1], vec![1, 2]],
                ..headers(&[&[1], &[1, 2]])
            });
            if let Some(Some(whole)) = structure.decoded(&[]) {
                prop_assert_eq!((whole.encoded, whole.length), ((0, stored.len() as u64), stored.len() as u64));
            }
            for path in [&[][..], &[1], &[1, 1], &[2]] {
                for range in [PartRange::All, PartRange::Header, PartRange::Text, PartRange::Mime] {
                    if let Some(span) = structure.locate(path, range) {
                        prop_assert!(span.start <= span.end);
                    }
                }
            }
        }
    }
}
