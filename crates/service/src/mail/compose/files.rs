//! Writes files into a message unchanged and in pieces, from memory or disk.
//!
//! The builder needs a part as one slice, and would convert the line ends of text. It therefore gets a placeholder
//! marked as already encoded. When it writes the placeholder, the file is written instead.

use std::io;

use mail_builder::encoders::Base64Encoder;
use mail_builder::{MessageBuilder, Writer};
use mailapi_model::{Blob, Draft, DraftAttachment, MessageId};

use super::ComposeError;

/// Bytes of a file read at once, in whole lines of base64: 57 bytes become 76 characters.
const PIECE: usize = 57 * 1024;

/// Maximum length of a line without its end (RFC 5322 section 2.1.1).
const MAX_LINE_BYTES: usize = 998;

/// The files of a draft, in order.
pub(super) struct Files<'x>(Vec<File<'x>>);

/// A file and its encoding in the message.
pub(super) struct File<'x> {
    /// The text passed to the builder.
    pub(super) placeholder: Vec<u8>,
    /// The media type with parameters.
    pub(super) content_type: &'x str,
    content: &'x Blob,
    encoding: TransferEncoding,
}

/// A transfer encoding (RFC 2045 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransferEncoding {
    Base64,
    /// Unchanged.
    SevenBit,
}

impl<'x> Files<'x> {
    pub(super) fn of(draft: &'x Draft, id: MessageId) -> io::Result<Self> {
        let files = draft.attachments().iter().enumerate();
        Ok(Self(files.map(|(number, file)| File::new(number, file, id)).collect::<io::Result<_>>()?))
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, File<'x>> {
        self.0.iter()
    }

    /// Writes the message with the files in place of their placeholders.
    pub(super) fn write(self, message: MessageBuilder<'_>, output: &mut impl Writer) -> Result<(), ComposeError> {
        if self.0.is_empty() {
            message.serialize(output);
            return Ok(());
        }
        let missing = self.0.len();
        let mut filled = Filled { output, files: self.0, missing, error: None };
        message.serialize(&mut filled);
        match filled {
            Filled { error: Some(error), .. } => Err(error.into()),
            // Without this check, a message would be sent without its file.
            Filled { missing: 1.., .. } => Err(io::Error::other("an attachment was not written to the message").into()),
            Filled { .. } => Ok(()),
        }
    }
}

impl<'x> File<'x> {
    /// A message is attached without encoding, since readers expect none there (RFC 2046 section 5.2.1). A
    /// message that needs encoding is attached as a plain file.
    fn new(number: usize, file: &'x DraftAttachment, id: MessageId) -> io::Result<Self> {
        let is_message = is_message(&file.content_type);
        let (encoding, content_type) = match is_message && is_seven_bit(&file.content, PIECE)? {
            true => (TransferEncoding::SevenBit, file.content_type.as_str()),
            false if is_message => (TransferEncoding::Base64, "application/octet-stream"),
            false => (TransferEncoding::Base64, file.content_type.as_str()),
        };
        Ok(Self { placeholder: placeholder(number, id), content_type, content: &file.content, encoding })
    }

    /// The name of the transfer encoding.
    pub(super) const fn encoding(&self) -> &'static str {
        match self.encoding {
            TransferEncoding::Base64 => "base64",
            TransferEncoding::SevenBit => "7bit",
        }
    }

    /// Writes the file; `piece` must be a multiple of 57.
    fn write(&self, piece: usize, output: &mut impl Writer) -> io::Result<()> {
        for piece in self.content.pieces(piece) {
            let piece = piece?;
            match self.encoding {
                TransferEncoding::Base64 => drop(Base64Encoder::new().wrap_lines().encode_into(&piece, output)),
                TransferEncoding::SevenBit => output.write(&piece),
            }
        }
        Ok(())
    }
}

/// Whether the media type permits only 7bit, 8bit and binary. The types for international addresses may be encoded
/// (RFC 6532 section 3.7).
fn is_message(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("message/") && !essence.starts_with("message/global")
}

/// Whether the content is valid 7bit (RFC 2045 section 2.7): ASCII without NUL, in lines of limited length that end
/// with CRLF.
fn is_seven_bit(content: &Blob, piece: usize) -> io::Result<bool> {
    let (mut line, mut last) = (0, 0);
    for piece in content.pieces(piece) {
        for &byte in piece?.iter() {
            let ends_line = byte == b'\n';
            if !matches!(byte, 1..128) || ends_line != (last == b'\r') {
                return Ok(false);
            }
            line = if ends_line { 0 } else { line + 1 };
            // The CR of the line end is counted before the LF identifies it.
            if line > MAX_LINE_BYTES + usize::from(byte == b'\r') {
                return Ok(false);
            }
            last = byte;
        }
    }
    Ok(last != b'\r')
}

/// A text that cannot occur in the draft: the identifier is random, and was generated after the draft was written.
fn placeholder(number: usize, id: MessageId) -> Vec<u8> {
    format!("=_file_{number}_{id}").into_bytes()
}

/// A writer that replaces placeholders by their files.
struct Filled<'x, W> {
    output: W,
    files: Vec<File<'x>>,
    missing: usize,
    error: Option<io::Error>,
}

impl<W: Writer> Writer for Filled<'_, W> {
    fn write(&mut self, bytes: &[u8]) {
        match self.files.iter().find(|file| file.placeholder == bytes) {
            None => self.output.write(bytes),
            Some(file) => {
                self.missing = self.missing.saturating_sub(1);
                if let Err(error) = file.write(PIECE, &mut self.output) {
                    self.error.get_or_insert(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seven_bit(text: &str) -> bool {
        is_seven_bit(&Blob::from(text.as_bytes().to_vec()), 57).unwrap()
    }

    #[test]
    fn what_may_not_stand_on_the_wire_is_known() {
        let long = "x".repeat(998);
        for text in ["a\nb", "a\rb", "a\r", "\r\r\n", "a\0", "ä", &format!("{long}x"), &format!("a\r\n{long}x\r\n")] {
            assert!(!seven_bit(text), "{text:?}");
        }
        for text in ["", "a", "a\r\n", "\r\n\r\n", "a\tb\x7f\x1b", &long, &format!("{long}\r\n{long}\r\n")] {
            assert!(seven_bit(text), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_file_in_pieces_is_encoded_as_at_once(bytes in prop::collection::vec(any::<u8>(), 0..2000), lines in 1_usize..8) {
            let content = Blob::from(bytes.clone());
            let encoding = TransferEncoding::Base64;
            let file = File { placeholder: Vec::new(), content_type: "text/csv", content: &content, encoding };
            let (mut written, mut at_once) = (Vec::new(), Vec::new());
            file.write(57 * lines, &mut written).unwrap();
            Base64Encoder::new().wrap_lines().encode_into(&bytes, &mut at_once);
            prop_assert_eq!(written, at_once);
        }
    }
}
