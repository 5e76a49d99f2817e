//! A mailbox at any IMAP server, read once from the beginning to the end.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mailapi_backend::{Buffer, BufferError, BufferWriter, MailboxError};
use mailapi_imap::Flags;
use mailapi_imap::client::{
    Code, Command, Event, FetchAttribute, FetchedMessage, ListedFolder, Namespaces, Section, StatusItem,
    StatusResponse, UidSet, UidSets, Untagged,
};
use mailapi_model::{Blob, ByteBudget, Secret, Timestamp};
use rustls::ClientConfig;
use tokio::time::timeout;

use super::connection::{ANSWER_ROOM, ImapConnection, is_of};
use super::dial::{greeted, log_in};
use super::error::ImapError;
use super::remote_folders::{RemoteFolder, unlisted};
use super::settings::{ImapSettings, MAX_FOLDERS};
use crate::tls::TlsMode;

/// A server far away may need several seconds for a login.
const CONNECT_TIME: Duration = Duration::from_secs(30);

/// Maximum number of messages of a folder: a server may claim four billion, which would take 16 GiB of memory.
const MOST_MESSAGES: u32 = 10_000_000;

/// Attributes that are read of a folder. The standard ones are some twenty.
const MOST_ATTRIBUTES: usize = 64;

/// Namespaces that are looked into. Each may cost a command, and servers have three to ten.
const MOST_NAMESPACES: usize = 1_000;

/// Where a mailbox is.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// When the connection is encrypted.
    pub tls: TlsMode,
    /// The user whose mailbox is read.
    pub user: String,
    /// The user who logs in for that one, if it is another one.
    pub master_user: Option<String>,
    /// The password of the one who logs in.
    pub password: Secret<String>,
}

/// Why an operation on the mailbox failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The server refused it, and the connection still works.
    #[error("the server refuses it: {0}")]
    Refused(String),
    /// The server lists more folders than any mailbox has.
    #[error("the server lists more than {MAX_FOLDERS} folders")]
    TooManyFolders,
    /// The folder has more messages than a folder here may have.
    #[error("the folder has more than 10,000,000 messages")]
    TooLarge,
    /// The connection failed; [`RemoteMailbox::reconnect`] makes another one.
    #[error(transparent)]
    Failed(#[from] MailboxError),
    /// A message cannot be buffered here.
    #[error(transparent)]
    Buffer(#[from] BufferError),
}

/// The numbers of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteUids {
    /// UIDVALIDITY; `None` if the server has no lasting UIDs.
    pub uid_validity: Option<u32>,
    /// The UID of the next message.
    pub uid_next: u32,
    /// The UIDs, ascending.
    pub uids: Vec<u32>,
    /// Messages that the server counts and does not list.
    pub missing: u32,
}

/// A message.
#[derive(Debug)]
pub struct RemoteMessage {
    /// Its UID.
    pub uid: u32,
    /// Its flags.
    pub flags: Flags,
    /// Flags that are left out, since no mailbox here can have them.
    pub lost_flags: u64,
    /// When it arrived; `None` if the server has no date.
    pub internal_date: Option<Timestamp>,
    /// Its bytes; `None` if there are more than the limit.
    pub content: Option<Blob>,
}

/// UIDs of one FETCH by numbers, whose answer must not be too long.
const NUMBERS: u32 = 10_000;

/// A connection to the mailbox.
pub struct RemoteMailbox {
    settings: RemoteSettings,
    tls: Arc<ClientConfig>,
    connection: ImapConnection,
    /// The name and the UIDVALIDITY of the open folder.
    opened: Option<(String, u32)>,
}

impl RemoteMailbox {
    /// Connects and logs in.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses the login.
    pub async fn connect(settings: &RemoteSettings, tls: &Arc<ClientConfig>) -> Result<Self, MailboxError> {
        let connection = connected(settings, tls).await?;
        Ok(Self { settings: settings.clone(), tls: Arc::clone(tls), connection, opened: None })
    }

    /// Returns whether the connection still works.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.connection.is_ready()
    }

    /// Connects again, and opens the folder that was open.
    ///
    /// # Errors
    /// If that fails, or the folder is another one now.
    pub async fn reconnect(&mut self) -> Result<(), RemoteError> {
        self.connection = connected(&self.settings, &self.tls).await?;
        if let Some((wire_name, uid_validity)) = self.opened.clone() {
            let (_, now) = self.examine(&wire_name).await?;
            if now != uid_validity {
                return Err(RemoteError::Failed(MailboxError::Unavailable("the folder was replaced".to_owned())));
            }
        }
        Ok(())
    }

    /// Lists the folders that can hold messages.
    ///
    /// # Errors
    /// If the server fails; [`RemoteError::TooManyFolders`].
    pub async fn folders(&mut self) -> Result<Vec<RemoteFolder>, RemoteError> {
        let (capabilities, mut namespaces) = (self.connection.capabilities(), Namespaces::default());
        if capabilities.has("NAMESPACE") {
            let listed = self.connection.run(Command::namespace(), |untagged| {
                if let Untagged::Namespaces(received) = untagged {
                    namespaces = received;
                }
            });
            let listed = listed.await;
            self.refusal(listed)?;
        }
        let mut folders = self.listed(Command::list_special_uses(&capabilities)).await?;
        // Some servers list the folders of other users only if their prefix is named.
        let mut known: HashSet<String> = folders.iter().map(|folder| folder.written.clone()).collect();
        let Namespaces { personal, others, shared } = &namespaces;
        if personal.len() + others.len() + shared.len() > MOST_NAMESPACES {
            return Err(RemoteError::TooManyFolders);
        }
        for prefix in unlisted(&namespaces, &folders) {
            let below = match self.listed(Command::list_below(&prefix)).await {
                Err(RemoteError::Refused(_)) => continue,
                below => below?,
            };
            folders.extend(below.into_iter().filter(|folder| known.insert(folder.written.clone())));
            if folders.len() > MAX_FOLDERS {
                return Err(RemoteError::TooManyFolders);
            }
        }
        self.connection.rest();
        Ok(RemoteFolder::of_listing(folders, &namespaces))
    }

    /// Runs a command that lists folders.
    async fn listed(&mut self, command: Command) -> Result<Vec<ListedFolder>, RemoteError> {
        let (mut folders, mut is_too_long) = (Vec::new(), false);
        let listed = self.connection.run(command, |untagged| match untagged {
            Untagged::List(mut folder) if folders.len() < MAX_FOLDERS => {
                folder.attributes.truncate(MOST_ATTRIBUTES);
                folders.push(folder);
            }
            Untagged::List(_) => is_too_long = true,
            _ => {}
        });
        let listed = listed.await;
        match self.refusal(listed)? {
            Some(reason) => Err(RemoteError::Refused(reason)),
            None if is_too_long => Err(RemoteError::TooManyFolders),
            None => Ok(folders),
        }
    }

    /// Opens a folder read-only, and lists its messages.
    ///
    /// # Errors
    /// If the server fails, or refuses the folder; [`RemoteError::TooLarge`] if there are too many messages.
    pub async fn open(&mut self, folder: &RemoteFolder) -> Result<RemoteUids, RemoteError> {
        self.opened = None;
        // Servers may omit UIDNEXT when a folder is opened, and must not be asked for the status of an open one.
        let next = self.uid_next(&folder.wire_name).await?;
        let (exists, uid_validity) = self.examine(&folder.wire_name).await?;
        if exists > MOST_MESSAGES {
            return Err(RemoteError::TooLarge);
        }
        let (uids, exists) = self.all_uids(exists).await?;
        self.connection.rest();
        if uids.len() > u64::from(MOST_MESSAGES) {
            return Err(RemoteError::TooLarge);
        }
        self.opened = Some((folder.wire_name.clone(), uid_validity));
        let mut uids: Vec<u32> = uids.newest_first().collect();
        uids.reverse();
        let uid_next = next.max(uids.last().map_or(1, |last| last.saturating_add(1)));
        let missing = exists.saturating_sub(u32::try_from(uids.len()).unwrap_or(u32::MAX));
        Ok(RemoteUids { uid_validity: Some(uid_validity).filter(|value| *value > 0), uid_next, uids, missing })
    }

    /// Returns UIDNEXT; 0 if the server does not answer.
    async fn uid_next(&mut self, wire_name: &str) -> Result<u32, RemoteError> {
        let mut next = None;
        let status = self.connection.run(Command::status(wire_name, &[StatusItem::UidNext]), |untagged| {
            if let Untagged::FolderStatus(status) = untagged
                && is_of(&status, wire_name)
            {
                next = status.uid_next;
            }
        });
        let status = status.await;
        // The server refuses to open the folder as well, or it does not.
        self.refusal(status)?;
        Ok(next.and_then(|next| u32::try_from(next).ok()).unwrap_or_default())
    }

    /// Opens a folder read-only. Returns the number of messages, and UIDVALIDITY.
    async fn examine(&mut self, wire_name: &str) -> Result<(u32, u32), RemoteError> {
        let (mut exists, mut uid_validity) = (None, 0);
        let opened = self.connection.run(Command::examine(wire_name), |untagged| match untagged {
            Untagged::Exists(count) => exists = Some(count),
            Untagged::Status(StatusResponse { code: Some(Code::UidValidity(value)), .. }) => uid_validity = value,
            _ => {}
        });
        let opened = opened.await;
        match self.refusal(opened)? {
            Some(reason) => Err(RemoteError::Refused(reason)),
            None => Ok((exists.unwrap_or_default(), uid_validity)),
        }
    }

    /// Returns the UIDs of the open folder, and the number of its messages. Some servers answer a search by nothing, so the
    /// messages are also listed by their numbers if the search does not find all.
    async fn all_uids(&mut self, mut exists: u32) -> Result<(UidSet, u32), RemoteError> {
        let mut found = UidSets::default();
        if exists == 0 {
            return Ok((found.union(), exists));
        }
        let command = Command::uid_search_all(&self.connection.capabilities());
        let searched = self.connection.run(command, |untagged| match untagged {
            Untagged::Found(more) => found.add(&more),
            Untagged::Exists(count) => exists = count,
            Untagged::Expunge(_) => exists = exists.saturating_sub(1),
            _ => {}
        });
        let searched = searched.await;
        self.refusal(searched)?;
        let mut found = found.union();
        let mut first = 1;
        while first <= exists.min(MOST_MESSAGES) && found.len() < u64::from(exists) {
            let last = exists.min(first.saturating_add(NUMBERS - 1));
            let mut listed = Vec::new();
            let fetched = self.connection.run(Command::fetch(first, last, &[]), |untagged| match untagged {
                Untagged::Fetch(message) => listed.extend(message.uid.filter(|uid| *uid > 0)),
                Untagged::Exists(count) => exists = count,
                Untagged::Expunge(_) => exists = exists.saturating_sub(1),
                _ => {}
            });
            let fetched = fetched.await;
            self.connection.rest();
            found.extend(&listed.into_iter().collect());
            if self.refusal(fetched)?.is_some() {
                break;
            }
            first = last + 1;
        }
        Ok((found, exists))
    }

    /// Returns why the server refused a command, if it did.
    fn refusal(&self, answer: Result<StatusResponse, ImapError>) -> Result<Option<String>, RemoteError> {
        match answer {
            Ok(_) => Ok(None),
            Err(ImapError::Refused(status)) if self.connection.is_ready() => Ok(Some(status.text)),
            Err(error) => Err(RemoteError::Failed(error.into())),
        }
    }

    /// Returns the sizes of messages of the open folder, by UID in any order. A server that refuses returns none.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn sizes(&mut self, uids: &[u32]) -> Result<Vec<(u32, u64)>, RemoteError> {
        let mut sizes = Vec::new();
        let fetched = self.connection.run(Command::uid_fetch(uids, &[FetchAttribute::Size]), |untagged| {
            if let Untagged::Fetch(message) = untagged {
                sizes.extend(message.uid.zip(message.size));
            }
        });
        let fetched = fetched.await;
        self.refusal(fetched)?;
        self.connection.rest();
        Ok(sizes)
    }

    /// Reads messages of the open folder into `messages`, in any order. One that was removed meanwhile is missing.
    ///
    /// # Errors
    /// If the server fails or refuses, or a message cannot be buffered. Some messages may have been read.
    pub async fn fetch(
        &mut self,
        uids: &[u32],
        (buffer, max_bytes): (&Buffer, usize),
        messages: &mut Vec<RemoteMessage>,
    ) -> Result<(), RemoteError> {
        let attributes = [FetchAttribute::Flags, FetchAttribute::Arrived, FetchAttribute::Section(Section::message())];
        self.connection.start(Command::uid_fetch(uids, &attributes).streaming()).map_err(MailboxError::from)?;
        let mut body = Body::default();
        loop {
            match self.connection.event().await.map_err(MailboxError::from)? {
                Event::BodyBegin(_) => body = Body { writer: Some(buffer.writer()), is_there: true },
                Event::BodyPiece(_) => body.push(self.connection.body_piece(), max_bytes).await?,
                Event::Untagged(Untagged::Fetch(fetched)) => {
                    messages.extend(body.message(*fetched, buffer, max_bytes).await?);
                }
                Event::Done(status) if status.is_ok() => break,
                Event::Done(status) => return Err(RemoteError::Refused(status.text)),
                _ => {}
            }
        }
        self.connection.rest();
        Ok(())
    }

    /// Ends the session.
    pub async fn close(mut self) {
        let _ = timeout(CONNECT_TIME, self.connection.run(Command::logout(), |_| {})).await;
    }
}

/// Returns a connection that is logged in.
async fn connected(settings: &RemoteSettings, tls: &Arc<ClientConfig>) -> Result<ImapConnection, MailboxError> {
    let RemoteSettings { host, port, user, master_user, password, .. } = settings;
    let name = master_user.as_ref().unwrap_or(user);
    let dialed = ImapSettings { tls: settings.tls, ..ImapSettings::new(host, *port, name, password.clone()) };
    let (room, openings) = (ByteBudget::new(ANSWER_ROOM, 1), Arc::<AtomicU64>::default());
    let opened = async {
        let mut connection = greeted(&dialed, tls, &room, &openings).await?;
        log_in(&mut connection, &dialed, master_user.as_ref().map(|_| user.as_str())).await?;
        Ok::<_, ImapError>(connection)
    };
    let late = || MailboxError::Unavailable("the server did not respond in time".to_owned());
    Ok(timeout(CONNECT_TIME, opened).await.map_err(|_| late())??)
}

/// The body that arrives, until the response that contains it is complete.
#[derive(Default)]
struct Body {
    writer: Option<BufferWriter>,
    is_there: bool,
}

impl Body {
    async fn push(&mut self, bytes: &[u8], max_bytes: usize) -> Result<(), BufferError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if writer.len() + bytes.len() > max_bytes {
            self.writer = None;
            return Ok(());
        }
        writer.push(bytes).await
    }

    /// Returns the message of a response; `None` for one that only reports flags.
    async fn message(
        &mut self,
        fetched: FetchedMessage,
        buffer: &Buffer,
        max_bytes: usize,
    ) -> Result<Option<RemoteMessage>, BufferError> {
        let mut body = std::mem::take(self);
        let (Some(uid), Some(section)) = (fetched.uid, fetched.sections.into_iter().next()) else { return Ok(None) };
        if !body.is_there {
            // A short message may be a quoted string. NIL means that the server has no bytes of it.
            let Some(bytes) = section.bytes else { return Ok(None) };
            body = Self { writer: Some(buffer.writer()), is_there: true };
            body.push(&bytes, max_bytes).await?;
        }
        let flags = fetched.flags.unwrap_or_default();
        let (flags, lost_flags) = Flags::with_left_out(flags.iter().map(String::as_str));
        let internal_date = fetched.arrived.map(Timestamp::from_seconds);
        let content = body.writer.map(BufferWriter::finish).transpose()?;
        Ok(Some(RemoteMessage { uid, flags, lost_flags, internal_date, content }))
    }
}
