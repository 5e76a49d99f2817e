//! LIST and STATUS responses (RFC 3501 sections 7.2.2 and 7.2.4).

use crate::token::{Cursor, SyntaxError};
use crate::utf7;

/// A mailbox in a LIST response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFolder {
    /// The attributes as written, such as `\Noselect`.
    pub attributes: Vec<String>,
    /// The hierarchy separator; `None` if names have no levels.
    pub separator: Option<char>,
    /// The decoded name with the server's separator. `None` if it is not modified UTF-7: no command can name the
    /// mailbox.
    pub name: Option<String>,
    /// The name as the server wrote it, for reports.
    pub written: String,
}

impl ListedFolder {
    pub(super) fn read(cursor: &mut Cursor) -> Result<Self, SyntaxError> {
        let attributes = cursor.list(Cursor::flag)?;
        cursor.space()?;
        let separator = cursor.nstring()?;
        cursor.space()?;
        let name = cursor.folder_name()?;
        let (name, written) = (utf7::decode(&name), String::from_utf8_lossy(&name).into_owned());
        let separator = separator.and_then(|text| text.first().copied()).map(char::from);
        Ok(Self { attributes, separator, name, written })
    }

    /// Whether the attribute is present; case is ignored.
    pub fn has(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|one| one.eq_ignore_ascii_case(attribute))
    }
}

/// The counts of a mailbox in a STATUS response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderStatus {
    /// The name, as in [`ListedFolder`].
    pub name: Option<String>,
    /// Number of messages.
    pub messages: Option<u64>,
    /// Number of messages without `\Seen`.
    pub unseen: Option<u64>,
    /// Sum of the message sizes in octets (STATUS=SIZE, RFC 8438).
    pub size: Option<u64>,
    /// The UID of the next message.
    pub uid_next: Option<u64>,
    /// UIDVALIDITY: UIDs keep their meaning only while it is the same.
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
