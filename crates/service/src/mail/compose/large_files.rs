//! Files that do not lie in memory go into a message in pieces.
//!
//! The builder wants a part as one slice. So it gets a placeholder, already encoded as far as it knows, and when it writes
//! that, the file is written instead.

use std::io;

use mail_builder::encoders::Base64Encoder;
use mail_builder::headers::content_type::ContentType;
use mail_builder::{MessageBuilder, Writer};
use mailapi_model::{Draft, DraftAttachment, MessageId, Octets};

use super::{ComposeError, Content};

/// Whole lines of base64: 57 octets become the 76 characters that RFC 2045 section 6.8 allows.
const PIECE: usize = 57 * 1024;

/// The files of a draft that do not lie in memory.
pub(super) struct LargeFiles<'x> {
    files: Vec<(Vec<u8>, &'x Octets)>,
    id: MessageId,
}

impl<'x> LargeFiles<'x> {
    pub(super) fn of(draft: &'x Draft, id: MessageId) -> Self {
        let large = draft.attachments().iter().enumerate().filter(|(_, file)| is_large(file));
        let files = large.map(|(number, file)| (placeholder(number, id), &file.content)).collect();
        Self { files, id }
    }

    /// What the builder gets for a file.
    pub(super) fn content(&self, number: usize, file: &'x DraftAttachment) -> io::Result<Content<'x>> {
        if is_large(file) {
            return Ok(Content::Encoded(placeholder(number, self.id), "base64"));
        }
        Ok(Content::Plain(match file.content.in_memory() {
            Some(octets) => octets.as_ref().into(),
            None => Vec::from(file.content.to_bytes()?).into(),
        }))
    }

    /// Writes the message, with the files in their places.
    pub(super) fn write(self, message: MessageBuilder<'_>, output: &mut impl Writer) -> Result<(), ComposeError> {
        if self.files.is_empty() {
            message.serialize(output);
            return Ok(());
        }
        let missing = self.files.len();
        let mut filled = Filled { output, files: self.files, missing, error: None };
        message.serialize(&mut filled);
        match filled {
            Filled { error: Some(error), .. } => Err(error.into()),
            // It would be a message without its file.
            Filled { missing: 1.., .. } => Err(io::Error::other("a file has found no place").into()),
            Filled { .. } => Ok(()),
        }
    }
}

/// Whether a file is written in pieces. The encoding of a text is chosen by all of it.
fn is_large(file: &DraftAttachment) -> bool {
    file.content.in_memory().is_none() && !ContentType::new(file.content_type.as_str()).is_text()
}

/// What cannot stand in the draft: whoever wrote that did not know the identifier, which is random and drawn afterwards.
fn placeholder(number: usize, id: MessageId) -> Vec<u8> {
    format!("=_file_{number}_{id}").into_bytes()
}

/// Writes a file where its placeholder is to be written.
struct Filled<'x, W> {
    output: W,
    files: Vec<(Vec<u8>, &'x Octets)>,
    missing: usize,
    error: Option<io::Error>,
}

impl<W: Writer> Writer for Filled<'_, W> {
    fn write(&mut self, octets: &[u8]) {
        match self.files.iter().find(|(placeholder, _)| placeholder == octets) {
            None => self.output.write(octets),
            Some((_, content)) => {
                self.missing = self.missing.saturating_sub(1);
                if let Err(error) = write_base64(content, &mut self.output) {
                    self.error.get_or_insert(error);
                }
            }
        }
    }
}

fn write_base64(content: &Octets, output: &mut impl Writer) -> io::Result<()> {
    for piece in content.pieces(PIECE) {
        Base64Encoder::new().wrap_lines().encode_into(&piece?, output);
    }
    Ok(())
}
