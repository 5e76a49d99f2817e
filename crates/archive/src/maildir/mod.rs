//! Maildir++: one file a message, one directory a folder.

mod flags;
mod folders;
mod lists;
mod read;
mod write;

pub use folders::{Maildir, MaildirFolder};
pub(crate) use read::content;
pub use read::{MaildirFile, MaildirFiles};
pub(crate) use write::FILE_MODE;
pub use write::{MaildirWriter, write_subscriptions};

/// Lists the UIDs of a folder; Dovecot's format.
const UID_LIST: &str = "dovecot-uidlist";
/// Lists the keywords of a folder, whose flags are lower-case letters; Dovecot's format.
const KEYWORD_LIST: &str = "dovecot-keywords";
/// Courier's list of UIDs: version 1 of the same format.
const COURIER_UID_LIST: &str = "courierimapuiddb";
/// Courier's directory of keywords, and the list in it.
const COURIER_KEYWORDS: &str = "courierimapkeywords";
const COURIER_KEYWORD_LIST: &str = ":list";
/// Lists the folders that mail programs show; Dovecot's format.
const SUBSCRIPTIONS: &str = "subscriptions";
/// Marks a folder below the root.
const FOLDER_MARK: &str = "maildirfolder";
