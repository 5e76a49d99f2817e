//! The port on a private Dovecot. Dovecot's administration commands act as the mail clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::contract::Fixture;
use mailapi_backend::{
    Accepted, Attempt, Backend, DeliveryFeed, FeedBatch, FeedError, MailboxError, Mailboxes, MessageSummary, PageView,
    Provisioning, ProvisioningError, Record, Submission, SubmitError, Validator,
};
use mailapi_backend_external::imap_pool::{ImapPool, ImapSettings};
use mailapi_backend_external::mailboxes::{ImapMailboxes, ImapPurge, MailboxSettings};
use mailapi_backend_external::queue::PostfixQueue;
use mailapi_model::{
    Blob, DomainName, EmailAddress, Envelope, FeedCursor, FolderName, Listed, MessageId, Page, Secret, Timestamp,
};
use mailapi_testkit::{Dovecot, SeededEntropy};
use mailapi_tls::{Trust, client_config};

/// Dovecot and the port that reads it.
pub(crate) struct DovecotFixture {
    pub(crate) dovecot: Dovecot,
    pub(crate) mailboxes: Arc<ImapMailboxes>,
    backend: Backend,
    domain: DomainName,
    entropy: SeededEntropy,
}

/// Returns settings for a server on this port.
pub(crate) fn imap_settings(port: u16) -> ImapSettings {
    let password = Secret::new(Dovecot::MASTER_PASSWORD.to_owned());
    let settings = ImapSettings::new("127.0.0.1", port, Dovecot::MASTER_USER, password);
    // Mailboxes are created and removed within a test.
    ImapSettings { unknown_mailbox_pause: Duration::ZERO, ..settings }
}

/// Returns a pool with these settings.
pub(crate) fn pool(settings: ImapSettings) -> ImapPool {
    ImapPool::new(settings, client_config(&Trust::System).expect("the system's trusted certificates load"))
}

/// Returns the port over this pool.
pub(crate) fn mailboxes(pool: &ImapPool, settings: MailboxSettings) -> ImapMailboxes {
    ImapMailboxes::new(pool.clone(), settings, Arc::new(ImapPurge::new(pool.clone())))
}

/// Lists pages as the API does: an unchanged page is the one that was shown before.
#[derive(Default)]
pub(crate) struct PageReader {
    shown: Mutex<HashMap<PageKey, (Validator, Listed<MessageSummary>)>>,
}

/// Mailbox, folder, limit and offset.
type PageKey = (EmailAddress, FolderName, u32, u64);

impl PageReader {
    pub(crate) async fn list(
        &self,
        mailboxes: &ImapMailboxes,
        mailbox: &EmailAddress,
        folder: &FolderName,
        page: Page,
    ) -> Result<Listed<MessageSummary>, MailboxError> {
        let key = (mailbox.clone(), folder.clone(), page.limit(), page.offset());
        let shown = self.shown.lock().expect("no test panicked").get(&key).cloned();
        let seen = shown.as_ref().map(|(validator, _)| *validator);
        match (mailboxes.view(mailbox, folder, page, seen).await?, shown) {
            (PageView::Now { listed, validator }, _) => {
                let now = validator.map(|validator| (key, (validator, listed.clone())));
                self.shown.lock().expect("no test panicked").extend(now);
                Ok(listed)
            }
            (PageView::Unchanged, Some((_, listed))) => Ok(listed),
            (PageView::Unchanged, None) => panic!("a page is unchanged that was never shown"),
        }
    }
}

impl DovecotFixture {
    pub(crate) async fn start() -> Self {
        Self::start_with("", MailboxSettings::default()).await
    }

    pub(crate) async fn start_with(configuration: &str, settings: MailboxSettings) -> Self {
        let dovecot = Dovecot::start_with(configuration).await;
        let pool = pool(imap_settings(dovecot.imap().port()));
        let mailboxes = Arc::new(mailboxes(&pool, settings));
        let other = Arc::new(OtherFaces);
        let backend = Backend {
            submission: other.clone(),
            mailboxes: mailboxes.clone(),
            delivery_feed: other.clone(),
            bounce_feed: None,
            provisioning: other,
            queue: Arc::new(PostfixQueue::default()),
        };
        let domain = "example.org".parse().expect("a domain");
        Self { dovecot, mailboxes, backend, domain, entropy: SeededEntropy::default() }
    }

    /// Creates a mailbox with these messages in its INBOX.
    pub(crate) async fn mailbox_with(&self, local: &str, messages: &[&[u8]]) -> EmailAddress {
        let mailbox: EmailAddress = format!("{local}@{}", self.domain).parse().expect("an address");
        self.put_mailbox(&mailbox, None).await;
        for message in messages {
            self.deliver(&mailbox, message).await;
        }
        mailbox
    }
}

#[async_trait]
impl Fixture for DovecotFixture {
    fn backend(&self) -> &Backend {
        &self.backend
    }

    fn domain(&self) -> &DomainName {
        &self.domain
    }

    fn new_message_id(&self) -> MessageId {
        MessageId::random(Timestamp::from_millis(0), &self.entropy)
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) {
        self.dovecot.put_mailbox(mailbox.as_str(), quota_bytes);
        // Dovecot applies a quota at login.
        self.mailboxes.forget(mailbox);
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) {
        self.dovecot.remove_mailbox(mailbox.as_str());
        self.mailboxes.forget(mailbox);
    }

    async fn deliver(&self, mailbox: &EmailAddress, message: &[u8]) {
        self.dovecot.deliver(mailbox.as_str(), message).await;
    }

    async fn create_folder(&self, mailbox: &EmailAddress, folder: &FolderName) {
        self.dovecot.create_folder(mailbox.as_str(), folder.as_str());
    }

    async fn set_flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, flags: &[&str]) {
        self.dovecot.set_flags(mailbox.as_str(), folder.as_str(), uid, flags);
    }

    async fn move_message(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, target: &FolderName) {
        self.dovecot.move_message(mailbox.as_str(), folder.as_str(), uid, target.as_str());
    }

    async fn flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Vec<String> {
        self.dovecot.flags(mailbox.as_str(), folder.as_str(), uid)
    }

    async fn settle(&self) {}
}

/// The parts of the backend that these tests do not use.
struct OtherFaces;

#[async_trait]
impl Submission for OtherFaces {
    async fn submit(&self, _: Envelope, _: Blob, _: &dyn Record) -> Result<Accepted, SubmitError> {
        unreachable!("nothing is sent here")
    }

    async fn find(&self, _: &Attempt) -> Result<Option<Accepted>, SubmitError> {
        unreachable!("nothing is sent here")
    }

    async fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

#[async_trait]
impl DeliveryFeed for OtherFaces {
    fn name(&self) -> &str {
        "none"
    }

    async fn read_after(&self, _: &FeedCursor, _: usize) -> Result<FeedBatch, FeedError> {
        unreachable!("nothing is sent here")
    }

    async fn forget_until(&self, _: &FeedCursor) -> Result<(), FeedError> {
        Ok(())
    }

    async fn changed(&self) {}
}

#[async_trait]
impl Provisioning for OtherFaces {
    async fn put_domain(&self, _: &DomainName) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn remove_domain(&self, _: &DomainName) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn put_mailbox(&self, _: &EmailAddress, _: Option<u64>) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn remove_mailbox(&self, _: &EmailAddress) -> Result<(), ProvisioningError> {
        Ok(())
    }
}
