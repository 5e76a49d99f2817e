//! What an entry is by its name.

use mailapi_imap::decode_name;

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileKind {
    /// An mbox file; with the folder's name, unless it has that of its directory.
    Mbox(Option<String>),
    /// One message.
    Message,
    /// Apple Mail's form of one message.
    AppleMessage,
    /// An index or settings, unless it has mail: a folder may have any name.
    Index,
    /// A message of MH, or an mbox file whose name is a number.
    Numbered,
    /// Mail in a form that is not read, with the command that converts it.
    Foreign(&'static str),
    /// Any other file: its content decides.
    Unknown,
}

/// Files that mail programs write beside the mail.
const INDEXES: [&str; 17] = [
    ".DS_Store",
    "Info.plist",
    "table_of_contents",
    ".mh_sequences",
    ".xmhcache",
    ".mh_profile",
    "subscriptions",
    "maildirfolder",
    "msgFilterRules.dat",
    "popstate.dat",
    "filterlog.html",
    ".directory",
    ".uidvalidity",
    ".size",
    "mbox.lock",
    ".mailboxlist",
    "folderTree.json",
];

/// Endings of their names.
const INDEX_ENDINGS: [&str; 8] = [".msf", ".index", ".index.ids", ".index.sorted", ".ids", ".lock", ".dat", ".wdseml"];

/// Endings of names of forms that are not read.
const FOREIGN: [(&str, &str); 9] = [
    (".pst", "is a file of Outlook; convert it with readpst -r"),
    (".ost", "is a file of Outlook; convert it with readpst -r"),
    (".dbx", "is a file of Outlook Express; convert it with undbx"),
    (".partial.emlx", "lacks its attachments; open the message in Apple Mail, which loads them"),
    (".gz", "is compressed; decompress it with gunzip"),
    (".bz2", "is compressed; decompress it with bunzip2"),
    (".xz", "is compressed; decompress it with unxz"),
    (".zip", "is an archive; unpack it with unzip"),
    (".tar", "is an archive; unpack it with tar -xf"),
];

impl FileKind {
    pub(super) fn of(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        if let Some((_, reason)) = FOREIGN.iter().find(|(ending, _)| lower.ends_with(ending)) {
            return Self::Foreign(reason);
        }
        match lower.rsplit_once('.') {
            _ if INDEXES.contains(&name) => Self::Index,
            _ if lower == "mbox" => Self::Mbox(None),
            Some((stem, "mbox")) if !stem.is_empty() => Self::Mbox(Some(name[..stem.len()].to_owned())),
            Some((_, "eml")) => Self::Message,
            Some((_, "emlx")) => Self::AppleMessage,
            _ if INDEX_ENDINGS.iter().any(|ending| lower.ends_with(ending)) => Self::Index,
            // MH numbers its messages.
            _ if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) => Self::Numbered,
            _ => Self::Unknown,
        }
    }
}

/// Returns the name of a folder. IMAP servers, and Thunderbird for those of servers, encode it.
pub(super) fn decoded(name: &str) -> String {
    decode_name(name.as_bytes()).unwrap_or_else(|| name.to_owned())
}

/// What a directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DirectoryKind {
    /// A folder, or the parent of some, with this name.
    Folder(String),
    /// The folders below the one with this name.
    Below(String),
    /// It belongs to the directory that contains it.
    Part,
    /// It has no mail.
    Left(&'static str),
}

impl DirectoryKind {
    /// Names a directory, which may be inside one of Apple Mail.
    pub(super) fn of(name: &str, is_in_apple: bool) -> Self {
        if let Some(folder) = name.strip_suffix(".sbd").filter(|folder| !folder.is_empty()) {
            return Self::Below(decoded(folder));
        }
        if let Some(folder) = name.strip_suffix(".mbox").filter(|folder| !folder.is_empty()) {
            return Self::Folder(folder.to_owned());
        }
        if let Some(hidden) = name.strip_prefix('.') {
            return match hidden.strip_suffix(".directory").filter(|folder| !folder.is_empty()) {
                Some(folder) => Self::Below(folder.to_owned()),
                None => Self::Left("is hidden"),
            };
        }
        match name {
            "Attachments" if is_in_apple => Self::Left("has parts of messages that Apple Mail has not loaded"),
            _ if is_in_apple => Self::Part,
            "Local Folders" => Self::Part,
            name => Self::Folder(decoded(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognised_by_their_names() {
        for (name, kind) in [
            ("mbox", FileKind::Mbox(None)),
            ("INBOX.mbox", FileKind::Mbox(Some("INBOX".to_owned()))),
            ("Ü.x.MBOX", FileKind::Mbox(Some("Ü.x".to_owned()))),
            (".mbox", FileKind::Unknown),
            ("12", FileKind::Numbered),
            ("a.EML", FileKind::Message),
            ("7.emlx", FileKind::AppleMessage),
            ("Inbox.msf", FileKind::Index),
            ("Inbox", FileKind::Unknown),
        ] {
            assert_eq!(FileKind::of(name), kind, "{name}");
        }
        for name in ["mail.pst", "old.mbox.gz", "7.partial.emlx"] {
            assert!(matches!(FileKind::of(name), FileKind::Foreign(_)), "{name}");
        }
    }

    #[test]
    fn directories_are_recognised_by_their_names() {
        let below = |name: &str| DirectoryKind::Below(name.to_owned());
        let folder = |name: &str| DirectoryKind::Folder(name.to_owned());
        for (name, is_in_apple, kind) in [
            ("Work.sbd", false, below("Work")),
            (".inbox.directory", false, below("inbox")),
            ("Sent.mbox", false, folder("Sent")),
            ("Sent.mbox", true, folder("Sent")),
            ("Sent", false, folder("Sent")),
            ("Entw&APw-rfe", false, folder("Entwürfe")),
            ("R&D", false, folder("R&D")),
            ("Entw&APw-rfe.sbd", false, below("Entwürfe")),
            ("new", false, folder("new")),
            ("Messages", true, DirectoryKind::Part),
            ("Local Folders", false, DirectoryKind::Part),
        ] {
            assert_eq!(DirectoryKind::of(name, is_in_apple), kind, "{name}");
        }
    }
}
