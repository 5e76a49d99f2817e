//! The arguments of APPEND.

use std::fmt;

use jiff::Timestamp;

use super::CommandError;
use super::store::flag_list;
use crate::datetime::parse_date_time;
use crate::flag::Flags;
use crate::token::{Cursor, SyntaxError};

/// A message to store.
#[derive(Clone, PartialEq, Eq)]
pub struct AppendMessage {
    /// The initial flags.
    pub flags: Flags,
    /// The internal date; `None` means now.
    pub internal_date: Option<Timestamp>,
    /// The message as sent: headers, empty line, body. Never empty.
    pub bytes: Vec<u8>,
    /// Bytes already returned by [`crate::server::session::Step::Keep`]; `bytes` continue after them.
    pub kept: usize,
}

impl fmt::Debug for AppendMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendMessage")
            .field("flags", &self.flags)
            .field("internal_date", &self.internal_date)
            .field("bytes", &(self.kept + self.bytes.len()))
            .finish()
    }
}

pub(super) fn message(cursor: &mut Cursor) -> Result<AppendMessage, CommandError> {
    let mut flags = Flags::new();
    if cursor.peek() == Some(b'(') {
        flags = flag_list(cursor)?;
        cursor.space()?;
    }
    let mut internal_date = None;
    if cursor.peek() == Some(b'"') {
        let text = cursor.astring_utf8()?;
        internal_date = Some(parse_date_time(&text).ok_or(SyntaxError("invalid date-time"))?);
        cursor.space()?;
    }
    let bytes = cursor.literal()?;
    if bytes.is_empty() {
        return Err(CommandError::Refused { code: "CANNOT", text: "A message cannot be empty" });
    }
    Ok(AppendMessage { flags, internal_date, bytes, kept: cursor.kept() })
}
