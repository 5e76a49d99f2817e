//! A layer between the service and any mail server that injects the failures that a test requests.

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use mailapi_backend::{
    Accepted, Attempt, Backend, DeliveryFeed, FeedBatch, FeedError, FolderInfo, FullMessage, KnownMailbox, LostPart,
    MailboxError, Mailboxes, NewDraft, OpenedAttachment, OpenedMessage, PageView, Provisioning, ProvisioningError,
    Purged, Queue, QueueChange, QueueEntry, QueueError, QueueFilter, Record, RecordError, Refusal, ReturnedNotice,
    SavedDraft, SearchHit, SearchQuery, Submission, SubmitError, Validator,
};
use mailapi_model::{
    Alias, Blob, DeliveryEvent, DomainName, EmailAddress, Envelope, FeedCursor, FolderName, Listed, Page, QueueId,
    Quota, RuleSet, SaveSent, Violations,
};

/// A read of this folder panics, like a bug.
pub(crate) const PANICS: &str = "Panics";

/// Injected failures; clones share their state.
#[derive(Clone)]
pub(crate) struct Trouble {
    behind: Backend,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    refusal: Option<SubmitError>,
    refused: Vec<Refusal>,
    is_down: bool,
    broken: HashSet<EmailAddress>,
    submitted: u64,
    unchanged: u64,
    reported: Vec<DeliveryEvent>,
    lost: Vec<LostPart>,
    notices: Vec<ReturnedNotice>,
    queue: Option<Arc<dyn Queue>>,
}

impl Trouble {
    /// Wraps a backend without any failure.
    pub(crate) fn before(behind: Backend) -> Self {
        Self { behind, state: Arc::default() }
    }

    /// Returns the backend for the service.
    pub(crate) fn backend(&self) -> Backend {
        let this = Arc::new(self.clone());
        Backend {
            submission: this.clone(),
            mailboxes: this.clone(),
            provisioning: this.clone(),
            delivery_feed: this.clone(),
            queue: this,
            ..self.behind.clone()
        }
    }

    /// Fails the next submission with this error.
    pub(crate) fn refuse_next(&self, error: SubmitError) {
        self.state().refusal = Some(error);
    }

    /// Rejects these recipients in the next submission, and accepts the others.
    pub(crate) fn refuse_next_for(&self, refused: Vec<Refusal>) {
        self.state().refused = refused;
    }

    /// Makes the mail server unreachable from now on.
    pub(crate) fn go_down(&self) {
        self.state().is_down = true;
    }

    /// Makes the usage of this mailbox unavailable from now on.
    pub(crate) fn break_mailbox(&self, email: &str) {
        self.state().broken.insert(email.parse().unwrap());
    }

    /// Returns the number of submissions.
    pub(crate) fn submitted(&self) -> u64 {
        self.state().submitted
    }

    /// Returns the number of pages that were reported as unchanged.
    pub(crate) fn unchanged(&self) -> u64 {
        self.state().unchanged
    }

    /// Reports an event that the mail server does not have.
    pub(crate) fn report(&self, event: DeliveryEvent) {
        self.state().reported.push(event);
    }

    /// Loses a part of the reports.
    pub(crate) fn lose(&self, part: LostPart) {
        self.state().lost.push(part);
    }

    /// Returns mail of another server about a message.
    pub(crate) fn return_notice(&self, notice: ReturnedNotice) {
        self.state().notices.push(notice);
    }

    /// Replaces the queue.
    pub(crate) fn fail_queue(&self, queue: Arc<dyn Queue>) {
        self.state().queue = Some(queue);
    }

    fn queue(&self) -> Arc<dyn Queue> {
        self.state().queue.clone().unwrap_or_else(|| self.behind.queue.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mailboxes(&self) -> Result<&dyn Mailboxes, MailboxError> {
        if self.state().is_down {
            return Err(MailboxError::Unavailable("connection refused by 192.0.2.1:143".to_owned()));
        }
        Ok(self.behind.mailboxes.as_ref())
    }
}

#[async_trait]
impl Queue for Trouble {
    async fn list(&self, filter: &QueueFilter, page: Page) -> Result<Listed<QueueEntry>, QueueError> {
        self.queue().list(filter, page).await
    }

    async fn get(&self, id: &QueueId) -> Result<QueueEntry, QueueError> {
        self.queue().get(id).await
    }

    async fn change(&self, id: &QueueId, change: QueueChange) -> Result<(), QueueError> {
        self.queue().change(id, change).await
    }
}

#[async_trait]
impl Submission for Trouble {
    async fn submit(
        &self,
        mut envelope: Envelope,
        message: Blob,
        record: &dyn Record,
    ) -> Result<Accepted, SubmitError> {
        let refused = std::mem::take(&mut self.state().refused);
        envelope.recipients.retain(|recipient| refused.iter().all(|refusal| refusal.recipient != *recipient));
        let refused_as_a_whole = envelope.recipients.is_empty().then(|| SubmitError::NoRecipients(refused.clone()));
        let refusal = self.state().refusal.take().or(refused_as_a_whole);
        if let Some(error) = refusal {
            record.begin().await?;
            return Err(error);
        }
        let record = RefusingRecord { behind: record, refused };
        let mut accepted = self.behind.submission.submit(envelope, message, &record).await?;
        self.state().submitted += 1;
        accepted.refused.extend(record.refused);
        Ok(accepted)
    }

    async fn find(&self, attempt: &Attempt) -> Result<Option<Accepted>, SubmitError> {
        self.behind.submission.find(attempt).await
    }

    async fn check(&self) -> Result<(), String> {
        if self.state().is_down {
            return Err("connection refused by 192.0.2.1:25".to_owned());
        }
        self.behind.submission.check().await
    }
}

/// A record that adds the injected refusals to the mail server's own.
struct RefusingRecord<'a> {
    behind: &'a dyn Record,
    refused: Vec<Refusal>,
}

#[async_trait]
impl Record for RefusingRecord<'_> {
    fn may_repeat(&self) -> bool {
        self.behind.may_repeat()
    }

    async fn begin(&self) -> Result<(), RecordError> {
        self.behind.begin().await
    }

    async fn submitted(&self, accepted: &Accepted) {
        let refused = accepted.refused.iter().chain(&self.refused).cloned().collect();
        self.behind.submitted(&Accepted { queue_id: accepted.queue_id.clone(), refused }).await;
    }

    fn enlist(&self) -> Option<Box<dyn Any + Send>> {
        // The mail server's own transaction would record its own refusals only.
        if self.refused.is_empty() { self.behind.enlist() } else { None }
    }
}

#[async_trait]
impl Mailboxes for Trouble {
    async fn folders(&self, mailbox: &EmailAddress) -> Result<Vec<FolderInfo>, MailboxError> {
        self.mailboxes()?.folders(mailbox).await
    }

    async fn view(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
        seen: Option<Validator>,
    ) -> Result<PageView, MailboxError> {
        assert_ne!(folder.as_str(), PANICS, "a bug");
        let view = self.mailboxes()?.view(mailbox, folder, page, seen).await?;
        self.state().unchanged += u64::from(view == PageView::Unchanged);
        Ok(view)
    }

    async fn read(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Result<FullMessage, MailboxError> {
        self.mailboxes()?.read(mailbox, folder, uid).await
    }

    async fn open_attachment(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
        index: u32,
    ) -> Result<OpenedAttachment, MailboxError> {
        self.mailboxes()?.open_attachment(mailbox, folder, uid, index).await
    }

    async fn open_raw(
        &self,
        mailbox: &EmailAddress,
        folder: &FolderName,
        uid: u32,
    ) -> Result<OpenedMessage, MailboxError> {
        self.mailboxes()?.open_raw(mailbox, folder, uid).await
    }

    async fn search(&self, mailbox: &EmailAddress, query: &SearchQuery) -> Result<Listed<SearchHit>, MailboxError> {
        self.mailboxes()?.search(mailbox, query).await
    }

    async fn drafts_folder(&self, mailbox: &EmailAddress) -> Result<Option<FolderName>, MailboxError> {
        self.mailboxes()?.drafts_folder(mailbox).await
    }

    async fn save_draft(&self, mailbox: &EmailAddress, draft: NewDraft) -> Result<SavedDraft, MailboxError> {
        self.mailboxes()?.save_draft(mailbox, draft).await
    }

    async fn delete_draft(&self, mailbox: &EmailAddress, uid: u32) -> Result<(), MailboxError> {
        self.mailboxes()?.delete_draft(mailbox, uid).await
    }

    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError> {
        self.mailboxes()?.purge(mailbox).await
    }

    async fn quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        if self.state().broken.contains(mailbox) {
            return Err(MailboxError::Unavailable("the server refused: no such home".to_owned()));
        }
        self.mailboxes()?.quota(mailbox).await
    }

    async fn recent_quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        if self.state().broken.contains(mailbox) {
            return self.quota(mailbox).await;
        }
        self.mailboxes()?.recent_quota(mailbox).await
    }

    async fn check(&self) -> Result<(), String> {
        self.mailboxes().map_err(|error| error.to_string())?.check().await
    }
}

/// Only the removal of a mailbox needs the mail server; all else works in the database.
#[async_trait]
impl Provisioning for Trouble {
    async fn put_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.behind.provisioning.put_domain(domain).await
    }

    async fn remove_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.behind.provisioning.remove_domain(domain).await
    }

    async fn new_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        self.behind.provisioning.new_mailbox(mailbox, quota_bytes).await
    }

    async fn set_quota(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        self.behind.provisioning.set_quota(mailbox, quota_bytes).await
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        self.behind.provisioning.put_mailbox(mailbox, quota_bytes).await
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.mailboxes().map_err(|error| ProvisioningError(error.to_string()))?;
        self.behind.provisioning.remove_mailbox(mailbox).await
    }

    async fn end_sessions(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.behind.provisioning.end_sessions(mailbox).await
    }

    async fn account_changed(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.behind.provisioning.account_changed(mailbox).await
    }

    async fn put_alias(&self, alias: &Alias) -> Result<(), ProvisioningError> {
        self.behind.provisioning.put_alias(alias).await
    }

    async fn remove_alias(&self, address: &EmailAddress) -> Result<(), ProvisioningError> {
        self.behind.provisioning.remove_alias(address).await
    }

    async fn remove_aliases_of(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.behind.provisioning.remove_aliases_of(domain).await
    }

    fn saves_sent(&self) -> bool {
        self.behind.provisioning.saves_sent()
    }

    async fn set_save_sent(&self, mailbox: &EmailAddress, save_sent: SaveSent) -> Result<(), ProvisioningError> {
        self.behind.provisioning.set_save_sent(mailbox, save_sent).await
    }

    fn check_rules(&self, rules: &RuleSet) -> Result<(), Violations> {
        self.behind.provisioning.check_rules(rules)
    }

    async fn put_rules(&self, mailbox: &EmailAddress, rules: &RuleSet) -> Result<(), ProvisioningError> {
        self.behind.provisioning.put_rules(mailbox, rules).await
    }

    fn looks_accounts_up(&self) -> bool {
        self.behind.provisioning.looks_accounts_up()
    }

    async fn domains(&self) -> Result<Option<Vec<DomainName>>, ProvisioningError> {
        self.behind.provisioning.domains().await
    }

    async fn mailboxes_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<KnownMailbox>>, ProvisioningError> {
        self.behind.provisioning.mailboxes_after(after, limit).await
    }
}

/// The mail server's own events come first. A position consists of the number of injected events that were read,
/// and the mail server's position.
#[async_trait]
impl DeliveryFeed for Trouble {
    fn name(&self) -> &str {
        self.behind.delivery_feed.name()
    }

    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError> {
        let (read, place) = parts(cursor);
        let mut batch = self.behind.delivery_feed.read_after(&place, max).await?;
        batch.notices.append(&mut self.state().notices);
        if !batch.events.is_empty() || batch.cursor != place {
            let cursor = joined(read, &batch.cursor);
            return Ok(FeedBatch { cursor, more: true, ..batch });
        }
        let events: Vec<_> = self.state().reported.iter().skip(read).take(max).cloned().collect();
        let cursor = if events.is_empty() { cursor.clone() } else { joined(read + events.len(), &place) };
        let (lines_read, more) = (batch.lines_read + events.len() as u64, !events.is_empty());
        Ok(FeedBatch { lines_read, more, events, cursor, ..batch })
    }

    async fn forget_until(&self, cursor: &FeedCursor) -> Result<(), FeedError> {
        self.behind.delivery_feed.forget_until(&parts(cursor).1).await
    }

    async fn stop(&self) -> Result<(), FeedError> {
        self.behind.delivery_feed.stop().await
    }

    async fn changed(&self) {
        self.behind.delivery_feed.changed().await;
    }

    async fn check(&self) -> Option<Result<(), String>> {
        self.behind.delivery_feed.check().await
    }

    async fn clock_ahead(&self) -> i64 {
        self.behind.delivery_feed.clock_ahead().await
    }

    async fn losses(&self) -> Option<String> {
        self.behind.delivery_feed.losses().await
    }

    async fn lost_parts(&self) -> Vec<LostPart> {
        let mut parts = self.behind.delivery_feed.lost_parts().await;
        parts.extend(self.state().lost.iter().cloned());
        parts
    }
}

fn parts(cursor: &FeedCursor) -> (usize, FeedCursor) {
    let (read, place) = cursor.0.split_once(' ').unwrap_or_default();
    (read.parse().unwrap_or(0), FeedCursor(place.to_owned()))
}

fn joined(read: usize, place: &FeedCursor) -> FeedCursor {
    FeedCursor(format!("{read} {}", place.0))
}
