//! The transfer encodings (RFC 2045 section 6) for files that are read in pieces.
//!
//! The builder chooses an encoding by all of a text and writes all of it at once. What is here makes the same choice, and
//! hands the builder's own encoders pieces that end where a line does, so the octets are those that it would have
//! written.

use std::io;

use mail_builder::Writer;
use mail_builder::encoders::{Base64Encoder, QuotedPrintableEncoder};
use mailapi_model::Octets;

/// How much of a file is read at once: whole lines of base64, of which 57 octets make one of 76 characters.
pub(super) const PIECE: usize = 57 * 1024;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferEncoding {
    Base64,
    /// With line breaks as such, or encoded.
    QuotedPrintable {
        line_breaks: bool,
    },
    /// As it is, but for line breaks that have to become CRLF.
    SevenBit {
        line_breaks: bool,
    },
}

impl TransferEncoding {
    /// The builder's choice for a text. Where it is shown, its line breaks are line breaks; in a file they are octets.
    pub(super) fn of_text(content: &Octets, shown: bool, piece: usize) -> io::Result<Self> {
        let mut seen = Seen::default();
        for piece in content.pieces(piece) {
            seen.take(&piece?, shown);
        }
        Ok(seen.encoding(shown))
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Base64 => "base64",
            Self::QuotedPrintable { .. } => "quoted-printable",
            Self::SevenBit { .. } => "7bit",
        }
    }

    /// Writes a file in this encoding. `piece` is a multiple of 57.
    pub(super) fn write(self, content: &Octets, piece: usize, output: &mut impl Writer) -> io::Result<()> {
        if let Self::QuotedPrintable { line_breaks } = self {
            return write_quoted_printable(content, line_breaks, piece, output);
        }
        let mut last = 0;
        for piece in content.pieces(piece) {
            let piece = piece?;
            match self {
                Self::SevenBit { line_breaks: true } => last = write_lines(&piece, last, output),
                Self::SevenBit { line_breaks: false } => output.write(&piece),
                _ => drop(Base64Encoder::new().wrap_lines().encode_into(&piece, output)),
            }
        }
        Ok(())
    }
}

/// What of a text decides how it is encoded.
#[derive(Default)]
struct Seen {
    octets: usize,
    /// By how much quoted-printable makes it longer, without its soft line breaks.
    longer: usize,
    needs_encoding: bool,
    bare_line_feed: bool,
    line: usize,
    /// The last two octets, the very last first.
    last: [u8; 2],
}

impl Seen {
    /// The longest line, with its end, that is left as it is.
    const MAX_LINE: usize = 77;

    fn take(&mut self, octets: &[u8], shown: bool) {
        for &octet in octets {
            self.line += 1;
            match octet {
                b'\n' => self.line_feed(shown),
                127.. => {
                    self.needs_encoding = true;
                    self.longer += 2;
                }
                b'=' => self.longer += 2,
                b'\r' if !shown => self.longer += 2,
                _ => {}
            }
            self.last = [octet, self.last[0]];
        }
        self.octets += octets.len();
    }

    fn line_feed(&mut self, shown: bool) {
        let bare = self.last[0] != b'\r';
        let before = if bare { self.last[0] } else { self.last[1] };
        self.bare_line_feed |= bare;
        self.needs_encoding |= self.line > Self::MAX_LINE;
        self.line = 0;
        if !shown {
            self.longer += 2;
            self.needs_encoding |= bare;
            return;
        }
        self.longer += usize::from(bare);
        if matches!(before, b' ' | b'\t') {
            self.longer += 2;
            self.needs_encoding = true;
        }
    }

    fn encoding(mut self, shown: bool) -> TransferEncoding {
        if matches!(self.last[0], b' ' | b'\t') {
            self.longer += 2;
            self.needs_encoding = true;
        }
        if !self.needs_encoding && self.line <= Self::MAX_LINE {
            return TransferEncoding::SevenBit { line_breaks: shown && self.bare_line_feed };
        }
        let quoted = self.octets + self.octets / 76 + self.longer;
        match quoted < ((self.octets * 4 / 3 + 3) & !3) {
            true => TransferEncoding::QuotedPrintable { line_breaks: shown },
            false => TransferEncoding::Base64,
        }
    }
}

/// Writes text with CRLF for every LF; `last` is the octet before it. Its own last octet.
fn write_lines(octets: &[u8], mut last: u8, output: &mut impl Writer) -> u8 {
    for line in octets.split_inclusive(|octet| *octet == b'\n') {
        match line {
            [text @ .., b'\n'] if text.last().copied().unwrap_or(last) != b'\r' => {
                output.write(text);
                output.write(b"\r\n");
            }
            _ => output.write(line),
        }
        last = line.last().copied().unwrap_or(last);
    }
    last
}

/// A line of quoted-printable depends on nothing before it, and on nothing behind the next one. So all lines of a piece
/// are final but the last two, which are encoded again with the next piece.
fn write_quoted_printable(
    content: &Octets,
    line_breaks: bool,
    piece: usize,
    output: &mut impl Writer,
) -> io::Result<()> {
    let encoder = match line_breaks {
        true => QuotedPrintableEncoder::new().preserve_line_breaks(),
        false => QuotedPrintableEncoder::new(),
    };
    let (mut rest, mut encoded) = (Vec::new(), Vec::new());
    for piece in content.pieces(piece) {
        rest.extend_from_slice(&piece?);
        encoded.clear();
        encoder.encode_into(&rest, &mut encoded);
        let mut ends = encoded.iter().enumerate().rev().filter(|(_, octet)| **octet == b'\n').map(|(at, _)| at + 1);
        if let Some(end) = ends.nth(2) {
            output.write(&encoded[..end]);
            rest.drain(..octets_behind(&encoded[..end], &rest));
        }
    }
    encoder.encode_into(&rest, output);
    Ok(())
}

/// How many octets of `text` stand behind the first lines of its encoding.
fn octets_behind(mut encoded: &[u8], text: &[u8]) -> usize {
    let mut count = 0;
    loop {
        encoded = match encoded {
            [] => return count,
            [b'=', b'\r', b'\n', rest @ ..] => rest,
            [b'=', _, _, rest @ ..] => {
                count += 1;
                rest
            }
            [b'\r', b'\n', rest @ ..] => {
                count += if text[count..].starts_with(b"\r\n") { 2 } else { 1 };
                rest
            }
            [_, rest @ ..] => {
                count += 1;
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use mail_builder::mime::MimePart;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// The builder's headers and octets of a text, at once.
    fn at_once(text: &[u8], shown: bool) -> String {
        let part = MimePart::new("text/csv", text);
        let part = if shown { part.inline() } else { part.attachment("a") };
        let mut written = Vec::new();
        part.write_part(&mut written);
        let written = String::from_utf8_lossy(&written).into_owned();
        written.split_once("Content-Transfer-Encoding: ").unwrap().1.to_owned()
    }

    fn in_pieces(text: &[u8], shown: bool, piece: usize) -> String {
        let content = Octets::from(text.to_vec());
        let encoding = TransferEncoding::of_text(&content, shown, piece).unwrap();
        let mut written = format!("{}\r\n\r\n", encoding.name()).into_bytes();
        encoding.write(&content, piece, &mut written).unwrap();
        String::from_utf8_lossy(&written).into_owned()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_text_in_pieces_is_encoded_as_the_builder_does_it(
            parts in prop::collection::vec(
                prop_oneof![
                    6 => "[a-z,;]{1,40}",
                    1 => "[a-z]{60,160}",
                    4 => select(vec!["\r\n", "\n", " ", "\t"]).prop_map(str::to_owned),
                    1 => select(vec!["\r", "=", "ä", "☃☃☃☃☃☃☃☃☃☃", "=====================", "\u{7f}", " \r\n", "\t\n"])
                        .prop_map(str::to_owned),
                ],
                0..60,
            ),
            plain in any::<bool>(),
            shown in any::<bool>(),
            lines in 1_usize..8,
        ) {
            // Half of them are texts that can stay as they are.
            let keep = |part: &&String| !plain || part.len() < 41 && !part.contains([' ', '\t', '\r', '=', '\u{7f}', 'ä', '☃']);
            let text: Vec<String> = parts.iter().filter(keep).cloned().collect();
            let text = text.join(if plain { "\n" } else { "" });
            let text = if plain && !shown { text.replace('\n', "\r\n") } else { text };
            prop_assert_eq!(in_pieces(text.as_bytes(), shown, 57 * lines), at_once(text.as_bytes(), shown));
        }
    }
}
