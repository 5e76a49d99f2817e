//! Login with address and password, at every listener.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{LoggedIn, Login, LoginError, SendAsError, SendLimitReached, Validator};
use mailapi_events::{EventType, user_event};
use mailapi_metrics::LogIn;
use mailapi_model::{
    AppPasswordId, Credentials, Denied, EmailAddress, Grants, PasswordRule, SecretText, SendAs, StoredAppPassword,
    TokenKind, Visitor,
};
use mailapi_store::Verified;

use super::failures::{Attempt, Barred};
use super::hash_fault::hash_fault;
use super::hashing::Share;
use super::password::is_cheap;
use crate::error::store_errors_are_unavailable;
use crate::mail::SendError;
use crate::users::Found;
use crate::{Service, Unavailable};

/// The reason why a login was rejected.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// Unknown address, wrong password or disabled mailbox. The cases are not distinguished on purpose.
    #[error("address or password is wrong")]
    Refused,
    /// Too many failures for this mailbox.
    #[error("too many failed logins; try again later")]
    Locked {
        /// Time until the mailbox is unlocked.
        remaining: Duration,
    },
    /// Too many failures from this client, over all mailboxes.
    #[error("too many failed logins from this address; try again later")]
    TooManyFromClient {
        /// Time until the client is accepted again.
        remaining: Duration,
    },
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(CredentialsError);

impl From<Barred> for CredentialsError {
    fn from(barred: Barred) -> Self {
        match barred {
            Barred::Mailbox(remaining) => Self::Locked { remaining },
            Barred::Client(remaining) => Self::TooManyFromClient { remaining },
        }
    }
}

#[async_trait]
impl Login for Service {
    async fn log_in(&self, user: &str, password: &SecretText, from: Visitor) -> Result<LoggedIn, LoginError> {
        let accounts = self.0.epoch.validator();
        let entered = async {
            match self.check_mail_program(user, password, from).await? {
                Entered::Password(checked) => {
                    let (email, now) = (&checked.credentials.email, self.0.clock.now());
                    // Hashing takes time, so the password may have changed since it was read.
                    if !self.0.store.accounts().note_login(email, checked.verified(), now).await? {
                        return Err(CredentialsError::Refused);
                    }
                    self.logged_in(&checked.credentials, None, accounts).await
                }
                Entered::AppPassword(StoredAppPassword { id, credentials }) => {
                    // Mail programs log in often, so the use is written later with others.
                    self.0.app_passwords_used.note(id, self.0.clock.now());
                    self.logged_in(&credentials, Some(id), accounts).await
                }
            }
        };
        entered.await.map_err(login_error)
    }

    async fn renew(&self, session: &mut LoggedIn) -> Result<(), LoginError> {
        let accounts = self.0.epoch.validator();
        // No account, token, permission or domain has changed: the session is still valid.
        if session.accounts == accounts {
            return Ok(());
        }
        let renewed = async {
            let mailbox = session.grants.mailbox().ok_or(CredentialsError::Refused)?;
            let stored = match session.app_password {
                None => self.0.store.accounts().credentials(mailbox).await?,
                Some(id) => self.0.store.app_passwords().get(mailbox, id).await?.map(|stored| stored.credentials),
            };
            let same = |stored: &Credentials| stored.active && password_validator(stored) == session.password;
            let credentials = stored.filter(same).ok_or(CredentialsError::Refused)?;
            self.logged_in(&credentials, session.app_password, accounts).await
        };
        *session = renewed.await.map_err(login_error)?;
        Ok(())
    }

    async fn may_send_as(&self, grants: &Grants, address: &EmailAddress) -> Result<SendAs, SendAsError> {
        self.sender(grants, address).await.map_err(|error| match error {
            SendError::SenderNotAuthorized => SendAsError::Denied(Denied),
            error => {
                tracing::error!(%error, "could not check the right to send");
                SendAsError::Unavailable
            }
        })
    }

    async fn may_send_to(&self, grants: &Grants, recipients: &[EmailAddress]) -> Result<(), SendLimitReached> {
        self.count_send(grants, recipients)
    }
}

fn login_error(error: CredentialsError) -> LoginError {
    match error {
        CredentialsError::Refused => LoginError::Refused,
        CredentialsError::Locked { .. } | CredentialsError::TooManyFromClient { .. } => LoginError::Locked,
        CredentialsError::Unavailable(error) => {
            tracing::error!(%error, "could not complete a login");
            LoginError::Unavailable
        }
    }
}

/// An account whose address and password were verified.
pub(crate) struct Checked {
    pub(crate) credentials: Credentials,
    /// Whether the password is stored in an external user database.
    is_elsewhere: bool,
}

impl Checked {
    /// The value that the password was verified against. Changes that rely on the login apply only while it is
    /// unchanged.
    pub(crate) const fn verified(&self) -> Verified<'_> {
        if self.is_elsewhere { Verified::Elsewhere } else { Verified::Hash(&self.credentials.password_hash) }
    }
}

/// What a mail program logged in with.
enum Entered {
    Password(Checked),
    AppPassword(StoredAppPassword),
}

/// The account or the app password that the credentials of a login belong to.
enum Matching {
    Account(Found),
    AppPassword(StoredAppPassword),
}

/// Distinguishes successive passwords of an account, and logins before and after it was disabled. It is a hash
/// of the salted hash, and stays in this process.
fn password_validator(credentials: &Credentials) -> Validator {
    let mut hasher = DefaultHasher::new();
    credentials.password_hash.expose().hash(&mut hasher);
    credentials.sessions_ended.hash(&mut hasher);
    Validator::new([hasher.finish(), 0])
}

/// Logs a failure with the client's address, in the format of the fail2ban filter in `docs/`. Text that is not an
/// address is omitted: users may type their password into the wrong field.
fn log_failure(user: &str, from: Visitor, error: &CredentialsError) {
    let reason = match error {
        CredentialsError::Refused => "refused",
        CredentialsError::Locked { .. } => "locked",
        CredentialsError::TooManyFromClient { .. } => "client delayed",
        CredentialsError::Unavailable(_) => return,
    };
    let address = user.parse::<EmailAddress>().ok();
    let mailbox = address.as_ref().map_or("-", EmailAddress::as_str);
    tracing::info!(
        target: "mailapi::log_in",
        door = from.protocol.as_str(), client = %from.address, reason, mailbox, "login failed"
    );
}

impl Service {
    /// Creates the session. `accounts` must have been taken before the credentials were read.
    async fn logged_in(
        &self,
        credentials: &Credentials,
        app_password: Option<AppPasswordId>,
        accounts: Validator,
    ) -> Result<LoggedIn, CredentialsError> {
        // A user token of an admin may create app passwords, so they give no more rights than such a token.
        let kind = if app_password.is_some() { TokenKind::User } else { TokenKind::Admin };
        let grants = self.grants_of(&credentials.email, kind).await?;
        Ok(LoggedIn { grants, accounts, password: password_validator(credentials), app_password })
    }

    /// Returns the account with this address and password. Logs a failure; the caller records a success.
    pub(crate) async fn check_credentials(
        &self,
        user: &str,
        password: &SecretText,
        from: Visitor,
    ) -> Result<Checked, CredentialsError> {
        let checked = async {
            let attempt = self.0.failed_logins.attempt(user, password, from);
            let found = self.judged(user, attempt, self.matching_account(user, password, from.into())).await?;
            self.checked(found, password, from.into()).await
        };
        self.reported(user, from, checked.await)
    }

    /// As [`Service::check_credentials`], at a listener that accepts app passwords.
    async fn check_mail_program(
        &self,
        user: &str,
        password: &SecretText,
        from: Visitor,
    ) -> Result<Entered, CredentialsError> {
        let checked = async {
            let attempt = self.0.failed_logins.attempt(user, password, from);
            match self.judged(user, attempt, self.matching(user, password, from.into())).await? {
                Matching::AppPassword(stored) => Ok(Entered::AppPassword(stored)),
                Matching::Account(found) => self.checked(found, password, from.into()).await.map(Entered::Password),
            }
        };
        self.reported(user, from, checked.await)
    }

    /// Counts the outcome of a login, and logs a failure.
    pub(super) fn reported<T>(
        &self,
        user: &str,
        from: Visitor,
        checked: Result<T, CredentialsError>,
    ) -> Result<T, CredentialsError> {
        self.0.metrics.count_log_in(match &checked {
            Ok(_) => LogIn::Accepted,
            Err(CredentialsError::Refused) => LogIn::Refused,
            Err(CredentialsError::Locked { .. }) => LogIn::Locked,
            Err(CredentialsError::TooManyFromClient { .. }) => LogIn::ClientDelayed,
            Err(CredentialsError::Unavailable(_)) => LogIn::Unavailable,
        });
        if let Err(error) = &checked {
            log_failure(user, from, error);
        }
        checked
    }

    /// Returns what the credentials match, unless too many failures bar the login. Unknown addresses are locked like
    /// existing ones and take the same time.
    async fn judged<T>(
        &self,
        user: &str,
        attempt: Attempt,
        matching: impl Future<Output = Result<Option<T>, Unavailable>>,
    ) -> Result<T, CredentialsError> {
        let judged = self.judged_attempt(&attempt, matching).await;
        if matches!(judged, Err(CredentialsError::Refused)) && attempt.is_at_api() {
            self.report_lock(user, &attempt, self.0.clock.steady());
        }
        judged
    }

    /// Returns what an attempt matches, and counts its outcome.
    pub(super) async fn judged_attempt<T>(
        &self,
        attempt: &Attempt,
        matching: impl Future<Output = Result<Option<T>, Unavailable>>,
    ) -> Result<T, CredentialsError> {
        if let Some(barred) = self.0.failed_logins.barred(attempt, self.0.clock.steady()) {
            return Err(barred.into());
        }
        let matching = matching.await?;
        // Of parallel guesses, those judged after the lock are rejected whether right or wrong.
        let now = self.0.clock.steady();
        if let Some(barred) = self.0.failed_logins.judge(attempt, matching.is_some(), now, &self.0.settings) {
            return Err(barred.into());
        }
        matching.ok_or(CredentialsError::Refused)
    }

    /// Replaces the hash of an account by one of our own scheme, or stores the copy of an external account.
    async fn checked(&self, found: Found, password: &SecretText, share: Share) -> Result<Checked, CredentialsError> {
        let Found { credentials, mailbox } = found;
        let Some(mailbox) = mailbox else {
            let credentials =
                self.with_own_hash(credentials, password, share).await?.ok_or(CredentialsError::Refused)?;
            return Ok(Checked { credentials, is_elsewhere: false });
        };
        // A hash in an external user database must not be replaced.
        self.note_mailbox(mailbox).await?;
        Ok(Checked { credentials, is_elsewhere: true })
    }

    /// Stores an event if this failure has locked a mailbox. In a task of its own: otherwise the time of the response
    /// would reveal that the address exists.
    fn report_lock(&self, user: &str, attempt: &Attempt, now: Duration) {
        let is_locked = matches!(self.0.failed_logins.barred(attempt, now), Some(Barred::Mailbox(_)));
        let Some(address) = user.parse::<EmailAddress>().ok().filter(|_| is_locked) else { return };
        let service = self.clone();
        tokio::spawn(async move {
            if let Err(error) = service.store_lock(&address).await {
                tracing::warn!(%error, "the event of a locked login could not be stored");
            }
        });
    }

    async fn store_lock(&self, address: &EmailAddress) -> Result<(), Unavailable> {
        // Anyone can lock addresses that do not exist, as often as they like.
        if self.0.store.accounts().get(address).await?.is_some() {
            let log = self.0.store.events();
            let event = user_event(EventType::LoginLocked, address, self.0.clock.now(), log.next_fact());
            log.record(&event).await?;
            self.0.events.wake();
        }
        Ok(())
    }

    /// Returns the app password or the account of a mail program's login. App passwords come first: their hashes are
    /// fast.
    async fn matching(&self, user: &str, password: &SecretText, share: Share) -> Result<Option<Matching>, Unavailable> {
        if let Some(stored) = self.matching_app_password(user, password).await? {
            return Ok(Some(Matching::AppPassword(stored)));
        }
        if self.0.settings.require_app_passwords {
            return Ok(None);
        }
        Ok(self.matching_account(user, password, share).await?.map(Matching::Account))
    }

    async fn matching_account(
        &self,
        user: &str,
        password: &SecretText,
        share: Share,
    ) -> Result<Option<Found>, Unavailable> {
        if !PasswordRule::allows_length(password.expose()) {
            // No mailbox has a password of this length, and the cost of hashing grows with the length.
            return Ok(None);
        }
        let stored = match user.parse::<EmailAddress>() {
            Ok(address) => self.stored_credentials(&address).await?,
            Err(_) => None,
        };
        let Some(found) = stored else {
            self.verify_against_nothing(password.clone(), share).await?;
            return Ok(None);
        };
        let hash = found.credentials.password_hash.clone();
        if let Some(scheme) = hash_fault(&hash) {
            let mailbox = found.credentials.email.as_str();
            tracing::warn!(mailbox, scheme, "unsupported password hash scheme; login refused");
        }
        let is_cheap = is_cheap(&hash);
        let matches = self.verify(password.clone(), hash, share).await?;
        if !matches && is_cheap {
            // Otherwise a fast rejection would reveal that the address exists.
            self.verify_against_nothing(password.clone(), share).await?;
        }
        Ok(Some(found).filter(|found| matches && found.credentials.active))
    }
}
