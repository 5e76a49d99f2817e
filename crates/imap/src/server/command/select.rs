//! The parameters of SELECT and EXAMINE, and the modifiers of FETCH (RFC 4466, RFC 7162).

use super::CommandError;
use super::message_set::UidRanges;
use crate::token::{Cursor, SyntaxError};

/// The parameters of SELECT and EXAMINE.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectParameters {
    /// CONDSTORE (RFC 7162 section 3.1.8), which enables that extension.
    pub condstore: bool,
    /// QRESYNC (RFC 7162 section 3.2.5): report the changes since an earlier session.
    pub resync: Option<Resync>,
}

/// What a client knows of a mailbox from an earlier session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resync {
    /// The UIDVALIDITY at that time.
    pub uid_validity: u32,
    /// The modification sequence up to which the client knows all changes.
    pub modseq: u64,
    /// The UIDs that the client knows; `None` for all.
    pub known: Option<UidRanges>,
}

/// The modifiers of FETCH.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchModifiers {
    /// CHANGEDSINCE (RFC 7162 section 3.1.4.1): only messages changed after this modification sequence.
    pub changed_since: Option<u64>,
    /// VANISHED (RFC 7162 section 3.2.6): also report messages removed since then.
    pub vanished: bool,
}

/// The largest modification sequence (RFC 7162 section 7, `mod-sequence-value`).
const MAX_MODSEQ: u64 = i64::MAX as u64;

pub(super) fn modseq(cursor: &mut Cursor) -> Result<u64, SyntaxError> {
    let modseq = cursor.number64()?;
    if modseq <= MAX_MODSEQ { Ok(modseq) } else { Err(SyntaxError("number too large")) }
}

/// Reads ` (CONDSTORE)` or ` (QRESYNC (...))`, if present.
pub(super) fn parameters(cursor: &mut Cursor) -> Result<SelectParameters, CommandError> {
    let mut parameters = SelectParameters::default();
    if cursor.at_end() {
        return Ok(parameters);
    }
    cursor.space()?;
    let words = cursor.list(|cursor| parameter(cursor, &mut parameters))?;
    if words.is_empty() { Err(SyntaxError("expected a parameter").into()) } else { Ok(parameters) }
}

fn parameter(cursor: &mut Cursor, parameters: &mut SelectParameters) -> Result<(), SyntaxError> {
    match cursor.keyword()?.as_str() {
        "CONDSTORE" => parameters.condstore = true,
        "QRESYNC" => {
            cursor.space()?;
            parameters.resync = Some(resync(cursor)?);
        }
        _ => return Err(SyntaxError("unknown parameter of SELECT")),
    }
    Ok(())
}

/// Reads `(uidvalidity modseq [known-uids] [(known-sequence-set known-uid-set)])`.
fn resync(cursor: &mut Cursor) -> Result<Resync, SyntaxError> {
    cursor.byte(b'(', "expected a list")?;
    cursor.try_space();
    let uid_validity = cursor.number()?;
    cursor.space()?;
    let mut resync = Resync { uid_validity, modseq: modseq(cursor)?, known: None };
    if cursor.try_space() && cursor.at_sequence_set() {
        resync.known = Some(UidRanges::new(cursor.sequence_set()?.resolve(u32::MAX)));
        if cursor.try_space() && cursor.peek() == Some(b'(') {
            pairs(cursor)?;
        }
    } else if cursor.peek() == Some(b'(') {
        pairs(cursor)?;
    }
    cursor.end_of_list()?;
    Ok(resync)
}

/// Skips the message numbers that the client knows. They only help servers that forget removed messages.
fn pairs(cursor: &mut Cursor) -> Result<(), SyntaxError> {
    cursor.byte(b'(', "expected a list")?;
    cursor.try_space();
    cursor.sequence_set()?;
    cursor.space()?;
    cursor.sequence_set()?;
    cursor.end_of_list()
}

/// Reads ` (CHANGEDSINCE n [VANISHED])`, if present.
pub(super) fn fetch_modifiers(cursor: &mut Cursor) -> Result<FetchModifiers, SyntaxError> {
    let mut modifiers = FetchModifiers::default();
    if cursor.at_end() {
        return Ok(modifiers);
    }
    cursor.space()?;
    cursor.list(|cursor| {
        match cursor.keyword()?.as_str() {
            "CHANGEDSINCE" => {
                cursor.space()?;
                modifiers.changed_since = Some(modseq(cursor)?);
            }
            "VANISHED" => modifiers.vanished = true,
            _ => return Err(SyntaxError("unknown modifier of FETCH")),
        }
        Ok(())
    })?;
    match modifiers {
        FetchModifiers { changed_since: None, .. } => Err(SyntaxError("expected CHANGEDSINCE")),
        modifiers => Ok(modifiers),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Command;
    use super::super::tests::parse;
    use super::*;

    fn selected(line: &str) -> SelectParameters {
        let Ok(Command::Select { parameters, .. }) = parse(line) else { panic!("{line}") };
        parameters
    }

    fn fetched(line: &str) -> FetchModifiers {
        let Ok(Command::Fetch { modifiers, .. }) = parse(line) else { panic!("{line}") };
        modifiers
    }

    #[test]
    fn broken_parameters_are_refused() {
        for line in [
            "a SELECT x ()",
            "a SELECT x (FOO)",
            "a SELECT x CONDSTORE",
            "a SELECT x (QRESYNC)",
            "a SELECT x (QRESYNC ())",
            "a SELECT x (QRESYNC (1))",
            "a SELECT x (QRESYNC (1 2 3 4))",
            "a SELECT x (QRESYNC (1 2 (1)))",
            "a SELECT x (QRESYNC (4294967296 2))",
            "a SELECT x (QRESYNC (1 9223372036854775808))",
            "a FETCH 1 FLAGS ()",
            "a FETCH 1 FLAGS (VANISHED)",
            "a FETCH 1 FLAGS (CHANGEDSINCE)",
            "a FETCH 1 FLAGS (CHANGEDSINCE -1)",
            "a FETCH 1 FLAGS CHANGEDSINCE 1",
        ] {
            assert!(matches!(parse(line), Err(CommandError::Syntax(_))), "{line}");
        }
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(selected("a SELECT x"), SelectParameters::default());
        assert!(selected("a EXAMINE x (condstore)").condstore);
        let known = |ranges: &[(u32, u32)]| Some(UidRanges::new(ranges.to_vec()));
        for (text, expected) in [
            ("(7 20)", None),
            ("(7 20 1:3,9)", known(&[(1, 3), (9, 9)])),
            ("(7 20 1:3 (1:2 1:2))", known(&[(1, 3)])),
            ("(7 20 (1:2 1:2))", None),
        ] {
            let expected = Resync { uid_validity: 7, modseq: 20, known: expected };
            assert_eq!(selected(&format!("a SELECT x (QRESYNC {text})")).resync, Some(expected));
        }
        assert_eq!(
            fetched("a UID FETCH 1:* (FLAGS) (CHANGEDSINCE 12 VANISHED)"),
            FetchModifiers { changed_since: Some(12), vanished: true }
        );
        assert_eq!(fetched("a FETCH 1 FLAGS"), FetchModifiers::default());
    }

    proptest! {
        #[test]
        fn any_parameters_are_read_or_refused(words in prop::collection::vec(prop::sample::select(vec![
            "(", ")", " ", "QRESYNC", "CONDSTORE", "CHANGEDSINCE", "VANISHED", "1", "9223372036854775807", "1:3,*", "0",
        ]), 0..20)) {
            let _ = parse(&format!("a SELECT x {}", words.concat()));
            let _ = parse(&format!("a UID FETCH 1 FLAGS {}", words.concat()));
        }
    }
}
