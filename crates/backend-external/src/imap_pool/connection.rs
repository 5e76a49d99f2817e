//! One connection to the server: carries commands out and keeps track of the folder that is open.

use std::sync::Arc;
use std::time::Duration;

use bytes::BufMut;
use mailapi_backend::MailboxError;
use mailapi_imap::client::{
    Capabilities, Code, Command, Connection, Event, FolderStatus, Status, StatusItem, StatusResponse, UidSet, Untagged,
};
use mailapi_model::FolderName;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::error::ImapError;
use super::settings::ImapSettings;
use super::stream::Stream;

/// The folder that is open for reading.
#[derive(Debug, Clone)]
pub(crate) struct OpenFolder {
    pub(crate) name: FolderName,
    /// UIDs mean the same messages only as long as this stays the same.
    pub(crate) uid_validity: u32,
    /// How many messages it holds, as far as the server told.
    pub(crate) exists: u32,
    opened_at: Instant,
    /// Which opening of it this is, and how much was told of it since.
    state: FolderState,
}

/// How a folder looks on one connection. Equal looks show the same: the server has told of nothing in between.
#[derive(Debug, Clone)]
pub(crate) struct FolderState {
    opening: Arc<()>,
    told: u64,
}

impl FolderState {
    /// How many responses about messages there were from an earlier look of the same opening to this one.
    pub(crate) fn told_since(&self, earlier: &Self) -> u64 {
        self.told.saturating_sub(earlier.told)
    }
}

impl PartialEq for FolderState {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.opening, &other.opening) && self.told == other.told
    }
}

impl OpenFolder {
    pub(crate) const fn state(&self) -> &FolderState {
        &self.state
    }
}

/// How long the server may work on one command, or on one stretch of a body. Dovecot sends a notice every 15 seconds
/// during a search, so a limit on silence would not end one. Callers give up long before this limit.
const COMMAND_TIME: Duration = Duration::from_mins(10);
/// As much of a body has to arrive within the time allowed for silence.
const STRETCH_OCTETS: usize = 16 * 1024;

/// What the server may still take for the command in flight. Only the time in which we wait for it counts.
struct Allowance {
    /// Until the next complete response. Single octets do not extend it.
    silence: Duration,
    /// Until the answer is complete.
    command: Duration,
    /// Octets read, without those of bodies that were handed out.
    octets: u64,
    /// Octets of the newest stretch of a body.
    stretch: usize,
}

impl Allowance {
    const fn new(silence: Duration) -> Self {
        Self { silence, command: COMMAND_TIME, octets: 0, stretch: 0 }
    }

    fn spend(&mut self, time: Duration) {
        self.silence = self.silence.saturating_sub(time);
        self.command = self.command.saturating_sub(time);
    }

    fn note(&mut self, event: &Event, silence: Duration) {
        match event {
            Event::BodyPiece(octets) => {
                self.octets = self.octets.saturating_sub(*octets as u64);
                self.stretch += octets;
                if self.stretch >= STRETCH_OCTETS {
                    *self = Self { octets: self.octets, ..Self::new(silence) };
                }
            }
            Event::BodyBegin(_) | Event::BodyEnd | Event::NeedMore => {}
            Event::Greeting(_) | Event::Untagged(_) | Event::Done(_) => self.silence = silence,
        }
    }
}

/// A connection. A command that was not awaited to its end leaves it not [`ImapConnection::is_ready`].
pub(crate) struct ImapConnection {
    stream: Stream,
    protocol: Connection,
    read_octets: usize,
    silence_timeout: Duration,
    allowance: Allowance,
    max_answer: u64,
    reopen_after: Duration,
    folder: Option<OpenFolder>,
    separator: Option<Option<char>>,
    is_broken: bool,
    farewell: Option<String>,
}

impl ImapConnection {
    pub(super) fn new(stream: Stream, settings: &ImapSettings) -> Self {
        Self {
            stream,
            protocol: Connection::new(settings.limits.clone()),
            read_octets: settings.read_octets,
            silence_timeout: settings.silence_timeout,
            allowance: Allowance::new(settings.silence_timeout),
            max_answer: settings.limits.max_answer,
            reopen_after: settings.reopen_after,
            folder: None,
            separator: None,
            is_broken: false,
            farewell: None,
        }
    }

    /// True when another command may be started.
    pub(crate) fn is_ready(&self) -> bool {
        self.protocol.is_ready() && !self.is_broken
    }

    /// The folder that is open.
    pub(crate) const fn folder(&self) -> Option<&OpenFolder> {
        self.folder.as_ref()
    }

    /// What the server can do, as far as it told.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.protocol.capabilities().cloned().unwrap_or_default()
    }

    /// Whether it can do this.
    pub(crate) fn can(&self, capability: &str) -> bool {
        self.protocol.capabilities().is_some_and(|capabilities| capabilities.has(capability))
    }

    pub(super) fn knows_capabilities(&self) -> bool {
        self.protocol.capabilities().is_some()
    }

    /// Goes on encrypted: at the very start, or after STARTTLS.
    pub(super) async fn encrypt(&mut self, host: &str, config: Arc<ClientConfig>) -> Result<(), ImapError> {
        let plain = std::mem::replace(&mut self.stream, Stream::Lost);
        self.stream = plain.encrypt(host, config).await?;
        Ok(())
    }

    /// The server's first words.
    pub(super) async fn greeting(&mut self) -> Result<StatusResponse, ImapError> {
        match self.event().await? {
            Event::Greeting(status) => Ok(status),
            _ => Err(self.broken("no greeting")),
        }
    }

    /// Carries a command out; `each` gets what the server tells on the way.
    pub(crate) async fn run(
        &mut self,
        command: Command,
        mut each: impl FnMut(Untagged) + Send,
    ) -> Result<StatusResponse, ImapError> {
        self.start(command)?;
        self.answer(&mut each).await
    }

    /// The same, with a NOOP written behind the command (RFC 3501 section 5.5): the news are heard without another turn. The
    /// command must name messages by sequence number; what follows it in its own answer or in that of the NOOP is noted
    /// in the folder's look alone. When this returns, a refusal of the command included, the news were heard.
    pub(crate) async fn run_before_news(
        &mut self,
        command: Command,
        mut each: impl FnMut(Untagged) + Send,
    ) -> Result<StatusResponse, ImapError> {
        self.protocol.start_both(command, Command::noop())?;
        self.allowance = Allowance::new(self.silence_timeout);
        let answer = self.answer(&mut each).await;
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
                _ => return Err(self.broken("an answer that nobody asked for")),
            }
        }
    }

    /// Starts a command; its events are then to be awaited until it is done.
    pub(crate) fn start(&mut self, command: Command) -> Result<(), ImapError> {
        self.protocol.start(command)?;
        self.allowance = Allowance::new(self.silence_timeout);
        Ok(())
    }

    /// The next event; never [`Event::NeedMore`].
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

    /// The octets of the last [`Event::BodyPiece`], until the next event is awaited.
    pub(crate) fn body_piece(&self) -> &[u8] {
        self.protocol.body_piece()
    }

    /// Writes what waits to be written, and reads.
    async fn exchange(&mut self) -> Result<(), ImapError> {
        let output = self.protocol.take_output();
        let input = self.protocol.input();
        if input.capacity() - input.len() < self.read_octets / 2 {
            input.reserve(self.read_octets);
        }
        let mut room = input.limit(self.read_octets);
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
                let reason = self.farewell.take().unwrap_or_else(|| "the server closed it".to_owned());
                Err(self.broken(&reason))
            }
            Ok(Ok(octets)) => {
                self.allowance.octets += octets as u64;
                if self.allowance.octets > self.max_answer {
                    Err(self.broken("its answer is too long"))
                } else {
                    Ok(())
                }
            }
            Ok(Err(error)) => Err(self.broken(&error.to_string())),
            Err(_) => Err(self.broken("the server did not answer in time")),
        }
    }

    /// From now on it is of no use.
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
            folder.state.told += 1;
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

    /// Opens a folder for reading, or hears the news of it when it is open already and still bears its name.
    pub(crate) async fn open(&mut self, name: &FolderName) -> Result<OpenFolder, ImapError> {
        if self.has_open(name) {
            self.refresh().await?;
        } else {
            let wire_name = self.wire_name(name).await?;
            self.open_with(name, Command::examine(&wire_name)).await?;
        }
        self.folder.clone().ok_or_else(|| ImapError::Broken("no folder is open".to_owned()))
    }

    /// The folder as the connection knows it, without its news, where it is open and still bears its name.
    pub(crate) fn opened(&self, name: &FolderName) -> Option<&OpenFolder> {
        self.folder.as_ref().filter(|_| self.has_open(name))
    }

    /// Whether the folder is open under its name. A server tells of an open folder what it held under the name that it
    /// was opened by, whatever has that name now, so one that was opened long ago does not count; INBOX is never renamed
    /// (RFC 3501 section 6.3.5).
    fn has_open(&self, name: &FolderName) -> bool {
        self.folder.as_ref().is_some_and(|folder| {
            folder.name == *name && (*name == FolderName::inbox() || folder.opened_at.elapsed() < self.reopen_after)
        })
    }

    /// Opens a folder for reading. When it is open already, nothing is asked: a command that names messages by UID hears
    /// the news in its answer.
    pub(crate) async fn open_as_it_is(&mut self, name: &FolderName) -> Result<OpenFolder, ImapError> {
        match &self.folder {
            Some(folder) if self.has_open(name) => Ok(folder.clone()),
            _ => self.open(name).await,
        }
    }

    /// Hears the news of the folder that is open. Until then a server answers as if nothing had happened in it, to
    /// STATUS too.
    pub(crate) async fn refresh(&mut self) -> Result<(), ImapError> {
        if self.folder.is_some() {
            self.run(Command::noop(), |_| {}).await?;
        }
        Ok(())
    }

    /// Hears the news of the folder that is open; one that may have lost its name is closed instead.
    pub(crate) async fn refresh_or_leave(&mut self) -> Result<(), ImapError> {
        match &self.folder {
            Some(folder) if !self.has_open(&folder.name) => self.leave_folder().await,
            _ => self.refresh().await,
        }
    }

    /// Closes the folder that is open. Until then a server tells of it under the name that it was opened by, whatever
    /// has that name now.
    pub(crate) async fn leave_folder(&mut self) -> Result<(), ImapError> {
        if self.folder.take().is_some() {
            self.run(Command::close(), |_| {}).await?;
        }
        Ok(())
    }

    /// Asks for counts of a folder; of the one that is open, they are those of its last news.
    pub(crate) async fn status(&mut self, name: &FolderName, items: &[StatusItem]) -> Result<FolderStatus, ImapError> {
        let (wire_name, mut told) = (self.wire_name(name).await?, None);
        let asked = self.run(Command::status(&wire_name, items), |untagged| {
            if let Untagged::FolderStatus(status) = untagged
                && is_of(&status, &wire_name)
            {
                told = Some(status);
            }
        });
        match asked.await {
            Ok(_) => told.ok_or_else(|| ImapError::unavailable("the server told no status")),
            Err(ImapError::Refused(status)) => Err(refused_folder(status)),
            Err(error) => Err(error),
        }
    }

    /// Searches the open folder. A server answers even when nothing matches (RFC 3501 section 6.4.4).
    pub(crate) async fn search(&mut self, command: Command) -> Result<UidSet, ImapError> {
        let mut found: Option<UidSet> = None;
        let searched = self.run(command, |untagged| {
            if let Untagged::Found(more) = untagged {
                found.get_or_insert_default().extend(&more);
            }
        });
        searched.await?;
        found.ok_or_else(|| ImapError::unavailable("the server sent no search result"))
    }

    /// Opens a folder for changing.
    pub(crate) async fn open_for_changing(&mut self, name: &FolderName) -> Result<OpenFolder, ImapError> {
        let wire_name = self.wire_name(name).await?;
        let opened = self.open_with(name, Command::select(&wire_name)).await;
        // Nobody else finds it open like this.
        let folder = self.folder.take();
        opened?;
        folder.ok_or_else(|| ImapError::Broken("no folder is open".to_owned()))
    }

    async fn open_with(&mut self, name: &FolderName, command: Command) -> Result<(), ImapError> {
        // A SELECT that fails closes what was open (RFC 3501 section 6.3.1).
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
                let exists = exists.ok_or_else(|| self.broken("an opened folder without a count"))?;
                let state = FolderState { opening: Arc::default(), told: 0 };
                self.folder =
                    Some(OpenFolder { name: name.clone(), uid_validity, exists, opened_at: Instant::now(), state });
                Ok(())
            }
            Err(ImapError::Refused(status)) => Err(refused_folder(status)),
            Err(error) => Err(error),
        }
    }

    /// A folder's name as the server writes it (before modified UTF-7).
    async fn wire_name(&mut self, name: &FolderName) -> Result<String, ImapError> {
        Ok(match self.separator().await? {
            Some('/') => name.as_str().to_owned(),
            Some(separator) => {
                // The server's separator inside a level would make two of it.
                if name.as_str().contains(separator) {
                    return Err(ImapError::Told(MailboxError::NoSuchFolder));
                }
                name.as_str().replace('/', &separator.to_string())
            }
            None => name.as_str().to_owned(),
        })
    }

    /// What the server puts between the levels of names.
    async fn separator(&mut self) -> Result<Option<char>, ImapError> {
        if let Some(known) = self.separator {
            return Ok(known);
        }
        let mut told = None;
        self.run(Command::list_separator(), |untagged| {
            if let Untagged::List(listed) = untagged {
                told = Some(listed.separator);
            }
        })
        .await?;
        let separator = told.ok_or_else(|| ImapError::unavailable("the server sent no hierarchy separator"))?;
        self.separator = Some(separator);
        Ok(separator)
    }
}

/// Whether the status is that of the folder with this name. INBOX is case-insensitive (RFC 3501 section 5.1).
pub(crate) fn is_of(status: &FolderStatus, wire_name: &str) -> bool {
    let is_inbox = |name: &str| name.eq_ignore_ascii_case(FolderName::inbox().as_str());
    status.name.as_deref().is_some_and(|name| name == wire_name || (is_inbox(name) && is_inbox(wire_name)))
}

/// A folder that is not there, unless the server says that it cannot tell at the moment. Older Dovecots say so in
/// words alone, without NONEXISTENT.
pub(crate) fn refused_folder(status: StatusResponse) -> ImapError {
    match &status.code {
        Some(Code::Unavailable | Code::InUse | Code::ServerBug | Code::Limit) => ImapError::Refused(status),
        _ if status.status == Status::Bad => ImapError::Refused(status),
        // Dovecot's words: the connection knows a folder that is gone, and another one may have its name.
        _ if status.text.starts_with("Mailbox was deleted under us") => ImapError::Broken(status.text),
        _ => ImapError::Told(MailboxError::NoSuchFolder),
    }
}
