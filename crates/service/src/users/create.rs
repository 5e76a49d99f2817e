//! `POST /users`.

use mailapi_model::{Account, EmailAddress, NewAccount, Quota, SecretText, Violations};
use mailapi_store::StoreError;

use super::quotas::in_time;
use super::{User, UserError};
use crate::auth::{NewCredential, Share};
use crate::caller::audit;
use crate::{Caller, Service};

/// A request for an account.
#[derive(Debug, Clone)]
pub struct CreateUser {
    /// The address.
    pub email: EmailAddress,
    /// The password, or the hash of one. Only admins may pass a hash.
    pub password: NewCredential,
    /// The owner's display name.
    pub name: String,
    /// Mailbox quota in bytes; `None` means [`crate::Settings::default_quota`].
    pub quota_bytes: Option<u64>,
}

impl Service {
    /// Creates an account with its mailbox.
    ///
    /// The account database is changed first; after a crash, [`Service::reconcile`] repairs the difference. A
    /// mail server that uses the account database need not run, unless the address was deleted before and may
    /// have mail.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn create_user(&self, caller: &Caller, new: CreateUser) -> Result<User, UserError> {
        self.check_new_user(caller, &new.email).await?;
        let CreateUser { email, password, name, quota_bytes } = new;
        let password_hash = self.hash_of(caller, password).await?;
        let (quota_bytes, created_at) = (quota_bytes.or(self.0.settings.default_quota()), self.0.clock.now());
        // Zero means no limit, as in the lists of other servers.
        let quota_bytes = quota_bytes.filter(|bytes| *bytes > 0);
        let new = NewAccount { email: email.clone(), name, password_hash, quota_bytes, created_at };
        let by = caller.clone();
        let account =
            self.with_address_lock(&email, async move |service: Self| service.add_user(new, by).await).await?;
        let is_admin = self.0.settings.admins.contains(&email);
        let quota = self.quota_at_first(&email).await;
        Ok(User { account, is_admin, quota })
    }

    /// Checks whether an account with this address can be created now.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn check_new_user(&self, caller: &Caller, email: &EmailAddress) -> Result<(), UserError> {
        self.may_manage(caller, email)?;
        if self.0.store.directory().is_some() {
            return Err(super::kept_elsewhere().into());
        }
        if self.0.store.domains().get(&email.domain()).await?.is_none() {
            return Err(UserError::DomainNotFound);
        }
        self.demand_no_alias(email).await?;
        let accounts = self.0.store.accounts();
        if accounts.get(email).await?.is_none() {
            return Ok(());
        }
        // An account that a crash left closed is removed to free the address.
        match accounts.is_closed(email).await? && self.remove_if_closed(email).await? {
            true => Ok(()),
            false => Err(UserError::Exists),
        }
    }

    /// A hash that only admins may pass: its maker may hold the password of the account.
    async fn hash_of(&self, caller: &Caller, password: NewCredential) -> Result<SecretText, UserError> {
        match password {
            NewCredential::Password(password) => Ok(self.hash(password, Share::ACCOUNTS).await?),
            NewCredential::Hash(hash) if caller.grants.admin().is_ok() => Ok(hash.into_inner()),
            NewCredential::Hash(_) => Err(Violations::of("password_hash", "is for admins only").into()),
        }
    }

    async fn demand_no_alias(&self, email: &EmailAddress) -> Result<(), UserError> {
        demand_no_catch_all(email)?;
        if self.0.store.aliases().get(email).await?.is_some() { Err(UserError::IsAlias) } else { Ok(()) }
    }

    async fn add_user(&self, new: NewAccount, by: Caller) -> Result<Account, UserError> {
        // Again, while the address is locked.
        self.demand_no_alias(&new.email).await?;
        self.0.store.accounts().insert(&new).await.map_err(|error| match error {
            error if error.is_conflict() => UserError::Exists,
            StoreError::Reference => UserError::DomainNotFound,
            error => error.into(),
        })?;
        self.changed();
        let NewAccount { email, quota_bytes, .. } = new;
        if let Err(error) = self.provide_mailbox(&email, quota_bytes).await {
            self.take_back(&email).await;
            return Err(error.into());
        }
        audit!(by, mailbox = %email, "user created");
        self.0.store.accounts().get(&email).await?.ok_or(UserError::NotFound)
    }

    /// Removes an account without a mailbox, so that the caller can repeat the request.
    async fn take_back(&self, email: &EmailAddress) {
        if let Err(error) = self.0.store.accounts().delete(email, self.0.clock.now()).await {
            tracing::error!(
                mailbox = %email, %error,
                "could not remove an account without a mailbox; it stays until the next start"
            );
        }
        self.changed();
    }

    /// The usage of a new account's mailbox; the mail server may still have mail of an earlier account.
    async fn quota_at_first(&self, email: &EmailAddress) -> Option<Quota> {
        let quota = in_time(self.0.backend.mailboxes.quota(email), self.0.settings.quota_patience).await;
        // Not an error: the account exists, and the mail server may be set up later.
        quota
            .inspect_err(|error| tracing::debug!(mailbox = %email, %error, "could not read the usage of a new mailbox"))
            .ok()
    }
}

/// Checks that an address is not that of a catch-all, which only an alias can have.
pub(crate) fn demand_no_catch_all(email: &EmailAddress) -> Result<(), Violations> {
    match email.is_catch_all() {
        true => Err(Violations::of("email", "must not be a catch-all: create an alias")),
        false => Ok(()),
    }
}
