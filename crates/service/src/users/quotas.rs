//! What mailboxes hold, as far as the mail server tells. An account is ours, and is shown without it as well: one mailbox
//! that is broken, or a mail server that is away, keeps nobody from seeing and mending accounts.

use std::time::Duration;

use mailapi_backend::{MailboxError, Mailboxes};
use mailapi_model::{Account, EmailAddress, Quota};
use tokio::time::{Instant, timeout};

use super::User;
use crate::{Inner, Service};

/// So many mailboxes that hang use up the patience of one list; fewer take nothing from the others.
const HANGING_MAILBOXES: u32 = 4;

impl Service {
    /// The account with what its mailbox holds.
    pub(super) async fn with_quota(&self, account: Account) -> User {
        let mut questions = Questions::about_one(&self.0);
        let user = self.user(account, &mut questions).await;
        questions.end();
        user
    }

    /// The accounts with what their mailboxes hold.
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

/// What the mailbox holds, if the mail server tells in time.
pub(super) async fn in_time(
    asking: impl Future<Output = Result<Quota, MailboxError>>,
    time: Duration,
) -> Result<Quota, MailboxError> {
    match timeout(time, asking).await {
        // The account is there and its mailbox is not (yet): it holds nothing.
        Ok(Err(MailboxError::NoSuchMailbox)) => Ok(Quota::default()),
        Ok(answer) => answer,
        Err(_) => Err(MailboxError::Unavailable(format!("no answer within {time:?}"))),
    }
}

/// Questions to the mail server for the accounts of one answer.
struct Questions<'a> {
    mailboxes: &'a dyn Mailboxes,
    /// Whether answers may be a little old: a list is about many mailboxes.
    for_list: bool,
    server: Server,
    /// How much longer mailboxes are waited for that then tell nothing.
    patience: Duration,
    /// How much of it one mailbox may take.
    share: Duration,
    /// How many mailboxes nothing is known of.
    unknown: usize,
    first_failure: Option<(EmailAddress, MailboxError)>,
}

/// What is thought of the mail server.
enum Server {
    Answers,
    /// It failed with the last mailbox: that one is broken, or the whole server is away.
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

    /// What the mailbox holds; `None` when the mail server does not tell.
    async fn quota(&mut self, mailbox: &EmailAddress) -> Option<Quota> {
        let quota = if self.may_ask().await { self.ask(mailbox).await } else { None };
        self.unknown += usize::from(quota.is_none());
        quota
    }

    /// A server that is away is not asked for each mailbox: that could cost a time-out each.
    async fn may_ask(&mut self) -> bool {
        if matches!(self.server, Server::Doubted) {
            self.server = if self.is_there().await { Server::Answers } else { Server::Away };
        }
        matches!(self.server, Server::Answers)
    }

    /// Whether the server itself still answers, with patience left to ask it for more.
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

    /// Tells the log once of everything that was not answered.
    fn end(self) {
        if let Some((mailbox, error)) = self.first_failure {
            tracing::warn!(%mailbox, %error, unknown = self.unknown, "what mailboxes hold is not known");
        }
    }
}
