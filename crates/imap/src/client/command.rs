//! Commands, encoded so that no value can be read as protocol.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::asked::{Asked, Messages};
use super::capabilities::Capabilities;
use super::section::Section;
use crate::secret::Password;
use crate::token::{SequenceSet, Writer};
use crate::utf7;

/// The largest non-synchronizing literal that a server with LITERAL- accepts (RFC 7888 section 5).
const LITERAL_MINUS: usize = 4096;

/// A data item of FETCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchAttribute {
    /// FLAGS
    Flags,
    /// RFC822.SIZE
    Size,
    /// INTERNALDATE
    Arrived,
    /// ENVELOPE
    Envelope,
    /// BODYSTRUCTURE
    BodyStructure,
    /// BODY.PEEK of a whole section; does not set `\Seen`.
    Section(Section),
    /// BODY.PEEK of a range: the section, the first octet and the number of octets.
    SectionSlice(Section, u64, u32),
}

/// A data item of STATUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusItem {
    /// MESSAGES
    Messages,
    /// UNSEEN
    Unseen,
    /// SIZE; only if the server has STATUS=SIZE (RFC 8438).
    Size,
    /// UIDNEXT
    UidNext,
    /// UIDVALIDITY
    UidValidity,
}

impl StatusItem {
    fn name(self) -> &'static str {
        match self {
            Self::Messages => "MESSAGES",
            Self::Unseen => "UNSEEN",
            Self::Size => "SIZE",
            Self::UidNext => "UIDNEXT",
            Self::UidValidity => "UIDVALIDITY",
        }
    }
}

/// A part of a command. Not `Debug`: it may hold a password.
enum Piece {
    Text(String),
    Literal(Vec<u8>),
    /// A literal of this many octets, which the caller sends in pieces.
    Content(u64),
}

/// The effect of a successful command on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// The server's capabilities may change.
    Capabilities,
    /// TLS begins after the response; everything received before it is discarded.
    StartTls,
}

/// A command that has not been sent.
pub struct Command {
    pieces: Vec<Piece>,
    /// The line that answers a continuation request when no literal is pending.
    pub(super) answer: Option<Password>,
    pub(super) effect: Effect,
    pub(super) streams: bool,
    pub(super) asked: Asked,
}

impl Command {
    fn new(words: &str) -> Self {
        let pieces = vec![Piece::Text(words.to_owned())];
        Self { pieces, answer: None, effect: Effect::None, streams: false, asked: Asked::Nothing }
    }

    fn asking(mut self, asked: Asked) -> Self {
        self.asked = asked;
        self
    }

    fn words(mut self, words: &str) -> Self {
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) => text.push_str(words),
            _ => self.pieces.push(Piece::Text(words.to_owned())),
        }
        self
    }

    /// Appends a string: quoted if it is printable ASCII, else a literal.
    fn string(mut self, value: &str) -> Self {
        if value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            return self.words(&format!("\"{quoted}\""));
        }
        self.pieces.push(Piece::Literal(value.as_bytes().to_vec()));
        self.words("")
    }

    /// Whether the command is sent in one write and does not change the connection.
    pub(super) fn is_one_line(&self) -> bool {
        let is_text = self.pieces.iter().all(|piece| matches!(piece, Piece::Text(_)));
        is_text && self.answer.is_none() && self.effect == Effect::None
    }

    /// CAPABILITY
    pub fn capability() -> Self {
        Self::new("CAPABILITY")
    }

    /// NOOP; makes the server report pending changes.
    pub fn noop() -> Self {
        Self::new("NOOP")
    }

    /// LOGOUT
    pub fn logout() -> Self {
        Self::new("LOGOUT")
    }

    /// STARTTLS. After OK, the caller negotiates TLS and continues with the same connection value.
    pub fn start_tls() -> Self {
        Self { effect: Effect::StartTls, ..Self::new("STARTTLS") }
    }

    /// AUTHENTICATE PLAIN (RFC 4616) as `user`, acting as `acting_as`; takes one round trip if the server has
    /// SASL-IR (RFC 4959).
    pub fn authenticate_plain(acting_as: &str, user: &str, password: &Password, capabilities: &Capabilities) -> Self {
        let response = BASE64.encode(format!("{acting_as}\0{user}\0{}", password.expose()));
        let mut command = Self { effect: Effect::Capabilities, ..Self::new("AUTHENTICATE PLAIN") };
        if capabilities.has("SASL-IR") {
            return command.words(" ").words(&response);
        }
        // Otherwise the server asks for the response by a continuation request.
        command.answer = Some(Password::new(response));
        command
    }

    /// LOGIN, for servers without AUTH=PLAIN.
    pub fn login(user: &str, password: &Password) -> Self {
        let command = Self { effect: Effect::Capabilities, ..Self::new("LOGIN ") };
        command.string(user).words(" ").string(password.expose())
    }

    /// EXAMINE: opens a mailbox read-only. `name` is decoded and uses the server's separator.
    pub fn examine(name: &str) -> Self {
        Self::new("EXAMINE ").string(&utf7::encode(name))
    }

    /// CLOSE. Removes no message if the mailbox was opened by EXAMINE (RFC 3501 section 6.4.2).
    pub fn close() -> Self {
        Self::new("CLOSE")
    }

    /// SELECT: opens a mailbox for reading and writing.
    pub fn select(name: &str) -> Self {
        Self::new("SELECT ").string(&utf7::encode(name))
    }

    /// LIST of every mailbox; STATUS items require LIST-STATUS (RFC 5819).
    pub fn list_all(items: &[StatusItem]) -> Self {
        let command = Self::new("LIST \"\" \"*\"");
        if items.is_empty() { command } else { command.words(&format!(" RETURN (STATUS {})", names(items))) }
    }

    /// LIST of every mailbox with its special use (RFC 6154), which some servers return only on request.
    pub fn list_special_uses(capabilities: &Capabilities) -> Self {
        let is_extended = capabilities.has("LIST-EXTENDED") && capabilities.has("SPECIAL-USE");
        if is_extended { Self::new("LIST \"\" \"*\" RETURN (SPECIAL-USE)") } else { Self::list_all(&[]) }
    }

    /// LIST of the folders whose names begin with a prefix.
    pub fn list_below(prefix: &str) -> Self {
        Self::new("LIST \"\" ").string(&(utf7::encode(prefix) + "*"))
    }

    /// LIST of an empty name; returns the hierarchy separator (RFC 3501 section 6.3.8).
    pub fn list_separator() -> Self {
        Self::new("LIST \"\" \"\"")
    }

    /// NAMESPACE (RFC 2342).
    pub fn namespace() -> Self {
        Self::new("NAMESPACE")
    }

    /// STATUS of one mailbox.
    pub fn status(name: &str, items: &[StatusItem]) -> Self {
        Self::new("STATUS ").string(&utf7::encode(name)).words(&format!(" {}", names(items)))
    }

    /// FETCH of a range of sequence numbers; UIDs are included.
    pub fn fetch(first: u32, last: u32, attributes: &[FetchAttribute]) -> Self {
        let asked = Asked::Fetch(Messages::Numbers(first, last), attributes.to_vec());
        Self::new(&format!("FETCH {first}:{last}")).words(&attribute_list(attributes)).asking(asked)
    }

    /// UID FETCH. `uids` must not be empty. Callers split long sets, since a server may reject a line longer than
    /// 8,192 octets (RFC 7162 section 4).
    pub fn uid_fetch(uids: &[u32], attributes: &[FetchAttribute]) -> Self {
        let asked = Asked::Fetch(Messages::of_uids(uids), attributes.to_vec());
        Self::new("UID FETCH ").words(&SequenceSet::compact(uids)).words(&attribute_list(attributes)).asking(asked)
    }

    /// Streams the requested body in pieces.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.streams = true;
        self
    }

    /// UID SEARCH for messages with `text` in Subject, From, To, Cc or the body.
    pub fn uid_search(text: &str, capabilities: &Capabilities) -> Self {
        let mut command = Self::new("UID SEARCH").asking(Asked::Search);
        if capabilities.has("ESEARCH") {
            command = command.words(" RETURN (ALL)");
        }
        if !text.is_ascii() {
            // Without CHARSET, a server reads the text as US-ASCII (RFC 3501 section 6.4.4).
            command = command.words(" CHARSET UTF-8");
        }
        // OR is a prefix: each one joins the next two keys.
        for key in ["OR SUBJECT", "OR FROM", "OR TO", "OR CC", "BODY"] {
            command = command.words(&format!(" {key} ")).string(text);
        }
        command
    }

    /// UID SEARCH for all messages with this UID or a higher one. The result always includes the highest UID,
    /// even if it is lower than `first` (RFC 3501 section 6.4.8).
    pub fn uid_search_from(first: u32, capabilities: &Capabilities) -> Self {
        let words = if capabilities.has("ESEARCH") { "UID SEARCH RETURN (ALL)" } else { "UID SEARCH" };
        Self::new(&format!("{words} UID {first}:*")).asking(Asked::Search)
    }

    /// UID SEARCH for all messages.
    pub fn uid_search_all(capabilities: &Capabilities) -> Self {
        let words = if capabilities.has("ESEARCH") { "UID SEARCH RETURN (ALL) ALL" } else { "UID SEARCH ALL" };
        Self::new(words).asking(Asked::Search)
    }

    /// Marks every message of the selected mailbox as deleted.
    pub fn delete_all() -> Self {
        Self::new("STORE 1:* +FLAGS.SILENT (\\Deleted)")
    }

    /// EXPUNGE
    pub fn expunge() -> Self {
        Self::new("EXPUNGE")
    }

    /// Marks one message of the selected mailbox as deleted.
    pub fn uid_delete(uid: u32) -> Self {
        Self::new(&format!("UID STORE {uid} +FLAGS.SILENT (\\Deleted)"))
    }

    /// UID EXPUNGE of one message; requires UIDPLUS (RFC 4315).
    pub fn uid_expunge(uid: u32) -> Self {
        Self::new(&format!("UID EXPUNGE {uid}"))
    }

    /// UID SEARCH for messages marked as deleted.
    pub fn uid_search_deleted() -> Self {
        Self::new("UID SEARCH DELETED").asking(Asked::Search)
    }

    /// UID SEARCH for messages whose header field contains `value`.
    pub fn uid_search_header(field: &str, value: &str) -> Self {
        Self::new("UID SEARCH HEADER ").asking(Asked::Search).string(field).words(" ").string(value)
    }

    /// CREATE
    pub fn create(name: &str) -> Self {
        Self::new("CREATE ").string(&utf7::encode(name))
    }

    /// SUBSCRIBE
    pub fn subscribe(name: &str) -> Self {
        Self::new("SUBSCRIBE ").string(&utf7::encode(name))
    }

    /// APPEND of a message with this many octets. When the server asks for it ([`Event::ContentWanted`]), the caller
    /// passes it to [`Connection::send_content`].
    ///
    /// [`Event::ContentWanted`]: super::Event::ContentWanted
    /// [`Connection::send_content`]: super::Connection::send_content
    pub fn append(name: &str, flags: &[&str], octets: u64) -> Self {
        let mut command = Self::new("APPEND ").string(&utf7::encode(name)).words(&format!(" ({}) ", flags.join(" ")));
        command.pieces.push(Piece::Content(octets));
        command
    }

    /// The octets that follow the last continuation request.
    pub(super) fn content(&self) -> u64 {
        let content = |piece: &Piece| if let Piece::Content(octets) = piece { *octets } else { 0 };
        self.pieces.iter().map(content).sum()
    }

    /// GETQUOTAROOT; requires QUOTA (RFC 9208).
    pub fn quota_root(name: &str) -> Self {
        Self::new("GETQUOTAROOT ").string(&utf7::encode(name))
    }

    /// Encodes the command: the octets to send now, and one part for each expected continuation request.
    pub(super) fn into_bytes(self, tag: &str, capabilities: &Capabilities) -> (Vec<u8>, VecDeque<Vec<u8>>) {
        let mut writer = Writer::new();
        writer.raw(tag).raw(" ");
        let mut stretches = VecDeque::new();
        for piece in self.pieces {
            match piece {
                Piece::Text(text) => drop(writer.raw(&text)),
                Piece::Literal(bytes) => {
                    let short = bytes.len() <= LITERAL_MINUS;
                    let waits = !(capabilities.literal_plus() || (short && capabilities.literal_minus()));
                    let plus = if waits { "" } else { "+" };
                    writer.raw(&format!("{{{}{plus}}}", bytes.len())).crlf();
                    // The server must ask for a synchronizing literal before it is sent (RFC 3501 section 4.3).
                    if waits {
                        stretches.push_back(writer.take());
                    }
                    writer.bytes(&bytes);
                }
                // Always synchronizing: a server that refuses a large message says so before it is sent.
                Piece::Content(octets) => {
                    writer.raw(&format!("{{{octets}}}")).crlf();
                    stretches.push_back(writer.take());
                }
            }
        }
        writer.crlf();
        stretches.push_back(writer.take());
        (stretches.pop_front().unwrap_or_default(), stretches)
    }
}

fn names(items: &[StatusItem]) -> String {
    let names: Vec<&str> = items.iter().map(|item| item.name()).collect();
    format!("({})", names.join(" "))
}

/// Formats ` (UID`, the attributes and `)`.
fn attribute_list(attributes: &[FetchAttribute]) -> String {
    let mut list = " (UID".to_owned();
    for attribute in attributes {
        list.push(' ');
        match attribute {
            FetchAttribute::Flags => list.push_str("FLAGS"),
            FetchAttribute::Size => list.push_str("RFC822.SIZE"),
            FetchAttribute::Arrived => list.push_str("INTERNALDATE"),
            FetchAttribute::Envelope => list.push_str("ENVELOPE"),
            FetchAttribute::BodyStructure => list.push_str("BODYSTRUCTURE"),
            FetchAttribute::Section(section) => push_section(&mut list, section),
            FetchAttribute::SectionSlice(section, from, bytes) => {
                push_section(&mut list, section);
                list.extend(["<", &from.to_string(), ".", &bytes.to_string(), ">"]);
            }
        }
    }
    list.push(')');
    list
}

fn push_section(list: &mut String, section: &Section) {
    list.push_str("BODY.PEEK[");
    section.write(list);
    list.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(command: Command, capabilities: &str) -> Vec<String> {
        let (first, rest) = command.into_bytes("a1", &Capabilities::read(capabilities));
        std::iter::once(first).chain(rest).map(|bytes| String::from_utf8(bytes).unwrap()).collect()
    }

    #[test]
    fn values_stay_values() {
        assert_eq!(sent(Command::examine("a\r\nb2 LOGOUT"), ""), ["a1 EXAMINE \"a&AA0ACg-b2 LOGOUT\"\r\n"]);
        assert_eq!(sent(Command::examine("say \"\\\" & é"), ""), ["a1 EXAMINE \"say \\\"\\\\\\\" &- &AOk-\"\r\n"]);
        let login = || Command::login("bob@x*master", &Password::new("a\r\nb".into()));
        assert_eq!(sent(login(), ""), ["a1 LOGIN \"bob@x*master\" {4}\r\n", "a\r\nb\r\n"]);
        assert_eq!(sent(login(), "LITERAL+"), ["a1 LOGIN \"bob@x*master\" {4+}\r\na\r\nb\r\n"]);
    }

    #[test]
    fn a_search_outside_ascii_names_its_charset() {
        let plain = sent(Command::uid_search("a b", &Capabilities::default()), "");
        assert_eq!(
            plain,
            ["a1 UID SEARCH OR SUBJECT \"a b\" OR FROM \"a b\" OR TO \"a b\" OR CC \"a b\" BODY \"a b\"\r\n"]
        );
        let words = sent(Command::uid_search("é", &Capabilities::read("ESEARCH")), "LITERAL-");
        assert!(
            words[0].starts_with("a1 UID SEARCH RETURN (ALL) CHARSET UTF-8 OR SUBJECT {2+}\r\né OR FROM {2+}\r\né")
        );
        assert_eq!(sent(Command::uid_search("é", &Capabilities::default()), "").len(), 6);
    }

    #[test]
    fn all_messages_from_one_on_are_asked_for_in_the_shortest_form() {
        assert_eq!(sent(Command::uid_search_from(7, &Capabilities::default()), ""), ["a1 UID SEARCH UID 7:*\r\n"]);
        let short = sent(Command::uid_search_from(1, &Capabilities::read("ESEARCH")), "");
        assert_eq!(short, ["a1 UID SEARCH RETURN (ALL) UID 1:*\r\n"]);
        assert_eq!(sent(Command::uid_search_all(&Capabilities::default()), ""), ["a1 UID SEARCH ALL\r\n"]);
    }

    #[test]
    fn an_appended_message_waits_for_the_server() {
        let append = Command::append("Entwürfe", &["\\Draft", "\\Seen"], 300);
        assert_eq!((append.content(), append.is_one_line()), (300, false));
        let parts = sent(append, "LITERAL+");
        assert_eq!(parts, ["a1 APPEND \"Entw&APw-rfe\" (\\Draft \\Seen) {300}\r\n", "\r\n"]);
        let search = sent(Command::uid_search_header("Message-ID", "<a\"b@x>"), "");
        assert_eq!(search, ["a1 UID SEARCH HEADER \"Message-ID\" \"<a\\\"b@x>\"\r\n"]);
        assert_eq!(sent(Command::list_below("#öffentlich."), ""), ["a1 LIST \"\" \"#&APY-ffentlich.*\"\r\n"]);
        let uses = Command::list_special_uses(&Capabilities::read("LIST-EXTENDED SPECIAL-USE"));
        assert_eq!(sent(uses, ""), ["a1 LIST \"\" \"*\" RETURN (SPECIAL-USE)\r\n"]);
    }

    #[test]
    fn plain_authentication_takes_one_round_trip_where_it_can() {
        let password = Password::new("pw".into());
        let direct = Command::authenticate_plain("bob", "api", &password, &Capabilities::read("SASL-IR"));
        assert_eq!(sent(direct, ""), ["a1 AUTHENTICATE PLAIN Ym9iAGFwaQBwdw==\r\n"]);
        let asked = Command::authenticate_plain("bob", "api", &password, &Capabilities::default());
        assert_eq!(asked.answer.as_ref().map(Password::expose), Some("Ym9iAGFwaQBwdw=="));
        assert_eq!(sent(asked, ""), ["a1 AUTHENTICATE PLAIN\r\n"]);
    }

    proptest! {
        #[test]
        fn no_value_ends_a_line_of_its_own(name in "\\PC{0,20}", text in any::<String>()) {
            let line = sent(Command::examine(&name), "").concat();
            prop_assert_eq!(line.matches('\n').count(), 1);
            let (first, rest) = Command::login(&text, &Password::new(text.clone())).into_bytes("a1", &Capabilities::default());
            prop_assert!(first.ends_with(b"\r\n") && rest.iter().all(|stretch| stretch.ends_with(b"\r\n")));
        }
    }
}
