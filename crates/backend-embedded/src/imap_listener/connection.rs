//! An IMAP session over a connection: bytes, time-outs, login, and FETCH, which writes while it reads.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::pin;

use futures_util::{FutureExt, StreamExt};
use mailapi_backend::{LoggedIn, LoginError};
use mailapi_imap::server::MessageSource;
use mailapi_imap::server::command::{AppendMessages, UidRanges};
use mailapi_imap::server::session::{Effect, Failure, FetchRequest, Reply, Session, Step};
use mailapi_imap::token::{Span, without_nul};
use mailapi_imap::{Flags, MailboxName, Password, SystemFlag};
use mailapi_model::{LoginProtocol, SecretText, Visitor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::ImapSetup;
use super::compression::Compression;
use super::failure::failure;
use super::fetch::{self, Fetched, Plan};
use super::search::reads_texts;
use super::session_limits::{CompressionPermit, MailboxPermit, SessionLimits};
use super::settings::MessageLimits;
use super::structure::DecodedPart;
use super::user::User;
use crate::MessageStore;
use crate::coming::Coming;
use crate::message_store::{FlagChange, FolderId, Layout, MessageStoreError};
use crate::net::{Arrival, FirstBytes, ServerTls, Shutdown, Stream, encrypt};

/// Output that needs no share of the mailbox's unread bytes.
const LITTLE_OUTPUT: usize = 256 * 1024;

/// A client connection.
pub(super) struct Connection<'a> {
    stream: Stream,
    peer: SocketAddr,
    first_bytes: FirstBytes,
    session: Session,
    message_store: MessageStore,
    setup: &'a ImapSetup,
    session_limits: SessionLimits,
    shutdown: Shutdown,
    /// The pieces of a long message received so far.
    coming: Coming,
    /// Collected output.
    out: Vec<u8>,
    user: Option<User>,
    /// The share of long output in the mailbox's unread bytes.
    unread: MailboxPermit,
    /// The reserved memory for compression, until it starts.
    compression_permit: Option<CompressionPermit>,
    compression: Option<Compression>,
    login_by: Instant,
    /// Time of the client's last input or our last reply.
    heard_at: Instant,
}

/// Reason why a wait ended.
enum Heard {
    Blob(usize),
    Change,
    KeepAlive,
    Silence,
    Shutdown,
}

impl<'a> Connection<'a> {
    pub(super) fn new(
        arrival: Arrival,
        message_store: MessageStore,
        setup: &'a ImapSetup,
        session_limits: SessionLimits,
    ) -> Self {
        let settings = &setup.settings;
        let messages = MessageLimits {
            max_bytes: message_store.settings().max_message_bytes,
            piece_bytes: message_store.buffer().settings().max_memory_bytes,
        };
        let now = Instant::now();
        let offers_tls = setup.tls.as_ref().is_some_and(ServerTls::is_ready);
        let config = settings.session(offers_tls, arrival.is_loopback(), messages);
        Self {
            session: Session::new(config, arrival.stream.is_tls()),
            stream: arrival.stream,
            peer: arrival.peer,
            first_bytes: FirstBytes::new(),
            coming: Coming::new(message_store.buffer().clone()),
            message_store,
            setup,
            session_limits,
            shutdown: arrival.shutdown,
            out: Vec::new(),
            user: None,
            unread: None,
            compression_permit: None,
            compression: None,
            login_by: now + settings.login_timeout,
            heard_at: now,
        }
    }

    /// Serves the client until one side closes the session.
    ///
    /// # Errors
    /// If the connection breaks, or the client does not read the output in time.
    pub(super) async fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; self.setup.settings.read_bytes.max(1)];
        loop {
            let step = self.session.step();
            self.gather(None).await?;
            let has_answered = !self.out.is_empty();
            self.write().await?;
            match step {
                Step::Read => {
                    // A reply while pieces are stored means that their command failed.
                    if has_answered {
                        self.coming.forget();
                    }
                    if !self.listen(&mut buffer, false).await? {
                        return Ok(());
                    }
                }
                Step::Keep { bytes, is_first } => self.keep(&bytes, is_first).await,
                Step::Idle => {
                    match self.renew().await {
                        Ok(()) => self.report_news().await,
                        // The account could not be checked: the update is sent later.
                        Err(LoginError::Unavailable) => {}
                        Err(_) => {
                            self.send_away();
                            continue;
                        }
                    }
                    self.gather(None).await?;
                    self.write().await?;
                    if !self.listen(&mut buffer, true).await? {
                        return Ok(());
                    }
                }
                // Checked before each command, or a client with endless commands would prevent the shutdown.
                Step::Run(_) if self.shutdown.requested().now_or_never().is_some() => self.say_shutdown(),
                Step::Run(effect) => match self.renew().await {
                    Ok(()) => self.carry_out(effect).await?,
                    Err(LoginError::Unavailable) => {
                        self.coming.forget();
                        self.session.finish(Err(Failure::Unavailable), None);
                    }
                    Err(_) => self.send_away(),
                },
                Step::StartTls => {
                    let tls = self.setup.tls.as_ref();
                    let tls = tls.ok_or_else(|| io::Error::other("STARTTLS without a certificate"))?;
                    encrypt(tls, &mut self.stream).await?;
                    self.session.tls_started();
                }
                Step::Compress => {
                    self.compression = self.compression_permit.take().map(Compression::new);
                    self.session.compression_started();
                }
                Step::Close => {
                    // A client may disconnect right after LOGOUT.
                    let _ = timeout(self.setup.settings.write_timeout, self.stream.shutdown()).await;
                    return Ok(());
                }
            }
        }
    }

    /// Waits for the client. Returns false if it disconnected.
    async fn listen(&mut self, buffer: &mut [u8], idles: bool) -> io::Result<bool> {
        match self.wait(buffer, idles).await? {
            Heard::Blob(0) => return Ok(false),
            Heard::Blob(read) => {
                self.heard_at = Instant::now();
                match self.first_bytes.look(&buffer[..read]) {
                    Some(foreign) => {
                        tracing::info!(peer = %self.peer, protocol = ?foreign, "IMAP session refused");
                        self.session.bye(foreign.reason());
                    }
                    None => self.session.feed(&buffer[..read]),
                }
            }
            // The next step checks what changed.
            Heard::Change => {}
            Heard::KeepAlive => self.session.keepalive(),
            Heard::Silence => self.session.bye("Time-out"),
            Heard::Shutdown => self.say_shutdown(),
        }
        Ok(true)
    }

    async fn wait(&mut self, buffer: &mut [u8], idles: bool) -> io::Result<Heard> {
        let settings = &self.setup.settings;
        let patience = if self.user.is_some() { self.heard_at + settings.idle_timeout } else { self.login_by };
        let keep_alive = Instant::now() + settings.keepalive_interval;
        let user = self.user.as_mut().filter(|_| idles);
        let change = async {
            match user {
                Some(user) => user.changed().await,
                None => pending().await,
            }
        };
        tokio::select! {
            // The shutdown is checked first, even with a busy client.
            biased;
            () = self.shutdown.requested() => Ok(Heard::Shutdown),
            read = timeout_at(patience, read(&mut self.stream, self.compression.as_mut(), buffer)) => match read {
                Ok(read) => read.map(Heard::Blob),
                Err(_) => Ok(Heard::Silence),
            },
            () = change => Ok(Heard::Change),
            () = sleep_until(keep_alive), if idles => Ok(Heard::KeepAlive),
        }
    }

    fn say_shutdown(&mut self) {
        self.session.bye("The server is shutting down");
    }

    /// Checks that the logged-in account is still allowed. No-op before login.
    async fn renew(&mut self) -> Result<(), LoginError> {
        match &mut self.user {
            Some(user) => self.setup.login.renew(&mut user.logged_in).await,
            None => Ok(()),
        }
    }

    fn send_away(&mut self) {
        tracing::info!(peer = %self.peer, "IMAP session closed: account disabled, or password changed or revoked");
        self.user = None;
        self.coming.forget();
        self.session.bye("The account is disabled, or the password was changed or revoked");
    }

    async fn report_news(&mut self) {
        let Some(user) = &mut self.user else { return };
        let _reporting = user.may_report().await;
        if let Some(news) = user.news(&self.session).await {
            self.session.folder_changed(news);
            self.keep_unread().await;
        }
    }

    /// Takes the output. If it is long, waits until the mailbox has few other unread bytes.
    async fn keep_unread(&mut self) {
        self.out.append(&mut self.session.take_output());
        if self.out.len() <= LITTLE_OUTPUT {
            return;
        }
        if let Some(user) = &self.user {
            self.unread = user.may_keep_unread(self.out.len()).await;
        }
    }

    async fn carry_out(&mut self, effect: Effect) -> io::Result<()> {
        let _ordering = match (&effect, &self.user) {
            (Effect::Order { .. }, Some(user)) => Some(user.may_order().await),
            (Effect::Search { key, .. }, Some(user)) if reads_texts(key) => Some([user.may_search().await, None]),
            _ => None,
        };
        let mut reporting = match &self.user {
            Some(user) if names_many(&effect) => user.may_report().await,
            _ => None,
        };
        let result = match effect {
            Effect::Login { username, password } => self.log_in(&username, &password).await,
            Effect::Fetch { folder, request } => self.fetch(FolderId(folder), &request).await?.map(|()| Reply::Done),
            Effect::Compress => {
                self.compression_permit = self.session_limits.compress();
                self.compression_permit.as_ref().map(|_| Reply::Done).ok_or(Failure::Limit)
            }
            Effect::Append { mailbox, messages } => self.append(&mailbox, messages).await,
            other => match &mut self.user {
                Some(user) => user.carry_out(other, &self.session, self.setup.settings.max_search_texts).await,
                None => Err(Failure::NotPermitted),
            },
        };
        // Also drops the pieces of a command that failed before it used them.
        self.coming.forget();
        let news = match &mut self.user {
            Some(user) => {
                if reporting.is_none() {
                    reporting = user.may_report().await;
                }
                user.news(&self.session).await
            }
            None => None,
        };
        self.session.finish(result, news);
        self.keep_unread().await;
        drop(reporting);
        self.heard_at = Instant::now();
        Ok(())
    }

    /// Stores a piece of a message being received. After a failure the rest is dropped, and its command
    /// fails.
    async fn keep(&mut self, bytes: &[u8], is_first: bool) {
        if is_first {
            self.coming.forget();
        }
        if let Err(error) = self.coming.keep(bytes).await {
            tracing::warn!(peer = %self.peer, %error, "message received over IMAP could not be buffered");
        }
    }

    async fn append(&mut self, mailbox: &MailboxName, append: AppendMessages) -> Result<Reply, Failure> {
        let user = self.user.as_ref().ok_or(Failure::NotPermitted)?;
        let AppendMessages { messages, bytes, kept } = append;
        let bytes = if kept == 0 {
            bytes.into()
        } else if self.coming.len() == kept {
            self.coming.complete(bytes).await.map_err(|_| Failure::Unavailable)?
        } else {
            // A piece was lost.
            return Err(Failure::Unavailable);
        };
        user.append(mailbox, messages, &bytes).await
    }

    async fn log_in(&mut self, username: &str, password: &Password) -> Result<Reply, Failure> {
        let password = SecretText::new(password.expose().to_owned());
        match self.setup.login.log_in(username, &password, self.visitor()).await {
            Ok(logged_in) => self.enter(logged_in).await,
            Err(LoginError::Unavailable) => Err(Failure::Unavailable),
            Err(error @ (LoginError::Refused | LoginError::Locked)) => {
                // Slows down password guessing.
                sleep(self.setup.settings.failed_login_delay).await;
                Err(if error == LoginError::Locked { Failure::LoginLocked } else { Failure::LoginRefused })
            }
        }
    }

    fn visitor(&self) -> Visitor {
        Visitor { protocol: LoginProtocol::Imap, address: self.peer.ip().to_canonical() }
    }

    /// Opens the mailbox that the grants are bound to.
    async fn enter(&mut self, logged_in: LoggedIn) -> Result<Reply, Failure> {
        let address = logged_in.grants.mailbox().ok_or(Failure::LoginRefused)?.clone();
        let mailbox = self.message_store.mailbox(&address).await.map_err(failure)?;
        let permit = self.session_limits.take(mailbox).ok_or(Failure::Limit)?;
        self.coming = Coming::new(self.message_store.buffer().for_mailbox(address.clone()));
        self.user = Some(User::new(self.message_store.clone(), address, logged_in, mailbox, permit));
        Ok(Reply::Done)
    }

    /// Writes messages as they are read. The inner result belongs to the command, the error to the
    /// connection.
    async fn fetch(&mut self, folder: FolderId, request: &FetchRequest) -> io::Result<Result<(), Failure>> {
        let uids = match self.fetched_uids(folder, request).await {
            Ok(uids) => uids,
            Err(error) => return Ok(Err(failure(error))),
        };
        let plan = Plan::new(&request.items, &self.setup.settings);
        let mut rest = uids.as_slice();
        while !rest.is_empty() {
            let step = match self.read_step(folder, request, &plan, rest).await {
                Ok(step) => step,
                Err(error) => return Ok(Err(failure(error))),
            };
            rest = &rest[step.consumed..];
            for message in step.messages {
                self.session.write_message(&message);
                self.gather(Some(&message)).await?;
            }
        }
        Ok(Ok(()))
    }

    /// Writes the removed messages that a FETCH asks for, and returns the UIDs to read.
    async fn fetched_uids(&mut self, folder: FolderId, request: &FetchRequest) -> Result<Vec<u32>, MessageStoreError> {
        let Some(since) = request.changed_since else { return Ok(request.uids.clone()) };
        if let Some(wanted) = &request.vanished {
            let vanished = UidRanges::from_ranges(self.message_store.vanished_since(folder, since).await?);
            self.session.write_vanished(&vanished.intersection(wanted));
        }
        let changed = self.message_store.changed_since(folder, since).await?.entries;
        let is_wanted = |uid: &u32| request.uids.binary_search(uid).is_ok();
        Ok(changed.into_iter().map(|entry| entry.uid).filter(is_wanted).collect())
    }

    /// Reads the next messages. Only those become `\Seen`.
    async fn read_step(
        &self,
        folder: FolderId,
        request: &FetchRequest,
        plan: &Plan,
        uids: &[u32],
    ) -> Result<fetch::Step, MessageStoreError> {
        let mut step = plan.step(&self.message_store, folder, uids).await?;
        if request.mark_seen {
            let uids = step.messages.iter().map(MessageSource::uid).collect();
            let seen = Flags::from_iter([SystemFlag::Seen]);
            let states = self.message_store.store_flags(folder, uids, FlagChange::Add, seen).await?;
            // A FETCH that sets `\Seen` reports the new flags (RFC 3501 section 6.4.5).
            for message in &mut step.messages {
                if let Ok(at) = states.binary_search_by_key(&message.uid(), |state| state.uid) {
                    message.set_state(states[at].clone());
                }
            }
        }
        Ok(step)
    }

    /// Collects the session's output, with the bytes of the last message written.
    async fn gather(&mut self, message: Option<&Fetched>) -> io::Result<()> {
        loop {
            self.out.append(&mut self.session.take_output());
            self.write_when_enough().await?;
            let Some(span) = self.session.take_span() else { return Ok(()) };
            let open = message.and_then(|message| Some((message, message.layout()?)));
            let (message, layout) = open.ok_or_else(|| io::Error::other("no message is open to read from"))?;
            match span {
                Span::Stored(range) => self.gather_stored(layout, range).await?,
                Span::Decoded { path, range } => {
                    let part = message.decoded_part(&path);
                    let part = part.ok_or_else(|| io::Error::other("the part was not prepared for decoding"))?;
                    self.gather_decoded(layout, part, range).await?;
                }
            }
        }
    }

    async fn gather_stored(&mut self, layout: Layout, range: Range<u64>) -> io::Result<()> {
        let mut pieces = pin!(self.message_store.stream_range(layout, range));
        while let Some(piece) = pieces.next().await {
            // The client already has the literal's length: if the literal cannot be completed, the connection
            // must end.
            let piece = piece.map_err(io::Error::other)?;
            self.out.extend(piece.iter().copied().map(without_nul));
            self.write_when_enough().await?;
        }
        Ok(())
    }

    /// Collects a range of a part's decoded bytes. Those before it are decoded as well, one piece at a time.
    async fn gather_decoded(&mut self, layout: Layout, part: DecodedPart, range: Range<u64>) -> io::Result<()> {
        let (start, length) = part.encoded;
        let encoded = start..start.saturating_add(length);
        let mut pieces = pin!(self.message_store.decoded_range(layout, encoded, part.encoding));
        let mut at = 0;
        while at < range.end
            && let Some(piece) = pieces.next().await
        {
            let piece = piece.map_err(io::Error::other)?;
            let bytes = overlap(&piece, at, &range);
            at += piece.len() as u64;
            self.out.extend_from_slice(bytes);
            self.write_when_enough().await?;
        }
        if at < range.end { Err(io::Error::other("the part is shorter than measured")) } else { Ok(()) }
    }

    async fn write_when_enough(&mut self) -> io::Result<()> {
        if self.out.len() < self.setup.settings.write_bytes { Ok(()) } else { self.write().await }
    }

    async fn write(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        if let Some(compression) = &mut self.compression {
            self.out = compression.deflate(&self.out)?;
        }
        let written = async {
            self.stream.write_all(&self.out).await?;
            self.stream.flush().await
        };
        timeout(self.setup.settings.write_timeout, written).await??;
        self.out.clear();
        self.out.shrink_to(LITTLE_OUTPUT);
        self.unread = None;
        Ok(())
    }
}

/// Returns whether the result of an effect names many messages. Small changes run at the same time, and share commits.
fn names_many(effect: &Effect) -> bool {
    const MANY: usize = 10_000;
    match effect {
        Effect::Store { uids, .. } | Effect::Copy { uids, .. } => uids.len() > MANY,
        _ => false,
    }
}

/// Returns the bytes of a piece that starts at `at` and are in the range.
fn overlap<'p>(piece: &'p [u8], at: u64, range: &Range<u64>) -> &'p [u8] {
    let inside =
        |position: u64| usize::try_from(position.saturating_sub(at)).map_or(piece.len(), |at| at.min(piece.len()));
    &piece[inside(range.start)..inside(range.end.max(range.start))]
}

/// Reads from the client, inflated if the connection is compressed. Cancel-safe.
async fn read(stream: &mut Stream, compression: Option<&mut Compression>, buffer: &mut [u8]) -> io::Result<usize> {
    let Some(compression) = compression else { return stream.read(buffer).await };
    loop {
        let inflated = compression.inflate(buffer)?;
        if inflated > 0 || compression.has_ended() {
            return Ok(inflated);
        }
        let received = stream.read(buffer).await?;
        if received == 0 {
            return Ok(0);
        }
        compression.receive(&buffer[..received]);
    }
}
