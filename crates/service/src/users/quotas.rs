//! What mailboxes hold, as far as the mail server tells. An account is ours, and is shown without it as well: one mailbox
//! that is broken, or a mail server that is away, keeps nobody from seeing and mending accounts.

use std::time::Duration;

use mailapi_backend::{MailboxError, Mailboxes};
use mailapi_model::{Account, Clock, EmailAddress, Quota};

use super::User;
use crate::{Inner, Service};

/// How long one list waits for mailboxes that then tell nothing, before it asks for no other.
const PATIENCE: Duration = Duration::from_secs(5);

impl Service {
    /// The account with what its mailbox holds.
    pub(super) async fn with_quota(&self, account: Account) -> User {
        let mut questions = Questions::new(&self.0);
        let user = self.user(account, &mut questions).await;
        questions.end();
        user
    }

    /// The accounts with what their mailboxes hold.
    pub(super) async fn with_quotas(&self, accounts: Vec<Account>) -> Vec<User> {
        let mut questions = Questions::new(&self.0);
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

/// Questions to the mail server for the accounts of one answer.
struct Questions<'a> {
    mailboxes: &'a dyn Mailboxes,
    clock: &'a dyn Clock,
    server: Server,
    patience: Duration,
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
    fn new(inner: &'a Inner) -> Self {
        let (mailboxes, clock) = (inner.backend.mailboxes.as_ref(), inner.clock.as_ref());
        Self { mailboxes, clock, server: Server::Answers, patience: PATIENCE, unknown: 0, first_failure: None }
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
            let is_away = self.patience.is_zero() || self.mailboxes.check().await.is_err();
            self.server = if is_away { Server::Away } else { Server::Answers };
        }
        matches!(self.server, Server::Answers)
    }

    async fn ask(&mut self, mailbox: &EmailAddress) -> Option<Quota> {
        let asked_at = self.clock.now();
        match self.mailboxes.quota(mailbox).await {
            Ok(quota) => Some(quota),
            // The account is there and its mailbox is not (yet): it holds nothing.
            Err(MailboxError::NoSuchMailbox) => Some(Quota::default()),
            Err(error) => {
                self.server = Server::Doubted;
                self.patience = self.patience.saturating_sub(self.clock.now().since(asked_at));
                self.first_failure.get_or_insert_with(|| (mailbox.clone(), error));
                None
            }
        }
    }

    /// Tells the log once of everything that was not answered.
    fn end(self) {
        if let Some((mailbox, error)) = self.first_failure {
            tracing::warn!(%mailbox, %error, unknown = self.unknown, "what mailboxes hold is not known");
        }
    }
}
