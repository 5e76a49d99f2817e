//! `POST /auth/signup`: registers a new domain and its first user.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mailapi_model::{
    ClientNetwork, DomainName, EmailAddress, NewAccount, NewDomain, SecretText, TokenRecord, Violations, Visitor,
};
use mailapi_store::{NewSignUp, SignUpRoom};

use super::Session;
use crate::error::store_errors_are_unavailable;
use crate::{Service, Unavailable};

/// The period over which sign-ups are counted.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Maximum number of domains, and of clients, whose sign-ups are kept.
const REMEMBERED: usize = 10_000;

/// Maximum number of domains that wait for approval. Together with the sign-up quota it bounds the storage
/// available to strangers, however many addresses they use. Ten clients are needed to block sign-up for others, and an
/// agency can still register several domains.
const ROOM: SignUpRoom = SignUpRoom { of_all: 100, of_client: 10 };

/// A sign-up request.
#[derive(Debug, Clone)]
pub struct SignUp {
    /// The new domain.
    pub domain: DomainName,
    /// Its first user, an address in that domain.
    pub email: EmailAddress,
    /// The user's password, already checked by the password rules.
    pub password: SecretText,
    /// The user's display name.
    pub name: String,
}

/// The result of a sign-up.
#[derive(Debug, Clone)]
pub struct SignedUp {
    /// The new user's session.
    pub session: Session,
    /// The new domain, which waits for approval.
    pub domain: DomainName,
}

/// The reason why a sign-up was rejected.
#[derive(Debug, thiserror::Error)]
pub enum SignUpError {
    /// Sign-up is disabled.
    #[error("sign-ups are disabled")]
    Closed,
    /// The request is invalid.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// The domain exists already.
    #[error("the domain already exists")]
    DomainExists,
    /// Too many attempts for this domain or by this client, or too many pending domains.
    #[error("too many sign-ups; try again later")]
    TooMany {
        /// Time until the next attempt is allowed.
        retry_after: Duration,
    },
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(SignUpError);

impl Service {
    /// Creates a pending domain, its first user with `manage_domains` on it, and a session of that user, in one
    /// transaction.
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
        crate::users::demand_no_catch_all(&email)?;
        if self.0.store.directory().is_some() {
            return Err(crate::users::kept_elsewhere().into());
        }
        // Before the expensive hash, so that a flood costs little.
        self.may_sign_up(&domain, from).await?;
        let now = self.0.clock.now();
        // The domain of a configured admin is reserved even before it exists. Otherwise a stranger could create the
        // admin's mailbox there and become admin.
        let reserved = self.0.settings.admins.iter().any(|admin| admin.domain() == domain);
        if reserved || self.0.store.domains().get(&domain).await?.is_some() {
            return Err(SignUpError::DomainExists);
        }
        let quota_bytes = self.0.settings.signup_quota();
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
            account: NewAccount { email: email.clone(), name, password_hash, quota_bytes, created_at: now },
            from: from.network().subscriber(),
            session,
        };
        let record = self.with_domain_lock(&domain, async move |service: Self| service.add_sign_up(&new).await).await?;
        tracing::info!(
            target: "mailapi::audit",
            by = email.shown(), from = %from.address, %domain, "signed up; the domain waits for approval"
        );
        Ok(SignedUp { session: Session { value, record }, domain })
    }

    async fn add_sign_up(&self, new: &NewSignUp) -> Result<TokenRecord, SignUpError> {
        // Again, while the domain is locked.
        if self.0.store.domains().get(&new.domain.name).await?.is_some() {
            return Err(SignUpError::DomainExists);
        }
        self.drop_former_aliases(&new.domain.name).await?;
        let record = self.0.store.sign_up(new, ROOM).await.map_err(|error| match error {
            error if error.is_conflict() => SignUpError::DomainExists,
            error if error.is_guard_failed() => SignUpError::TooMany { retry_after: WINDOW },
            error => error.into(),
        })?;
        self.changed();
        // The mail server gets the domain only on approval. Otherwise anyone could sign up a domain and intercept
        // the mail that other users here send to it.
        let NewAccount { email, quota_bytes, .. } = &new.account;
        if let Err(error) = self.provide_mailbox(email, *quota_bytes).await {
            // Otherwise the domain would stay reserved, and its only user would have no session.
            self.0.store.domains().delete(&new.domain.name, true, self.0.clock.now()).await?;
            self.changed();
            return Err(error.into());
        }
        Ok(record)
    }

    /// Checks the limits of sign-ups, and counts this attempt.
    async fn may_sign_up(&self, domain: &DomainName, from: Visitor) -> Result<(), SignUpError> {
        let (now, limit) = (self.0.clock.steady(), self.0.settings.signups_per_hour);
        if let Some(retry_after) = self.0.sign_ups.over_limit(domain, from.network(), now, limit) {
            return Err(SignUpError::TooMany { retry_after });
        }
        // Each of many concurrent requests may find room here; the store decides when it adds the domain.
        if !self.0.store.has_room_for_sign_up(&from.network().subscriber(), ROOM).await? {
            return Err(SignUpError::TooMany { retry_after: WINDOW });
        }
        Ok(())
    }
}

/// Times of sign-up attempts, in memory: by domain and by client.
#[derive(Default)]
pub(crate) struct SignUpWindows(Mutex<Windows>);

#[derive(Default)]
struct Windows {
    domains: HashMap<DomainName, Vec<Duration>>,
    clients: HashMap<ClientNetwork, Vec<Duration>>,
}

impl SignUpWindows {
    /// Counts an attempt. If there were too many already, returns the time until the next one is allowed.
    fn over_limit(&self, domain: &DomainName, client: ClientNetwork, now: Duration, limit: u32) -> Option<Duration> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Windows { domains, clients } = &mut *windows;
        let (of_domain, of_client) = (tries(domains, domain.clone(), now), tries(clients, client, now));
        let wait = full_for(of_domain, now, limit).max(full_for(of_client, now, limit));
        if wait.is_none() {
            of_domain.push(now);
            of_client.push(now);
        }
        wait
    }
}

/// The attempts under `key` within the window.
fn tries<K: Eq + Hash>(windows: &mut HashMap<K, Vec<Duration>>, key: K, now: Duration) -> &mut Vec<Duration> {
    let counts = |at: &Duration| now.saturating_sub(*at) < WINDOW;
    if windows.len() >= REMEMBERED {
        windows.retain(|_, tries| tries.iter().any(counts));
        // A network with many addresses can make as many of them as it likes. The store's limits still hold, and forgetting
        // only some would cost such a network's next requests a look at all the others.
        if windows.len() > REMEMBERED / 2 {
            windows.clear();
        }
    }
    let tries = windows.entry(key).or_default();
    tries.retain(counts);
    tries
}

/// Time until another attempt is allowed; `None` if one is allowed now.
fn full_for(tries: &[Duration], now: Duration, limit: u32) -> Option<Duration> {
    let first = tries.first().filter(|_| tries.len() >= limit as usize)?;
    Some((*first + WINDOW).saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn client(last: u8) -> ClientNetwork {
        ClientNetwork::of([192, 0, 2, last].into())
    }

    #[test]
    fn the_fourth_sign_up_of_a_domain_within_an_hour_waits() {
        let (windows, domain) = (SignUpWindows::default(), "example.org".parse().unwrap());
        for n in 0..3 {
            assert_eq!(windows.over_limit(&domain, client(n), u32::from(n) * MINUTE, 3), None);
        }
        assert_eq!(windows.over_limit(&domain, client(3), 10 * MINUTE, 3), Some(50 * MINUTE));
        assert_eq!(windows.over_limit(&"example.net".parse().unwrap(), client(3), 10 * MINUTE, 3), None);
        assert_eq!(windows.over_limit(&domain, client(3), 60 * MINUTE, 3), None);
    }

    #[test]
    fn a_network_of_many_clients_fills_no_memory() {
        let windows = SignUpWindows::default();
        for n in 0..3 * u32::try_from(REMEMBERED).unwrap() {
            let client = ClientNetwork::of(std::net::Ipv4Addr::from(n).into());
            assert_eq!(windows.over_limit(&format!("d{n}.example").parse().unwrap(), client, MINUTE, 3), None);
        }
        let windows = windows.0.lock().unwrap();
        assert!(windows.domains.len() <= REMEMBERED && windows.clients.len() <= REMEMBERED);
    }

    #[test]
    fn the_fourth_sign_up_of_a_client_within_an_hour_waits() {
        let (windows, domain) = (SignUpWindows::default(), |n| format!("example{n}.org").parse().unwrap());
        for n in 0..3 {
            assert_eq!(windows.over_limit(&domain(n), client(1), n * MINUTE, 3), None);
        }
        assert_eq!(windows.over_limit(&domain(3), client(1), 10 * MINUTE, 3), Some(50 * MINUTE));
        assert_eq!(windows.over_limit(&domain(3), client(2), 10 * MINUTE, 3), None);
        assert_eq!(windows.over_limit(&domain(4), client(1), 60 * MINUTE, 3), None);
    }
}
