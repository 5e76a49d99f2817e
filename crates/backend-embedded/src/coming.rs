//! A message that is coming, by SMTP or IMAP. Its protocol hands out the pieces of a long one as they come, and nothing of
//! a short one before its end.

use mailapi_backend::{Spool, SpoolError, SpoolWriter};
use mailapi_model::Octets;

/// What has come of a message.
#[derive(Debug)]
pub(crate) struct Coming {
    spool: Spool,
    pieces: Option<SpoolWriter>,
}

impl Coming {
    pub(crate) const fn new(spool: Spool) -> Self {
        Self { spool, pieces: None }
    }

    /// Keeps a piece; when it cannot be kept, nothing is.
    pub(crate) async fn keep(&mut self, piece: &[u8]) -> Result<(), SpoolError> {
        let mut pieces = self.pieces.take().unwrap_or_else(|| self.spool.writer());
        pieces.push(piece).await?;
        self.pieces = Some(pieces);
        Ok(())
    }

    /// There will be no message.
    pub(crate) fn forget(&mut self) {
        self.pieces = None;
    }

    /// How many octets are kept.
    pub(crate) fn len(&self) -> usize {
        self.pieces.as_ref().map_or(0, SpoolWriter::len)
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message, whose last octets these are.
    pub(crate) async fn complete(&mut self, last: Vec<u8>) -> Result<Octets, SpoolError> {
        let Some(mut pieces) = self.pieces.take() else { return Ok(last.into()) };
        pieces.push(&last).await?;
        pieces.finish()
    }
}
