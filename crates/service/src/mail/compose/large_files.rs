//! Files that do not lie in memory go into a message in pieces.
//!
//! The builder wants a part as one slice. So it gets a placeholder, already encoded as far as it knows, and when it writes
//! that, the file is written instead.

use std::io;

use mail_builder::{MessageBuilder, Writer};
use mailapi_model::{Draft, DraftAttachment, MessageId, Octets};

use super::header_values::content_type;
use super::transfer_encoding::{PIECE, TransferEncoding};
use super::{ComposeError, Content};

/// The files of a draft that do not lie in memory.
pub(super) struct LargeFiles<'x> {
    /// By their numbers.
    files: Vec<(usize, LargeFile<'x>)>,
}

struct LargeFile<'x> {
    placeholder: Vec<u8>,
    content: &'x Octets,
    encoding: TransferEncoding,
}

impl<'x> LargeFiles<'x> {
    pub(super) fn of(draft: &'x Draft, id: MessageId) -> io::Result<Self> {
        let files = draft.attachments().iter().enumerate();
        let large = files.filter(|(_, file)| file.content.in_memory().is_none());
        let files = large.map(|(number, file)| Ok((number, LargeFile::new(number, file, id)?)));
        Ok(Self { files: files.collect::<io::Result<_>>()? })
    }

    /// What the builder gets for a file.
    pub(super) fn content(&self, number: usize, file: &'x DraftAttachment) -> Content<'x> {
        match self.files.iter().find(|(large, _)| *large == number) {
            Some((_, file)) => Content::Encoded(file.placeholder.clone(), file.encoding.name()),
            None => Content::Plain(file.content.in_memory().map(AsRef::as_ref).unwrap_or_default()),
        }
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

impl<'x> LargeFile<'x> {
    fn new(number: usize, file: &'x DraftAttachment, id: MessageId) -> io::Result<Self> {
        let encoding = match content_type(&file.content_type).is_text() {
            true => TransferEncoding::of_text(&file.content, file.content_id.is_some(), PIECE)?,
            false => TransferEncoding::Base64,
        };
        Ok(Self { placeholder: placeholder(number, id), content: &file.content, encoding })
    }
}

/// What cannot stand in the draft: whoever wrote that did not know the identifier, which is random and drawn afterwards.
fn placeholder(number: usize, id: MessageId) -> Vec<u8> {
    format!("=_file_{number}_{id}").into_bytes()
}

/// Writes a file where its placeholder is to be written.
struct Filled<'x, W> {
    output: W,
    files: Vec<(usize, LargeFile<'x>)>,
    missing: usize,
    error: Option<io::Error>,
}

impl<W: Writer> Writer for Filled<'_, W> {
    fn write(&mut self, octets: &[u8]) {
        match self.files.iter().find(|(_, file)| file.placeholder == octets) {
            None => self.output.write(octets),
            Some((_, file)) => {
                self.missing = self.missing.saturating_sub(1);
                if let Err(error) = file.encoding.write(file.content, PIECE, &mut self.output) {
                    self.error.get_or_insert(error);
                }
            }
        }
    }
}
