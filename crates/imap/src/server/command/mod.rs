//! Commands as typed values.

mod append;
mod authentication;
mod fetch;
mod list;
mod message_set;
mod order;
mod search;
mod section;
mod select;
mod store;

pub use append::{AppendMessage, AppendMessages};
pub use authentication::Extension;
pub use fetch::{BinaryItem, FetchItem, SectionItem, SectionLabel};
pub use list::{ListQuery, StatusItem};
pub use message_set::{MessageSet, SearchSet, UidRanges};
pub use order::{SortCommand, SortCriterion, SortKey, ThreadAlgorithm, ThreadCommand};
pub use search::{DateTest, SearchCommand, SearchKey, SearchReturn, SearchSubject};
pub use section::{Partial, Section, SectionText};
pub use select::{FetchModifiers, Resync, SelectParameters};
pub use store::{FlagChange, StoreAction};

use crate::mailbox::{InvalidMailboxName, MailboxName};
use crate::secret::Password;
use crate::server::SpecialUse;
use crate::token::{Cursor, Frame, Limits, SequenceSet, SyntaxError};

/// A valid command. The session decides whether it is allowed in the current state.
#[derive(Debug)]
pub enum Command {
    /// CAPABILITY
    Capability,
    /// NOOP
    Noop,
    /// LOGOUT
    Logout,
    /// ID (RFC 2971); the client's parameters are ignored.
    Id,
    /// ENABLE (RFC 5161) with the known ones among its extensions
    Enable(Vec<Extension>),
    /// STARTTLS
    StartTls,
    /// LOGIN
    Login {
        /// The user name.
        username: String,
        /// The password.
        password: Password,
    },
    /// AUTHENTICATE, with the initial response of RFC 4959, if any.
    Authenticate {
        /// The mechanism in upper case.
        mechanism: String,
        /// The initial response in base64, or `=` for an empty one.
        initial_response: Option<String>,
    },
    /// SELECT and EXAMINE
    Select {
        /// The mailbox.
        mailbox: MailboxName,
        /// True for EXAMINE.
        read_only: bool,
        /// The parameters of RFC 7162.
        parameters: SelectParameters,
    },
    /// CREATE
    Create {
        /// The new mailbox.
        mailbox: MailboxName,
        /// Its purpose (RFC 6154 section 3).
        special_use: Option<SpecialUse>,
    },
    /// DELETE
    Delete(MailboxName),
    /// RENAME
    Rename {
        /// The old name.
        from: MailboxName,
        /// The new name.
        to: MailboxName,
    },
    /// SUBSCRIBE and UNSUBSCRIBE
    Subscribe {
        /// The mailbox.
        mailbox: MailboxName,
        /// False for UNSUBSCRIBE.
        subscribed: bool,
    },
    /// LIST (RFC 3501, RFC 5258, RFC 5819, RFC 6154) and LSUB
    List(ListQuery),
    /// NAMESPACE (RFC 2342)
    Namespace,
    /// STATUS
    Status {
        /// The mailbox.
        mailbox: MailboxName,
        /// The requested items.
        items: Vec<StatusItem>,
    },
    /// APPEND
    Append {
        /// The target mailbox.
        mailbox: MailboxName,
        /// The messages to store.
        messages: AppendMessages,
    },
    /// GETQUOTA (RFC 9208) with the root's name
    GetQuota(Vec<u8>),
    /// GETQUOTAROOT (RFC 9208)
    GetQuotaRoot(MailboxName),
    /// COMPRESS DEFLATE (RFC 4978)
    Compress,
    /// IDLE (RFC 2177)
    Idle,
    /// CHECK
    Check,
    /// CLOSE and UNSELECT (RFC 3691)
    Close {
        /// Whether to remove messages with `\Deleted`: true for CLOSE.
        expunge: bool,
    },
    /// EXPUNGE, or UID EXPUNGE (RFC 4315) with its set
    Expunge(Option<SequenceSet>),
    /// SEARCH and UID SEARCH
    Search(SearchCommand),
    /// SORT and UID SORT (RFC 5256)
    Sort(SortCommand),
    /// THREAD and UID THREAD (RFC 5256)
    Thread(ThreadCommand),
    /// FETCH and UID FETCH
    Fetch {
        /// The messages to read.
        messages: MessageSet,
        /// The requested items.
        items: Vec<FetchItem>,
        /// The modifiers of RFC 7162.
        modifiers: FetchModifiers,
    },
    /// STORE and UID STORE
    Store {
        /// The messages to change.
        messages: MessageSet,
        /// The change.
        action: StoreAction,
    },
    /// COPY, MOVE (RFC 6851) and their UID forms
    Copy {
        /// The messages to copy.
        messages: MessageSet,
        /// The target mailbox.
        mailbox: MailboxName,
        /// Whether to remove the originals: true for MOVE.
        remove: bool,
    },
}

/// A command with its tag.
#[derive(Debug)]
pub struct TaggedCommand {
    /// The client's tag.
    pub tag: String,
    /// The command.
    pub command: Command,
}

/// The reason why a command is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Invalid syntax; completed with BAD.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// Valid syntax, but not acceptable; completed with NO.
    #[error("{text}")]
    Refused {
        /// The response code (RFC 5530) without brackets.
        code: &'static str,
        /// The human-readable text.
        text: &'static str,
    },
    /// Search keys in an unknown charset; completed with NO.
    #[error("Unknown charset")]
    Charset {
        /// Whether the search was to save its result, which is then empty (RFC 5182 section 2.1).
        saves: bool,
    },
}

impl CommandError {
    /// Adds to an unknown charset whether the search was to save its result.
    fn of_search(self, results: Option<SearchReturn>) -> Self {
        match self {
            Self::Charset { .. } => Self::Charset { saves: results.is_some_and(|results| results.save) },
            other => other,
        }
    }
}

impl From<InvalidMailboxName> for CommandError {
    fn from(_: InvalidMailboxName) -> Self {
        Self::Refused { code: "CANNOT", text: "Invalid mailbox name" }
    }
}

impl Command {
    /// Whether the command enables CONDSTORE (RFC 7162 section 3.1).
    pub(crate) fn enables_condstore(&self) -> bool {
        match self {
            Self::Enable(extensions) => {
                extensions.iter().any(|extension| matches!(extension, Extension::Condstore | Extension::Qresync))
            }
            Self::Select { parameters, .. } => parameters.condstore || parameters.resync.is_some(),
            Self::Status { items, .. } => items.contains(&StatusItem::HighestModseq),
            Self::List(query) => query.return_status.contains(&StatusItem::HighestModseq),
            Self::Fetch { items, modifiers, .. } => {
                modifiers.changed_since.is_some() || items.contains(&FetchItem::Modseq)
            }
            Self::Store { action, .. } => action.unchanged_since.is_some(),
            Self::Search(command) => command.key.uses_modseq(),
            Self::Sort(command) => command.key.uses_modseq(),
            Self::Thread(command) => command.key.uses_modseq(),
            _ => false,
        }
    }
}

impl TaggedCommand {
    /// Reads a frame. `utf8_names` is true after the client enabled names of mailboxes in UTF-8 (RFC 6855 section 3).
    ///
    /// # Errors
    /// The tag, if it is readable, and the reason.
    pub fn parse(frame: Frame, limits: &Limits, utf8_names: bool) -> Result<Self, (Option<String>, CommandError)> {
        let tag = frame.tag();
        let mut cursor = Cursor::new(frame, limits.max_depth).with_utf8_names(utf8_names);
        match parse(&mut cursor, limits) {
            Ok((tag, command)) => Ok(Self { tag, command }),
            Err(error) => Err((tag, error)),
        }
    }
}

fn parse(cursor: &mut Cursor, limits: &Limits) -> Result<(String, Command), CommandError> {
    let tag = cursor.tag()?;
    // As Dovecot: exactly one space.
    cursor.byte(b' ', "expected a space")?;
    let verb = cursor.keyword()?;
    let command = if verb == "UID" {
        cursor.space()?;
        let verb = cursor.keyword()?;
        match verb.as_str() {
            "EXPUNGE" => Command::Expunge(Some(after_space(cursor, Cursor::sequence_set)?)),
            _ => on_messages(&verb, true, cursor, limits)?,
        }
    } else if let Some(command) = without_arguments(&verb) {
        command
    } else {
        with_arguments(&verb, cursor, limits)?
    };
    cursor.end()?;
    Ok((tag, command))
}

fn without_arguments(verb: &str) -> Option<Command> {
    Some(match verb {
        "CAPABILITY" => Command::Capability,
        "NOOP" => Command::Noop,
        "LOGOUT" => Command::Logout,
        "STARTTLS" => Command::StartTls,
        "NAMESPACE" => Command::Namespace,
        "IDLE" => Command::Idle,
        "CHECK" => Command::Check,
        "CLOSE" => Command::Close { expunge: true },
        "UNSELECT" => Command::Close { expunge: false },
        "EXPUNGE" => Command::Expunge(None),
        _ => return None,
    })
}

fn with_arguments(verb: &str, cursor: &mut Cursor, limits: &Limits) -> Result<Command, CommandError> {
    let mut named = || after_space(cursor, |cursor| mailbox(cursor, limits));
    Ok(match verb {
        "SELECT" | "EXAMINE" => {
            let mailbox = named()?;
            Command::Select { mailbox, read_only: verb == "EXAMINE", parameters: select::parameters(cursor)? }
        }
        "DELETE" => Command::Delete(named()?),
        "SUBSCRIBE" => Command::Subscribe { mailbox: named()?, subscribed: true },
        "UNSUBSCRIBE" => Command::Subscribe { mailbox: named()?, subscribed: false },
        "GETQUOTAROOT" => Command::GetQuotaRoot(named()?),
        "CREATE" => {
            let mailbox = after_space(cursor, |cursor| new_mailbox(cursor, limits))?;
            Command::Create { mailbox, special_use: list::created_use(cursor)? }
        }
        "RENAME" => {
            let from = named()?;
            Command::Rename { from, to: after_space(cursor, |cursor| new_mailbox(cursor, limits))? }
        }
        "STATUS" => {
            let mailbox = named()?;
            Command::Status { mailbox, items: after_space(cursor, list::status_items)? }
        }
        "APPEND" => {
            let mailbox = named()?;
            Command::Append { mailbox, messages: after_space(cursor, append::messages)? }
        }
        "GETQUOTA" => Command::GetQuota(after_space(cursor, Cursor::astring)?),
        "LIST" => Command::List(after_space(cursor, |cursor| list::list(cursor, limits))?),
        "LSUB" => Command::List(after_space(cursor, |cursor| list::lsub(cursor, limits))?),
        "LOGIN" => authentication::login(cursor)?,
        "AUTHENTICATE" => authentication::authenticate(cursor)?,
        "COMPRESS" => authentication::compress(cursor)?,
        "ID" => authentication::id(cursor)?,
        "ENABLE" => authentication::enable(cursor)?,
        _ => on_messages(verb, false, cursor, limits)?,
    })
}

fn on_messages(verb: &str, uid: bool, cursor: &mut Cursor, limits: &Limits) -> Result<Command, CommandError> {
    match verb {
        "SEARCH" => return Ok(Command::Search(search::command(cursor, uid)?)),
        "SORT" => return Ok(Command::Sort(order::sort(cursor, uid)?)),
        "THREAD" => return Ok(Command::Thread(order::thread(cursor, uid)?)),
        _ => {}
    }
    if !matches!(verb, "FETCH" | "STORE" | "COPY" | "MOVE") {
        return Err(SyntaxError("unknown command").into());
    }
    let set = after_space(cursor, Cursor::sequence_set)?;
    let messages = MessageSet { uid, set };
    cursor.space()?;
    Ok(match verb {
        "FETCH" => {
            let items = fetch::items(cursor)?;
            Command::Fetch { messages, items, modifiers: select::fetch_modifiers(cursor)? }
        }
        "STORE" => Command::Store { messages, action: store::action(cursor)? },
        _ => Command::Copy { messages, mailbox: mailbox(cursor, limits)?, remove: verb == "MOVE" },
    })
}

fn after_space<T, E: From<SyntaxError>>(
    cursor: &mut Cursor,
    read: impl FnOnce(&mut Cursor) -> Result<T, E>,
) -> Result<T, CommandError>
where
    CommandError: From<E>,
{
    cursor.space()?;
    Ok(read(cursor)?)
}

fn mailbox(cursor: &mut Cursor, limits: &Limits) -> Result<MailboxName, CommandError> {
    let wire = cursor.astring()?;
    name(&wire, cursor, limits)
}

fn name(wire: &[u8], cursor: &Cursor, limits: &Limits) -> Result<MailboxName, CommandError> {
    let read = if cursor.has_utf8_names() { MailboxName::from_utf8 } else { MailboxName::from_wire };
    Ok(read(wire, limits.max_mailbox_name)?)
}

/// Reads the name of a mailbox to create. One trailing delimiter announces children (RFC 3501 section 6.3.3); it is
/// dropped, since every mailbox here can have them.
fn new_mailbox(cursor: &mut Cursor, limits: &Limits) -> Result<MailboxName, CommandError> {
    let wire = cursor.astring()?;
    let wire = wire.strip_suffix(b"/").unwrap_or(&wire);
    let name = name(wire, cursor, limits)?;
    if name.may_be_new() { Ok(name) } else { Err(InvalidMailboxName.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Part;
    use proptest::prelude::*;

    pub(super) fn parse(line: &str) -> Result<Command, CommandError> {
        let frame = Frame::new(vec![Part::Text(line.as_bytes().to_vec())]);
        TaggedCommand::parse(frame, &Limits::default(), false).map(|tagged| tagged.command).map_err(|(_, error)| error)
    }

    #[test]
    fn broken_commands_are_refused() {
        for line in [
            "",
            "a",
            "a ",
            "+ NOOP",
            "a NOOP x",
            "a XYZZY",
            "a SELECT",
            "a SELECT ",
            "a LOGIN joe",
            "a UID NOOP",
            "a UID",
            "a FETCH 1",
            "a FETCH 0 FLAGS",
            "a FETCH 1 ()",
            "a STORE 1 FLAGS (\\Bogus)",
            "a COPY 1",
            "a STATUS x ()",
            "a APPEND x",
            "a ENABLE",
            "a  NOOP",
            "a RENAME x",
            "a COMPRESS",
            "a COMPRESS GZIP",
        ] {
            assert!(matches!(parse(line), Err(CommandError::Syntax(_))), "{line:?}");
        }
    }

    #[test]
    fn further_spaces_change_no_command() {
        for (usual, spaced) in [
            ("a STATUS x (MESSAGES)", "a STATUS  x  ( MESSAGES )"),
            ("a FETCH 1 (FLAGS UID)", "a FETCH  1  (FLAGS  UID )"),
            ("a FETCH 1 FLAGS (CHANGEDSINCE 5)", "a FETCH 1  FLAGS  ( CHANGEDSINCE  5 )"),
            ("a FETCH 1 BODY[HEADER.FIELDS (To)]", "a FETCH 1 BODY[HEADER.FIELDS  ( To )]"),
            ("a SEARCH (SEEN)", "a SEARCH  ( SEEN )"),
            ("a SEARCH RETURN (MIN) OR SEEN NOT DELETED", "a SEARCH  RETURN  ( MIN )  OR  SEEN  NOT  DELETED "),
            ("a ID (\"n\" \"v\")", "a ID  ( \"n\"  \"v\" )"),
            ("a STORE 1 (UNCHANGEDSINCE 5) FLAGS (x)", "a STORE  1  ( UNCHANGEDSINCE  5 )  FLAGS  ( x )"),
            ("a LIST (SUBSCRIBED) \"\" (a b)", "a LIST  ( SUBSCRIBED )  \"\"  ( a  b )"),
            ("a SELECT x (QRESYNC (1 2 3 (4 5)))", "a SELECT  x  ( QRESYNC  ( 1  2  3  ( 4  5 ) ) )"),
            ("a CREATE x (USE (\\Archive))", "a CREATE x  ( USE  ( \\Archive ) )"),
            ("a SORT (DATE) UTF-8 ALL", "a SORT  ( DATE )  UTF-8  ALL"),
            ("a LOGIN x y", "a LOGIN  x  y "),
        ] {
            let read = |line: &str| format!("{:?}", parse(line).unwrap());
            assert_eq!(read(spaced), read(usual), "{spaced}");
        }
    }

    #[test]
    fn names_no_mailbox_can_have_are_refused() {
        for line in ["a CREATE \"\"", "a CREATE a//b", "a SELECT \"a//*\"", "a DELETE &AOk", "a CREATE a//"] {
            assert!(matches!(parse(line), Err(CommandError::Refused { code: "CANNOT", .. })), "{line:?}");
        }
    }

    #[test]
    fn a_trailing_delimiter_only_asks_for_children() {
        assert!(
            matches!(parse("a CREATE a/b/"), Ok(Command::Create { mailbox, special_use: None }) if mailbox.as_str() == "a/b")
        );
    }

    proptest! {
        #[test]
        fn arbitrary_lines_never_panic(
            verb in prop::sample::select(vec!["LIST", "LSUB", "FETCH", "UID SEARCH", "STORE", "APPEND", "STATUS", "LOGIN", "ID", "X"]),
            rest in "[ -~\\x00-\\xff]{0,80}",
            bytes in any::<Option<Vec<u8>>>(),
        ) {
            let mut parts = vec![Part::Text(format!("a {verb} {rest}").into_bytes())];
            if let Some(bytes) = bytes {
                parts.extend([Part::Literal(bytes), Part::Text(rest.into_bytes())]);
            }
            let _ = TaggedCommand::parse(Frame::new(parts.clone()), &Limits::default(), false);
            let _ = TaggedCommand::parse(Frame::new(parts), &Limits::default(), true);
        }

        #[test]
        fn words_of_the_grammar_never_panic(words in prop::collection::vec(
            prop::sample::select(vec![
                "a", "FETCH", "UID", "SEARCH", "1:*", "(", ")", "BODY[", "]", "HEADER.FIELDS", "<0.1>", "NOT", "OR",
                "BINARY[", "BINARY.SIZE[", "PREVIEW", "(LAZY)", "RETURN", "CHARSET", "UTF-8", "\"x\"", "STORE", "+FLAGS", "\\Seen", "LIST", "STATUS", " ", "1.2",
            ]), 0..20)) {
            let _ = parse(&format!("a {}", words.join(" ")));
            let _ = parse(&format!("a {}", words.concat()));
        }
    }
}
