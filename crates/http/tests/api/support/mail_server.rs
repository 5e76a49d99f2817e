//! A mail server in memory. It delivers at once, reads messages as every backend does, and fails when it is told to.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mailapi_backend::mime::{Digest, SearchableText, decode, matches, snippet};
use mailapi_backend::{
    Accepted, AttachmentInfo, Attempt, Backend, ByteStream, DeliveryFeed, FeedBatch, FeedError, FolderInfo,
    FolderScope, FullMessage, MailboxError, Mailboxes, MessageSummary, OpenedAttachment, OpenedMessage, Provisioning,
    ProvisioningError, Purged, Refusal, SearchHit, SearchQuery, Submission, SubmitError,
};
use mailapi_model::{
    Clock, DeliveryEvent, DomainName, EmailAddress, EnhancedCode, Envelope, Evidence, FeedCursor, FolderName, Listed,
    Outcome, Page, QueueId, Quota, Reply,
};

/// Reading this folder panics, as a bug would.
pub(crate) const PANICS: &str = "Panics";

/// The mail server; clones are the same one.
#[derive(Clone)]
pub(crate) struct MemoryMailServer {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    domains: HashSet<DomainName>,
    mailboxes: BTreeMap<EmailAddress, BTreeMap<FolderName, Vec<Bytes>>>,
    events: Vec<DeliveryEvent>,
    submitted: u64,
    refusal: Option<SubmitError>,
    is_down: bool,
}

impl MemoryMailServer {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Arc::default(), clock }
    }

    pub(crate) fn backend(&self) -> Backend {
        let this = Arc::new(self.clone());
        Backend {
            submission: this.clone(),
            mailboxes: this.clone(),
            delivery_feed: this.clone(),
            bounce_feed: None,
            provisioning: this,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next submission ends so.
    pub(crate) fn refuse_next(&self, error: SubmitError) {
        self.state().refusal = Some(error);
    }

    /// Nothing can be reached from now on.
    pub(crate) fn go_down(&self) {
        self.state().is_down = true;
    }

    /// How many messages it took.
    pub(crate) fn submitted(&self) -> u64 {
        self.state().submitted
    }

    /// Lays a message into a folder, which is made when it is missing.
    pub(crate) fn deliver(&self, mailbox: &str, folder: &str, message: &str) {
        let message = Bytes::from(message.replace('\n', "\r\n"));
        let mut state = self.state();
        let folders = state.mailboxes.get_mut(&mailbox.parse().unwrap()).expect("a mailbox that was made");
        folders.entry(folder.parse().unwrap()).or_default().push(message);
    }

    /// Reports an event that no submission caused.
    pub(crate) fn report(&self, event: DeliveryEvent) {
        self.state().events.push(event);
    }

    fn folder(&self, mailbox: &EmailAddress, folder: &FolderName) -> Result<Vec<Bytes>, MailboxError> {
        assert_ne!(folder.as_str(), PANICS, "a bug");
        let folders = self.folders_of(mailbox)?;
        folders.get(folder).cloned().ok_or(MailboxError::NoSuchFolder)
    }

    fn folders_of(&self, mailbox: &EmailAddress) -> Result<BTreeMap<FolderName, Vec<Bytes>>, MailboxError> {
        let state = self.state();
        if state.is_down {
            return Err(MailboxError::Unavailable("connection refused by 192.0.2.1:143".to_owned()));
        }
        state.mailboxes.get(mailbox).cloned().ok_or(MailboxError::NoSuchMailbox)
    }

    fn message(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Result<Bytes, MailboxError> {
        let messages = self.folder(mailbox, folder)?;
        let place = uid.checked_sub(1).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| messages.get(place).cloned()).ok_or(MailboxError::NoSuchMessage)
    }

    fn summary(&self, uid: u32, raw: &Bytes) -> MessageSummary {
        Digest::of(raw).summary(uid, raw.len() as u64, vec!["\\Recent".to_owned()], self.clock.now())
    }
}

fn numbered(messages: Vec<Bytes>) -> impl Iterator<Item = (u32, Bytes)> {
    (1..).zip(messages).collect::<Vec<_>>().into_iter().rev()
}

fn page_of<T>(items: Vec<T>, page: Page) -> Listed<T> {
    let total = items.len() as u64;
    let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    Listed { total, items: items.into_iter().skip(offset).take(page.limit() as usize).collect() }
}

fn stream(octets: Bytes) -> ByteStream {
    let pieces: Vec<_> = octets.chunks(7).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    Box::pin(futures_util::stream::iter(pieces))
}

#[async_trait]
impl Submission for MemoryMailServer {
    async fn submit(&self, envelope: Envelope, message: Bytes) -> Result<Accepted, SubmitError> {
        let at = self.clock.now();
        let mut state = self.state();
        if let Some(error) = state.refusal.take() {
            return Err(error);
        }
        state.submitted += 1;
        let queue_id = QueueId(format!("Q{}", state.submitted));
        let mut refused = Vec::new();
        for recipient in envelope.recipients {
            let is_ours = state.domains.contains(&recipient.domain());
            if let Some(folders) = state.mailboxes.get_mut(&recipient) {
                folders.get_mut(&FolderName::inbox()).expect("an INBOX").push(message.clone());
            } else if is_ours {
                let reply = Reply::new(550, EnhancedCode::new(5, 1, 1), "No such user");
                refused.push(Refusal { recipient, reply });
                continue;
            }
            let (outcome, dsn, response) = if is_ours {
                (Outcome::Sent, EnhancedCode::new(2, 1, 5), "250 2.1.5 Delivered")
            } else {
                (Outcome::Deferred, EnhancedCode::new(4, 4, 1), "451 4.4.1 No answer")
            };
            let sender = envelope.sender.clone();
            let queue_id = queue_id.clone();
            state.events.push(DeliveryEvent {
                at,
                message_id: Some(envelope.message_id),
                queue_id,
                sender,
                recipient,
                outcome,
                evidence: Evidence::MailServer,
                dsn: Some(dsn),
                response: response.to_owned(),
                relay: Some("local".to_owned()),
                delay: Duration::from_millis(120),
            });
        }
        Ok(Accepted { queue_id, refused })
    }

    async fn find(&self, _: &Attempt) -> Result<Option<Accepted>, SubmitError> {
        Ok(None)
    }

    async fn check(&self) -> Result<(), String> {
        if self.state().is_down { Err("connection refused by 192.0.2.1:25".to_owned()) } else { Ok(()) }
    }
}

#[async_trait]
impl Mailboxes for MemoryMailServer {
    async fn folders(&self, mailbox: &EmailAddress) -> Result<Vec<FolderInfo>, MailboxError> {
        let info = |(name, messages): (FolderName, Vec<Bytes>)| FolderInfo {
            name,
            messages: messages.len() as u64,
            unread: messages.len() as u64,
            size: messages.iter().map(|message| message.len() as u64).sum(),
        };
        let mut folders: Vec<_> = self.folders_of(mailbox)?.into_iter().map(info).collect();
        folders.sort_by_key(|folder| folder.name != FolderName::inbox());
        Ok(folders)
    }

    async fn list(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
    ) -> Result<Listed<MessageSummary>, MailboxError> {
        let messages = numbered(self.folder(mailbox, folder)?);
        Ok(page_of(messages.map(|(uid, raw)| self.summary(uid, &raw)).collect(), page))
    }

    async fn read(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Result<FullMessage, MailboxError> {
        let raw = self.message(mailbox, folder, uid)?;
        let digest = Digest::of(&raw);
        let header = &raw[..usize::try_from(digest.header_len).unwrap_or(0)];
        let body = |part: &Option<mailapi_backend::mime::BodyPart>| part.as_ref().map_or(&[][..], |p| p.span.of(&raw));
        Ok(digest.full_message(self.summary(uid, &raw), header, body(&digest.text), body(&digest.html)))
    }

    async fn open_attachment(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
        index: u32,
    ) -> Result<OpenedAttachment, MailboxError> {
        let raw = self.message(mailbox, folder, uid)?;
        let attachments = Digest::of(&raw).attachments;
        let found = attachments.into_iter().find(|part| part.info.index == index);
        let part = found.ok_or(MailboxError::NoSuchAttachment)?;
        let content = decode(part.span.encoding, part.span.of(&raw));
        let info = AttachmentInfo { size: content.len() as u64, ..part.info };
        Ok(OpenedAttachment { info, content: stream(content.into()) })
    }

    async fn open_raw(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<OpenedMessage, MailboxError> {
        let raw = self.message(mailbox, folder, uid)?;
        Ok(OpenedMessage { size: raw.len() as u64, content: stream(raw) })
    }

    async fn search(&self, mailbox: &EmailAddress, query: &SearchQuery) -> Result<Listed<SearchHit>, MailboxError> {
        let folders = match &query.scope {
            FolderScope::All => self.folders_of(mailbox)?,
            FolderScope::One(folder) => BTreeMap::from([(folder.clone(), self.folder(mailbox, folder)?)]),
        };
        let mut hits = Vec::new();
        for (folder, messages) in folders {
            for (uid, raw) in numbered(messages) {
                let text = SearchableText::of(&raw, &Digest::of(&raw)).joined();
                if matches(&text, &query.text) {
                    let MessageSummary { from, subject, date, .. } = self.summary(uid, &raw);
                    let snippet = snippet(&text, &query.text);
                    hits.push(SearchHit { uid, folder: folder.clone(), from, subject, date, snippet });
                }
            }
        }
        Ok(page_of(hits, query.page))
    }

    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError> {
        let mut state = self.state();
        let folders = state.mailboxes.get_mut(mailbox).ok_or(MailboxError::NoSuchMailbox)?;
        let messages = folders.values_mut().map(|messages| messages.drain(..).count() as u64).sum();
        Ok(Purged { folders: folders.len() as u64, messages })
    }

    async fn quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        let folders = self.folders(mailbox).await?;
        Ok(Quota {
            used_bytes: folders.iter().map(|folder| folder.size).sum(),
            messages: folders.iter().map(|folder| folder.messages).sum(),
            limit_bytes: None,
        })
    }

    async fn check(&self) -> Result<(), String> {
        Submission::check(self).await
    }
}

#[async_trait]
impl DeliveryFeed for MemoryMailServer {
    fn name(&self) -> &str {
        "memory"
    }

    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError> {
        let start: usize = cursor.0.parse().unwrap_or(0);
        let events: Vec<_> = self.state().events.iter().skip(start).take(max).cloned().collect();
        let end = start + events.len();
        let cursor = if events.is_empty() { cursor.clone() } else { FeedCursor(end.to_string()) };
        Ok(FeedBatch { lines_read: events.len() as u64, more: end < self.state().events.len(), events, cursor })
    }

    async fn forget_until(&self, _: &FeedCursor) -> Result<(), FeedError> {
        Ok(())
    }

    async fn changed(&self) {
        std::future::pending().await
    }
}

#[async_trait]
impl Provisioning for MemoryMailServer {
    async fn put_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.state().domains.insert(domain.clone());
        Ok(())
    }

    async fn remove_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.state().domains.remove(domain);
        Ok(())
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, _: Option<u64>) -> Result<(), ProvisioningError> {
        let inbox = BTreeMap::from([(FolderName::inbox(), Vec::new())]);
        self.state().mailboxes.entry(mailbox.clone()).or_insert(inbox);
        Ok(())
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.state().mailboxes.remove(mailbox);
        Ok(())
    }
}
