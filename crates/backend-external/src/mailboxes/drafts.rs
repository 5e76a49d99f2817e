//! Stores and removes drafts.

use std::sync::atomic::{AtomicBool, Ordering};

use mailapi_backend::{MailboxError, NewDraft, SavedDraft};
use mailapi_imap::client::{Code, Command, FetchAttribute, StatusResponse, Untagged};
use mailapi_model::FolderName;

use super::folders::{Folder, as_folder};
use crate::imap_pool::{ImapConnection, ImapError, Job, MAX_FOLDERS};

/// The special use of the folder of drafts (RFC 6154 section 2).
const SPECIAL_USE: &str = "\\Drafts";
const DRAFT: &str = "\\Draft";

/// Names of the folder on servers without special uses. Some servers create folders only below INBOX.
const NAMES: [&str; 2] = ["Drafts", "INBOX/Drafts"];

/// Looks for the folder of drafts.
pub(super) struct FindFolder;

impl Job for FindFolder {
    type Output = Option<FolderName>;

    async fn run(&self, connection: &mut ImapConnection) -> Result<Option<FolderName>, ImapError> {
        Ok(find(connection).await?.map(|folder| folder.name))
    }
}

/// Stores a draft and removes the one that it replaces.
pub(super) struct SaveDraft {
    draft: NewDraft,
    /// Whether the job runs again. The first connection may have broken after the server had stored the draft.
    is_repeated: AtomicBool,
}

impl SaveDraft {
    pub(super) const fn new(draft: NewDraft) -> Self {
        Self { draft, is_repeated: AtomicBool::new(false) }
    }

    async fn append(&self, connection: &mut ImapConnection, folder: &Folder) -> Result<u32, ImapError> {
        let message = &self.draft.message;
        let command = Command::append(&folder.wire_name, &[DRAFT, "\\Seen"], message.len() as u64);
        let status = connection.run_with(command, message).await.map_err(refused)?;
        match status.code {
            Some(Code::AppendUid(_, uid)) => Ok(uid),
            _ => {
                let found = self.stored(connection, folder).await?;
                found.ok_or_else(|| ImapError::unavailable("the server does not list the draft that it stored"))
            }
        }
    }

    /// Looks for the draft by its Message-ID.
    async fn stored(&self, connection: &mut ImapConnection, folder: &Folder) -> Result<Option<u32>, ImapError> {
        connection.open(&folder.name).await?;
        let found = connection.search(Command::uid_search_header("Message-ID", &self.draft.message_id)).await?;
        Ok(found.newest_first().next())
    }
}

impl Job for SaveDraft {
    type Output = SavedDraft;

    async fn run(&self, connection: &mut ImapConnection) -> Result<SavedDraft, ImapError> {
        let folder = match find(connection).await? {
            Some(folder) => folder,
            None => create(connection).await?,
        };
        let stored = match self.is_repeated.swap(true, Ordering::Relaxed) {
            true => self.stored(connection, &folder).await?,
            false => None,
        };
        let uid = match stored {
            Some(uid) => uid,
            None => self.append(connection, &folder).await?,
        };
        // The draft is saved even if the old one stays: an error would make the caller save it again.
        if let Some(old) = self.draft.replaces
            && let Err(error) = remove(connection, &folder.name, old).await
        {
            tracing::warn!(error = %MailboxError::from(error), "a replaced draft was not removed");
        }
        Ok(SavedDraft { folder: folder.name, uid })
    }
}

/// Removes a draft.
pub(super) struct DeleteDraft {
    pub(super) uid: u32,
}

impl Job for DeleteDraft {
    type Output = ();

    async fn run(&self, connection: &mut ImapConnection) -> Result<(), ImapError> {
        if let Some(folder) = find(connection).await?
            && remove(connection, &folder.name, self.uid).await?
        {
            return Ok(());
        }
        Err(ImapError::Mailbox(MailboxError::NoSuchMessage))
    }
}

/// Returns the folder with the special use, else the one with the usual name.
async fn find(connection: &mut ImapConnection) -> Result<Option<Folder>, ImapError> {
    let (mut found, mut count): (Option<(usize, Folder)>, _) = (None, 0);
    let listed = connection.run(Command::list_special_uses(&connection.capabilities()), |untagged| {
        let Untagged::List(listed) = untagged else { return };
        count += 1;
        let is_drafts = listed.has(SPECIAL_USE);
        let Some(folder) = as_folder(listed).filter(|_| count <= MAX_FOLDERS) else { return };
        let name = NAMES.iter().position(|name| *name == folder.name.as_str());
        let rank = if is_drafts { Some(0) } else { name.map(|name| name + 1) };
        if let Some(rank) = rank.filter(|rank| found.as_ref().is_none_or(|(best, _)| rank < best)) {
            found = Some((rank, folder));
        }
    });
    listed.await?;
    Ok(found.map(|(_, folder)| folder))
}

async fn create(connection: &mut ImapConnection) -> Result<Folder, ImapError> {
    let mut refusal = ImapError::unavailable("no folder for drafts can be created");
    for name in NAMES {
        let name: FolderName = name.parse().map_err(|_| ImapError::unavailable("the name of the folder is invalid"))?;
        let wire_name = connection.wire_name(&name).await?;
        match connection.run(Command::create(&wire_name), |_| {}).await {
            Ok(_) => {
                match connection.run(Command::subscribe(&wire_name), |_| {}).await {
                    // Some mail programs will not show the folder.
                    Err(ImapError::Refused(_)) | Ok(_) => {}
                    Err(error) => return Err(error),
                }
                return Ok(Folder { name, wire_name });
            }
            Err(ImapError::Refused(status)) => refusal = ImapError::Refused(status),
            Err(error) => return Err(error),
        }
    }
    Err(refusal)
}

/// Removes a message permanently, if it is a draft. Returns whether it was there.
async fn remove(connection: &mut ImapConnection, folder: &FolderName, uid: u32) -> Result<bool, ImapError> {
    // No message has the UID 0, and servers reject it in commands (RFC 3501 section 9, nz-number).
    if uid == 0 {
        return Ok(false);
    }
    connection.open_for_changing(folder).await?;
    let mut is_draft = false;
    let asked = connection.run(Command::uid_fetch(&[uid], &[FetchAttribute::Flags]), |untagged| {
        if let Untagged::Fetch(message) = untagged
            && message.uid == Some(uid)
        {
            is_draft |= message.flags.iter().flatten().any(|flag| flag.eq_ignore_ascii_case(DRAFT));
        }
    });
    asked.await?;
    if !is_draft {
        return Ok(false);
    }
    connection.run(Command::uid_delete(uid), |_| {}).await?;
    if connection.can("UIDPLUS") || connection.can("IMAP4REV2") {
        connection.run(Command::uid_expunge(uid), |_| {}).await?;
    } else if connection.search(Command::uid_search_deleted()).await?.len() == 1 {
        // Without UIDPLUS, EXPUNGE removes all marked messages. Those that others marked must stay; then the draft
        // stays with them, and is marked too.
        connection.run(Command::expunge(), |_| {}).await?;
    }
    Ok(true)
}

/// Returns why the server did not store a message.
fn refused(error: ImapError) -> ImapError {
    match error {
        ImapError::Refused(StatusResponse { code: Some(Code::OverQuota), .. }) => {
            ImapError::Mailbox(MailboxError::Full)
        }
        ImapError::Refused(StatusResponse { code: Some(Code::TooBig), .. }) => {
            ImapError::Mailbox(MailboxError::TooLarge)
        }
        error => error,
    }
}
