//! Requests of a session to its host, and the host's replies.

use crate::mailbox::MailboxName;
use crate::secret::Password;
use crate::server::command::{AppendMessages, FetchItem, FlagChange, Resync, SearchKey, SectionText, UidRanges};
use crate::server::view::{FolderSnapshot, MessageEntry};
use crate::server::{Folder, MailboxStatus, ObjectId, OrderFacts, Quota, SpecialUse};

/// Work for the host. Each effect must be answered by exactly one [`super::Session::finish`]; the variants name the
/// expected [`Reply`].
///
/// `folder` is the host's key from [`FolderSnapshot::folder`].
#[derive(Debug)]
pub enum Effect {
    /// Check a password. [`Reply::Done`], [`Failure::LoginRefused`] or [`Failure::LoginLocked`].
    Login {
        /// The user name.
        username: String,
        /// The password.
        password: Password,
    },
    /// Open a mailbox. [`Reply::Selected`].
    Select {
        /// The mailbox.
        mailbox: MailboxName,
        /// True for EXAMINE.
        read_only: bool,
        /// What the client knows from an earlier session.
        resync: Option<Resync>,
    },
    /// Create a mailbox. Parents need not be created: LIST shows them anyway. [`Reply::Created`];
    /// [`Failure::SpecialUseTaken`] if another mailbox has this use.
    Create {
        /// The new mailbox.
        mailbox: MailboxName,
        /// Its purpose.
        special_use: Option<SpecialUse>,
    },
    /// Delete a mailbox, never the inbox. Mailboxes below it stay. [`Reply::Done`].
    Delete(MailboxName),
    /// Rename a mailbox and those below it. Renaming the inbox moves its messages to the new mailbox and keeps the
    /// mailboxes below the inbox (RFC 3501 section 6.3.5). [`Reply::Done`].
    Rename {
        /// The old name.
        from: MailboxName,
        /// The new name, never the inbox.
        to: MailboxName,
    },
    /// Add or remove a subscription; the mailbox need not exist. [`Reply::Done`].
    Subscribe {
        /// The mailbox.
        mailbox: MailboxName,
        /// False to remove it.
        subscribed: bool,
    },
    /// List all mailboxes and all subscriptions. [`Reply::Folders`].
    Folders,
    /// Read the counts and UIDs of mailboxes; missing mailboxes are left out. [`Reply::Statuses`].
    Status {
        /// The mailboxes.
        mailboxes: Vec<MailboxName>,
        /// Whether to count `\Recent` messages.
        recent: bool,
        /// Whether to count messages with `\Deleted`.
        deleted: bool,
    },
    /// Store messages, all or none. [`Reply::Appended`]; [`Failure::NoSuchMailbox`] invites the client to create the
    /// mailbox.
    Append {
        /// The target mailbox.
        mailbox: MailboxName,
        /// The messages to store.
        messages: AppendMessages,
    },
    /// Reserve the memory to compress this connection. [`Reply::Done`]; [`super::Step::Compress`] follows.
    Compress,
    /// Read the account's quota. [`Reply::Quota`].
    Quota,
    /// Read the quota of a mailbox. [`Reply::Quota`], or [`Failure::NoSuchMailbox`].
    QuotaRoot(MailboxName),
    /// Only report changes of the selected mailbox (NOOP, CHECK). [`Reply::Done`].
    Refresh {
        /// The selected mailbox.
        folder: i64,
    },
    /// Remove messages with `\Deleted`; with `uids`, only these. [`Reply::Expunged`].
    Expunge {
        /// The selected mailbox.
        folder: i64,
        /// The set of UID EXPUNGE.
        uids: Option<UidRanges>,
    },
    /// Find messages. [`Reply::Found`].
    Search {
        /// The selected mailbox.
        folder: i64,
        /// The criteria.
        key: SearchKey,
    },
    /// Find messages, and read what orders them. [`Reply::Facts`].
    Order {
        /// The selected mailbox.
        folder: i64,
        /// The criteria.
        key: SearchKey,
        /// Whether facts of the header are needed.
        with_header: bool,
    },
    /// Write messages: one [`super::Session::write_message`] for each that still exists, in the given order, then
    /// [`Reply::Done`]. The host may send output in between.
    Fetch {
        /// The selected mailbox.
        folder: i64,
        /// The messages and items.
        request: FetchRequest,
    },
    /// Change flags. [`Reply::Stored`].
    Store {
        /// The selected mailbox.
        folder: i64,
        /// The messages to change, ascending and not empty.
        uids: Vec<u32>,
        /// The change.
        change: FlagChange,
        /// Leave messages as they are that changed after this modification sequence.
        unchanged_since: Option<u64>,
    },
    /// Copy or move messages, all or none. [`Reply::Copied`]; [`Failure::NoSuchMailbox`] invites the client to
    /// create the mailbox.
    Copy {
        /// The selected mailbox.
        folder: i64,
        /// The messages to copy, ascending and not empty.
        uids: Vec<u32>,
        /// The target mailbox.
        to: MailboxName,
        /// Whether to remove the originals: true for MOVE.
        remove: bool,
    },
}

/// The arguments of FETCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// The messages to read, ascending; empty only with `vanished`.
    pub uids: Vec<u32>,
    /// The requested items.
    pub items: Vec<FetchItem>,
    /// Whether the host must add `\Seen` to each message before it returns their flags.
    pub mark_seen: bool,
    /// Leave out messages that did not change after this modification sequence.
    pub changed_since: Option<u64>,
    /// Before the messages, pass those of these UIDs that were removed after `changed_since` to
    /// [`super::Session::write_vanished`].
    pub vanished: Option<UidRanges>,
}

/// The part of a message that FETCH needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// Only flags, date, size and UID.
    Facts,
    /// The header of the message.
    Header,
    /// The whole message.
    Whole,
}

impl FetchRequest {
    /// The largest need of all items.
    pub fn needs(&self) -> Needs {
        self.items.iter().map(item_needs).max().unwrap_or(Needs::Facts)
    }
}

fn item_needs(item: &FetchItem) -> Needs {
    match item {
        FetchItem::Flags
        | FetchItem::Uid
        | FetchItem::Modseq
        | FetchItem::InternalDate
        | FetchItem::SaveDate
        | FetchItem::Size
        | FetchItem::EmailId
        | FetchItem::ThreadId => Needs::Facts,
        FetchItem::Envelope => Needs::Header,
        FetchItem::Body
        | FetchItem::BodyStructure
        | FetchItem::Preview
        | FetchItem::Binary(_)
        | FetchItem::BinarySize(_) => Needs::Whole,
        FetchItem::Section(item) => match item.section.text {
            SectionText::Header | SectionText::HeaderFields { .. } if item.section.path.is_empty() => Needs::Header,
            _ => Needs::Whole,
        },
    }
}

/// The host's reply to an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Done, without data.
    Done,
    /// The current state of the mailbox.
    Selected {
        /// Its messages.
        snapshot: FolderSnapshot,
        /// The UIDs removed after [`Resync::modseq`], if the mailbox still has the UIDVALIDITY there. A host that has
        /// forgotten some may name all UIDs without a message.
        vanished: UidRanges,
    },
    /// Every mailbox and every subscription, in any order.
    Folders(Vec<Folder>),
    /// Counts, in the order of the request.
    Statuses(Vec<(MailboxName, MailboxStatus)>),
    /// The identifier of the new mailbox.
    Created(ObjectId),
    /// The stored messages (RFC 4315, APPENDUID).
    Appended {
        /// The mailbox's UIDVALIDITY.
        uid_validity: u32,
        /// Their UIDs, in the order of the request.
        uids: Vec<u32>,
    },
    /// The copied messages (RFC 4315, COPYUID).
    Copied {
        /// The UIDVALIDITY of the target mailbox.
        uid_validity: u32,
        /// Old and new UID of each message; removed messages are left out.
        uids: Vec<(u32, u32)>,
    },
    /// The UIDs of the removed messages.
    Expunged(Vec<u32>),
    /// The messages with their new flags; removed messages are left out.
    Stored {
        /// The messages as they are now.
        entries: Vec<MessageEntry>,
        /// UIDs of messages left as they are because of `unchanged_since`, ascending.
        modified: Vec<u32>,
    },
    /// The matching UIDs, in any order.
    Found(Vec<u32>),
    /// The facts of the matching messages, UIDs ascending.
    Facts(Vec<OrderFacts>),
    /// The quota.
    Quota(Quota),
}

/// The reason why the host failed. Each has a response code (RFC 5530).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Wrong user name or password, or the account is locked out.
    #[error("Authentication failed")]
    LoginRefused,
    /// Too many logins have failed. Another code than after a wrong password, so that mail programs try again later and
    /// do not ask for a new one.
    #[error("Too many failed logins, try again later")]
    LoginLocked,
    /// The mailbox does not exist.
    #[error("No such mailbox")]
    NoSuchMailbox,
    /// A mailbox of this name exists.
    #[error("Mailbox already exists")]
    AlreadyExists,
    /// The quota is exceeded.
    #[error("Quota exceeded")]
    OverQuota,
    /// The message is larger than allowed.
    #[error("Message is too large")]
    TooLarge,
    /// The user lacks permission.
    #[error("Permission denied")]
    NotPermitted,
    /// Another mailbox has this special use (RFC 6154 section 3).
    #[error("Special use is taken")]
    SpecialUseTaken,
    /// Impossible, such as renaming a mailbox to a name below itself.
    #[error("Operation not possible")]
    Cannot,
    /// A limit of the server, such as the number of mailboxes.
    #[error("Server limit reached")]
    Limit,
    /// A temporary failure.
    #[error("Temporarily unavailable")]
    Unavailable,
}

impl Failure {
    /// The response code without brackets.
    pub fn code(self) -> &'static str {
        match self {
            Self::LoginRefused => "AUTHENTICATIONFAILED",
            Self::NoSuchMailbox => "NONEXISTENT",
            Self::AlreadyExists => "ALREADYEXISTS",
            Self::OverQuota => "OVERQUOTA",
            Self::TooLarge => "TOOBIG",
            Self::NotPermitted => "NOPERM",
            Self::SpecialUseTaken => "USEATTR",
            Self::Cannot => "CANNOT",
            Self::Limit => "LIMIT",
            Self::LoginLocked | Self::Unavailable => "UNAVAILABLE",
        }
    }
}

impl FetchRequest {
    /// Creates a request, and decides whether reading the items sets `\Seen`.
    pub(super) fn new(
        uids: Vec<u32>,
        items: Vec<FetchItem>,
        read_only: bool,
        changed_since: Option<u64>,
        vanished: Option<UidRanges>,
    ) -> Self {
        let mark_seen = !read_only && items.iter().any(FetchItem::sets_seen);
        Self { uids, items, mark_seen, changed_since, vanished }
    }
}
