//! LOGIN, AUTHENTICATE, ID, ENABLE.

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

pub(super) fn id(cursor: &mut Cursor) -> Result<Command, CommandError> {
    cursor.space()?;
    cursor.value()?;
    Ok(Command::Id)
}

pub(super) fn enable(cursor: &mut Cursor) -> Result<Command, CommandError> {
    let mut extensions = 0;
    while !cursor.at_end() {
        cursor.space()?;
        cursor.atom()?;
        extensions += 1;
    }
    if extensions == 0 { Err(SyntaxError("expected an extension").into()) } else { Ok(Command::Enable) }
}
