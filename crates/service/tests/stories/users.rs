//! Accounts while the mail server does not tell what their mailboxes hold.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{
    Backend, FolderInfo, FullMessage, MailboxError, Mailboxes, OpenedAttachment, OpenedMessage, PageMark, PageView,
    Purged, SearchHit, SearchQuery,
};
use mailapi_model::{AccountChange, EmailAddress, FolderName, Listed, Page, Quota};
use mailapi_service::users::{UpdateUser, User, UserError, UserQuery};
use mailapi_service::{Caller, Parts, Service, Settings, Unavailable};
use mailapi_testkit::{FakeClock, SeededEntropy, TestApp};

const NAMES: [&str; 4] = ["ann", "bob", "cid", "dan"];
const HELD: Quota = Quota { used_bytes: 700, messages: 7, limit_bytes: None };

fn address(name: &str) -> EmailAddress {
    format!("{name}@example.org").parse().unwrap()
}

/// Mailboxes that hold [`HELD`] each, where nothing is in the way.
struct Held {
    clock: Arc<FakeClock>,
    trouble: Mutex<Trouble>,
    asked: Mutex<Vec<EmailAddress>>,
}

#[derive(Default)]
struct Trouble {
    is_away: bool,
    broken: HashSet<EmailAddress>,
    /// How long it takes until a broken mailbox has failed.
    delay: Duration,
}

impl Held {
    fn go_away(&self) {
        self.trouble.lock().unwrap().is_away = true;
    }

    fn break_mailbox(&self, name: &str, delay: Duration) {
        let mut trouble = self.trouble.lock().unwrap();
        trouble.broken.insert(address(name));
        trouble.delay = delay;
    }

    fn failure(&self, mailbox: &EmailAddress) -> Option<Duration> {
        let trouble = self.trouble.lock().unwrap();
        (trouble.is_away || trouble.broken.contains(mailbox)).then_some(trouble.delay)
    }

    /// How many questions there were since the last look.
    fn asked(&self) -> usize {
        std::mem::take(&mut *self.asked.lock().unwrap()).len()
    }
}

#[async_trait]
impl Mailboxes for Held {
    async fn quota(&self, mailbox: &EmailAddress) -> Result<Quota, MailboxError> {
        self.asked.lock().unwrap().push(mailbox.clone());
        let Some(delay) = self.failure(mailbox) else { return Ok(HELD) };
        self.clock.advance(delay);
        Err(MailboxError::Unavailable("no answer".to_owned()))
    }

    async fn purge(&self, mailbox: &EmailAddress) -> Result<Purged, MailboxError> {
        match self.failure(mailbox) {
            Some(_) => Err(MailboxError::Unavailable("no answer".to_owned())),
            None => Ok(Purged { folders: 1, messages: HELD.messages }),
        }
    }

    async fn check(&self) -> Result<(), String> {
        if self.trouble.lock().unwrap().is_away { Err("no answer".to_owned()) } else { Ok(()) }
    }

    async fn folders(&self, _: &EmailAddress) -> Result<Vec<FolderInfo>, MailboxError> {
        unreachable!("nobody reads here")
    }

    async fn view(
        &self,
        _: &EmailAddress,
        _: &FolderName,
        _: Page,
        _: Option<PageMark>,
    ) -> Result<PageView, MailboxError> {
        unreachable!("nobody reads here")
    }

    async fn read(&self, _: &EmailAddress, _: &FolderName, _: u32) -> Result<FullMessage, MailboxError> {
        unreachable!("nobody reads here")
    }

    async fn open_attachment(
        &self,
        _: &EmailAddress,
        _: &FolderName,
        _: u32,
        _: u32,
    ) -> Result<OpenedAttachment, MailboxError> {
        unreachable!("nobody reads here")
    }

    async fn open_raw(&self, _: &EmailAddress, _: &FolderName, _: u32) -> Result<OpenedMessage, MailboxError> {
        unreachable!("nobody reads here")
    }

    async fn search(&self, _: &EmailAddress, _: &SearchQuery) -> Result<Listed<SearchHit>, MailboxError> {
        unreachable!("nobody reads here")
    }
}

struct Story {
    _app: TestApp,
    service: Service,
    mailboxes: Arc<Held>,
}

impl Story {
    /// Four accounts, whose mailboxes can be told of.
    async fn begin() -> Self {
        let app = TestApp::start().await;
        for name in NAMES {
            app.mailbox(address(name).as_str(), None).await;
        }
        let mailboxes = Arc::new(Held { clock: app.clock.clone(), trouble: Mutex::default(), asked: Mutex::default() });
        let service = Service::new(Parts {
            store: app.store.clone(),
            backend: Backend { mailboxes: mailboxes.clone(), ..app.mail_server.backend() },
            dns: app.dns.clone(),
            clock: app.clock.clone(),
            entropy: Arc::new(SeededEntropy::new(9)),
            spool: app.service.spool().clone(),
            settings: Settings::default(),
        });
        Self { _app: app, service, mailboxes }
    }

    /// Everybody by name, with how many messages they have where that is known.
    async fn listed(&self) -> Vec<(String, Option<u64>)> {
        let listed = self.service.list_users(&Caller::operator(), UserQuery::default(), Page::new(50, 0)).await;
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
async fn one_broken_mailbox_takes_nothing_from_the_others() {
    let story = Story::begin().await;
    story.mailboxes.break_mailbox("bob", Duration::ZERO);
    assert_eq!(story.listed().await, everybody(|name| name != "bob"));
    assert_eq!(story.mailboxes.asked(), NAMES.len());
}

#[tokio::test]
async fn nobody_waits_for_one_slow_failure_after_the_other() {
    let story = Story::begin().await;
    for name in NAMES {
        story.mailboxes.break_mailbox(name, Duration::from_secs(60));
    }
    assert_eq!(story.listed().await, everybody(|_| false));
    assert_eq!(story.mailboxes.asked(), 1);
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
async fn there_is_an_address_to_examine_the_mail_server_with_as_long_as_there_are_accounts() {
    let story = Story::begin().await;
    story.mailboxes.go_away();
    let (operator, newest) = (Caller::operator(), async || story.service.newest_mailbox().await.unwrap());
    let first = newest().await.unwrap();
    // Somebody who is enabled comes first: the mail server may know nothing of the others.
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
