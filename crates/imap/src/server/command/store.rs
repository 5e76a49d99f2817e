//! The arguments of STORE, and lists of flags.

use super::select::modseq;
use crate::flag::Flags;
use crate::token::{Cursor, SyntaxError};

/// The action of STORE on each message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAction {
    /// Replace, add or remove.
    pub change: FlagChange,
    /// True for `.SILENT`: the client does not want the resulting flags.
    pub silent: bool,
    /// UNCHANGEDSINCE (RFC 7162 section 3.1.3): messages changed after this modification sequence stay as they are.
    pub unchanged_since: Option<u64>,
}

/// A change of flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagChange {
    /// `FLAGS`
    Replace(Flags),
    /// `+FLAGS`
    Add(Flags),
    /// `-FLAGS`
    Remove(Flags),
}

impl FlagChange {
    /// Returns the flags of a message after the change.
    pub fn apply(&self, before: &Flags) -> Flags {
        match self {
            Self::Replace(flags) => flags.clone(),
            Self::Add(flags) => before.with(flags),
            Self::Remove(flags) => before.without(flags),
        }
    }
}

/// Reads `(UNCHANGEDSINCE n) `, if present.
fn unchanged_since(cursor: &mut Cursor) -> Result<Option<u64>, SyntaxError> {
    if !cursor.try_byte(b'(') {
        return Ok(None);
    }
    cursor.try_space();
    if !cursor.try_keyword("UNCHANGEDSINCE") {
        return Err(SyntaxError("unknown modifier of STORE"));
    }
    cursor.space()?;
    let since = modseq(cursor)?;
    cursor.end_of_list()?;
    cursor.space()?;
    Ok(Some(since))
}

pub(super) fn action(cursor: &mut Cursor) -> Result<StoreAction, SyntaxError> {
    let unchanged_since = unchanged_since(cursor)?;
    let item = cursor.keyword()?;
    let (name, silent) = item.strip_suffix(".SILENT").map_or((item.as_str(), false), |name| (name, true));
    let change: fn(Flags) -> FlagChange = match name {
        "FLAGS" => FlagChange::Replace,
        "+FLAGS" => FlagChange::Add,
        "-FLAGS" => FlagChange::Remove,
        _ => return Err(SyntaxError("unknown store item")),
    };
    cursor.space()?;
    let flags = if cursor.peek() == Some(b'(') { flag_list(cursor)? } else { bare_flags(cursor)? };
    Ok(StoreAction { change: change(flags), silent, unchanged_since })
}

/// Reads flags in parentheses, possibly none.
pub(super) fn flag_list(cursor: &mut Cursor) -> Result<Flags, SyntaxError> {
    let mut flags = Flags::new();
    cursor.list(|cursor| add_flag(cursor, &mut flags))?;
    Ok(flags)
}

fn bare_flags(cursor: &mut Cursor) -> Result<Flags, SyntaxError> {
    let mut flags = Flags::new();
    add_flag(cursor, &mut flags)?;
    while !cursor.at_end() {
        cursor.space()?;
        add_flag(cursor, &mut flags)?;
    }
    Ok(flags)
}

fn add_flag(cursor: &mut Cursor, flags: &mut Flags) -> Result<(), SyntaxError> {
    if flags.insert_word(&cursor.flag()?) { Ok(()) } else { Err(SyntaxError("unknown system flag")) }
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::super::tests::parse;
    use super::*;

    fn action(line: &str) -> StoreAction {
        let Ok(Command::Store { action, .. }) = parse(line) else { panic!("{line}") };
        action
    }

    #[test]
    fn what_cannot_be_stored_is_refused() {
        for line in [
            "a STORE 1 FLAGS",
            "a STORE 1 FLAGS (\\Bogus)",
            "a STORE 1 FLAGS (a",
            "a STORE 1 FOO (a)",
            "a STORE 1 ++FLAGS (a)",
            "a STORE 1 () FLAGS (a)",
            "a STORE 1 (UNCHANGEDSINCE) FLAGS (a)",
            "a STORE 1 (CHANGEDSINCE 1) FLAGS (a)",
            "a STORE 1 (UNCHANGEDSINCE 1)FLAGS (a)",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn flags_come_with_and_without_parentheses() {
        let expected = FlagChange::Add(Flags::from_words(["\\Seen", "$Junk"]));
        assert_eq!(
            action("a UID STORE 1:* +FLAGS.SILENT (\\Seen \\Recent $Junk)"),
            StoreAction { change: expected.clone(), silent: true, unchanged_since: None }
        );
        let expected = StoreAction { change: expected, silent: false, unchanged_since: Some(7) };
        assert_eq!(action("a STORE 1 (UNCHANGEDSINCE 7) +flags \\Seen $Junk"), expected);
        assert_eq!(action("a STORE 1 FLAGS ()").change, FlagChange::Replace(Flags::new()));
    }

    #[test]
    fn changes_apply() {
        let before = Flags::from_words(["\\Seen"]);
        let flag = Flags::from_words(["\\Flagged"]);
        assert_eq!(FlagChange::Add(flag.clone()).apply(&before), Flags::from_words(["\\Seen", "\\Flagged"]));
        assert_eq!(FlagChange::Remove(before.clone()).apply(&before), Flags::new());
        assert_eq!(FlagChange::Replace(flag.clone()).apply(&before), flag);
    }
}
