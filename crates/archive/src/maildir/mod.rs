//! Maildir++: one file a message, one directory a folder.

mod flags;
mod lists;
mod read;
mod write;

pub use read::{Maildir, MaildirFile, MaildirFiles, MaildirFolder};
pub(crate) use write::FILE_MODE;
pub use write::MaildirWriter;

/// Lists the UIDs of a folder; Dovecot's format.
const UID_LIST: &str = "dovecot-uidlist";
/// Lists the keywords of a folder, whose flags are lower-case letters; Dovecot's format.
const KEYWORD_LIST: &str = "dovecot-keywords";
/// Marks a folder below the root.
const FOLDER_MARK: &str = "maildirfolder";
