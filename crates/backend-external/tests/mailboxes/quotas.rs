//! The quotas in a list of users, and the requests that they cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use mailapi_backend::{MailboxError, Mailboxes, Purged};
use mailapi_backend_external::imap_pool::ImapSettings;
use mailapi_backend_external::mailboxes::{ImapMailboxes, MailboxSettings, Purge};
use mailapi_model::{EmailAddress, Quota};
use mailapi_testkit::scripted_imap::{LOGIN, ScriptedServer};

use crate::fixture::{imap_settings, pool};

/// After this time a list refreshes its cached quota in the background.
const A_MOMENT: Duration = Duration::from_secs(10);

/// Long enough for a server in this process to respond under load.
const PATIENCE: Duration = Duration::from_secs(60);

fn bob() -> EmailAddress {
    "bob@example.org".parse().unwrap()
}

/// Returns the server's response for a mailbox with this many messages of ten bytes.
fn holds(messages: u64) -> String {
    let size = messages * 10;
    format!(
        "C: LIST \"\" \"*\"\nS: * LIST () \"/\" INBOX\n\
         S: * STATUS INBOX (MESSAGES {messages} UNSEEN 0 SIZE {size})\nS: {{tag}} OK"
    )
}

fn quota(messages: u64) -> Quota {
    Quota { used_bytes: messages * 10, messages, limit_bytes: None }
}

struct Setup {
    server: ScriptedServer,
    mailboxes: ImapMailboxes,
    purge: Arc<OtherPurge>,
}

/// A purge that does not use IMAP.
#[derive(Default)]
struct OtherPurge {
    fails: AtomicBool,
}

#[async_trait]
impl Purge for OtherPurge {
    async fn purge(&self, _: &EmailAddress) -> Result<Purged, MailboxError> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(MailboxError::Unavailable("it broke off".to_owned())),
            false => Ok(Purged { folders: 1, messages: 3 }),
        }
    }
}

impl Setup {
    /// Starts a server whose connections begin with a login and play these scripts.
    async fn start(scripts: &[&[&str]]) -> Self {
        let scripts: Vec<String> = scripts.iter().map(|script| format!("{LOGIN}\n{}", script.join("\n"))).collect();
        let server = ScriptedServer::start(&scripts).await;
        let settings = ImapSettings { silence_timeout: PATIENCE, ..imap_settings(server.port) };
        let purge = Arc::new(OtherPurge::default());
        let mailboxes = ImapMailboxes::new(pool(settings), MailboxSettings::default(), purge.clone());
        Self { server, mailboxes, purge }
    }

    async fn listed(&self) -> Result<Quota, MailboxError> {
        tokio::time::timeout(PATIENCE, self.mailboxes.recent_quota(&bob())).await.expect("an answer in time")
    }

    /// Returns what a list shows without waiting for the server.
    fn listed_at_once(&self) -> Quota {
        let answer = self.mailboxes.recent_quota(&bob()).now_or_never();
        answer.expect("an answer without a wait").expect("a quota")
    }

    /// Waits until a list shows this quota.
    async fn watch(&self, expected: Quota) {
        let watching = async {
            while self.listed_at_once() != expected {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, watching).await.expect("the response after the list");
        self.server.assert_no_surprise();
    }
}

/// Advances the time of the cache.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_list_shows_what_was_held_and_asks_behind_its_answer() {
    let setup = Setup::start(&[&[&holds(1), &holds(2), "hang"]]).await;
    assert_eq!(setup.listed().await, Ok(quota(1)));
    assert_eq!(setup.listed_at_once(), quota(1));
    pass(A_MOMENT).await;
    assert_eq!(setup.listed_at_once(), quota(1), "the server gets the request after the response");
    setup.watch(quota(2)).await;
    assert_eq!(setup.server.connections(), 1);
}

#[tokio::test]
async fn a_list_of_ten_mailboxes_costs_the_server_ten_questions() {
    let setup = Setup::start(&[&[&holds(1), "hang"]]).await;
    let mailboxes: Vec<EmailAddress> = (0..10).map(|n| format!("user{n}@example.org").parse().unwrap()).collect();
    for mailbox in &mailboxes {
        let listed = tokio::time::timeout(PATIENCE, setup.mailboxes.recent_quota(mailbox)).await;
        assert_eq!(listed.expect("an answer in time"), Ok(quota(1)));
    }
    assert_eq!(setup.server.connections(), 10);
    // However often it is loaded, its answer waits for nothing, and no further question is a surprise to the server.
    for mailbox in mailboxes.iter().cycle().take(1_000) {
        assert_eq!(setup.mailboxes.recent_quota(mailbox).now_or_never(), Some(Ok(quota(1))));
    }
    setup.server.assert_no_surprise();
    assert_eq!(setup.server.connections(), 10);
}

#[tokio::test]
async fn a_list_is_exact_after_a_change_of_the_mailbox() {
    let setup = Setup::start(&[&[&holds(1), "hang"], &[&holds(0), "hang"]]).await;
    assert_eq!(setup.listed().await, Ok(quota(1)));
    setup.mailboxes.forget(&bob());
    assert_eq!(setup.listed().await, Ok(quota(0)));
    setup.server.assert_no_surprise();
}

#[tokio::test]
async fn a_list_is_exact_after_a_purge() {
    let setup = Setup::start(&[&[&holds(3), &holds(0), "hang"]]).await;
    assert_eq!(setup.listed().await, Ok(quota(3)));
    assert!(setup.mailboxes.purge(&bob()).await.is_ok());
    assert_eq!(setup.listed().await, Ok(quota(0)));
    setup.server.assert_no_surprise();
}

#[tokio::test]
async fn a_list_is_exact_after_a_purge_that_broke_off() {
    let setup = Setup::start(&[&[&holds(3), &holds(1), "hang"]]).await;
    assert_eq!(setup.listed().await, Ok(quota(3)));
    setup.purge.fails.store(true, Ordering::SeqCst);
    assert!(setup.mailboxes.purge(&bob()).await.is_err());
    assert_eq!(setup.listed().await, Ok(quota(1)));
    setup.server.assert_no_surprise();
}

#[tokio::test]
async fn a_question_about_one_mailbox_always_reaches_the_server() {
    let setup = Setup::start(&[&[&holds(1), &holds(2), "hang"]]).await;
    assert_eq!(setup.listed().await, Ok(quota(1)));
    assert_eq!(setup.mailboxes.quota(&bob()).await, Ok(quota(2)));
    assert_eq!(setup.listed_at_once(), quota(2));
    setup.server.assert_no_surprise();
}
