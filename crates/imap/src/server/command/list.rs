//! LIST with its extensions, LSUB, and the data items of STATUS.

use super::CommandError;
use crate::mailbox::MailboxPattern;
use crate::server::SpecialUse;
use crate::token::{Cursor, Limits, SyntaxError};

/// The arguments of LIST or LSUB.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// LSUB: only subscribed names, in `* LSUB` responses.
    pub lsub: bool,
    /// `LIST "" ""`: returns only the hierarchy delimiter (RFC 3501 section 6.3.8).
    pub delimiter_only: bool,
    /// The command has the extended form of RFC 5258, so the client supports the attributes of that RFC.
    pub extended: bool,
    /// The patterns; a name must match one of them.
    pub patterns: Vec<MailboxPattern>,
    /// Selection option SUBSCRIBED.
    pub only_subscribed: bool,
    /// Selection option SPECIAL-USE.
    pub only_special_use: bool,
    /// Selection option RECURSIVEMATCH: also returns parents of selected names, with CHILDINFO.
    pub recursive_match: bool,
    /// Return option SUBSCRIBED.
    pub return_subscribed: bool,
    /// The items of return option STATUS (RFC 5819); empty without it.
    pub return_status: Vec<StatusItem>,
}

/// A data item of STATUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusItem {
    /// The number of messages.
    Messages,
    /// The number of messages that no session has been the first to see (RFC 3501 section 2.3.2).
    Recent,
    /// The next UID.
    UidNext,
    /// The UIDVALIDITY.
    UidValidity,
    /// The number of messages without `\Seen`.
    Unseen,
    /// The number of messages with `\Deleted` (RFC 9051 section 6.3.11).
    Deleted,
    /// The sum of the messages' sizes (RFC 8438).
    Size,
    /// The maximum message size of APPEND (RFC 7889).
    AppendLimit,
    /// The modification sequence of the last change (RFC 7162).
    HighestModseq,
    /// The identifier of the mailbox (RFC 8474).
    MailboxId,
}

pub(super) fn status_items(cursor: &mut Cursor) -> Result<Vec<StatusItem>, SyntaxError> {
    let items = cursor.list(|cursor| match cursor.keyword()?.as_str() {
        "MESSAGES" => Ok(StatusItem::Messages),
        "RECENT" => Ok(StatusItem::Recent),
        "UIDNEXT" => Ok(StatusItem::UidNext),
        "UIDVALIDITY" => Ok(StatusItem::UidValidity),
        "UNSEEN" => Ok(StatusItem::Unseen),
        "DELETED" => Ok(StatusItem::Deleted),
        "SIZE" => Ok(StatusItem::Size),
        "APPENDLIMIT" => Ok(StatusItem::AppendLimit),
        "HIGHESTMODSEQ" => Ok(StatusItem::HighestModseq),
        "MAILBOXID" => Ok(StatusItem::MailboxId),
        _ => Err(SyntaxError("unknown status item")),
    })?;
    if items.is_empty() { Err(SyntaxError("expected a status item")) } else { Ok(items) }
}

pub(super) fn lsub(cursor: &mut Cursor, limits: &Limits) -> Result<ListQuery, CommandError> {
    let mut query = ListQuery { lsub: true, only_subscribed: true, ..ListQuery::default() };
    let reference = cursor.astring()?;
    cursor.space()?;
    let pattern = cursor.list_pattern()?;
    add_patterns(&mut query, &reference, &[pattern], cursor.has_utf8_names(), limits)?;
    Ok(query)
}

pub(super) fn list(cursor: &mut Cursor, limits: &Limits) -> Result<ListQuery, CommandError> {
    let mut query = ListQuery::default();
    let mut extended = false;
    if cursor.peek() == Some(b'(') {
        extended = true;
        selection_options(cursor, &mut query)?;
        cursor.space()?;
    }
    let reference = cursor.astring()?;
    cursor.space()?;
    let patterns = if cursor.peek() == Some(b'(') {
        extended = true;
        cursor.list(Cursor::list_pattern)?
    } else {
        vec![cursor.list_pattern()?]
    };
    if !cursor.at_end() {
        cursor.space()?;
        return_options(cursor, &mut query)?;
        extended = true;
    }
    query.extended = extended;
    query.delimiter_only = !extended && patterns.iter().all(Vec::is_empty);
    add_patterns(&mut query, &reference, &patterns, cursor.has_utf8_names(), limits)?;
    Ok(query)
}

fn selection_options(cursor: &mut Cursor, query: &mut ListQuery) -> Result<(), SyntaxError> {
    cursor.list(|cursor| {
        match cursor.keyword()?.as_str() {
            "SUBSCRIBED" => query.only_subscribed = true,
            "SPECIAL-USE" => query.only_special_use = true,
            "RECURSIVEMATCH" => query.recursive_match = true,
            // Remote mailboxes do not exist here, so this option changes nothing.
            "REMOTE" => {}
            _ => return Err(SyntaxError("unknown selection option")),
        }
        Ok(())
    })?;
    // RECURSIVEMATCH requires another selection option (RFC 5258 section 3.1).
    if query.recursive_match && !query.only_subscribed && !query.only_special_use {
        return Err(SyntaxError("RECURSIVEMATCH needs another selection option"));
    }
    // Selecting by subscription implies returning it (RFC 5258 section 3.1).
    query.return_subscribed |= query.only_subscribed;
    Ok(())
}

/// Reads ` (USE (\Archive))` of CREATE, if present (RFC 6154 section 3). A mailbox has one purpose here.
pub(super) fn created_use(cursor: &mut Cursor) -> Result<Option<SpecialUse>, CommandError> {
    const REFUSED: CommandError =
        CommandError::Refused { code: "USEATTR", text: "A mailbox can have one known special use" };
    if cursor.at_end() {
        return Ok(None);
    }
    cursor.space()?;
    cursor.byte(b'(', "expected a list")?;
    cursor.try_space();
    if !cursor.try_keyword("USE") {
        return Err(SyntaxError("unknown parameter of CREATE").into());
    }
    cursor.space()?;
    let uses = cursor.list(Cursor::flag)?;
    cursor.end_of_list()?;
    match uses.as_slice() {
        [] => Ok(None),
        [one] => SpecialUse::named(one).filter(|special_use| special_use.has_messages()).map(Some).ok_or(REFUSED),
        _ => Err(REFUSED),
    }
}

fn return_options(cursor: &mut Cursor, query: &mut ListQuery) -> Result<(), SyntaxError> {
    if !cursor.try_keyword("RETURN") {
        return Err(SyntaxError("expected RETURN"));
    }
    cursor.space()?;
    cursor.list(|cursor| {
        match cursor.keyword()?.as_str() {
            "SUBSCRIBED" => query.return_subscribed = true,
            // Always returned.
            "CHILDREN" | "SPECIAL-USE" => {}
            "STATUS" => {
                cursor.space()?;
                query.return_status = status_items(cursor)?;
            }
            _ => return Err(SyntaxError("unknown return option")),
        }
        Ok(())
    })?;
    Ok(())
}

fn add_patterns(
    query: &mut ListQuery,
    reference: &[u8],
    patterns: &[Vec<u8>],
    utf8_names: bool,
    limits: &Limits,
) -> Result<(), CommandError> {
    let too_long = |pattern: &Vec<u8>| reference.len() + pattern.len() > limits.max_pattern;
    if patterns.len() > limits.max_list_patterns || patterns.iter().any(too_long) {
        return Err(CommandError::Refused { code: "LIMIT", text: "Too many or too long patterns" });
    }
    let whole = patterns.iter().map(|pattern| [reference, pattern].concat());
    // An invalid pattern matches nothing, so it can be left out.
    let read = if utf8_names { MailboxPattern::from_utf8 } else { MailboxPattern::from_wire };
    query.patterns = whole.filter_map(|wire| read(&wire)).collect();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::{Command, CommandError};
    use super::*;

    fn query(line: &str) -> ListQuery {
        let Ok(Command::List(query)) = parse(line) else { panic!("{line}") };
        query
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "a LIST \"\"",
            "a LIST (FOO) \"\" *",
            "a LIST (RECURSIVEMATCH) \"\" *",
            "a LIST \"\" * RETURN",
            "a LIST \"\" * RETURN (FOO)",
            "a LIST \"\" * RETURN (STATUS)",
            "a LSUB \"\" (a b)",
        ] {
            assert!(matches!(parse(line), Err(CommandError::Syntax(_))), "{line}");
        }
        let long = format!("a LIST \"\" {}", "x".repeat(2000));
        assert!(matches!(parse(&long), Err(CommandError::Refused { code: "LIMIT", .. })));
    }

    #[test]
    fn a_new_mailbox_has_at_most_one_special_use() {
        let created = |line: &str| match parse(line) {
            Ok(Command::Create { special_use, .. }) => Ok(special_use),
            Err(error) => Err(error),
            Ok(other) => panic!("{other:?}"),
        };
        assert_eq!(created("a CREATE x (USE (\\archive))"), Ok(Some(SpecialUse::Archive)));
        assert_eq!(created("a CREATE x (USE ())"), Ok(None));
        for line in ["a CREATE x (USE (\\All))", "a CREATE x (USE (\\Sent \\Junk))", "a CREATE x (USE (\\Bogus))"] {
            assert!(matches!(created(line), Err(CommandError::Refused { code: "USEATTR", .. })), "{line}");
        }
        for line in ["a CREATE x (USE)", "a CREATE x (FOO ())", "a CREATE x ()", "a CREATE x (USE (\\Sent)"] {
            assert!(matches!(created(line), Err(CommandError::Syntax(_))), "{line}");
        }
    }

    #[test]
    fn every_form_of_list_is_read() {
        assert!(query("a LIST \"\" \"\"").delimiter_only);
        assert_eq!(query("a LIST a/ %").patterns, [MailboxPattern::from_wire(b"a/%").unwrap()]);
        assert_eq!(query("a LIST \"\" (INBOX \"b*\")").patterns.len(), 2);
        let extended = query("a LIST (SUBSCRIBED RECURSIVEMATCH) \"\" * RETURN (CHILDREN STATUS (MESSAGES SIZE))");
        assert!(extended.only_subscribed && extended.recursive_match && extended.return_subscribed);
        assert_eq!(extended.return_status, [StatusItem::Messages, StatusItem::Size]);
        assert!(query("a LSUB \"\" *").only_subscribed);
    }
}
