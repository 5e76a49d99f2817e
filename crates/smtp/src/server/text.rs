//! The text of a message being received, with its limits.

use super::budget::Share;
use super::config::Config;

/// Minimum size of a message buffer.
const MIN_BYTES: usize = 4096;

/// Largest read that fits in the buffer beyond the end of a piece.
const READ_BYTES: usize = 64 * 1024;

/// Result at the end of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The message, or its rest after the pieces; every line ends in CRLF.
    Message(Vec<u8>, Share),
    /// The text is not accepted as a message.
    Refused(Refusal),
}

/// Why a text is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The text contains a bare CR or LF.
    BareLineEnd,
    /// The message is longer than the limit.
    TooLong,
    /// The message budget is exhausted, or the host lost a piece.
    NoRoom,
}

/// The text so far.
pub(super) struct Text {
    /// The text that was not returned as a piece yet.
    body: Vec<u8>,
    /// Length of the message so far, with the pieces returned and the text dropped for lack of room.
    length: usize,
    max_bytes: usize,
    piece_bytes: usize,
    spare_bytes: usize,
    share: Share,
    too_long: bool,
    no_room: bool,
    bare_line_end: bool,
}

impl Text {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            body: Vec::new(),
            length: 0,
            max_bytes: config.max_message_bytes,
            piece_bytes: config.piece_bytes,
            spare_bytes: config.spare_bytes,
            share: Share::of(config.budget.clone()),
            too_long: false,
            no_room: false,
            bare_line_end: false,
        }
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) {
        // A message that will be refused needs no more memory.
        if self.bare_line_end || self.too_long {
            return;
        }
        // Without room, the length still decides between a permanent and a temporary failure.
        self.length = self.length.saturating_add(bytes.len());
        if self.length > self.max_bytes {
            self.too_long = true;
            self.forget();
        } else if !self.no_room && self.make_room(bytes.len()) {
            self.body.extend_from_slice(bytes);
        } else {
            self.lose();
        }
    }

    /// Grows the buffer explicitly, so that the budget counts its real capacity.
    fn make_room(&mut self, bytes: usize) -> bool {
        let needed = self.body.len() + bytes;
        if needed <= self.body.capacity().saturating_sub(self.spare_bytes) {
            return true;
        }
        // Doubling keeps copies rare. A streamed message needs room for one piece and one read only.
        let longest = self.max_bytes.min(self.piece_bytes.saturating_add(READ_BYTES)).max(needed);
        let capacity = needed.saturating_mul(2).clamp(MIN_BYTES.min(longest), longest) + self.spare_bytes;
        if !self.share.grow(capacity.saturating_sub(self.body.capacity())) {
            return false;
        }
        self.body.reserve_exact(capacity - self.body.len());
        true
    }

    /// Called before each read, when the host has stored the last piece: until then, the piece counts.
    pub(super) fn settle(&mut self) {
        if self.body.capacity() == 0 {
            self.share.release();
        }
    }

    /// Returns the buffered text once it is longer than a piece.
    pub(super) fn take_piece(&mut self) -> Option<Vec<u8>> {
        if self.body.len() <= self.piece_bytes {
            return None;
        }
        Some(std::mem::take(&mut self.body))
    }

    /// Marks the message as lost: the host could not keep a piece.
    pub(super) fn lose(&mut self) {
        self.no_room = true;
        self.forget();
    }

    fn forget(&mut self) {
        self.body = Vec::new();
        self.share.release();
    }

    pub(super) fn refuse_line_end(&mut self) {
        self.bare_line_end = true;
        self.forget();
    }

    /// Returns why there will be no message, if that is certain. A bare line end takes precedence over the length, and the
    /// length over the room, in whichever order they came.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        if self.bare_line_end {
            Some(Refusal::BareLineEnd)
        } else if self.too_long {
            Some(Refusal::TooLong)
        } else if self.no_room {
            Some(Refusal::NoRoom)
        } else {
            None
        }
    }

    /// Returns the number of bytes so far.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn finish(self) -> Received {
        match self.refusal() {
            Some(refusal) => Received::Refused(refusal),
            None => Received::Message(self.body, self.share),
        }
    }
}
