//! `POST /auth/signup`: a stranger brings a domain and becomes its first user.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mailapi_model::{
    DomainName, EmailAddress, NewAccount, NewDomain, SecretText, Timestamp, TokenRecord, Violations, Visitor,
};
use mailapi_store::NewSignUp;

use super::Session;
use crate::error::store_errors_are_unavailable;
use crate::{Service, Unavailable};

/// Sign-ups of one domain are counted over this time.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Domains whose sign-ups are remembered before old ones are forgotten.
const REMEMBERED: usize = 10_000;

/// What a stranger asks for.
#[derive(Debug, Clone)]
pub struct SignUp {
    /// The new domain.
    pub domain: DomainName,
    /// Its first user, in that domain.
    pub email: EmailAddress,
    /// The user's password, already found good enough.
    pub password: SecretText,
    /// What the user is called.
    pub name: String,
}

/// What a stranger has got.
#[derive(Debug, Clone)]
pub struct SignedUp {
    /// The new user's session.
    pub session: Session,
    /// The new domain, which waits for approval.
    pub domain: DomainName,
}

/// Why nobody was signed up.
#[derive(Debug, thiserror::Error)]
pub enum SignUpError {
    /// Nobody may sign up here.
    #[error("sign-ups are switched off")]
    Closed,
    /// The request breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// The domain is known already.
    #[error("the domain exists already")]
    DomainExists,
    /// Too many tries for this domain.
    #[error("too many sign-ups for this domain; try again later")]
    TooMany {
        /// When the next one is possible.
        retry_after: Duration,
    },
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(SignUpError);

impl Service {
    /// Creates a domain that waits for approval, its first user with `manage_domains` on it, and a session of that
    /// user: all in one transaction, or nothing.
    ///
    /// # Errors
    /// See [`SignUpError`].
    pub async fn sign_up(&self, request: SignUp, from: Visitor) -> Result<SignedUp, SignUpError> {
        if self.0.settings.signups_per_hour == 0 {
            return Err(SignUpError::Closed);
        }
        let SignUp { domain, email, password, name } = request;
        if email.domain() != domain {
            return Err(Violations::of("email", "must end with @ and the domain").into());
        }
        if self.0.store.directory().is_some() {
            return Err(crate::users::kept_elsewhere().into());
        }
        let (now, limit) = (self.0.clock.now(), self.0.settings.signups_per_hour);
        if let Some(retry_after) = self.0.sign_ups.over_limit(&domain, now, limit) {
            return Err(SignUpError::TooMany { retry_after });
        }
        // The domain of a configured admin is taken even before it exists: whoever made its first mailbox could
        // otherwise make the admin's, and be admin.
        let reserved = self.0.settings.admins.iter().any(|admin| admin.domain() == domain);
        if reserved || self.0.store.domains().get(&domain).await?.is_some() {
            return Err(SignUpError::DomainExists);
        }
        let password_hash = self.hash(password, from.into()).await?;
        let (value, session) = self.session_token(&email, name.clone());
        let new = NewSignUp {
            domain: NewDomain {
                name: domain.clone(),
                active: false,
                description: None,
                creator_email: Some(email.clone()),
                created_at: now,
            },
            account: NewAccount { email: email.clone(), name, password_hash, quota_bytes: None, created_at: now },
            session,
        };
        let record =
            self.in_turn_of_domain(&domain, async move |service: Self| service.add_sign_up(&new).await).await?;
        tracing::info!(%domain, "signed up; the domain waits for approval");
        Ok(SignedUp { session: Session { value, record }, domain })
    }

    async fn add_sign_up(&self, new: &NewSignUp) -> Result<TokenRecord, SignUpError> {
        let record = self.0.store.sign_up(new).await.map_err(|error| match error {
            error if error.is_conflict() => SignUpError::DomainExists,
            error => error.into(),
        })?;
        self.0.epoch.end();
        // The mail server hears of the domain when it is approved: until then its mail goes where it always went, or
        // anybody could catch the mail that others here send to a domain by signing it up.
        let mailbox = &new.account.email;
        self.0.backend.provisioning.new_mailbox(mailbox, None).await.map_err(Unavailable::from)?;
        Ok(record)
    }
}

/// When sign-ups for each domain were tried, in memory.
#[derive(Default)]
pub(crate) struct SignUpWindows(Mutex<HashMap<DomainName, Vec<Timestamp>>>);

impl SignUpWindows {
    /// Counts one try; when there were too many already, how long until the next one is possible.
    fn over_limit(&self, domain: &DomainName, now: Timestamp, limit: u32) -> Option<Duration> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= REMEMBERED {
            windows.retain(|_, tries| tries.iter().any(|at| now.since(*at) < WINDOW));
        }
        let tries = windows.entry(domain.clone()).or_default();
        tries.retain(|at| now.since(*at) < WINDOW);
        match tries.first() {
            Some(first) if tries.len() >= limit as usize => Some(first.plus(WINDOW).since(now)),
            _ => {
                tries.push(now);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_sign_up_within_an_hour_waits() {
        const MINUTE: Duration = Duration::from_secs(60);
        let (windows, domain) = (SignUpWindows::default(), "example.org".parse().unwrap());
        let start = Timestamp::from_seconds(1_000_000);
        for n in 0..3 {
            assert_eq!(windows.over_limit(&domain, start.plus(n * MINUTE), 3), None);
        }
        assert_eq!(windows.over_limit(&domain, start.plus(10 * MINUTE), 3), Some(50 * MINUTE));
        assert_eq!(windows.over_limit(&"example.net".parse().unwrap(), start.plus(10 * MINUTE), 3), None);
        assert_eq!(windows.over_limit(&domain, start.plus(60 * MINUTE), 3), None);
    }
}
