//! From an address and a password to the owner's grants, with the lock-out that all doors share.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{LogIn, LogInError, LogInMark, LoggedIn};
use mailapi_model::{Credentials, EmailAddress, PasswordRule, Secret, SecretText, Timestamp, TokenKind};
use mailapi_store::Verified;

use super::password::is_cheap;
use crate::cache::EpochMark;
use crate::error::store_errors_are_unavailable;
use crate::users::Found;
use crate::{Service, Unavailable};

/// Why nobody was logged in.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The address is not known, the password is wrong, or the mailbox is disabled: it is not told which.
    #[error("address or password is wrong")]
    Refused,
    /// Too many failures.
    #[error("too many failed log-ins; try again later")]
    Locked {
        /// How long the address stays locked.
        remaining: Duration,
    },
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(CredentialsError);

#[async_trait]
impl LogIn for Service {
    async fn log_in(&self, user: &str, password: &SecretText) -> Result<LoggedIn, LogInError> {
        let epoch = self.0.epoch.mark();
        let entered = async {
            let checked = self.check_credentials(user, password).await?;
            let (email, now) = (&checked.credentials.email, self.0.clock.now());
            // A hash takes its time: the password may be another one by now.
            if !self.0.store.accounts().note_login(email, checked.verified(), now).await? {
                return Err(CredentialsError::Refused);
            }
            self.logged_in(&checked.credentials, epoch).await
        };
        entered.await.map_err(told)
    }

    async fn renew(&self, session: &mut LoggedIn) -> Result<(), LogInError> {
        let epoch = self.0.epoch.mark();
        if session.mark.epoch == epoch.counts() {
            return Ok(());
        }
        let renewed = async {
            let mailbox = session.grants.mailbox().ok_or(CredentialsError::Refused)?;
            let stored = self.0.store.accounts().credentials(mailbox).await?;
            let same = |stored: &Credentials| stored.active && fingerprint(stored) == session.mark.password;
            let credentials = stored.filter(same).ok_or(CredentialsError::Refused)?;
            self.logged_in(&credentials, epoch).await
        };
        *session = renewed.await.map_err(told)?;
        Ok(())
    }
}

fn told(error: CredentialsError) -> LogInError {
    match error {
        CredentialsError::Refused => LogInError::Refused,
        CredentialsError::Locked { .. } => LogInError::Locked,
        CredentialsError::Unavailable(error) => {
            tracing::error!(%error, "a log-in could not be completed");
            LogInError::Unavailable
        }
    }
}

/// Whose address and password were right.
pub(crate) struct Checked {
    pub(crate) credentials: Credentials,
    /// Whether they are kept in a user database that is not ours.
    is_elsewhere: bool,
}

impl Checked {
    /// What the password was verified against: whatever follows from it is to hold only while that does.
    pub(crate) const fn verified(&self) -> Verified<'_> {
        if self.is_elsewhere { Verified::Elsewhere } else { Verified::Hash(&self.credentials.password_hash) }
    }
}

/// Tells one password of an account from the next; it is a hash of the salted hash, and it never leaves the process.
fn fingerprint(credentials: &Credentials) -> u64 {
    let mut hasher = DefaultHasher::new();
    credentials.password_hash.expose().hash(&mut hasher);
    hasher.finish()
}

impl Service {
    /// `epoch` was taken before the credentials were read.
    async fn logged_in(&self, credentials: &Credentials, epoch: EpochMark) -> Result<LoggedIn, CredentialsError> {
        let grants = self.grants_of(&credentials.email, TokenKind::Admin).await?;
        let mark = LogInMark { epoch: epoch.counts(), password: fingerprint(credentials) };
        Ok(LoggedIn { grants, mark })
    }

    /// Whose address and password these are; noting the log-in is left to the caller. Unknown addresses lock like known
    /// ones, and cost as much time.
    pub(crate) async fn check_credentials(
        &self,
        user: &str,
        password: &SecretText,
    ) -> Result<Checked, CredentialsError> {
        let key = lock_key(user);
        let now = self.0.clock.now();
        if let Some(remaining) = self.0.failed_log_ins.locked_for(&key, now) {
            return Err(CredentialsError::Locked { remaining });
        }
        let matching = self.matching_account(user, password).await?;
        // Of many guesses at once, those that are judged after the lock learn nothing, right or wrong.
        if let Some(remaining) = self.0.failed_log_ins.judge(key, matching.is_some(), now, &self.0.settings) {
            return Err(CredentialsError::Locked { remaining });
        }
        let Found { credentials, mailbox } = matching.ok_or(CredentialsError::Refused)?;
        let Some(mailbox) = mailbox else {
            let credentials = self.with_own_hash(credentials, password).await?.ok_or(CredentialsError::Refused)?;
            return Ok(Checked { credentials, is_elsewhere: false });
        };
        // A hash that is kept elsewhere is not ours to replace.
        self.note_mailbox(mailbox).await?;
        Ok(Checked { credentials, is_elsewhere: true })
    }

    async fn matching_account(&self, user: &str, password: &SecretText) -> Result<Option<Found>, Unavailable> {
        let stored = match user.parse::<EmailAddress>() {
            Ok(address) => self.stored_credentials(&address).await?,
            Err(_) => None,
        };
        // The time that a hash takes grows with the password, and no password of ours is that long.
        let is_possible = password.expose().len() <= PasswordRule::MAX_OCTETS;
        if !is_possible {
            self.verify_against_nothing(Secret::new(String::new())).await?;
            return Ok(None);
        }
        let Some(found) = stored else {
            self.verify_against_nothing(password.clone()).await?;
            return Ok(None);
        };
        let hash = found.credentials.password_hash.clone();
        let is_cheap = is_cheap(&hash);
        let matches = self.verify(password.clone(), hash).await?;
        if !matches && is_cheap {
            // Or a quick no would tell that the address exists.
            self.verify_against_nothing(password.clone()).await?;
        }
        Ok(Some(found).filter(|found| matches && found.credentials.active))
    }
}

/// Under which name failures are counted: the same for every spelling of one address, and short for what is none.
fn lock_key(user: &str) -> String {
    const LONGEST: usize = 254;
    match user.parse::<EmailAddress>() {
        Ok(address) => address.as_str().to_owned(),
        Err(_) => user.chars().take(LONGEST).collect::<String>().to_lowercase(),
    }
}

/// Failed log-ins by address, in memory: a restart forgives.
#[derive(Default)]
pub(crate) struct FailedLogIns(Mutex<HashMap<String, Failures>>);

struct Failures {
    /// When each failure happened, oldest first; never more than the allowed number.
    at: Vec<Timestamp>,
    locked_until: Option<Timestamp>,
}

impl FailedLogIns {
    /// How long the address is still locked.
    pub(crate) fn locked_for(&self, key: &str, now: Timestamp) -> Option<Duration> {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = failures.get(key)?.locked_until?;
        (until > now).then(|| until.since(now))
    }

    /// Counts a failure, or forgives those before a success; unless the address was locked in the meantime: then how
    /// long it still is.
    fn judge(&self, key: String, matches: bool, now: Timestamp, settings: &crate::Settings) -> Option<Duration> {
        let mut addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = addresses.get(&key).and_then(|failures| failures.locked_until).filter(|until| *until > now);
        match (until, matches) {
            (Some(until), _) => return Some(until.since(now)),
            (None, true) => drop(addresses.remove(&key)),
            (None, false) => Self::note(&mut addresses, key, now, settings),
        }
        None
    }

    fn note(addresses: &mut HashMap<String, Failures>, key: String, now: Timestamp, settings: &crate::Settings) {
        let (attempts, window) = (settings.login_attempts.max(1) as usize, settings.login_lockout);
        if addresses.len() >= settings.login_addresses && !addresses.contains_key(&key) {
            make_room(addresses, now, window);
        }
        let failures = addresses.entry(key).or_insert(Failures { at: Vec::new(), locked_until: None });
        failures.at.retain(|at| now.since(*at) < window);
        failures.at.push(now);
        if failures.at.len() >= attempts {
            failures.locked_until = Some(now.plus(window));
            failures.at.clear();
        }
    }
}

/// Forgets what no longer matters. When everything does, half of the addresses that are not locked are forgiven: so a
/// flood of made-up addresses neither fills the memory nor is gone through for each of its guesses.
fn make_room(addresses: &mut HashMap<String, Failures>, now: Timestamp, window: Duration) {
    let before = addresses.len();
    addresses.retain(|_, failures| failures.matter(now, window));
    if addresses.len() * 2 > before {
        let mut keep = false;
        addresses.retain(|_, failures| {
            keep = !keep;
            keep || failures.is_locked(now)
        });
    }
}

impl Failures {
    fn is_locked(&self, now: Timestamp) -> bool {
        self.locked_until.is_some_and(|until| until > now)
    }

    fn matter(&self, now: Timestamp, window: Duration) -> bool {
        self.is_locked(now) || self.at.iter().any(|at| now.since(*at) < window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn every_spelling_of_an_address_is_locked_with_the_others() {
        for spelling in ["ANN@xn--bcher-kva.example", "\"ann\"@Bücher.example", "\"a\\nn\"@bücher.example"] {
            assert_eq!(lock_key(spelling), "ann@xn--bcher-kva.example", "{spelling}");
        }
        assert_eq!(lock_key("No Address"), "no address");
        assert!(lock_key(&"x".repeat(1_000_000)).len() < 1000);
    }

    #[test]
    fn five_failures_lock_for_fifteen_minutes_and_four_do_not() {
        let (failures, settings) = (FailedLogIns::default(), crate::Settings::default());
        let start = Timestamp::from_seconds(1_000_000);
        for n in 0..4 {
            failures.judge("ann@example.org".into(), false, start.plus(n * MINUTE), &settings);
        }
        assert_eq!(failures.locked_for("ann@example.org", start.plus(4 * MINUTE)), None);
        assert_eq!(failures.judge("ann@example.org".into(), false, start.plus(4 * MINUTE), &settings), None);
        let late = failures.judge("ann@example.org".into(), true, start.plus(4 * MINUTE), &settings);
        assert_eq!(late, Some(15 * MINUTE), "the right password too, when it is judged after the lock");
        assert_eq!(failures.locked_for("ann@example.org", start.plus(5 * MINUTE)), Some(14 * MINUTE));
        assert_eq!(failures.locked_for("bob@example.org", start.plus(5 * MINUTE)), None);
        assert_eq!(failures.locked_for("ann@example.org", start.plus(19 * MINUTE)), None);
    }

    #[test]
    fn failures_that_lie_far_apart_do_not_add_up() {
        let (failures, settings) = (FailedLogIns::default(), crate::Settings::default());
        let start = Timestamp::from_seconds(1_000_000);
        for n in 0..20 {
            failures.judge("ann@example.org".into(), false, start.plus(4 * n * MINUTE), &settings);
            assert_eq!(failures.locked_for("ann@example.org", start.plus(4 * n * MINUTE)), None);
        }
    }
}
