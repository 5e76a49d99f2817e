//! One response of a server.

use super::capabilities::Capabilities;
use super::connection::ClientError;
use super::fetch::FetchedMessage;
use super::folder::{FolderStatus, ListedFolder};
use super::limits::ClientLimits;
use super::namespace::Namespaces;
use super::quota::QuotaResource;
use super::search::UidSet;
use super::status::StatusResponse;
use crate::token::{Cursor, Frame, Part, SyntaxError, TOO_MANY};

/// Untagged data: part of a response, or an unsolicited change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untagged {
    /// A status; BYE announces the end of the connection.
    Status(StatusResponse),
    /// The server's capabilities.
    Capability(Capabilities),
    /// The number of messages in the selected mailbox.
    Exists(u32),
    /// The message with this sequence number was removed; higher numbers decrease by one.
    Expunge(u32),
    /// Data of a message.
    Fetch(Box<FetchedMessage>),
    /// The response about this sequence number exceeded [`ClientLimits::max_line`] or had too many values, and was
    /// skipped.
    TooLong(u32),
    /// A mailbox.
    List(ListedFolder),
    /// The parts of the hierarchy of names.
    Namespaces(Namespaces),
    /// The counts of a mailbox.
    FolderStatus(FolderStatus),
    /// The UIDs of a search result.
    Found(UidSet),
    /// A quota root.
    Quota(Vec<QuotaResource>),
    /// Any other response, by its keyword in upper case.
    Other(String),
}

/// Any response.
pub(super) enum Response {
    /// A continuation request. Its text is ignored: neither PLAIN nor a literal needs it.
    Continuation,
    /// Untagged data, and the tag that an ESEARCH response names.
    Untagged(Untagged, Option<String>),
    Tagged(String, StatusResponse),
}

impl Response {
    pub(super) fn read(frame: Frame, limits: &ClientLimits) -> Result<Self, ClientError> {
        const INVALID: SyntaxError = SyntaxError("invalid response");
        let Some(Part::Text(line)) = frame.parts().first() else { return Err(INVALID.into()) };
        if line.starts_with(b"+") {
            return Ok(Self::Continuation);
        }
        if let Some(rest) = line.strip_prefix(b"* ") {
            if let Some(status) = StatusResponse::read(rest) {
                return Ok(Self::Untagged(Untagged::Status(status), None));
            }
            let (untagged, tag) = Untagged::read(frame, limits)?;
            return Ok(Self::Untagged(untagged, tag));
        }
        let tag = frame.tag().ok_or(INVALID)?;
        let status = line.get(tag.len() + 1..).and_then(StatusResponse::read).ok_or(INVALID)?;
        Ok(Self::Tagged(tag, status))
    }
}

impl Untagged {
    fn read(frame: Frame, limits: &ClientLimits) -> Result<(Self, Option<String>), SyntaxError> {
        let mut cursor = Cursor::new(frame, limits.cursor_depth());
        cursor.byte(b'*', "expected untagged data")?;
        cursor.space()?;
        if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Self::read_numbered(&mut cursor, limits).map(|untagged| (untagged, None));
        }
        let word = cursor.keyword()?;
        if word == "ESEARCH" {
            return UidSet::read_esearch(&mut cursor).map(|(found, tag)| (Self::Found(found), tag));
        }
        Self::read_named(&mut cursor, word).map(|untagged| (untagged, None))
    }

    fn read_named(cursor: &mut Cursor, word: String) -> Result<Self, SyntaxError> {
        match word.as_str() {
            "SEARCH" => return UidSet::read_search(cursor).map(Self::Found),
            "CAPABILITY" => return Ok(Self::Capability(Capabilities::read(&cursor.text()))),
            _ => {}
        }
        if !cursor.try_byte(b' ') {
            return Ok(Self::Other(word));
        }
        match word.as_str() {
            "LIST" => ListedFolder::read(cursor).map(Self::List),
            "NAMESPACE" => Namespaces::read(cursor).map(Self::Namespaces),
            "STATUS" => FolderStatus::read(cursor).map(Self::FolderStatus),
            "QUOTA" => QuotaResource::read_root(cursor).map(Self::Quota),
            _ => Ok(Self::Other(word)),
        }
    }

    fn read_numbered(cursor: &mut Cursor, limits: &ClientLimits) -> Result<Self, SyntaxError> {
        let number = cursor.number()?;
        cursor.space()?;
        if cursor.try_keyword("FETCH") {
            cursor.space()?;
            return match FetchedMessage::read(cursor, number, limits.max_depth) {
                Err(TOO_MANY) => Ok(Self::TooLong(number)),
                message => Ok(Self::Fetch(Box::new(message?))),
            };
        }
        let word = cursor.keyword()?;
        match word.as_str() {
            "EXISTS" => Ok(Self::Exists(number)),
            "EXPUNGE" => Ok(Self::Expunge(number)),
            _ => Ok(Self::Other(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_cap_cost_a_message_its_data_alone() {
        let part = "(\"a\" \"b\" NIL NIL NIL \"7bit\" 1)";
        for (count, is_read) in [(1_000, true), (30_000, false)] {
            let line = format!("* 7 FETCH (UID 9 BODYSTRUCTURE ({} \"mixed\"))", part.repeat(count));
            let frame = Frame::new(vec![Part::Text(line.into_bytes())]);
            let read = Response::read(frame, &ClientLimits::default());
            assert_eq!(matches!(&read, Ok(Response::Untagged(Untagged::Fetch(_), None))), is_read);
            assert_eq!(matches!(&read, Ok(Response::Untagged(Untagged::TooLong(7), None))), !is_read);
        }
    }
}
