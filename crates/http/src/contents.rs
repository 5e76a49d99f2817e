//! Decodes the contents of attachments from base64 (RFC 4648 section 4), with or without line breaks and padding.

use std::io::{self, BufReader, Read};
use std::ops::Range;

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::read::DecoderReader;
use base64::{DecodeError, Engine};
use mailapi_model::Blob;
use mailapi_service::{Buffer, BufferWriter};

use crate::request_body::LongText;

const CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const ENGINE: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);

/// Read size for long texts.
const PIECE: usize = 64 * 1024;

/// Contents of a request's attachments while they are decoded. Long contents are written one after the other to one
/// file, so that many attachments need no more memory than one.
pub(crate) struct Contents {
    long: BufferWriter,
    /// The first write error.
    lost: Option<io::Error>,
}

/// Content of one attachment.
pub(crate) enum Content {
    Here(Blob),
    /// Position among the long contents.
    Long(Range<usize>),
}

impl Contents {
    /// Writes long contents to `buffer`.
    pub(crate) fn new(buffer: &Buffer) -> Self {
        Self { long: buffer.writer(), lost: None }
    }

    /// Decodes `text`; `None` if it is not base64. Blocks if the text is long.
    pub(crate) fn decode(&mut self, text: LongText) -> Option<Content> {
        match text {
            LongText::Here(text) => decoded(text).map(|bytes| Content::Here(bytes.into())),
            LongText::Aside(text) => {
                let from = self.long.len();
                match decode_into(text.reader(), &mut self.long, PIECE) {
                    Ok(true) => Some(Content::Long(from..self.long.len())),
                    Ok(false) => None,
                    Err(error) => {
                        self.lost.get_or_insert(error);
                        None
                    }
                }
            }
        }
    }

    /// Returns all decoded contents.
    ///
    /// # Errors
    /// The first write error.
    pub(crate) fn finish(self) -> io::Result<ReadContents> {
        match self.lost {
            Some(error) => Err(error),
            None => Ok(ReadContents(self.long.finish()?)),
        }
    }
}

/// Long contents of a request's attachments.
pub(crate) struct ReadContents(Blob);

impl ReadContents {
    /// Content of one attachment.
    pub(crate) fn get(&self, content: Content) -> Blob {
        match content {
            Content::Here(bytes) => bytes,
            Content::Long(range) => self.0.slice(range),
        }
    }
}

fn decoded(text: String) -> Option<Vec<u8>> {
    let mut bytes = text.into_bytes();
    bytes.retain(|byte| !byte.is_ascii_whitespace());
    ENGINE.decode(bytes).ok()
}

/// Decodes in pieces; returns whether the text is base64.
fn decode_into(text: impl Read, output: &mut impl io::Write, piece: usize) -> io::Result<bool> {
    let text = WithoutSpace(BufReader::with_capacity(piece, text));
    let mut decoder = BufReader::with_capacity(piece, DecoderReader::new(text, &ENGINE));
    match io::copy(&mut decoder, output) {
        Ok(_) => Ok(true),
        Err(error) if error.get_ref().is_some_and(|cause| cause.is::<DecodeError>()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Skips white space.
struct WithoutSpace<R>(R);

impl<R: Read> Read for WithoutSpace<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.0.read(buffer)?;
            let mut kept = 0;
            for at in 0..read {
                if !buffer[at].is_ascii_whitespace() {
                    buffer[kept] = buffer[at];
                    kept += 1;
                }
            }
            if kept > 0 || read == 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns at most this many bytes at once. `BufReader` bypasses its buffer for larger reads, so short reads have
    /// to come from here.
    struct InPieces<'a>(&'a [u8], usize);

    impl Read for InPieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(self.1);
            self.0.read(&mut buffer[..most])
        }
    }

    fn decoded_in_pieces(text: &str, piece: usize) -> Option<Vec<u8>> {
        let mut output = Vec::new();
        decode_into(InPieces(text.as_bytes(), piece), &mut output, piece).unwrap().then_some(output)
    }

    #[test]
    fn what_is_no_base64_is_refused_and_line_breaks_are_not() {
        for text in ["SGVsbG8h!", "SGVs*", "=", "S", "SGVsbG8h==x", "SGVsbG8=SGVs", "====", "SGVsbG8h===="] {
            assert_eq!(decoded(text.to_owned()), None, "{text}");
            for piece in [1, 3, PIECE] {
                assert_eq!(decoded_in_pieces(text, piece), None, "{text}");
            }
        }
        for text in ["SGVsbG8h", "SGVs\r\nbG8h\r\n", "SGVs bG8h"] {
            assert_eq!(decoded(text.to_owned()).as_deref(), Some(&b"Hello!"[..]), "{text}");
        }
        assert_eq!(decoded("SGVsbG8".to_owned()), decoded("SGVsbG8=".to_owned()));
        assert_eq!(decoded(String::new()).as_deref(), Some(&b""[..]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn a_long_text_is_decoded_as_a_short_one(
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            (width, unpadded) in (1_usize..200, any::<bool>()),
            noise in prop::option::of((any::<prop::sample::Index>(), "[=A-Za-z0-9+/ *\\n]{1,5}")),
            cut in prop::option::of(any::<prop::sample::Index>()),
            piece in prop_oneof![1_usize..10, 1_usize..2000],
        ) {
            let mut text = ENGINE.encode(&bytes);
            if unpadded {
                text.truncate(text.trim_end_matches('=').len());
            }
            let lines: Vec<_> = text.as_bytes().chunks(width).map(|line| String::from_utf8_lossy(line)).collect();
            let mut text = lines.join("\r\n");
            if let Some((at, noise)) = noise {
                text.insert_str(at.index(text.len() + 1), &noise);
            }
            if let Some(at) = cut {
                text.truncate(at.index(text.len() + 1));
            }
            prop_assert_eq!(decoded_in_pieces(&text, piece), decoded(text));
        }
    }
}
