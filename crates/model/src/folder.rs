//! Folder names.

use std::fmt;
use std::str::FromStr;

/// A decoded folder name, with `/` between levels. `INBOX` is recognised in any case (RFC 3501 section 5.1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderName(String);

/// The text is not a valid folder name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a folder name of 1 to 255 bytes without control characters and empty levels")]
pub struct FolderNameError;

impl FolderName {
    /// Maximum length in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Returns the name of the folder that receives mail.
    #[must_use]
    pub fn inbox() -> Self {
        Self("INBOX".to_owned())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FolderName {
    type Err = FolderNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = !text.is_empty() && text.len() <= Self::MAX_BYTES;
        if !fits || text.chars().any(char::is_control) || text.split('/').any(str::is_empty) {
            return Err(FolderNameError);
        }
        // Only the first level can be INBOX.
        let (first, rest) = text.split_once('/').map_or((text, None), |(first, rest)| (first, Some(rest)));
        let first = if first.eq_ignore_ascii_case("INBOX") { "INBOX" } else { first };
        Ok(Self(rest.map_or_else(|| first.to_owned(), |rest| format!("{first}/{rest}"))))
    }
}

impl fmt::Display for FolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn impossible_names_are_refused_and_inbox_has_one_spelling() {
        for text in ["", "/", "a//b", "/a", "a/", "a\0b", "a\r\nb", &"x".repeat(256)] {
            assert!(text.parse::<FolderName>().is_err(), "{text:?}");
        }
        assert_eq!("inBox".parse::<FolderName>().unwrap(), FolderName::inbox());
        assert_eq!("inbox/Inbox".parse::<FolderName>().unwrap().as_str(), "INBOX/Inbox");
        assert_eq!("Projects/2026".parse::<FolderName>().unwrap().as_str(), "Projects/2026");
    }

    proptest! {
        #[test]
        fn any_name_is_refused_or_has_one_spelling(text in "(/|[iI][nN]box|INBOX|[a-z. ]{1,3}|\\PC|\\x00){0,8}|[a-zü/]{240,270}") {
            if let Ok(name) = text.parse::<FolderName>() {
                let again = name.as_str().parse::<FolderName>();
                prop_assert_eq!(again.as_ref(), Ok(&name));
                prop_assert_eq!(name.as_str().len(), text.len());
            }
        }
    }
}
