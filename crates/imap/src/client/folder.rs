//! LIST and STATUS responses (RFC 3501 sections 7.2.2 and 7.2.4).

use crate::token::{Cursor, SyntaxError};
use crate::utf7;

/// A mailbox that LIST named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFolder {
    /// Its attributes as written, such as `\Noselect`.
    pub attributes: Vec<String>,
    /// What separates the levels of its name; none when names have no levels.
    pub separator: Option<char>,
    /// Its name, decoded, with the server's separator. None when it is no modified UTF-7: nobody can
    /// name such a mailbox.
    pub name: Option<String>,
}

impl ListedFolder {
    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, SyntaxError> {
        let attributes = cursor.list(Cursor::flag)?;
        cursor.space()?;
        let separator = cursor.nstring()?;
        cursor.space()?;
        let name = utf7::decode(&cursor.astring()?);
        let separator = separator.and_then(|text| text.first().copied()).map(char::from);
        Ok(Self { attributes, separator, name })
    }

    /// True when the attribute is there, in any case of letters.
    pub fn has(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|one| one.eq_ignore_ascii_case(attribute))
    }
}

/// What STATUS told of a mailbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderStatus {
    /// Its name, as in [`ListedFolder`].
    pub name: Option<String>,
    /// How many messages it holds.
    pub messages: Option<u64>,
    /// How many of them are not `\Seen`.
    pub unseen: Option<u64>,
    /// The sum of their sizes (STATUS=SIZE, RFC 8438).
    pub size: Option<u64>,
    /// The UID that the next message gets.
    pub uid_next: Option<u64>,
    /// UIDs mean the same messages only as long as this stays the same.
    pub uid_validity: Option<u64>,
}

impl FolderStatus {
    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, SyntaxError> {
        let mut status = Self { name: utf7::decode(&cursor.astring()?), ..Self::default() };
        cursor.space()?;
        cursor.list(|cursor| {
            let item = cursor.keyword()?;
            cursor.space()?;
            let value = Some(cursor.number64()?);
            match item.as_str() {
                "MESSAGES" => status.messages = value,
                "UNSEEN" => status.unseen = value,
                "SIZE" => status.size = value,
                "UIDNEXT" => status.uid_next = value,
                "UIDVALIDITY" => status.uid_validity = value,
                _ => {}
            }
            Ok::<_, SyntaxError>(())
        })?;
        Ok(status)
    }
}
