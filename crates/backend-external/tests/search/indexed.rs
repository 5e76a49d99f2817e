//! A private Dovecot whose mailboxes are searched with an index.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use mailapi_backend::contract::Fixture;
use mailapi_backend::mime::{MessageStructure, SearchableText, matches, snippet};
use mailapi_backend::{Backend, FolderScope, Mailboxes, SearchHit, SearchQuery};
use mailapi_backend_external::mailboxes::{ImapMailboxes, MailboxSettings};
use mailapi_backend_external::search_index::{IndexUse, SearchIndex, SearchSettings};
use mailapi_model::{DomainName, EmailAddress, FolderName, Listed, MessageId, Page};
use mailapi_testkit::FakeClock;
use tempfile::TempDir;

use crate::fixture::{DovecotFixture, imap_settings, mailboxes, pool};

/// The fixture of the mailbox tests, with an index.
pub(crate) struct Indexed {
    pub(crate) server: DovecotFixture,
    pub(crate) mailboxes: Arc<ImapMailboxes>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) settings: SearchSettings,
    backend: Backend,
    directory: TempDir,
}

impl Indexed {
    pub(crate) async fn start() -> Self {
        Self::start_with("", |_| {}).await
    }

    pub(crate) async fn start_with(configuration: &str, change: impl FnOnce(&mut SearchSettings)) -> Self {
        let server = DovecotFixture::start_with(configuration, MailboxSettings::default()).await;
        let directory = TempDir::new().expect("a temporary directory");
        let mut settings = SearchSettings::new(directory.path().join("search-index"));
        settings.index = IndexUse::On;
        change(&mut settings);
        let clock = Arc::new(FakeClock::default());
        let mailboxes = Arc::new(searched(&server, &settings, &clock));
        let backend = Backend { mailboxes: mailboxes.clone(), ..server.backend().clone() };
        Self { server, mailboxes, clock, settings, backend, directory }
    }

    /// Creates another process with the same settings and files.
    pub(crate) fn another(&self) -> ImapMailboxes {
        searched(&self.server, &self.settings, &self.clock)
    }

    /// Ends the process: all files are closed.
    pub(crate) fn stop(&mut self) {
        self.mailboxes = self.server.mailboxes.clone();
        self.backend = self.server.backend().clone();
    }

    /// Ends the process if it is running, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.mailboxes = Arc::new(self.another());
        self.backend.mailboxes = self.mailboxes.clone();
    }

    /// Indexes everything that waits.
    pub(crate) async fn index_all(&self) {
        while self.mailboxes.index_once().await {}
    }

    /// Returns the index files of mailboxes.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.directory.path().join("search-index")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "index")).collect()
    }

    /// Returns the bytes of those files and their SQLite companions.
    pub(crate) fn room_taken(&self) -> u64 {
        let entries =
            std::fs::read_dir(&self.settings.directory).expect("a directory").map(|entry| entry.expect("an entry"));
        let of_mailboxes = entries.filter(|entry| entry.file_name().to_string_lossy().contains(".index"));
        of_mailboxes.map(|entry| entry.metadata().expect("its size").len()).sum()
    }

    pub(crate) async fn search(&self, mailbox: &EmailAddress, query: &SearchQuery) -> Listed<SearchHit> {
        self.mailboxes.search(mailbox, query).await.expect("a search that works")
    }

    /// Whether the index handled the search: the server searches the source of HTML, and the index its text.
    pub(crate) async fn answers_from_index(&self, mailbox: &EmailAddress) -> bool {
        let query = in_inbox("class=3Dmarked");
        self.search(mailbox, &query).await.total == 0
    }

    /// Reads over new connections: one with an open folder does not notice a renaming.
    pub(crate) fn reader(&self) -> ImapMailboxes {
        mailboxes(&pool(imap_settings(self.server.dovecot.imap().port())), MailboxSettings::default())
    }
}

/// Returns what reading every message of a folder finds, newest first.
pub(crate) async fn read_all(
    reader: &ImapMailboxes,
    mailbox: &EmailAddress,
    folder: &FolderName,
    text: &str,
) -> Vec<SearchHit> {
    let (wanted, mut hits, mut offset) = (text.parse().expect("a search text"), Vec::new(), 0);
    loop {
        let page = reader.list(mailbox, folder, Page::new(200, offset)).await.expect("a page");
        if page.items.is_empty() {
            return hits;
        }
        offset += page.items.len() as u64;
        for summary in page.items {
            let mut opened = reader.open_raw(mailbox, folder, summary.uid).await.expect("a message");
            let mut raw = Vec::new();
            while let Some(piece) = opened.content.next().await {
                raw.extend_from_slice(&piece.expect("bytes"));
            }
            let joined = SearchableText::of(&raw, &MessageStructure::of(&raw)).joined();
            if matches(&joined, &wanted) {
                let (from, subject, date) = (summary.from, summary.subject, summary.date);
                let snippet = snippet(&joined, &wanted);
                hits.push(SearchHit { uid: summary.uid, folder: folder.clone(), from, subject, date, snippet });
            }
        }
    }
}

fn searched(server: &DovecotFixture, settings: &SearchSettings, clock: &Arc<FakeClock>) -> ImapMailboxes {
    let pool = pool(imap_settings(server.dovecot.imap().port()));
    let index = SearchIndex::new(settings.clone(), clock.clone());
    mailboxes(&pool, MailboxSettings::default()).with_search_index(Arc::new(index))
}

/// Returns a search of INBOX.
pub(crate) fn in_inbox(text: &str) -> SearchQuery {
    query(text, FolderScope::One(FolderName::inbox()))
}

pub(crate) fn query(text: &str, scope: FolderScope) -> SearchQuery {
    SearchQuery { text: text.parse().expect("a search text"), scope, page: Page::new(200, 0) }
}

/// Returns a message whose HTML reveals whether the index or the server searched it.
pub(crate) fn marked(subject: &str, body: &str) -> Vec<u8> {
    format!(
        "From: Ann Lee <ann@elsewhere.example>\r\nTo: bob@example.org\r\nSubject: {subject}\r\n\
         Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
         <p class=3Dmarked>{body}</p>\r\n"
    )
    .into_bytes()
}

#[async_trait]
impl Fixture for Indexed {
    fn backend(&self) -> &Backend {
        &self.backend
    }

    fn domain(&self) -> &DomainName {
        self.server.domain()
    }

    fn new_message_id(&self) -> MessageId {
        self.server.new_message_id()
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) {
        self.server.put_mailbox(mailbox, quota_bytes).await;
        self.mailboxes.forget(mailbox);
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) {
        self.server.remove_mailbox(mailbox).await;
        self.mailboxes.forget(mailbox);
    }

    async fn deliver(&self, mailbox: &EmailAddress, message: &[u8]) {
        self.server.deliver(mailbox, message).await;
    }

    async fn create_folder(&self, mailbox: &EmailAddress, folder: &FolderName) {
        self.server.create_folder(mailbox, folder).await;
    }

    async fn set_flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, flags: &[&str]) {
        self.server.set_flags(mailbox, folder, uid, flags).await;
    }

    async fn move_message(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32, target: &FolderName) {
        self.server.move_message(mailbox, folder, uid, target).await;
    }

    async fn flags(&self, mailbox: &EmailAddress, folder: &FolderName, uid: u32) -> Vec<String> {
        self.server.flags(mailbox, folder, uid).await
    }

    async fn settle(&self) {}
}
