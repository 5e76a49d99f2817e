//! Labels of Google Takeout, which has one file for all messages of a mailbox.

use mailapi_backend::mime::Header;

/// The field with the labels. It stays in the message.
const FIELD: &str = "x-gmail-labels";

/// Maximum length of the field.
const MAX_FIELD: usize = 16 * 1024;

/// The labels of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Labels {
    field: Vec<u8>,
    /// The last line of the header is of the field.
    is_open: bool,
}

/// Labels with the same meaning as a flag or keyword.
const FLAGS: [(&str, &str); 5] = [
    ("Opened", "\\Seen"),
    ("Starred", "\\Flagged"),
    ("Drafts", "\\Draft"),
    ("Spam", "$Junk"),
    // RFC 8457.
    ("Important", "$Important"),
];

/// Labels with the same meaning as a folder. Of several, the first one counts.
const FOLDERS: [(&str, &str); 5] =
    [("Trash", "\\Trash"), ("Spam", "\\Junk"), ("Drafts", "\\Drafts"), ("Sent", "\\Sent"), ("Archived", "\\Archive")];

/// The label of the inbox. A message of a user to himself has it beside `Sent`.
const INBOX: &str = "Inbox";

impl Labels {
    /// Reads the first line of a field with this name in lower case.
    pub(super) fn begin(&mut self, name: &str, line: &str) {
        self.is_open = name == FIELD && self.field.is_empty();
        self.go_on(line);
    }

    /// Reads a line that continues a field.
    pub(super) fn go_on(&mut self, line: &str) {
        if self.is_open && self.field.len() + line.len() <= MAX_FIELD {
            self.field.extend([line.as_bytes(), b"\r\n"].concat());
        }
    }

    fn all(&self) -> Vec<String> {
        if self.field.is_empty() {
            return Vec::new();
        }
        let text = Header::of(&self.field).text(FIELD).unwrap_or_default();
        text.split(',').map(|label| label.trim().trim_matches('"').to_owned()).collect()
    }

    /// Returns the flags and keywords.
    pub(super) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let all = self.all();
        FLAGS.into_iter().filter(move |(label, _)| all.iter().any(|one| one == label)).map(|(_, flag)| flag)
    }

    /// Returns the special use of the folder.
    pub(super) fn special_use(&self) -> Option<&'static str> {
        let all = self.all();
        let has = |label: &str| all.iter().any(|one| one == label);
        let (_, special_use) = FOLDERS.into_iter().find(|(label, _)| has(label))?;
        Some(special_use).filter(|_| !has(INBOX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(lines: &[&str]) -> Labels {
        let mut labels = Labels::default();
        labels.begin(FIELD, lines[0]);
        lines[1..].iter().for_each(|line| labels.go_on(line));
        labels
    }

    #[test]
    fn other_fields_and_labels_mean_nothing() {
        let mut labels = labels(&["X-Gmail-Labels: Sentinel,spam,Work"]);
        labels.begin("subject", "Subject: x");
        labels.go_on(" Spam,Opened");
        assert_eq!((labels.flags().count(), labels.special_use()), (0, None));
    }

    #[test]
    fn labels_become_flags_and_folders() {
        for (lines, flags, special_use) in [
            (&["X-Gmail-Labels: Sent,Opened"][..], "\\Seen", Some("\\Sent")),
            (&["X-Gmail-Labels: Inbox,Sent,Unread"], "", None),
            (&["X-Gmail-Labels: Spam,", "\tStarred,Unread"], "\\Flagged $Junk", Some("\\Junk")),
            (&["X-Gmail-Labels: =?UTF-8?Q?Archived,Caf=C3=A9,?=", " =?UTF-8?Q?Opened?="], "\\Seen", Some("\\Archive")),
            (&["X-Gmail-Labels: Drafts,Trash"], "\\Draft", Some("\\Trash")),
        ] {
            let labels = labels(lines);
            let words: Vec<_> = labels.flags().collect();
            assert_eq!((words.join(" ").as_str(), labels.special_use()), (flags, special_use), "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn any_field_is_read_without_a_panic(text in "(Spam|Sent|,|\"|=\\?utf-8\\?q\\?|\\?=|\\PC){0,12}") {
            let labels = labels(&[&format!("X-Gmail-Labels: {text}"), &format!(" {text}")]);
            let _ = (labels.flags().count(), labels.special_use());
        }
    }
}
