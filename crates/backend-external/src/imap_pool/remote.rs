//! A mailbox at any IMAP server, read once from the beginning to the end.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mailapi_backend::{Buffer, BufferWriter, MailboxError};
use mailapi_imap::Flags;
use mailapi_imap::client::{Command, Event, FetchAttribute, FetchedMessage, Section, StatusItem, Untagged};
use mailapi_model::{Blob, ByteBudget, FolderName, Secret, Timestamp};
use rustls::ClientConfig;
use tokio::time::timeout;

use super::connection::{ANSWER_ROOM, ImapConnection};
use super::dial::{greeted, log_in};
use super::error::ImapError;
use super::settings::ImapSettings;
use crate::tls::TlsMode;

/// A server far away may need several seconds for a login.
const CONNECT_TIME: Duration = Duration::from_secs(30);

/// Maximum number of messages of a folder: a server may claim four billion, which would take 16 GiB of memory.
const MOST_MESSAGES: u32 = 10_000_000;

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

/// A folder of the mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFolder {
    /// Its name with `/` between levels; an error if no folder here can have the name.
    pub name: Result<FolderName, String>,
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
}

/// A message.
#[derive(Debug)]
pub struct RemoteMessage {
    /// Its UID.
    pub uid: u32,
    /// Its flags.
    pub flags: Flags,
    /// When it arrived.
    pub internal_date: Option<Timestamp>,
    /// Its bytes; `None` if there are more than the limit.
    pub content: Option<Blob>,
}

/// A connection to the mailbox.
pub struct RemoteMailbox {
    connection: ImapConnection,
}

impl RemoteMailbox {
    /// Connects and logs in.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses the login.
    pub async fn connect(settings: &RemoteSettings, tls: &Arc<ClientConfig>) -> Result<Self, MailboxError> {
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
        Ok(Self { connection: timeout(CONNECT_TIME, opened).await.map_err(|_| late())?? })
    }

    /// Lists the folders that can hold messages.
    ///
    /// # Errors
    /// If the server fails.
    pub async fn folders(&mut self) -> Result<Vec<RemoteFolder>, MailboxError> {
        let mut folders = Vec::new();
        let listed = self.connection.run(Command::list_all(&[]), |untagged| {
            if let Untagged::List(folder) = untagged
                && !folder.has("\\Noselect")
                && !folder.has("\\NonExistent")
            {
                folders.push(RemoteFolder { name: name_of(folder.name, folder.separator) });
            }
        });
        listed.await.map_err(MailboxError::from)?;
        self.connection.rest();
        Ok(folders)
    }

    /// Opens a folder read-only, and lists its messages.
    ///
    /// # Errors
    /// If the server fails, or refuses the folder; [`MailboxError::TooLarge`] if there are too many messages.
    pub async fn open(&mut self, folder: &FolderName) -> Result<RemoteUids, MailboxError> {
        // Servers may omit UIDNEXT when a folder is opened, and must not be asked for the status of an open one.
        self.connection.leave_folder().await?;
        let status = self.connection.status(folder, &[StatusItem::UidNext]).await?;
        let opened = self.connection.open(folder).await?;
        if opened.exists > MOST_MESSAGES {
            return Err(MailboxError::TooLarge);
        }
        let mut uids: Vec<u32> = Vec::new();
        if opened.exists > 0 {
            let command = Command::uid_search_from(1, &self.connection.capabilities());
            uids.extend(self.connection.search(command).await?.newest_first().take(opened.exists as usize));
        }
        self.connection.rest();
        uids.reverse();
        let next = status.uid_next.and_then(|next| u32::try_from(next).ok()).unwrap_or_default();
        let uid_next = next.max(uids.last().map_or(1, |last| last.saturating_add(1)));
        Ok(RemoteUids { uid_validity: Some(opened.uid_validity).filter(|value| *value > 0), uid_next, uids })
    }

    /// Returns the sizes of messages of the open folder, by UID in any order.
    ///
    /// # Errors
    /// If the server fails.
    pub async fn sizes(&mut self, uids: &[u32]) -> Result<Vec<(u32, u64)>, MailboxError> {
        let mut sizes = Vec::new();
        let fetched = self.connection.run(Command::uid_fetch(uids, &[FetchAttribute::Size]), |untagged| {
            if let Untagged::Fetch(message) = untagged {
                sizes.extend(message.uid.zip(message.size));
            }
        });
        fetched.await.map_err(MailboxError::from)?;
        self.connection.rest();
        Ok(sizes)
    }

    /// Reads messages of the open folder, in any order. One that was removed meanwhile is missing.
    ///
    /// # Errors
    /// If the server fails, or a message cannot be buffered.
    pub async fn fetch(
        &mut self,
        uids: &[u32],
        buffer: &Buffer,
        max_bytes: usize,
    ) -> Result<Vec<RemoteMessage>, MailboxError> {
        let attributes = [FetchAttribute::Flags, FetchAttribute::Arrived, FetchAttribute::Section(Section::message())];
        self.connection.start(Command::uid_fetch(uids, &attributes).streaming()).map_err(MailboxError::from)?;
        let (mut messages, mut body) = (Vec::new(), Body::default());
        loop {
            match self.connection.event().await? {
                Event::BodyBegin(_) => body = Body { writer: Some(buffer.writer()), is_there: true },
                Event::BodyPiece(_) => body.push(self.connection.body_piece(), max_bytes).await?,
                Event::Untagged(Untagged::Fetch(fetched)) => {
                    messages.extend(body.message(*fetched, buffer, max_bytes).await?);
                }
                Event::Done(status) if status.is_ok() => break,
                Event::Done(status) => return Err(ImapError::Refused(status).into()),
                _ => {}
            }
        }
        self.connection.rest();
        Ok(messages)
    }

    /// Ends the session.
    pub async fn close(mut self) {
        let _ = timeout(CONNECT_TIME, self.connection.run(Command::logout(), |_| {})).await;
    }
}

/// Returns a folder's name with our separator.
fn name_of(name: Option<String>, separator: Option<char>) -> Result<FolderName, String> {
    let name = name.ok_or_else(|| "a name that is not modified UTF-7".to_owned())?;
    let here = separator.map_or_else(|| name.clone(), |separator| name.replace(separator, "/"));
    here.parse().map_err(|_| name)
}

/// The body that arrives, until the response that contains it is complete.
#[derive(Default)]
struct Body {
    writer: Option<BufferWriter>,
    is_there: bool,
}

impl Body {
    async fn push(&mut self, bytes: &[u8], max_bytes: usize) -> Result<(), MailboxError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if writer.len() + bytes.len() > max_bytes {
            self.writer = None;
            return Ok(());
        }
        writer.push(bytes).await.map_err(unavailable)
    }

    /// Returns the message of a response; `None` for one that only reports flags.
    async fn message(
        &mut self,
        fetched: FetchedMessage,
        buffer: &Buffer,
        max_bytes: usize,
    ) -> Result<Option<RemoteMessage>, MailboxError> {
        let mut body = std::mem::take(self);
        let (Some(uid), Some(section)) = (fetched.uid, fetched.sections.into_iter().next()) else { return Ok(None) };
        if !body.is_there {
            // A short message may be a quoted string. NIL means that the server has no bytes of it.
            let Some(bytes) = section.bytes else { return Ok(None) };
            body = Self { writer: Some(buffer.writer()), is_there: true };
            body.push(&bytes, max_bytes).await?;
        }
        let flags = fetched.flags.unwrap_or_default();
        Ok(Some(RemoteMessage {
            uid,
            flags: Flags::from_words(flags.iter().map(String::as_str)),
            internal_date: fetched.arrived.map(Timestamp::from_seconds),
            content: body.writer.map(BufferWriter::finish).transpose().map_err(unavailable)?,
        }))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "map_err passes the error by value")]
fn unavailable(error: mailapi_backend::BufferError) -> MailboxError {
    MailboxError::Unavailable(error.to_string())
}
