//! One connection to the server: runs commands and tracks the open folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BufMut;
use mailapi_backend::{MailboxError, Validator, read_bytes};
use mailapi_imap::client::{
    Capabilities, Code, Command, Connection, Event, FolderStatus, Status, StatusItem, StatusResponse, UidSet, UidSets,
    Untagged,
};
use mailapi_model::{Blob, ByteBudget, BytePermit, FolderName, Full};
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::error::ImapError;
use super::settings::ImapSettings;
use super::stream::{self, Stream};

/// The folder that is open for reading.
#[derive(Debug, Clone)]
pub(crate) struct OpenFolder {
    pub(crate) name: FolderName,
    /// UIDs are valid only with this value.
    pub(crate) uid_validity: u32,
    /// How many messages it holds, as last reported by the server.
    pub(crate) exists: u32,
    opened_at: Instant,
    /// The number of this opening, unique in the pool.
    opening: u64,
    /// How many responses about messages arrived since the opening.
    responses: u64,
}

impl OpenFolder {
    /// Returns the validator of the folder's pages. While it is the same, the server sent no update.
    pub(crate) const fn validator(&self) -> Validator {
        self.validator_after(0)
    }

    /// Returns the validator after this many further responses about messages.
    pub(crate) const fn validator_after(&self, responses: u64) -> Validator {
        Validator::new([self.opening, self.responses.saturating_add(responses)])
    }
}

/// Time limit for one command, or for one stretch of a body. Dovecot sends a notice every 15 seconds during a search,
/// so a limit on silence alone would not end it. Callers give up long before this limit.
const COMMAND_TIME: Duration = Duration::from_mins(10);
/// Bytes of content that are written at once.
const CONTENT_PIECE: usize = 256 * 1024;
/// This many bytes of a body must arrive within the time limit for silence.
const STRETCH_BYTES: usize = 16 * 1024;

/// The remaining time and bytes of the running command. Only time spent waiting for the server counts.
struct Allowance {
    /// Time until the next complete response. Single bytes do not extend it.
    silence: Duration,
    /// Time until the tagged response.
    command: Duration,
    /// Bytes read, without those of bodies that were passed on.
    bytes: u64,
    /// Bytes of the current stretch of a body.
    stretch: usize,
}

impl Allowance {
    const fn new(silence: Duration) -> Self {
        Self { silence, command: COMMAND_TIME, bytes: 0, stretch: 0 }
    }

    fn spend(&mut self, time: Duration) {
        self.silence = self.silence.saturating_sub(time);
        self.command = self.command.saturating_sub(time);
    }

    fn note(&mut self, event: &Event, silence: Duration) {
        match event {
            Event::BodyPiece(bytes) => {
                // Passed-on body bytes occupy no memory, so they do not count towards the answer limit.
                self.bytes = self.bytes.saturating_sub(*bytes as u64);
                self.stretch += bytes;
                // A large body may take long as a whole; each stretch gets the full time again.
                if self.stretch >= STRETCH_BYTES {
                    *self = Self { bytes: self.bytes, ..Self::new(silence) };
                }
            }
            Event::BodyBegin(_) | Event::BodyEnd | Event::NeedMore => {}
            Event::Greeting(_) | Event::Untagged(_) | Event::ContentWanted | Event::Done(_) => self.silence = silence,
        }
    }
}

/// Bytes of all answers together, those within [`FREE_ANSWER`] aside. A processed answer takes up to twice as much.
pub(super) const ANSWER_ROOM: usize = 64 * 1024 * 1024;
/// Bytes that any answer may have: a page of a list or a text, not a long message.
const FREE_ANSWER: u64 = 1024 * 1024;

/// A connection. Dropping a command before its end leaves the connection not [`ImapConnection::is_ready`].
pub(crate) struct ImapConnection {
    stream: Stream,
    protocol: Connection,
    read_bytes: usize,
    /// Bytes read since the last yield.
    unyielded: usize,
    silence_timeout: Duration,
    allowance: Allowance,
    max_answer: u64,
    held: BytePermit<()>,
    reopen_after: Duration,
    /// How many folders the connections of the pool have opened.
    openings: Arc<AtomicU64>,
    folder: Option<OpenFolder>,
    separator: Option<Option<char>>,
    is_broken: bool,
    farewell: Option<String>,
}

impl ImapConnection {
    pub(super) fn new(
        stream: Stream,
        settings: &ImapSettings,
        room: &Arc<ByteBudget<()>>,
        openings: Arc<AtomicU64>,
    ) -> Self {
        Self {
            stream,
            protocol: Connection::new(settings.limits.clone()),
            read_bytes: settings.read_bytes,
            unyielded: 0,
            silence_timeout: settings.silence_timeout,
            allowance: Allowance::new(settings.silence_timeout),
            max_answer: settings.limits.max_answer,
            held: room.hold(()),
            reopen_after: settings.reopen_after,
            openings,
            folder: None,
            separator: None,
            is_broken: false,
            farewell: None,
        }
    }

    /// Whether another command can start.
    pub(crate) fn is_ready(&self) -> bool {
        self.protocol.is_ready() && !self.is_broken
    }

    /// Returns the open folder.
    pub(crate) const fn folder(&self) -> Option<&OpenFolder> {
        self.folder.as_ref()
    }

    /// Returns the capabilities that the server sent so far.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.protocol.capabilities().cloned().unwrap_or_default()
    }

    /// Whether the server has this capability.
    pub(crate) fn can(&self, capability: &str) -> bool {
        self.protocol.capabilities().is_some_and(|capabilities| capabilities.has(capability))
    }

    pub(super) fn knows_capabilities(&self) -> bool {
        self.protocol.capabilities().is_some()
    }

    /// Switches to TLS: at the very start, or after STARTTLS.
    pub(super) async fn encrypt(self, host: &str, config: Arc<ClientConfig>) -> Result<Self, ImapError> {
        Ok(Self { stream: stream::encrypt(self.stream, host, config).await?, ..self })
    }

    /// Reads the greeting.
    pub(super) async fn greeting(&mut self) -> Result<StatusResponse, ImapError> {
        match self.event().await? {
            Event::Greeting(status) => Ok(status),
            _ => Err(self.broken("the server sent no greeting")),
        }
    }

    /// Runs a command and passes each untagged response to `each`.
    pub(crate) async fn run(
        &mut self,
        command: Command,
        mut each: impl FnMut(Untagged) + Send,
    ) -> Result<StatusResponse, ImapError> {
        self.start(command)?;
        self.answer(&mut each).await
    }

    /// Runs a command with a NOOP pipelined after it (RFC 3501 section 5.5), which saves a round trip for the
    /// folder's updates. The command must address messages by sequence number. Updates that arrive with either
    /// response count in the folder state. After an `Ok` or a refusal of the command, all updates were received.
    pub(crate) async fn run_before_news(
        &mut self,
        command: Command,
        mut each: impl FnMut(Untagged) + Send,
    ) -> Result<StatusResponse, ImapError> {
        self.protocol.start_both(command, Command::noop())?;
        self.allowance = Allowance::new(self.silence_timeout);
        let answer = self.answer(&mut each).await;
        // The NOOP's response must be read even if the command was refused; otherwise it would answer the next
        // command.
        if matches!(answer, Ok(_) | Err(ImapError::Refused(_))) {
            match self.answer(&mut |_| {}).await {
                Err(ImapError::Refused(status)) => return Err(self.broken(&status.text)),
                news => drop(news?),
            }
        }
        answer
    }

    async fn answer(&mut self, each: &mut (impl FnMut(Untagged) + Send)) -> Result<StatusResponse, ImapError> {
        loop {
            match self.event().await? {
                Event::Untagged(untagged) => each(untagged),
                Event::Done(status) if status.is_ok() => return Ok(status),
                Event::Done(status) => return Err(ImapError::Refused(status)),
                _ => return Err(self.broken("the server sent an unexpected response")),
            }
        }
    }

    /// Runs a command with content, which is read in pieces.
    pub(crate) async fn run_with(&mut self, command: Command, content: &Blob) -> Result<StatusResponse, ImapError> {
        self.start(command)?;
        loop {
            match self.event().await? {
                Event::Untagged(_) => {}
                Event::ContentWanted => self.send_content(content).await?,
                Event::Done(status) if status.is_ok() => return Ok(status),
                Event::Done(status) => return Err(ImapError::Refused(status)),
                _ => return Err(self.broken("the server sent an unexpected response")),
            }
        }
    }

    async fn send_content(&mut self, content: &Blob) -> Result<(), ImapError> {
        for begin in (0..content.len()).step_by(CONTENT_PIECE) {
            let end = content.len().min(begin + CONTENT_PIECE);
            // The server still waits for the rest, so the connection cannot be used again.
            let piece = read_bytes(content, begin..end).await.map_err(|error| self.broken(&error.to_string()))?;
            self.protocol.send_content(&piece)?;
            self.write_output().await?;
        }
        // The server has to store the message, for which it gets the full time.
        self.allowance = Allowance::new(self.silence_timeout);
        Ok(())
    }

    /// Writes the pending output, for which the server has the time for silence.
    async fn write_output(&mut self) -> Result<(), ImapError> {
        let output = self.protocol.take_output();
        let io = async {
            self.stream.write_all(&output).await?;
            self.stream.flush().await
        };
        match timeout(self.silence_timeout, io).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.broken(&error.to_string())),
            Err(_) => Err(self.broken("the server did not read in time")),
        }
    }

    /// Starts a command. The caller must then read its events to the end.
    pub(crate) fn start(&mut self, command: Command) -> Result<(), ImapError> {
        self.protocol.start(command)?;
        self.allowance = Allowance::new(self.silence_timeout);
        Ok(())
    }

    /// Returns the next event; never [`Event::NeedMore`].
    pub(crate) async fn event(&mut self) -> Result<Event, ImapError> {
        loop {
            match self.protocol.poll() {
                Ok(Event::NeedMore) => self.exchange().await?,
                Ok(event) => {
                    self.allowance.note(&event, self.silence_timeout);
                    self.take_note(&event);
                    return Ok(event);
                }
                Err(error) => return Err(self.broken(&error.to_string())),
            }
        }
    }

    /// Returns the bytes of the last [`Event::BodyPiece`]. Valid until the next call of [`ImapConnection::event`].
    pub(crate) fn body_piece(&self) -> &[u8] {
        self.protocol.body_piece()
    }

    /// Writes the pending output, and reads.
    async fn exchange(&mut self) -> Result<(), ImapError> {
        let output = self.protocol.take_output();
        let input = self.protocol.input();
        if input.capacity() - input.len() < self.read_bytes / 2 {
            input.reserve(self.read_bytes);
        }
        let mut room = input.limit(self.read_bytes);
        let io = async {
            if !output.is_empty() {
                self.stream.write_all(&output).await?;
                self.stream.flush().await?;
            }
            self.stream.read_buf(&mut room).await
        };
        let begun = Instant::now();
        let done = timeout(self.allowance.silence.min(self.allowance.command), io).await;
        self.allowance.spend(begun.elapsed());
        match done {
            Ok(Ok(0)) => {
                // The text of an untagged BYE explains more than the closed connection.
                let reason = self.farewell.take().unwrap_or_else(|| "the server closed it".to_owned());
                Err(self.broken(&reason))
            }
            Ok(Ok(bytes)) => {
                self.allowance.bytes += bytes as u64;
                if self.allowance.bytes > self.max_answer {
                    return Err(self.broken("the server's response is too long"));
                }
                // Count before yielding, since the bytes are in memory already. Earlier reservations stay, since their
                // answers may still be in use.
                let wanted = self.allowance.bytes.saturating_sub(FREE_ANSWER);
                if self.held.grow_to(usize::try_from(wanted).unwrap_or(usize::MAX)) == Err(Full) {
                    return Err(self.broken("responses of the server take too much memory at the moment"));
                }
                // A server that never pauses would hold this thread for megabytes: the runtime counts reads, not bytes.
                self.unyielded += bytes;
                if self.unyielded >= self.read_bytes {
                    self.unyielded = 0;
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
            Ok(Err(error)) => Err(self.broken(&error.to_string())),
            Err(_) => Err(self.broken("the server did not respond in time")),
        }
    }

    /// Releases the memory of the last answer after it was processed.
    pub(super) fn rest(&mut self) {
        self.allowance.bytes = 0;
        self.held.release();
        self.protocol.input().shrink_to(self.read_bytes);
    }

    /// Marks the connection as unusable.
    pub(crate) fn give_up(&mut self) {
        self.is_broken = true;
    }

    fn broken(&mut self, reason: &str) -> ImapError {
        self.is_broken = true;
        ImapError::Broken(reason.to_owned())
    }

    fn take_note(&mut self, event: &Event) {
        let Event::Untagged(untagged) = event else { return };
        if let Untagged::Exists(_) | Untagged::Expunge(_) | Untagged::Fetch(_) = untagged
            && let Some(folder) = &mut self.folder
        {
            folder.responses += 1;
        }
        match (untagged, &mut self.folder) {
            (Untagged::Exists(count), Some(folder)) => folder.exists = *count,
            (Untagged::Expunge(_), Some(folder)) => folder.exists = folder.exists.saturating_sub(1),
            (Untagged::Status(status), _) if status.status == Status::Bye => {
                self.farewell = Some(status.text.clone());
            }
            _ => {}
        }
    }

    /// Opens a folder for reading. If it is already open under its current name, fetches its updates instead.
    pub(crate) async fn open(&mut self, name: &FolderName) -> Result<OpenFolder, ImapError> {
        if self.has_open(name) {
            self.refresh().await?;
        } else {
            let wire_name = self.wire_name(name).await?;
            self.open_with(name, Command::examine(&wire_name)).await?;
        }
        self.folder.clone().ok_or_else(|| ImapError::Broken("no folder is open".to_owned()))
    }

    /// Returns the folder if it is open under its current name, without fetching updates.
    pub(crate) fn opened(&self, name: &FolderName) -> Option<&OpenFolder> {
        self.folder.as_ref().filter(|_| self.has_open(name))
    }

    /// Whether the folder is open under its current name. After a renaming, the server still reports the old folder
    /// to a connection that has it open. So a folder opened long ago does not count. INBOX is never renamed (RFC 3501
    /// section 6.3.5).
    fn has_open(&self, name: &FolderName) -> bool {
        self.folder.as_ref().is_some_and(|folder| {
            folder.name == *name && (*name == FolderName::inbox() || folder.opened_at.elapsed() < self.reopen_after)
        })
    }

    /// Opens a folder for reading. If it is already open, sends nothing: a command that names messages by UID returns
    /// the updates too.
    pub(crate) async fn open_as_it_is(&mut self, name: &FolderName) -> Result<OpenFolder, ImapError> {
        match &self.folder {
            Some(folder) if self.has_open(name) => Ok(folder.clone()),
            _ => self.open(name).await,
        }
    }

    /// Fetches the updates of the open folder. Until then the server answers from the old state, even to STATUS.
    pub(crate) async fn refresh(&mut self) -> Result<(), ImapError> {
        if self.folder.is_some() {
            self.run(Command::noop(), |_| {}).await?;
        }
        Ok(())
    }

    /// Fetches the updates of the open folder. Closes it instead if it may have been renamed.
    pub(crate) async fn refresh_or_leave(&mut self) -> Result<(), ImapError> {
        match &self.folder {
            Some(folder) if !self.has_open(&folder.name) => self.leave_folder().await,
            _ => self.refresh().await,
        }
    }

    /// Closes the open folder. Until then the server reports it under the name that it was opened by, even if another
    /// folder has that name now.
    pub(crate) async fn leave_folder(&mut self) -> Result<(), ImapError> {
        if self.folder.take().is_some() {
            self.run(Command::close(), |_| {}).await?;
        }
        Ok(())
    }

    /// Requests counts of a folder. Those of the open folder date from its last update.
    pub(crate) async fn status(&mut self, name: &FolderName, items: &[StatusItem]) -> Result<FolderStatus, ImapError> {
        let (wire_name, mut received) = (self.wire_name(name).await?, None);
        let asked = self.run(Command::status(&wire_name, items), |untagged| {
            if let Untagged::FolderStatus(status) = untagged
                && is_of(&status, &wire_name)
            {
                received = Some(status);
            }
        });
        match asked.await {
            Ok(_) => received.ok_or_else(|| ImapError::unavailable("the server sent no status")),
            Err(ImapError::Refused(status)) => Err(refused_folder(status)),
            Err(error) => Err(error),
        }
    }

    /// Searches the open folder. The server sends a result even if nothing matches (RFC 3501 section 6.4.4). A short
    /// answer can contain four billion UIDs, which callers list one by one.
    pub(crate) async fn search(&mut self, command: Command) -> Result<UidSet, ImapError> {
        let mut found: Option<UidSets> = None;
        let searched = self.run(command, |untagged| {
            if let Untagged::Found(more) = untagged {
                found.get_or_insert_default().add(&more);
            }
        });
        searched.await?;
        found.map(UidSets::union).ok_or_else(|| ImapError::unavailable("the server sent no search result"))
    }

    /// Opens a folder for changing.
    pub(crate) async fn open_for_changing(&mut self, name: &FolderName) -> Result<OpenFolder, ImapError> {
        let wire_name = self.wire_name(name).await?;
        let opened = self.open_with(name, Command::select(&wire_name)).await;
        // Removed from the connection, so that a reader does not find the folder open for changing.
        let folder = self.folder.take();
        opened?;
        folder.ok_or_else(|| ImapError::Broken("no folder is open".to_owned()))
    }

    async fn open_with(&mut self, name: &FolderName, command: Command) -> Result<(), ImapError> {
        // A failed SELECT closes the folder that was open (RFC 3501 section 6.3.1).
        self.folder = None;
        let (mut exists, mut uid_validity) = (None, 0);
        let opened = self.run(command, |untagged| match untagged {
            // Updates for the previously open folder arrive before this folder's count.
            Untagged::Exists(count) => exists = Some(count),
            Untagged::Status(StatusResponse { code: Some(Code::UidValidity(value)), .. }) => uid_validity = value,
            _ => {}
        });
        match opened.await {
            Ok(_) => {
                let exists =
                    exists.ok_or_else(|| self.broken("the server sent no message count for the opened folder"))?;
                let (name, opened_at) = (name.clone(), Instant::now());
                let opening = self.openings.fetch_add(1, Ordering::Relaxed);
                self.folder = Some(OpenFolder { name, uid_validity, exists, opened_at, opening, responses: 0 });
                Ok(())
            }
            Err(ImapError::Refused(status)) => Err(refused_folder(status)),
            Err(error) => Err(error),
        }
    }

    /// Returns a folder's name in the server's form (before modified UTF-7).
    pub(crate) async fn wire_name(&mut self, name: &FolderName) -> Result<String, ImapError> {
        Ok(match self.separator().await? {
            Some('/') => name.as_str().to_owned(),
            Some(separator) => {
                // The server's separator inside a level would split it into two.
                if name.as_str().contains(separator) {
                    return Err(ImapError::Mailbox(MailboxError::NoSuchFolder));
                }
                name.as_str().replace('/', &separator.to_string())
            }
            None => name.as_str().to_owned(),
        })
    }

    /// Returns the server's hierarchy separator.
    async fn separator(&mut self) -> Result<Option<char>, ImapError> {
        if let Some(known) = self.separator {
            return Ok(known);
        }
        let mut received = None;
        self.run(Command::list_separator(), |untagged| {
            if let Untagged::List(listed) = untagged {
                received = Some(listed.separator);
            }
        })
        .await?;
        let separator = received.ok_or_else(|| ImapError::unavailable("the server sent no hierarchy separator"))?;
        self.separator = Some(separator);
        Ok(separator)
    }
}

/// Whether the status belongs to the folder of this name. INBOX is case-insensitive (RFC 3501 section 5.1).
pub(crate) fn is_of(status: &FolderStatus, wire_name: &str) -> bool {
    let is_inbox = |name: &str| name.eq_ignore_ascii_case(FolderName::inbox().as_str());
    status.name.as_deref().is_some_and(|name| name == wire_name || (is_inbox(name) && is_inbox(wire_name)))
}

/// Converts the refusal of a folder: it does not exist, unless the code is a temporary one. Older Dovecots send no
/// NONEXISTENT code, only a text.
pub(crate) fn refused_folder(status: StatusResponse) -> ImapError {
    match &status.code {
        Some(Code::Unavailable | Code::InUse | Code::ServerBug | Code::Limit) => ImapError::Refused(status),
        _ if status.status == Status::Bad => ImapError::Refused(status),
        // Dovecot's text for a folder that was deleted while open. Another folder may have its name, so retry on a
        // new connection.
        _ if status.text.starts_with("Mailbox was deleted under us") => ImapError::Broken(status.text),
        _ => ImapError::Mailbox(MailboxError::NoSuchFolder),
    }
}
