//! Usage of mailboxes as reported by the mail server. Accounts are returned even without it: a broken mailbox or an
//! unreachable mail server must not block the administration of accounts.

use std::time::Duration;

use mailapi_backend::{MailboxError, Mailboxes};
use mailapi_model::{Account, EmailAddress, Quota};
use tokio::time::{Instant, timeout};

use super::User;
use crate::{Inner, Service};

/// Number of hanging mailboxes that use up the time of one list; fewer do not affect the others.
const HANGING_MAILBOXES: u32 = 4;

impl Service {
    /// Adds the usage of its mailbox to an account.
    pub(super) async fn with_quota(&self, account: Account) -> User {
        let mut questions = Questions::about_one(&self.0);
        let user = self.user(account, &mut questions).await;
        questions.end();
        user
    }

    /// Adds the usage of their mailboxes to accounts.
    pub(super) async fn with_quotas(&self, accounts: Vec<Account>) -> Vec<User> {
        let mut questions = Questions::about_many(&self.0);
        let mut users = Vec::with_capacity(accounts.len());
        for account in accounts {
            users.push(self.user(account, &mut questions).await);
        }
        questions.end();
        users
    }

    async fn user(&self, account: Account, questions: &mut Questions<'_>) -> User {
        let is_admin = self.0.settings.admins.contains(&account.email);
        let quota = questions.quota(&account.email).await;
        User { account, is_admin, quota }
    }
}

/// Returns the usage of a mailbox if the mail server answers in time.
pub(super) async fn in_time(
    asking: impl Future<Output = Result<Quota, MailboxError>>,
    time: Duration,
) -> Result<Quota, MailboxError> {
    match timeout(time, asking).await {
        // The account exists without a mailbox (yet), which is empty then.
        Ok(Err(MailboxError::NoSuchMailbox)) => Ok(Quota::default()),
        Ok(answer) => answer,
        Err(_) => Err(MailboxError::Unavailable(format!("no answer within {time:?}"))),
    }
}

/// Queries to the mail server for the accounts of one response.
struct Questions<'a> {
    mailboxes: &'a dyn Mailboxes,
    /// Whether results may be slightly outdated, since a list has many mailboxes.
    for_list: bool,
    server: Server,
    /// Remaining time for mailboxes that do not answer.
    patience: Duration,
    /// Maximum time for one mailbox.
    share: Duration,
    /// Number of mailboxes without a result.
    unknown: usize,
    first_failure: Option<(EmailAddress, MailboxError)>,
}

/// The presumed state of the mail server.
enum Server {
    Answers,
    /// The last query failed: either that mailbox is broken, or the server is unreachable.
    Doubted,
    Away,
}

impl<'a> Questions<'a> {
    fn about_one(inner: &'a Inner) -> Self {
        let patience = inner.settings.quota_patience;
        let mailboxes = inner.backend.mailboxes.as_ref();
        Self {
            mailboxes,
            for_list: false,
            server: Server::Answers,
            patience,
            share: patience,
            unknown: 0,
            first_failure: None,
        }
    }

    fn about_many(inner: &'a Inner) -> Self {
        let one = Self::about_one(inner);
        Self { for_list: true, share: one.patience / HANGING_MAILBOXES, ..one }
    }

    /// Returns the usage of a mailbox; `None` if the mail server does not answer.
    async fn quota(&mut self, mailbox: &EmailAddress) -> Option<Quota> {
        let quota = if self.may_ask().await { self.ask(mailbox).await } else { None };
        self.unknown += usize::from(quota.is_none());
        quota
    }

    /// Whether to query the next mailbox. An unreachable server is not queried: each query could cost a time-out.
    async fn may_ask(&mut self) -> bool {
        if matches!(self.server, Server::Doubted) {
            self.server = if self.is_there().await { Server::Answers } else { Server::Away };
        }
        matches!(self.server, Server::Answers)
    }

    /// Whether the server itself still answers, and time is left for more queries.
    async fn is_there(&mut self) -> bool {
        if self.patience.is_zero() {
            return false;
        }
        let asked_at = Instant::now();
        let checked = timeout(self.patience, self.mailboxes.check()).await;
        self.wait_less(asked_at);
        matches!(checked, Ok(Ok(()))) && !self.patience.is_zero()
    }

    async fn ask(&mut self, mailbox: &EmailAddress) -> Option<Quota> {
        let asked_at = Instant::now();
        let asking = match self.for_list {
            true => self.mailboxes.recent_quota(mailbox),
            false => self.mailboxes.quota(mailbox),
        };
        match in_time(asking, self.share.min(self.patience)).await {
            Ok(quota) => Some(quota),
            Err(error) => {
                self.server = Server::Doubted;
                self.wait_less(asked_at);
                self.first_failure.get_or_insert_with(|| (mailbox.clone(), error));
                None
            }
        }
    }

    fn wait_less(&mut self, since: Instant) {
        self.patience = self.patience.saturating_sub(since.elapsed());
    }

    /// Logs all failures in one line.
    fn end(self) {
        if let Some((mailbox, error)) = self.first_failure {
            tracing::warn!(%mailbox, %error, unknown = self.unknown, "mailbox usage unavailable");
        }
    }
}
