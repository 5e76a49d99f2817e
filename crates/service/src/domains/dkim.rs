//! `GET` and `POST /domains/{domain}/dkim`.

use std::time::Duration;

use mailapi_model::{DkimAlgorithm, DkimKey, DomainKey, DomainName, Timestamp};
use mailapi_store::StoreError;

use super::DomainError;
use crate::caller::audit;
use crate::mail::generate_key;
use crate::{Caller, Service, Unavailable};

/// Maximum number of new keys per domain and day: the selector counts them with two digits.
const KEYS_PER_DAY: u8 = 99;

impl Service {
    /// Returns the domain's keys with their steps, newest first; those that are retired follow the others. A domain that
    /// waits for approval has none.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn list_dkim_keys(&self, caller: &Caller, name: &DomainName) -> Result<Vec<DomainKey>, DomainError> {
        caller.grants.may_manage_domain(name)?;
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        Ok(self.0.store.dkim_keys().list(name).await?)
    }

    /// Creates a key under a new selector. It signs only after its record was found in DNS: receivers could not verify
    /// earlier signatures. Until then the old key of its algorithm signs, if there is one.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn rotate_dkim(
        &self,
        caller: &Caller,
        name: &DomainName,
        algorithm: DkimAlgorithm,
    ) -> Result<DkimKey, DomainError> {
        caller.grants.admin()?;
        let domain = self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        if !domain.approved {
            return Err(DomainError::AwaitsApproval);
        }
        let key = self.new_dkim_key(algorithm).await?;
        let (domain, by) = (name.clone(), caller.clone());
        self.with_domain_lock(name, async move |service: Self| service.add_dkim_key(&domain, key, &by).await).await
    }

    async fn add_dkim_key(&self, name: &DomainName, key: DkimKey, by: &Caller) -> Result<DkimKey, DomainError> {
        let key = self.with_fresh_selector(name, key).await?;
        self.0.store.dkim_keys().insert(name, &key).await.map_err(|error| match error {
            // The domain was deleted while the key was generated.
            StoreError::Reference => DomainError::NotFound,
            error => error.into(),
        })?;
        self.changed();
        audit!(by, domain = %name, selector = key.selector, "DKIM key created");
        Ok(key)
    }

    /// Creates a key under today's first selector, for [`Service::with_fresh_selector`].
    pub(super) async fn new_dkim_key(&self, algorithm: DkimAlgorithm) -> Result<DkimKey, Unavailable> {
        let now = self.0.clock.now();
        let made = tokio::task::spawn_blocking(move || generate_key(algorithm, selector(now, 1), now)).await;
        let made = made.map_err(|error| Unavailable::Unforeseen(error.to_string()))?;
        made.map_err(|error| Unavailable::Unforeseen(error.to_string()))
    }

    /// Gives the key a selector that the domain has never used. The domain must be locked. With a reused selector,
    /// receivers would verify mail with the earlier key as long as its record is cached.
    pub(super) async fn with_fresh_selector(&self, domain: &DomainName, key: DkimKey) -> Result<DkimKey, DomainError> {
        let used = self.0.store.dkim_keys().used_selectors(domain, &day(key.created_at)).await?;
        let fresh = (1..=KEYS_PER_DAY).map(|number| selector(key.created_at, number));
        match fresh.into_iter().find(|selector| !used.contains(selector)) {
            Some(selector) => Ok(DkimKey { selector, ..key }),
            None => Err(DomainError::TooManyKeys { retry_after: until_tomorrow(key.created_at) }),
        }
    }
}

/// Time until the next day in UTC.
fn until_tomorrow(now: Timestamp) -> Duration {
    const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;
    let gone = now.as_millis().rem_euclid(DAY_MILLIS);
    Duration::from_millis(u64::try_from(DAY_MILLIS - gone).unwrap_or_default())
}

/// The `number`th selector of a day: `m2026112101`.
fn selector(day: Timestamp, number: u8) -> String {
    format!("{}{number:02}", self::day(day))
}

/// The prefix of all selectors of a day.
fn day(day: Timestamp) -> String {
    let digits: String = day.to_string().chars().take("2026-11-21".len()).filter(|c| *c != '-').collect();
    format!("m{digits}")
}
