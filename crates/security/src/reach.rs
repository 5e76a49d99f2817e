//! Walks through the headers of all parts as the reader of messages does, and notices what the reader leaves out. What lies
//! beyond its limits would look harmless.

use std::collections::HashMap;
use std::io;

use mailapi_backend::mime::{Header, Limits};
use mailapi_model::Blob;

use crate::ambiguous;
use crate::report::Findings;
use crate::sign::SecuritySign;

/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// Examines the headers of all parts. Attached messages are messages of their own.
pub(crate) fn examine(message: &Blob, findings: &mut Findings) -> io::Result<()> {
    let mut scan = HeaderScan::new(findings);
    let mut line: Vec<u8> = Vec::new();
    for piece in message.pieces(PIECE) {
        for part in piece?.split_inclusive(|byte| *byte == b'\n') {
            // The beginning of a line shows what it is.
            line.extend_from_slice(&part[..part.len().min(PIECE.saturating_sub(line.len()))]);
            if part.ends_with(b"\n") {
                scan.note(&line);
                line.clear();
            }
        }
    }
    scan.note(&line);
    scan.end_header();
    Ok(())
}

/// Where the walk is.
struct HeaderScan<'a> {
    findings: &'a mut Findings,
    limits: Limits,
    /// The header that is being read; `None` in a body.
    header: Option<Vec<u8>>,
    fields: usize,
    parts: usize,
    /// Boundaries of the open multiparts, outermost first; empty after the end of one.
    open: Vec<Vec<u8>>,
    /// The innermost place of each boundary.
    places: HashMap<Vec<u8>, usize>,
}

impl<'a> HeaderScan<'a> {
    fn new(findings: &'a mut Findings) -> Self {
        let (open, places) = (Vec::new(), HashMap::new());
        Self { findings, limits: Limits::default(), header: Some(Vec::new()), fields: 0, parts: 1, open, places }
    }

    fn note(&mut self, line: &[u8]) {
        if let Some((place, ends)) = self.delimiter(line) {
            return self.cross(place, ends);
        }
        let Some(header) = &mut self.header else { return };
        if matches!(line, b"\r\n" | b"\n") {
            return self.end_header();
        }
        if header.len() + line.len() > self.limits.max_header_bytes {
            return self.exceed("more than 8 MiB of fields");
        }
        header.extend_from_slice(line);
        self.fields += usize::from(!line.starts_with(b" ") && !line.starts_with(b"\t") && is_field(line));
        if self.fields == self.limits.max_fields {
            self.exceed("10,000 fields and more");
        }
    }

    /// Returns the place of the multipart that a line divides, and whether the line ends it (RFC 2046 section 5.1.1).
    fn delimiter(&self, line: &[u8]) -> Option<(usize, bool)> {
        let text = line.strip_prefix(b"--").filter(|_| !self.places.is_empty())?.trim_ascii_end();
        let place = |text: &[u8]| self.places.get(text).copied();
        place(text).map(|place| (place, false)).or_else(|| place(text.strip_suffix(b"--")?).map(|place| (place, true)))
    }

    fn cross(&mut self, place: usize, ends: bool) {
        self.end_header();
        let kept = place + usize::from(!ends);
        for boundary in self.open.drain(kept..) {
            if self.places.get(&boundary).is_some_and(|innermost| *innermost >= kept) {
                self.places.remove(&boundary);
            }
        }
        if ends {
            // What follows belongs to the multipart until the next one around it goes on.
            self.open.push(Vec::new());
            return;
        }
        self.parts += 1;
        if self.parts == self.limits.max_parts {
            self.exceed("10,000 parts and more");
        }
        (self.header, self.fields) = (Some(Vec::new()), 0);
    }

    fn end_header(&mut self) {
        let Some(block) = self.header.take() else { return };
        let header = Header::of(&block);
        ambiguous::examine(&header, self.findings);
        let Some(written) = header.parameters("Content-Type") else { return };
        if !written.value.get(..10).is_some_and(|kind| kind.eq_ignore_ascii_case("multipart/")) {
            return;
        }
        let named = written.parameters.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("boundary"));
        let Some((_, boundary)) = named.filter(|(_, boundary)| !boundary.trim_end().is_empty()) else { return };
        if self.open.len() >= self.limits.max_depth {
            return self.exceed("more than 256 multiparts inside each other");
        }
        let boundary = boundary.trim_end().as_bytes().to_vec();
        self.places.insert(boundary.clone(), self.open.len());
        self.open.push(boundary);
    }

    fn exceed(&mut self, what: &str) {
        self.findings.is_partial = true;
        self.findings.add(SecuritySign::PaddedMessage, what);
    }
}

/// Returns whether a line is a field with a name of printable characters (RFC 5322 section 2.2).
fn is_field(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| byte.is_ascii_graphic() && **byte != b':').count();
    name > 0 && line[name..].trim_ascii_start().first() == Some(&b':')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn signs(message: String) -> Vec<&'static str> {
        let mut findings = Findings::default();
        examine(&Blob::from(message), &mut findings).unwrap();
        let is_partial = findings.is_partial;
        let report = findings.into_report(Default::default(), Default::default(), vec![], vec![], Default::default());
        let signs: Vec<_> = report.reasons.iter().map(|reason| reason.sign.code()).collect();
        assert_eq!(is_partial, signs.contains(&"padded_message"));
        signs
    }

    fn multipart(boundary: &str) -> String {
        format!("Content-Type: Multipart/mixed; boundary={boundary}\r\n\r\n--{boundary}\r\n")
    }

    #[test]
    fn padded_headers_and_deep_nesting_are_noticed() {
        let padded = |message| signs(message) == ["padded_message"];
        let fields = |count: usize| "X: y\r\n\tz\r\n".repeat(count);
        assert!(!padded(format!("{}\r\nHi\r\n", fields(9_000))));
        assert!(padded(format!("{}From: a@b.example\r\n\r\nHi\r\n", fields(10_000))));
        assert!(padded(format!("From: a@b.example\r\n{}{}\r\nHi\r\n", multipart("b"), "X \t: y\n".repeat(10_000))));
        assert!(padded("X: 6789012345\r\n y234567890\r\n".repeat(350_000)));
        assert!(!padded(format!("{}{}--b--\r\n", multipart("b"), "\r\nx\r\n--b\r\n".repeat(9_900))));
        assert!(padded(format!("{}{}--b--\r\n", multipart("b"), "\r\nx\r\n--b\r\n".repeat(10_000))));
        let nested = |depth: usize| (0..depth).map(|level| multipart(&format!("b{level}"))).collect::<String>();
        assert!(!padded(nested(256)));
        assert!(padded(nested(257)));
        assert!(padded(multipart("b").repeat(300)));
    }

    #[test]
    fn long_texts_are_not_taken_for_headers() {
        assert!(signs(format!("\r\n{}", "time: it works\n".repeat(20_000))).is_empty());
        assert!(signs(format!("\r\n{}", multipart("b").repeat(300))).is_empty());
        let digest = multipart("i") + "\r\nx\r\n--i--\r\n--o\r\n";
        assert!(signs(multipart("o") + &digest.repeat(300)).is_empty());
        assert!(signs("a".repeat(1_000_000)).is_empty());
        assert!(signs(format!("X: y\n\n{}\n", "multipart/".repeat(100_000))).is_empty());
    }

    proptest! {
        #[test]
        fn any_message_is_walked_through(
            text in "(Content-Type: multipart/mixed; boundary=b\r\n|boundary=c|--b|--b--|--c|\r\n|\n|From: |: |;|\"|\\PC){0,60}"
        ) {
            let _ = signs(text);
        }
    }
}
