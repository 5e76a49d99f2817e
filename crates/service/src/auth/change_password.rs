//! `POST /auth/password`: changes a user's own password.

use std::net::{IpAddr, Ipv4Addr};

use mailapi_model::{EmailAddress, LoginProtocol, SecretText, Violations, Visitor};

use super::CredentialsError;
use crate::auth::Share;
use crate::caller::audit;
use crate::error::store_errors_are_unavailable;
use crate::{Caller, Service, Unavailable};

/// The reason why the password was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangePasswordError {
    /// The token has no mailbox.
    #[error("the token has no mailbox")]
    NoMailbox,
    /// The current password is wrong, or there were too many failures.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The mailbox belongs to a read-only user database.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

store_errors_are_unavailable!(ChangePasswordError);

impl Service {
    /// Sets the password of the caller's mailbox, and ends all its other sessions. The current password is
    /// checked as at a login: a stolen token must neither suffice nor help to guess the password.
    ///
    /// # Errors
    /// See [`ChangePasswordError`].
    pub async fn change_password(
        &self,
        caller: &Caller,
        current: &SecretText,
        new: SecretText,
    ) -> Result<(), ChangePasswordError> {
        let email = caller.grants.mailbox().ok_or(ChangePasswordError::NoMailbox)?;
        let has_directory = self.0.store.directory().is_some();
        if has_directory && self.0.store.copies().is_copy(email).await? == Some(true) {
            return Err(crate::users::kept_elsewhere().into());
        }
        let address = caller.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let from = Visitor { protocol: LoginProtocol::Http, address };
        let checked = self.check_credentials(email.as_str(), current, from).await?;
        let hash = self.hash(new, Share::from(from)).await?;
        let (address, by) = (email.clone(), caller.clone());
        self.with_address_lock(email, async move |service: Self| {
            service.exchange_password(&address, &checked.credentials.password_hash, &hash, &by).await
        })
        .await
    }

    /// Stores the new password while the address is locked, and ends all sessions except the caller's.
    async fn exchange_password(
        &self,
        email: &EmailAddress,
        verified: &SecretText,
        hash: &SecretText,
        by: &Caller,
    ) -> Result<(), ChangePasswordError> {
        let kept = by.token.as_ref().map(|token| token.id);
        let (accounts, now) = (self.0.store.accounts(), self.0.clock.now());
        if !accounts.change_password_hash(email, verified, hash, kept, now).await? {
            // Another password was set since the current one was verified.
            return Err(CredentialsError::Refused.into());
        }
        self.changed();
        self.0.backend.provisioning.account_changed(email).await.map_err(Unavailable::from)?;
        audit!(by, mailbox = %email, "password changed");
        Ok(())
    }
}
