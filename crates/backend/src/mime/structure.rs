//! Finds the parts of a message (RFC 2046 section 5.1) in one pass over its lines.
//!
//! Parsing must be linear and must return the span of each encoded part. mail-parser searches for each
//! boundary up to the end of the message, and decodes every attachment on its way.

use std::collections::HashMap;
use std::ops::Range;

use super::fields::{self, Parameterized, without_line_end};
use super::limits::Limits;
use super::source::{Line, Slice, Source};
use super::transfer::TransferEncoding;

/// A part of a message. Parts are ordered by their start; the first is the message itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Its header block, including the empty line.
    pub(super) header: Range<usize>,
    /// Its encoded body, without the line end that belongs to the next boundary.
    pub(super) body: Range<usize>,
    /// `type/subtype` in lower case; `text/plain` if missing.
    pub(super) media_type: String,
    /// The Content-Type with its parameters.
    pub(super) content_type: Parameterized,
    /// The Content-Disposition.
    pub(super) disposition: Parameterized,
    /// The Content-ID, without angle brackets.
    pub(super) content_id: Option<String>,
    /// The transfer encoding of its body.
    pub(super) encoding: TransferEncoding,
    /// Whether it is a container of other parts.
    pub(super) has_parts: bool,
    /// Number of multiparts that contain it.
    pub(super) level: usize,
    /// Whether its body has no text, or only the delimiter that ends it.
    pub(super) is_blank: bool,
}

impl Part {
    /// Completes a part after all its children are known. A multipart without parts is shown as text.
    pub(super) fn end(&mut self) {
        if !self.has_parts && self.media_type.starts_with("multipart/") {
            "text/plain".clone_into(&mut self.media_type);
        }
    }

    /// Returns whether it is a multipart with neither parts nor text: there is nothing to show.
    pub(super) fn is_blank_multipart(&self) -> bool {
        !self.has_parts && self.is_blank && self.content_type.value.starts_with("multipart/")
    }
}

/// Returns all parts of a message in memory.
pub(super) fn parts(raw: &[u8], limits: &Limits) -> Vec<Part> {
    let Ok(parts) = read_parts(&mut Slice::new(raw, limits), limits);
    parts
}

/// Returns all parts of a message.
pub(super) fn read_parts<S: Source>(source: &mut S, limits: &Limits) -> Result<Vec<Part>, S::Error> {
    let whole = source.len();
    let (boundaries, parts, open) = (Boundaries::default(), Vec::new(), Vec::new());
    let mut scan = Scan { source, limits, parts, open, boundaries, leaf: None };
    let mut at = scan.begin_part(0, "text/plain")?;
    // Without an open multipart no line can be a boundary: the rest is one body, or an epilogue.
    while at < whole && !scan.boundaries.is_empty() {
        let line = scan.source.line(at)?;
        let (delimiter, span) = (scan.boundaries.delimiter(line), at..line.end);
        at = match delimiter {
            Some(delimiter) => scan.cross(delimiter, span)?,
            None => span.end,
        };
    }
    scan.close_above(0, whole);
    Ok(scan.parts)
}

/// Most bytes of a multipart without text.
pub(super) const BLANK: usize = b"\r\n\r\n".len();

/// A multipart whose end has not been reached.
struct Open {
    part: usize,
    /// `None` after the closing delimiter: the following lines are its epilogue.
    boundary: Option<Vec<u8>>,
    /// Where the closing delimiter begins.
    closed_at: Option<usize>,
}

/// A line that separates parts.
struct Delimiter {
    /// The level of the open multipart it belongs to.
    level: usize,
    closes: bool,
}

/// The open levels by boundary, innermost last. A look-up costs the same at any nesting depth.
#[derive(Default)]
struct Boundaries(HashMap<Vec<u8>, Vec<usize>>);

impl Boundaries {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn delimiter(&self, line: Line<'_>) -> Option<Delimiter> {
        // White space after the boundary is padding by a gateway (RFC 2046 section 5.1.1).
        let text = line.text.strip_prefix(b"--")?.trim_ascii_end();
        let level_of = |boundary: &[u8]| self.0.get(boundary).and_then(|levels| levels.last()).copied();
        // Several levels may use the same boundary; the innermost one counts.
        let found = match level_of(text) {
            Some(level) => Some(Delimiter { level, closes: false }),
            None => level_of(text.strip_suffix(b"--")?).map(|level| Delimiter { level, closes: true }),
        };
        // A line beyond the limit cannot be a boundary.
        found.filter(|_| line.is_whole)
    }

    fn add(&mut self, boundary: Vec<u8>, level: usize) {
        self.0.entry(boundary).or_default().push(level);
    }

    fn forget(&mut self, boundary: &[u8]) {
        if let Some(levels) = self.0.get_mut(boundary) {
            levels.pop();
            if levels.is_empty() {
                self.0.remove(boundary);
            }
        }
    }
}

struct Scan<'a, S> {
    source: &'a mut S,
    limits: &'a Limits,
    parts: Vec<Part>,
    open: Vec<Open>,
    boundaries: Boundaries,
    leaf: Option<usize>,
}

impl<S: Source> Scan<'_, S> {
    /// Ends the parts that the delimiter ends and begins the next one; returns where to continue.
    fn cross(&mut self, delimiter: Delimiter, line: Range<usize>) -> Result<usize, S::Error> {
        let is_last = self.parts.len() >= self.limits.max_parts && !delimiter.closes;
        // At the limit of parts, the last part keeps the rest of the message.
        if is_last {
            return Ok(line.end);
        }
        let end = self.before_line_end(line.start)?;
        self.close_above(delimiter.level + 1, end);
        if delimiter.closes {
            // The following lines are the epilogue.
            self.forget_boundary(delimiter.level);
            self.open[delimiter.level].closed_at = Some(line.start);
            return Ok(line.end);
        }
        let holder = &mut self.parts[self.open[delimiter.level].part];
        holder.has_parts = true;
        // The default type of a digest's parts (RFC 2046 section 5.1.5).
        let default = if holder.media_type == "multipart/digest" { "message/rfc822" } else { "text/plain" };
        self.begin_part(line.end, default)
    }

    /// Returns the end of a part before a delimiter: the line end before a delimiter belongs to it.
    fn before_line_end(&mut self, start: usize) -> Result<usize, S::Error> {
        let from = start.saturating_sub(b"\r\n".len());
        Ok(from + without_line_end(&self.source.get(from..start)?).len())
    }

    /// Ends the current leaf and every multipart from `level` on.
    ///
    /// A part may begin and end within one line end. It is then empty, and its container must not end before
    /// it.
    fn close_above(&mut self, level: usize, mut end: usize) {
        if let Some(leaf) = self.leaf.take() {
            end = self.end_part(leaf, end);
        }
        while self.open.len() > level {
            self.forget_boundary(self.open.len() - 1);
            if let Some(open) = self.open.pop() {
                end = self.end_part(open.part, end);
                let part = &mut self.parts[open.part];
                part.is_blank |= open.closed_at.is_some_and(|at| at <= part.body.start + BLANK);
            }
        }
    }

    /// Ends a part; returns its actual end, which is never before its start.
    fn end_part(&mut self, index: usize, end: usize) -> usize {
        let part = &mut self.parts[index];
        let end = end.max(part.body.start);
        part.body.end = end;
        part.is_blank = part.body.len() <= BLANK;
        part.end();
        end
    }

    fn forget_boundary(&mut self, level: usize) {
        if let Some(boundary) = self.open[level].boundary.take() {
            self.boundaries.forget(&boundary);
        }
    }

    /// Reads a part's header block; returns the start of its body.
    fn begin_part(&mut self, start: usize, default_type: &str) -> Result<usize, S::Error> {
        let header = start..self.header_end(start)?;
        let body = header.end;
        let read = start..body.min(start + self.limits.max_header_bytes);
        let part = read_header(&self.source.get(read)?, default_type, self.limits);
        let part = Part { header, body: body..body, level: self.open.len(), ..part };
        let index = self.parts.len();
        let boundary = part.content_type.parameter("boundary").map(|b| b.trim_end().as_bytes().to_vec());
        match boundary.filter(|boundary| !boundary.is_empty()) {
            Some(boundary) if part.media_type.starts_with("multipart/") && self.open.len() < self.limits.max_depth => {
                self.boundaries.add(boundary.clone(), self.open.len());
                self.open.push(Open { part: index, boundary: Some(boundary), closed_at: None });
            }
            _ => self.leaf = Some(index),
        }
        self.parts.push(part);
        Ok(body)
    }

    /// Returns the end of the header block, including its empty line; it never extends past a delimiter.
    ///
    /// Lines that are not fields, with no field after them, are the body. Some senders omit the empty line or
    /// the whole header, and servers prepend trace fields.
    fn header_end(&mut self, start: usize) -> Result<usize, S::Error> {
        let mut at = start;
        let mut no_fields_from = None;
        while at < self.source.len() {
            let line = self.source.line(at)?;
            let text = line.text;
            if fields::ends_header(text) {
                return Ok(no_fields_from.unwrap_or(line.end));
            }
            // A header without an empty line ends at the next boundary.
            if self.boundaries.delimiter(line).is_some() {
                break;
            }
            let continues = at > start && matches!(text[0], b' ' | b'\t');
            // The first line of an mbox entry is not a field, but a header block follows it. The same holds for a line of
            // blanks, with which some programs begin a saved message. A byte order mark may stand before both.
            let unmarked = if at == 0 { fields::without_mark(text) } else { text };
            let is_lead =
                at == start && (unmarked.starts_with(b"From ") || (start == 0 && unmarked.trim_ascii().is_empty()));
            let text = if at == 0 { fields::without_lead(text) } else { text };
            if fields::field_name(text).is_some() {
                no_fields_from = None;
            } else if !continues && !is_lead {
                // These lines are the body, unless a field follows.
                no_fields_from.get_or_insert(at);
                if at == start {
                    break;
                }
            }
            at = line.end;
        }
        Ok(no_fields_from.unwrap_or(at))
    }
}

/// Interprets the header block of a part. The result has no position and no children yet.
pub(super) fn read_header(block: &[u8], default_type: &str, limits: &Limits) -> Part {
    let fields = fields::fields(block, limits.max_fields);
    let first = |name: &str| fields.iter().find(|f| f.name.eq_ignore_ascii_case(name)).map(|f| &*f.value);
    let parameterized = |name| first(name).and_then(|value| Parameterized::read(value, limits.max_parameter_bytes));
    let content_type = parameterized("Content-Type");
    let media_type = match &content_type {
        Some(read) => media_type(&read.value).unwrap_or_else(|| "application/octet-stream".to_owned()),
        None => default_type.to_owned(),
    };
    let encoding = first("Content-Transfer-Encoding").map(fields::decoded);
    Part {
        header: 0..0,
        body: 0..0,
        media_type,
        content_type: content_type.unwrap_or_default(),
        disposition: parameterized("Content-Disposition").unwrap_or_default(),
        content_id: first("Content-ID").and_then(fields::identifier),
        encoding: encoding.as_deref().map(TransferEncoding::named).unwrap_or_default(),
        has_parts: false,
        level: 0,
        is_blank: false,
    }
}

/// Returns `type/subtype` if both are tokens (RFC 2045 section 5.1). A bare `text`, as in early mail, means
/// `text/plain`.
fn media_type(value: &str) -> Option<String> {
    if value == "text" {
        return Some("text/plain".to_owned());
    }
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b))
    };
    let (kind, subtype) = value.split_once('/')?;
    (is_token(kind) && is_token(subtype)).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(raw: &str) -> Vec<(String, &str)> {
        let parts = parts(raw.as_bytes(), &Limits::default());
        parts.into_iter().map(|part| (part.media_type, &raw[part.body])).collect()
    }

    fn named<'a>(shape: &'a [(String, &'a str)]) -> Vec<(&'a str, &'a str)> {
        shape.iter().map(|(kind, body)| (kind.as_str(), *body)).collect()
    }

    #[test]
    fn a_multipart_that_cannot_be_taken_apart_is_its_text() {
        for raw in [
            "Content-Type: multipart/mixed\r\n\r\n--x\r\n\r\nhello\r\n--x--\r\n",
            "Content-Type: multipart/mixed; boundary=\"\"\r\n\r\n--\r\n\r\nhello\r\n",
            "Content-Type: multipart/mixed; boundary=y\r\n\r\n--x\r\n\r\nhello\r\n",
            "Content-Type: multipart/mixed; boundary=x\r\n\r\nhello\r\n--x--\r\n",
        ] {
            let shape = shape(raw);
            assert_eq!((shape.len(), shape[0].0.as_str()), (1, "text/plain"), "{raw}");
            assert!(shape[0].1.contains("hello"));
        }
    }

    #[test]
    fn a_boundary_that_begins_like_another_is_not_taken_for_it() {
        let raw = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: multipart/related; boundary=b2\r\n\r\n\
                   --b2\r\n\r\none\r\n--b2--\r\n--b \t\r\n\r\ntwo\r\nsee --b\r\n--b--\r\nepilogue\r\n";
        let shape = shape(raw);
        let leaves: Vec<_> = named(&shape).into_iter().filter(|(kind, _)| *kind == "text/plain").collect();
        assert_eq!(leaves, [("text/plain", "one"), ("text/plain", "two\r\nsee --b")]);
    }

    #[test]
    fn missing_ends_and_missing_empty_lines_are_made_up_for() {
        let raw =
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\n--b\njust text\n--b\n\nlast";
        assert_eq!(named(&shape(raw))[1..], [("text/html", ""), ("text/plain", "just text"), ("text/plain", "last")]);
    }

    #[test]
    fn an_outer_boundary_ends_inner_parts() {
        let raw = "Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n\
                   --i\r\n\r\none\r\n--o\r\n\r\ntwo\r\n--i\r\nstill two\r\n--o--\r\n";
        assert_eq!(named(&shape(raw))[2..], [("text/plain", "one"), ("text/plain", "two\r\n--i\r\nstill two")]);
    }

    #[test]
    fn a_part_between_two_delimiters_lies_within_what_holds_it() {
        let raw = "Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\nContent-Type: multipart/mixed; boundary=i\r\n\
                   \r\n--i\r\n--o\r\n\r\nend\r\n--o--\r\n";
        let parts = parts(raw.as_bytes(), &Limits::default());
        assert_eq!(parts[2].body.len(), 0);
        assert!(parts[2].body.end <= parts[1].body.end && parts[1].body.end <= parts[3].header.start);
        assert_eq!(&raw[parts[3].body.clone()], "end");
    }

    #[test]
    fn beyond_the_limits_nothing_is_lost() {
        let raw = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n1\r\n--b\r\n\r\n2\r\n--b\r\n\r\n3\r\n--b--\r\n";
        let few = parts(raw.as_bytes(), &Limits { max_parts: 3, ..Limits::default() });
        assert_eq!(few.len(), 3);
        assert_eq!(&raw[few[2].body.clone()], "2\r\n--b\r\n\r\n3");
        let flat = parts(raw.as_bytes(), &Limits { max_depth: 0, ..Limits::default() });
        assert_eq!((flat.len(), flat[0].media_type.as_str()), (1, "text/plain"));
    }

    #[test]
    fn a_message_without_header_is_its_body() {
        assert_eq!(named(&shape("hello\r\nTo: nobody\r\n\r\n")), [("text/plain", "hello\r\nTo: nobody\r\n\r\n")]);
        assert_eq!(named(&shape("\r\nhello")), [("text/plain", "hello")]);
        assert_eq!(named(&shape("")), [("text/plain", "")]);
        assert_eq!(
            named(&shape("Received: x\r\n y\r\nhello\r\n you\r\n\r\nall")),
            [("text/plain", "hello\r\n you\r\n\r\nall")]
        );
        assert_eq!(named(&shape("A: x\r\nno field\r\nB: y\r\n\r\nhello")), [("text/plain", "hello")]);
        for lead in ["From a@b Sat Jan 3\n", "\u{feff}From -\n", "\u{feff}\n"] {
            assert_eq!(named(&shape(&format!("{lead}To: x\n\nhello"))), [("text/plain", "hello")], "{lead:?}");
        }
        let html = "Content-Type: text/html\r\n\r\nhello";
        for before in [" \r\n", "\t \n", "\u{feff}", "\u{feff}To: x\r\n"] {
            assert_eq!(named(&shape(&format!("{before}{html}"))), [("text/html", "hello")], "{before:?}");
        }
        assert_eq!(named(&shape(" \r\nhello\r\n\r\nyou")), [("text/plain", "hello\r\n\r\nyou")]);
    }

    proptest! {
        #[test]
        fn every_part_lies_within_the_message(
            lines in prop::collection::vec(prop_oneof![
                Just("Content-Type: multipart/mixed; boundary=a"), Just("Content-Type: multipart/digest; boundary=b"),
                Just("--a"), Just("--b"), Just("--a--"), Just("--b--"), Just(""), Just("x"), Just("Content-Type: text/html"),
            ], 0..40),
            bytes in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut raw = lines.join("\r\n").into_bytes();
            raw.extend(bytes);
            for part in parts(&raw, &Limits { max_depth: 3, max_parts: 9, ..Limits::default() }) {
                prop_assert!(part.header.start <= part.header.end && part.header.end == part.body.start);
                prop_assert!(part.body.start <= part.body.end && part.body.end <= raw.len());
            }
        }
    }
}
