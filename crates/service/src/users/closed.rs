//! Closed accounts. Their mailbox may contain mail of another owner, so they receive no mail and allow no login.
//!
//! An account is closed during its deletion, and during its creation if its address was deleted before. Otherwise a
//! message that arrives between the removal of the mail and of the account would reach the next owner. Only a crash
//! leaves an account closed. It is then removed, since no response has confirmed that it exists or stays.

use mailapi_model::EmailAddress;

use crate::{Service, Unavailable};

/// Number of closed accounts per read.
const STEP: usize = 100;

impl Service {
    /// Creates the mailbox of a new account without mail of an earlier owner, and opens the account. The address
    /// must be locked.
    pub(crate) async fn provide_mailbox(&self, email: &EmailAddress, quota: Option<u64>) -> Result<(), Unavailable> {
        let (accounts, provisioning) = (self.0.store.accounts(), &self.0.backend.provisioning);
        provisioning.new_mailbox(email, quota).await.map_err(Unavailable::mailboxes)?;
        if !accounts.is_closed(email).await? {
            return Ok(());
        }
        // A mail server that uses the account database may have kept mail of the deleted account.
        if provisioning.looks_accounts_up() {
            provisioning.remove_mailbox(email).await.map_err(Unavailable::mailboxes)?;
        }
        accounts.set_closed(email, false).await?;
        self.changed();
        provisioning.account_changed(email).await.map_err(Unavailable::mailboxes)
    }

    /// Removes the mailbox of an account before its deletion. The address must be locked. The account stays
    /// closed, unless this fails.
    pub(crate) async fn take_mailbox(&self, email: &EmailAddress) -> Result<(), Unavailable> {
        let provisioning = &self.0.backend.provisioning;
        let closes = provisioning.looks_accounts_up() && !self.0.store.accounts().is_closed(email).await?;
        if closes {
            self.0.store.accounts().set_closed(email, true).await?;
        }
        let taken = provisioning.remove_mailbox(email).await.map_err(Unavailable::mailboxes);
        if taken.is_err() && closes {
            self.reopen(email).await;
        }
        taken
    }

    /// Opens an account whose deletion failed. If opening fails too, the account is removed later.
    pub(crate) async fn reopen(&self, email: &EmailAddress) {
        if let Err(error) = self.0.store.accounts().set_closed(email, false).await {
            tracing::error!(
                mailbox = %email, %error,
                "could not reopen an account; it stays closed and will be deleted"
            );
        }
    }

    /// Removes accounts that a crash left closed. Returns their number. Stops at the first one that cannot be
    /// removed now.
    ///
    /// # Errors
    /// [`Unavailable`] if the account database is.
    pub(crate) async fn remove_closed_accounts(&self) -> Result<u64, Unavailable> {
        let (mut removed, mut after) = (0, None);
        loop {
            let closed = self.0.store.accounts().closed(after.as_ref(), STEP).await?;
            let Some(last) = closed.last() else { return Ok(removed) };
            after = Some(last.clone());
            for email in closed {
                match self.remove_if_closed(&email).await {
                    Ok(was_closed) => removed += u64::from(was_closed),
                    Err(error) => {
                        tracing::warn!(mailbox = %email, %error, "could not remove a closed account; retried later");
                        return Ok(removed);
                    }
                }
            }
        }
    }

    /// Removes the account if it is still closed once the address is locked. Returns whether it was.
    pub(crate) async fn remove_if_closed(&self, email: &EmailAddress) -> Result<bool, Unavailable> {
        let closed = email.clone();
        self.with_address_lock(email, async move |service: Self| {
            if !service.0.store.accounts().is_closed(&closed).await? {
                return Ok(false);
            }
            service.0.backend.provisioning.remove_mailbox(&closed).await.map_err(Unavailable::mailboxes)?;
            service.0.store.accounts().delete(&closed, service.0.clock.now()).await?;
            service.changed();
            tracing::warn!(mailbox = %closed, "removed an account whose creation or deletion was interrupted");
            Ok(true)
        })
        .await
    }
}
