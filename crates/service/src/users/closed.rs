//! Closed accounts. Their mailbox may hold mail of another owner, so they receive no mail and allow no log-in.
//!
//! An account is closed while it is deleted, and while it is new if its address was deleted before. Otherwise a message
//! that arrives between the removal of the mail and that of the account would be the next owner's. Only a
//! crash leaves an account closed. It is then removed, because no answer has confirmed that it exists or stays.

use mailapi_model::EmailAddress;

use crate::{Service, Unavailable};

/// Number of closed accounts read in one step.
const STEP: usize = 100;

impl Service {
    /// Gives a new account its mailbox, without mail of an earlier owner, and opens the account. Runs in its turn.
    pub(crate) async fn provide_mailbox(&self, email: &EmailAddress, quota: Option<u64>) -> Result<(), Unavailable> {
        let (accounts, provisioning) = (self.0.store.accounts(), &self.0.backend.provisioning);
        provisioning.new_mailbox(email, quota).await.map_err(Unavailable::mailboxes)?;
        if !accounts.is_closed(email).await? {
            return Ok(());
        }
        if provisioning.looks_accounts_up() {
            provisioning.remove_mailbox(email).await.map_err(Unavailable::mailboxes)?;
        }
        accounts.set_closed(email, false).await?;
        self.0.epoch.end();
        provisioning.account_changed(email).await.map_err(Unavailable::mailboxes)
    }

    /// Removes the mailbox of an account that is about to be deleted. Runs in its turn. The account stays closed, unless
    /// this fails.
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

    /// Opens an account that was to be deleted and stays. If this fails, the account is removed later after all.
    pub(crate) async fn reopen(&self, email: &EmailAddress) {
        if let Err(error) = self.0.store.accounts().set_closed(email, false).await {
            tracing::error!(mailbox = %email, %error, "the account stays closed and will be deleted");
        }
    }

    /// Removes accounts that a crash left closed; returns how many. Stops at the first that cannot be removed now.
    ///
    /// # Errors
    /// [`Unavailable`] when the account database is.
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
                        tracing::warn!(mailbox = %email, %error, "a closed account cannot be removed yet");
                        return Ok(removed);
                    }
                }
            }
        }
    }

    /// Removes the account if it is still closed when its turn comes; returns whether it was.
    pub(crate) async fn remove_if_closed(&self, email: &EmailAddress) -> Result<bool, Unavailable> {
        let closed = email.clone();
        self.with_address_lock(email, async move |service: Self| {
            if !service.0.store.accounts().is_closed(&closed).await? {
                return Ok(false);
            }
            service.0.backend.provisioning.remove_mailbox(&closed).await.map_err(Unavailable::mailboxes)?;
            service.0.store.accounts().delete(&closed, service.0.clock.now()).await?;
            service.0.epoch.end();
            tracing::warn!(mailbox = %closed, "removed an account whose creation or deletion was interrupted");
            Ok(true)
        })
        .await
    }
}
