//! LOGIN, AUTHENTICATE, ID, ENABLE, COMPRESS.

use super::{Command, CommandError};
use crate::secret::Password;
use crate::token::{Cursor, SyntaxError};

pub(super) fn login(cursor: &mut Cursor) -> Result<Command, CommandError> {
    cursor.space()?;
    let username = cursor.astring_utf8()?;
    cursor.space()?;
    let password = Password::new(cursor.astring_utf8()?);
    Ok(Command::Login { username, password })
}

pub(super) fn authenticate(cursor: &mut Cursor) -> Result<Command, CommandError> {
    cursor.space()?;
    let mechanism = cursor.atom()?.to_ascii_uppercase();
    if cursor.at_end() {
        return Ok(Command::Authenticate { mechanism, initial_response: None });
    }
    cursor.space()?;
    Ok(Command::Authenticate { mechanism, initial_response: Some(cursor.astring_utf8()?) })
}

pub(super) fn compress(cursor: &mut Cursor) -> Result<Command, CommandError> {
    cursor.space()?;
    if cursor.try_keyword("DEFLATE") { Ok(Command::Compress) } else { Err(SyntaxError("unknown compression").into()) }
}

pub(super) fn id(cursor: &mut Cursor) -> Result<Command, CommandError> {
    cursor.space()?;
    cursor.value()?;
    Ok(Command::Id)
}

/// An extension that a client can enable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// CONDSTORE (RFC 7162): responses contain modification sequences.
    Condstore,
    /// QRESYNC (RFC 7162): VANISHED replaces EXPUNGE.
    Qresync,
    /// UTF8=ACCEPT (RFC 6855): names of mailboxes and quoted strings are UTF-8.
    Utf8,
    /// IMAP4rev2 (RFC 9051): its responses, which include those of UTF8=ACCEPT.
    Rev2,
}

pub(super) fn enable(cursor: &mut Cursor) -> Result<Command, CommandError> {
    let (mut known, mut named) = (Vec::new(), 0);
    while !cursor.at_end() {
        cursor.space()?;
        match cursor.atom()?.to_ascii_uppercase().as_str() {
            "CONDSTORE" => known.push(Extension::Condstore),
            "QRESYNC" => known.push(Extension::Qresync),
            "UTF8=ACCEPT" => known.push(Extension::Utf8),
            "IMAP4REV2" => known.push(Extension::Rev2),
            // Unknown extensions are ignored (RFC 5161 section 3.1).
            _ => {}
        }
        named += 1;
    }
    if named == 0 { Err(SyntaxError("expected an extension").into()) } else { Ok(Command::Enable(known)) }
}
