//! What a session asks of its host, and what the host answers.

use crate::flag::SystemFlag;
use crate::mailbox::MailboxName;
use crate::secret::Password;
use crate::server::command::{AppendMessage, FetchItem, FlagChange, SearchKey, SectionText, UidRanges};
use crate::server::view::{FolderSnapshot, MessageEntry};
use crate::server::{Folder, MailboxStatus, Quota};

/// Work for the host. Each one is answered by exactly one [`super::Session::finish`]; the comments
/// name the [`Reply`] that is expected.
///
/// `folder` is the key that the host gave in [`FolderSnapshot::folder`].
#[derive(Debug)]
pub enum Effect {
    /// Check a password. [`Reply::Done`], or [`Failure::LoginRefused`].
    Login {
        /// The user name.
        username: String,
        /// The password.
        password: Password,
    },
    /// Open a mailbox. [`Reply::Selected`].
    Select {
        /// Which.
        mailbox: MailboxName,
        /// True for EXAMINE.
        read_only: bool,
    },
    /// Create a mailbox. Parents need not be created: LIST shows them. [`Reply::Done`].
    Create(MailboxName),
    /// Delete a mailbox, never the inbox; names below it stay. [`Reply::Done`].
    Delete(MailboxName),
    /// Rename a mailbox and those below it. From the inbox: move its messages into the new mailbox,
    /// and leave those below it (RFC 3501 section 6.3.5). [`Reply::Done`].
    Rename {
        /// The old name.
        from: MailboxName,
        /// The new name, never the inbox.
        to: MailboxName,
    },
    /// Note or drop a subscription; the mailbox need not exist. [`Reply::Done`].
    Subscribe {
        /// Which.
        mailbox: MailboxName,
        /// False to drop it.
        subscribed: bool,
    },
    /// List all mailboxes and all subscriptions. [`Reply::Folders`].
    Folders,
    /// Figures of mailboxes; those that do not exist are left out. [`Reply::Statuses`].
    Status {
        /// Which.
        mailboxes: Vec<MailboxName>,
        /// True when the number of `\Recent` messages is wanted.
        recent: bool,
    },
    /// Store a message. [`Reply::Appended`]; [`Failure::NoSuchMailbox`] tells the client to create it.
    Append {
        /// Where.
        mailbox: MailboxName,
        /// What.
        message: AppendMessage,
    },
    /// The account's quota. [`Reply::Quota`].
    Quota,
    /// The quota that holds for a mailbox. [`Reply::Quota`], or [`Failure::NoSuchMailbox`].
    QuotaRoot(MailboxName),
    /// Nothing but news of the selected mailbox is wanted (NOOP, CHECK). [`Reply::Done`].
    Refresh {
        /// The selected mailbox.
        folder: i64,
    },
    /// Remove the messages with `\Deleted`, of these UIDs if some are given. [`Reply::Expunged`].
    Expunge {
        /// The selected mailbox.
        folder: i64,
        /// For UID EXPUNGE.
        uids: Option<UidRanges>,
    },
    /// Find messages. [`Reply::Found`].
    Search {
        /// The selected mailbox.
        folder: i64,
        /// What to look for.
        key: SearchKey,
    },
    /// Write messages: one [`super::Session::write_message`] for each that still exists, in the
    /// given order, then [`Reply::Done`]. The host may send what is written in between.
    Fetch {
        /// The selected mailbox.
        folder: i64,
        /// What to write.
        request: FetchRequest,
    },
    /// Change flags. [`Reply::Stored`].
    Store {
        /// The selected mailbox.
        folder: i64,
        /// Of these messages, ascending, never none.
        uids: Vec<u32>,
        /// How.
        change: FlagChange,
    },
    /// Copy or move messages, all or none. [`Reply::Copied`]; [`Failure::NoSuchMailbox`] tells
    /// the client to create the mailbox.
    Copy {
        /// The selected mailbox.
        folder: i64,
        /// These messages, ascending, never none.
        uids: Vec<u32>,
        /// Where to.
        to: MailboxName,
        /// True for MOVE.
        remove: bool,
    },
}

/// What FETCH wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// Of these messages, ascending, never none.
    pub uids: Vec<u32>,
    /// What of each.
    pub items: Vec<FetchItem>,
    /// True when the host must add `\Seen` to each, before it shows their flags.
    pub mark_seen: bool,
}

/// The most that FETCH needs of a message's octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// Flags, date, size, UID only.
    Facts,
    /// The header of the message.
    Header,
    /// The whole message.
    Whole,
}

impl FetchRequest {
    /// The most that any item needs.
    pub fn needs(&self) -> Needs {
        self.items.iter().map(item_needs).max().unwrap_or(Needs::Facts)
    }
}

fn item_needs(item: &FetchItem) -> Needs {
    match item {
        FetchItem::Flags | FetchItem::Uid | FetchItem::InternalDate | FetchItem::Size => Needs::Facts,
        FetchItem::Envelope => Needs::Header,
        FetchItem::Body | FetchItem::BodyStructure => Needs::Whole,
        FetchItem::Section(item) => match item.section.text {
            SectionText::Header | SectionText::HeaderFields { .. } if item.section.path.is_empty() => Needs::Header,
            _ => Needs::Whole,
        },
    }
}

/// The host's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is done.
    Done,
    /// The mailbox as it is.
    Selected(FolderSnapshot),
    /// Every mailbox and every subscription, in any order.
    Folders(Vec<Folder>),
    /// Figures, in the order asked for.
    Statuses(Vec<(MailboxName, MailboxStatus)>),
    /// Where the message went (RFC 4315, APPENDUID).
    Appended {
        /// The mailbox's UIDVALIDITY.
        uid_validity: u32,
        /// The message's UID.
        uid: u32,
    },
    /// Where the messages went (RFC 4315, COPYUID).
    Copied {
        /// The UIDVALIDITY of the mailbox that they went to.
        uid_validity: u32,
        /// Old and new UID of each; messages that were gone are left out.
        uids: Vec<(u32, u32)>,
    },
    /// The UIDs that were removed.
    Expunged(Vec<u32>),
    /// The flags afterwards; messages that were gone are left out.
    Stored(Vec<MessageEntry>),
    /// The UIDs that match, in any order.
    Found(Vec<u32>),
    /// The quota.
    Quota(Quota),
}

/// Why the host could not do it; each has its response code (RFC 5530).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Wrong user name or password, or the account is locked out.
    #[error("Authentication failed")]
    LoginRefused,
    /// No such mailbox.
    #[error("No such mailbox")]
    NoSuchMailbox,
    /// A mailbox of that name exists.
    #[error("Mailbox exists already")]
    AlreadyExists,
    /// No room left.
    #[error("Quota exceeded")]
    OverQuota,
    /// The message is larger than allowed.
    #[error("Message is too large")]
    TooLarge,
    /// The user may not do this.
    #[error("Permission denied")]
    NotPermitted,
    /// This can never work, such as renaming a mailbox to a name below itself.
    #[error("This cannot be done")]
    Cannot,
    /// A cap of the server, such as the number of mailboxes.
    #[error("A limit of the server is reached")]
    Limit,
    /// It may work later.
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
            Self::Cannot => "CANNOT",
            Self::Limit => "LIMIT",
            Self::Unavailable => "UNAVAILABLE",
        }
    }
}

impl FetchRequest {
    /// Decides whether reading these items sets `\Seen`.
    pub(super) fn new(uids: Vec<u32>, items: Vec<FetchItem>, read_only: bool) -> Self {
        let sets_seen = |item: &FetchItem| matches!(item, FetchItem::Section(section) if !section.peek);
        let mark_seen = !read_only && items.iter().any(sets_seen);
        Self { uids, items, mark_seen }
    }
}

impl MessageEntry {
    /// True with `\Deleted`: EXPUNGE removes the message.
    pub fn is_deleted(&self) -> bool {
        self.flags.contains(SystemFlag::Deleted)
    }
}
