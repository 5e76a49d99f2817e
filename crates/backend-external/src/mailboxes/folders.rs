//! The folders of a mailbox.

use std::collections::HashMap;

use mailapi_backend::FolderInfo;
use mailapi_imap::client::{Command, FetchAttribute, FolderStatus, ListedFolder, StatusItem, Untagged};
use mailapi_model::FolderName;

use crate::imap_pool::{ImapConnection, ImapError, Job, MAX_FOLDERS, is_of, refused_folder};

/// Lists the folders with their counts: in one command if the server has LIST-STATUS and STATUS=SIZE.
pub(super) struct ListFolders;

impl Job for ListFolders {
    type Output = Vec<FolderInfo>;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Vec<FolderInfo>, ImapError> {
        let mut items = vec![StatusItem::Messages, StatusItem::Unseen];
        let capabilities = connection.capabilities();
        if capabilities.has("STATUS=SIZE") || capabilities.has("IMAP4REV2") {
            items.push(StatusItem::Size);
        }
        let statuses = statuses(connection, &items).await?;
        let mut infos = Vec::with_capacity(statuses.len());
        for (name, status) in statuses {
            let size = match status.size {
                Some(size) => size,
                None => sum_of_sizes(connection, &name).await?,
            };
            let Some((messages, unread)) = status.messages.zip(status.unseen) else {
                return Err(ImapError::unavailable("the server sent no message counts for a folder"));
            };
            infos.push(FolderInfo { name, messages, unread, size });
        }
        Ok(infos)
    }
}

/// Returns all folders that can be opened, in the order of [`all`], with their status: in one command if the server
/// has LIST-STATUS (RFC 5819).
pub(super) async fn statuses(
    connection: &mut ImapConnection,
    items: &[StatusItem],
) -> Result<Vec<(FolderName, FolderStatus)>, ImapError> {
    // STATUS of an open folder reports its old state until it is refreshed.
    connection.refresh_or_leave().await?;
    let capabilities = connection.capabilities();
    let counts_at_once = capabilities.has("LIST-STATUS") || capabilities.has("IMAP4REV2");
    let (folders, mut received) = list(connection, if counts_at_once { items } else { &[] }).await?;
    let (mut statuses, mut refused) = (Vec::with_capacity(folders.len()), Vec::new());
    for folder in folders {
        let status = match received.remove(&folder.wire_name) {
            Some(status) => Some(status),
            None => status(connection, &folder, items).await?,
        };
        match status {
            Some(status) => statuses.push((folder.name, status)),
            None => refused.push(folder.name),
        }
    }
    demand_removed(connection, &refused).await?;
    Ok(statuses)
}

/// Checks that these folders, which the server listed and then refused, were removed meanwhile.
pub(super) async fn demand_removed(connection: &mut ImapConnection, refused: &[FolderName]) -> Result<(), ImapError> {
    if refused.is_empty() {
        return Ok(());
    }
    let is_there = |folder: &Folder| refused.contains(&folder.name);
    match all(connection).await?.iter().any(is_there) {
        true => Err(ImapError::unavailable("the server refused to open a folder that it lists")),
        false => Ok(()),
    }
}

/// A folder that can be opened.
pub(super) struct Folder {
    pub(super) name: FolderName,
    /// The name with the server's separator.
    pub(super) wire_name: String,
}

/// Returns all folders that can be opened: INBOX first, the others by name.
pub(super) async fn all(connection: &mut ImapConnection) -> Result<Vec<Folder>, ImapError> {
    list(connection, &[]).await.map(|(folders, _)| folders)
}

async fn list(
    connection: &mut ImapConnection,
    items: &[StatusItem],
) -> Result<(Vec<Folder>, HashMap<String, FolderStatus>), ImapError> {
    let (mut folders, mut statuses, mut count) = (Vec::new(), HashMap::new(), 0_usize);
    let listed = connection.run(Command::list_all(items), |untagged| match untagged {
        Untagged::List(listed) => {
            count += 1;
            folders.extend(as_folder(listed).filter(|_| count <= MAX_FOLDERS));
        }
        // Counts that were not requested answer an earlier command, and are outdated.
        Untagged::FolderStatus(status) if !items.is_empty() && statuses.len() < MAX_FOLDERS => {
            if let Some(name) = status.name.clone() {
                statuses.insert(name, status);
            }
        }
        _ => {}
    });
    listed.await?;
    if count > MAX_FOLDERS {
        return Err(ImapError::unavailable(format!("the server lists more than {MAX_FOLDERS} folders")));
    }
    folders.sort_by(|a: &Folder, b: &Folder| {
        let is_other = |folder: &Folder| folder.name != FolderName::inbox();
        is_other(a).cmp(&is_other(b)).then_with(|| a.name.cmp(&b.name))
    });
    folders.dedup_by(|a, b| a.name == b.name);
    Ok((folders, statuses))
}

/// Converts a listed folder. Returns `None` for nodes without messages, and for names that the API cannot represent.
pub(super) fn as_folder(listed: ListedFolder) -> Option<Folder> {
    if listed.has("\\Noselect") || listed.has("\\NonExistent") {
        return None;
    }
    let wire_name = listed.name?;
    let shown = match listed.separator {
        // A slash inside a level would split it into two.
        Some(separator) if separator != '/' && wire_name.contains('/') => None,
        Some(separator) => Some(wire_name.replace(separator, "/")),
        None => Some(wire_name.clone()),
    };
    let name = shown?.parse().ok()?;
    Some(Folder { name, wire_name })
}

async fn status(
    connection: &mut ImapConnection,
    folder: &Folder,
    items: &[StatusItem],
) -> Result<Option<FolderStatus>, ImapError> {
    let mut received = None;
    let asked = connection.run(Command::status(&folder.wire_name, items), |untagged| {
        if let Untagged::FolderStatus(status) = untagged
            && is_of(&status, &folder.wire_name)
        {
            received = Some(status);
        }
    });
    match asked.await {
        Ok(_) => received.map(Some).ok_or_else(|| ImapError::unavailable("the server sent no status")),
        Err(ImapError::Refused(status)) => match refused_folder(status) {
            ImapError::Mailbox(_) => Ok(None),
            // The folder may still exist.
            error => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Sums the message sizes, for servers without STATUS=SIZE (RFC 8438).
async fn sum_of_sizes(connection: &mut ImapConnection, folder: &FolderName) -> Result<u64, ImapError> {
    let open = connection.open(folder).await?;
    let mut sizes = HashMap::new();
    if open.exists > 0 {
        let command = Command::fetch(1, open.exists, &[FetchAttribute::Size]);
        let asked = connection.run(command, |untagged| {
            if let Untagged::Fetch(message) = untagged
                && let Some(size) = message.size.filter(|_| message.sequence <= open.exists)
            {
                sizes.insert(message.sequence, size);
            }
        });
        asked.await?;
    }
    match sizes.len() as u64 == u64::from(open.exists) {
        true => Ok(sizes.into_values().fold(0, u64::saturating_add)),
        false => Err(ImapError::unavailable("the server did not send all sizes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(attribute: &str, separator: Option<char>, name: Option<&str>) -> Option<String> {
        let attributes = vec![attribute.to_owned()];
        let folder = as_folder(ListedFolder {
            attributes,
            separator,
            name: name.map(ToOwned::to_owned),
            written: String::new(),
        })?;
        Some(folder.name.to_string())
    }

    #[test]
    fn what_cannot_be_opened_or_named_is_no_folder() {
        assert_eq!(listed("\\noselect", Some('/'), Some("a")), None);
        assert_eq!(listed("\\NonExistent", Some('/'), Some("a")), None);
        assert_eq!(listed("", Some('/'), None), None);
        assert_eq!(listed("", Some('.'), Some("a/b")), None);
        assert_eq!(listed("", Some('.'), Some("a..b")), None);
        assert_eq!(listed("", None, Some(&"x".repeat(256))), None);
    }

    #[test]
    fn levels_are_separated_by_slashes() {
        assert_eq!(listed("", Some('.'), Some("a.b c")).as_deref(), Some("a/b c"));
        assert_eq!(listed("\\Sent", Some('/'), Some("inbox/b.c")).as_deref(), Some("INBOX/b.c"));
        assert_eq!(listed("", None, Some("a.b")).as_deref(), Some("a.b"));
    }
}
