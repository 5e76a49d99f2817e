//! Accounts while the mail server does not report the usage of their mailboxes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{
    Backend, FolderInfo, FullMessage, MailboxError, Mailboxes, NewDraft, OpenedAttachment, OpenedMessage, PageView,
    Purged, SavedDraft, SearchHit, SearchQuery, Validator,
};
use mailapi_model::{AccountChange, EmailAddress, FolderName, Listed, Page, Quota, SecretText};
use mailapi_service::users::{CreateUser, UpdateUser, User, UserError, UserQuery};
use mailapi_service::{Caller, Parts, Service, Settings, Unavailable};
use mailapi_testkit::TestApp;

use crate::parts;

const NAMES: [&str; 6] = ["ann", "bob", "cid", "dan", "eve", "fay"];
/// Time that the service waits for mailboxes; in these stories, they answer at once or never.
const BRIEF: Duration = Duration::from_millis(200);
/// A longer time, for stories in which a slow machine must not use it up.
const AMPLE: Duration = Duration::from_secs(4);
/// Longer than any response takes on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(60);
const HELD: Quota = Quota { used_bytes: 700, messages: 7, limit_bytes: None };

fn address(name: &str) -> EmailAddress {
    format!("{name}@example.org").parse().unwrap()
}

/// Mailboxes with a usage of [`HELD`] each, unless a fault is set.
struct Held {
    trouble: Mutex<Trouble>,
    asked: Mutex<Vec<EmailAddress>>,
    /// Mailboxes queried for a list.
    listed: Mutex<Vec<EmailAddress>>,
}

#[derive(Default)]
struct Trouble {
    is_away: bool,
    server_hangs: bool,
    broken: HashSet<EmailAddress>,
    hanging: HashSet<EmailAddress>,
}

impl Held {
    fn go_away(&self) {
        self.trouble.lock().unwrap().is_away = true;
    }

    fn break_mailbox(&self, name: &str) {
        self.trouble.lock().unwrap().broken.insert(address(name));
    }

    /// Queries for this mailbox never return.
    fn hang_mailbox(&self, name: &str) {
        self.trouble.lock().unwrap().hanging.insert(address(name));
    }

    /// No query ever returns.
    fn hang(&self) {
        self.trouble.lock().unwrap().server_hangs = true;
    }

    fn hangs(&self, mailbox: &EmailAddress) -> bool {
        let trouble = self.trouble.lock().unwrap();
        trouble.server_hangs || trouble.hanging.contains(mailbox)
    }

    fn fails(&self, mailbox: &EmailAddress) -> bool {
        let trouble = self.trouble.lock().unwrap();
        trouble.is_away || trouble.broken.contains(mailbox)
    }

    /// Number of queries since the last call.
    fn asked(&self) -> usize {
        std::mem::take(&mut *self.asked.lock().unwrap()).len()
    }
}

#[async_trait]
impl Mailboxes for Held {
    async fn quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        self.asked.lock().unwrap().push(mailbox.clone());
        if self.hangs(mailbox) {
            std::future::pending::<()>().await;
        }
        if self.fails(mailbox) { Err(MailboxError::Unavailable("no answer".to_owned())) } else { Ok(HELD) }
    }

    async fn recent_quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        self.listed.lock().unwrap().push(mailbox.clone());
        self.quota(mailbox).await
    }

    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError> {
        if self.fails(mailbox) {
            return Err(MailboxError::Unavailable("no answer".to_owned()));
        }
        Ok(Purged { folders: 1, messages: HELD.messages })
    }

    async fn check(&self) -> Result<(), String> {
        if self.trouble.lock().unwrap().server_hangs {
            std::future::pending::<()>().await;
        }
        if self.trouble.lock().unwrap().is_away { Err("no answer".to_owned()) } else { Ok(()) }
    }

    async fn folders(&self, _: &EmailAddress) -> Result<Vec<FolderInfo>, MailboxError> {
        unreachable!("this test reads no mail")
    }

    async fn view(
        &self,
        _: &EmailAddress,
        _: &FolderName,
        _: Page,
        _: Option<Validator>,
    ) -> Result<PageView, MailboxError> {
        unreachable!("this test reads no mail")
    }

    async fn read(&self, _: &EmailAddress, _: &FolderName, _: u32) -> Result<FullMessage, MailboxError> {
        unreachable!("this test reads no mail")
    }

    async fn open_attachment(
        &self,
        _: &EmailAddress,
        _: &FolderName,
        _: u32,
        _: u32,
    ) -> Result<OpenedAttachment, MailboxError> {
        unreachable!("this test reads no mail")
    }

    async fn open_raw(&self, _: &EmailAddress, _: &FolderName, _: u32) -> Result<OpenedMessage, MailboxError> {
        unreachable!("this test reads no mail")
    }

    async fn search(&self, _: &EmailAddress, _: &SearchQuery) -> Result<Listed<SearchHit>, MailboxError> {
        unreachable!("this test reads no mail")
    }

    async fn drafts_folder(&self, _: &EmailAddress) -> Result<Option<FolderName>, MailboxError> {
        unreachable!("this test reads no mail")
    }

    async fn save_draft(&self, _: &EmailAddress, _: NewDraft) -> Result<SavedDraft, MailboxError> {
        unreachable!("this test writes no mail")
    }

    async fn delete_draft(&self, _: &EmailAddress, _: u32) -> Result<(), MailboxError> {
        unreachable!("this test writes no mail")
    }
}

struct Story {
    _app: TestApp,
    service: Service,
    mailboxes: Arc<Held>,
}

impl Story {
    /// Starts with some accounts, whose mailboxes answer.
    async fn begin() -> Self {
        Self::with_patience(BRIEF).await
    }

    async fn with_patience(quota_patience: Duration) -> Self {
        let app = TestApp::start().await;
        for name in NAMES {
            app.mailbox(address(name).as_str(), None).await;
        }
        let mailboxes = Arc::new(Held { trouble: Mutex::default(), asked: Mutex::default(), listed: Mutex::default() });
        let backend = Backend { mailboxes: mailboxes.clone(), ..app.mail_server.backend() };
        let settings = Settings { quota_patience, ..Settings::default() };
        let service = Service::new(Parts { backend, settings, ..parts(&app) });
        Self { _app: app, service, mailboxes }
    }

    /// All users by name, with their number of messages if available.
    async fn listed(&self) -> Vec<(String, Option<u64>)> {
        let operator = Caller::operator();
        let listing = self.service.list_users(&operator, UserQuery::default(), Page::new(50, 0));
        let listed = tokio::time::timeout(AT_ONCE, listing).await.expect("a list, even if the mail server hangs");
        let shown = |user: User| (user.account.email.to_string(), user.quota.map(|quota| quota.messages));
        let mut shown: Vec<_> = listed.unwrap().items.into_iter().map(shown).collect();
        shown.sort();
        shown
    }
}

fn everybody(known: impl Fn(&str) -> bool) -> Vec<(String, Option<u64>)> {
    NAMES.iter().map(|name| (address(name).to_string(), known(name).then_some(HELD.messages))).collect()
}

#[tokio::test]
async fn a_purge_that_the_mail_server_cannot_do_is_no_success() {
    let story = Story::begin().await;
    story.mailboxes.go_away();
    let purged = story.service.purge_user(&Caller::operator(), &address("ann")).await;
    assert!(matches!(purged, Err(UserError::Unavailable(Unavailable::Mailboxes(_)))), "{purged:?}");
}

#[tokio::test]
async fn a_mail_server_that_is_away_is_asked_once_a_list() {
    let story = Story::begin().await;
    assert_eq!(story.listed().await, everybody(|_| true));
    assert_eq!(story.mailboxes.asked(), NAMES.len());
    story.mailboxes.go_away();
    assert_eq!(story.listed().await, everybody(|_| false));
    assert_eq!(story.mailboxes.asked(), 1);
}

#[tokio::test]
async fn only_lists_show_what_mailboxes_held_a_while_ago() {
    let story = Story::begin().await;
    let (operator, ann) = (Caller::operator(), address("ann"));
    let listed = || std::mem::take(&mut *story.mailboxes.listed.lock().unwrap()).len();
    assert_eq!(story.listed().await, everybody(|_| true));
    assert_eq!(listed(), NAMES.len());
    story.service.get_user(&operator, &ann).await.unwrap();
    let record = AccountChange { name: Some("Ann Lee".to_owned()), ..AccountChange::default() };
    story.service.update_user(&operator, &ann, UpdateUser { record, password: None }).await.unwrap();
    assert_eq!(listed(), 0);
}

#[tokio::test]
async fn one_broken_mailbox_takes_nothing_from_the_others() {
    let story = Story::begin().await;
    story.mailboxes.break_mailbox("bob");
    assert_eq!(story.listed().await, everybody(|name| name != "bob"));
    assert_eq!(story.mailboxes.asked(), NAMES.len());
}

#[tokio::test]
async fn a_list_does_not_wait_for_each_hanging_mailbox_in_turn() {
    let story = Story::begin().await;
    for name in NAMES {
        story.mailboxes.hang_mailbox(name);
    }
    assert_eq!(story.listed().await, everybody(|_| false));
    let asked = story.mailboxes.asked();
    assert!((1..=4).contains(&asked), "{asked} questions until the patience was used up");
}

#[tokio::test]
async fn a_mail_server_that_hangs_is_asked_once_a_list() {
    let story = Story::begin().await;
    story.mailboxes.hang();
    assert_eq!(story.listed().await, everybody(|_| false));
    assert_eq!(story.mailboxes.asked(), 1);
}

#[tokio::test]
async fn one_mailbox_that_hangs_takes_nothing_from_the_others() {
    let story = Story::with_patience(AMPLE).await;
    story.mailboxes.hang_mailbox("cid");
    assert_eq!(story.listed().await, everybody(|name| name != "cid"));
    assert_eq!(story.mailboxes.asked(), NAMES.len());
}

#[tokio::test]
async fn an_account_with_a_hanging_mailbox_can_be_managed() {
    let story = Story::begin().await;
    story.mailboxes.hang_mailbox("ann");
    story.mailboxes.hang_mailbox("gus");
    let (operator, ann) = (Caller::operator(), address("ann"));
    let at_once = tokio::time::timeout(AT_ONCE, async {
        let password = SecretText::new("correct horse".to_owned());
        let new =
            CreateUser { email: address("gus"), password: password.into(), name: String::new(), quota_bytes: None };
        let made = story.service.create_user(&operator, new).await.unwrap();
        assert_eq!((made.account.email, made.quota), (address("gus"), None));
        assert!(!story.service.disable_user(&operator, &ann).await.unwrap().account.active);
        let seen = story.service.get_user(&operator, &ann).await.unwrap();
        assert_eq!((seen.account.active, seen.quota), (false, None));
    });
    at_once.await.expect("answers, even if the mail server hangs");
}

#[tokio::test]
async fn an_account_is_seen_and_changed_without_its_mailbox() {
    let story = Story::begin().await;
    story.mailboxes.go_away();
    let (operator, ann) = (Caller::operator(), address("ann"));
    let record = AccountChange { name: Some("Ann Lee".to_owned()), ..AccountChange::default() };
    let changed = story.service.update_user(&operator, &ann, UpdateUser { record, password: None }).await.unwrap();
    assert_eq!((changed.account.name.as_str(), changed.quota), ("Ann Lee", None));
    assert!(!story.service.disable_user(&operator, &ann).await.unwrap().account.active);
    let seen = story.service.get_user(&operator, &ann).await.unwrap();
    assert_eq!((seen.account.name.as_str(), seen.account.active, seen.quota), ("Ann Lee", false, None));
}

#[tokio::test]
async fn an_address_to_probe_exists_while_there_are_accounts() {
    let story = Story::begin().await;
    story.mailboxes.go_away();
    let (operator, newest) = (Caller::operator(), async || story.service.newest_mailbox().await.unwrap());
    let first = newest().await.unwrap();
    // Enabled accounts come first: the mail server may lack the others.
    story.service.disable_user(&operator, &first).await.unwrap();
    assert_ne!(newest().await, Some(first));
    for name in NAMES {
        story.service.disable_user(&operator, &address(name)).await.unwrap();
    }
    assert!(newest().await.is_some());
    assert_eq!(story.mailboxes.asked(), NAMES.len() + 1, "by the changes alone");
    for name in NAMES {
        story.service.delete_user(&operator, &address(name)).await.unwrap();
    }
    assert_eq!(newest().await, None);
}
