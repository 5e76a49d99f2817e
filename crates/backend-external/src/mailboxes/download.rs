//! Streams bytes as they arrive.

use bytes::Bytes;
use futures_util::stream;
use mailapi_backend::mime::TransferDecoder;
use mailapi_backend::{ByteStream, MailboxError};
use mailapi_imap::client::Event;

use super::content::Content;
use crate::imap_pool::{ImapError, PooledConnection};

/// The maximum size of a piece from memory.
const PIECE: usize = 64 * 1024;
/// Bytes that are collected before they are passed on: each piece costs a write and a wake-up on both sides. A short
/// download is passed on as one piece.
const GATHERED: usize = 128 * 1024;
/// Extra space for decoders, which reserve as if line ends were digits too.
const ROOM_FOR_LINE_ENDS: usize = 4 * 1024;

/// A download in progress. It holds its connection until the end. Dropping it earlier closes the connection.
pub(super) struct Download {
    pooled: Option<PooledConnection>,
    decoder: Option<TransferDecoder>,
    promised: u64,
    given: u64,
    /// Called with the actual size if it differs from the promised one.
    on_other_size: Option<Box<dyn FnOnce(u64) + Send>>,
}

/// Streams the decoded bytes of a content; `promised` is their expected number.
pub(super) fn stream(
    content: Content,
    pooled: PooledConnection,
    decoder: TransferDecoder,
    promised: u64,
    on_other_size: impl FnOnce(u64) + Send + 'static,
) -> ByteStream {
    match content {
        Content::There(bytes) => {
            let mut decoded = Vec::new();
            let mut decoder = decoder;
            decoder.push(&bytes, &mut decoded);
            decoder.finish(&mut decoded);
            of_memory(decoded)
        }
        Content::Coming(_) => {
            let (pooled, decoder) = (Some(pooled), Some(decoder));
            let on_other_size: Option<Box<dyn FnOnce(u64) + Send>> = Some(Box::new(on_other_size));
            let download = Download { pooled, decoder, promised, given: 0, on_other_size };
            Box::pin(stream::try_unfold(download, Download::next))
        }
    }
}

/// Streams bytes from memory.
pub(super) fn of_memory(bytes: Vec<u8>) -> ByteStream {
    let bytes = Bytes::from(bytes);
    let pieces = (0..bytes.len()).step_by(PIECE).map(move |at| Ok(bytes.slice(at..bytes.len().min(at + PIECE))));
    Box::pin(stream::iter(pieces))
}

impl Download {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, MailboxError> {
        let left = usize::try_from(self.promised.saturating_sub(self.given)).unwrap_or(GATHERED);
        let room = if left == 0 { 0 } else { left.min(GATHERED) + ROOM_FOR_LINE_ENDS };
        let mut decoded = Vec::with_capacity(room);
        while let Some(pooled) = &mut self.pooled {
            let connection = pooled.connection();
            match connection.event().await? {
                Event::BodyPiece(_) => {
                    if let Some(decoder) = &mut self.decoder {
                        decoder.push(connection.body_piece(), &mut decoded);
                    }
                }
                Event::BodyEnd => {
                    if let Some(decoder) = self.decoder.take() {
                        decoder.finish(&mut decoded);
                    }
                }
                Event::Done(status) => {
                    self.pooled = None;
                    if !status.is_ok() {
                        return Err(ImapError::Refused(status).into());
                    }
                    self.compare(decoded.len() as u64)?;
                }
                _ => {}
            }
            // A reader with all promised bytes asks for no more. So read to the tagged response before the last
            // piece: otherwise each download would close its connection.
            if decoded.len() >= GATHERED && self.given + decoded.len() as u64 != self.promised {
                break;
            }
        }
        self.given += decoded.len() as u64;
        Ok((!decoded.is_empty()).then(|| (Bytes::from(decoded), self)))
    }

    /// Compares the size at the end of the response; `last` bytes are not yet passed on.
    fn compare(&mut self, last: u64) -> Result<(), MailboxError> {
        let given = self.given + last;
        if given == self.promised {
            return Ok(());
        }
        if let Some(report) = self.on_other_size.take() {
            report(given);
        }
        Err(MailboxError::Unavailable("the attachment does not have its expected size".to_owned()))
    }
}
