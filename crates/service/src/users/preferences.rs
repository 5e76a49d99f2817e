//! `GET` and `PUT /users/{email}/preferences`.

use mailapi_model::{AccountChange, EmailAddress, SaveSent, Violations};

use super::UserError;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Returns whether the mail server can copy sent messages to mailboxes.
    #[must_use]
    pub fn saves_sent(&self) -> bool {
        self.0.backend.provisioning.saves_sent()
    }

    /// Returns which sent messages are copied to the mailbox.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn get_preferences(&self, caller: &Caller, email: &EmailAddress) -> Result<SaveSent, UserError> {
        self.may_manage_app_passwords(caller, email)?;
        let options = self.0.store.accounts().options(email).await?.ok_or(UserError::NotFound)?;
        Ok(options.save_sent)
    }

    /// Changes which sent messages are copied to the mailbox.
    ///
    /// The account database is changed first; after a crash, [`Service::reconcile`] repairs the difference.
    ///
    /// # Errors
    /// See [`UserError`]. A mail server that copies none is a violation.
    pub async fn set_preferences(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        save_sent: SaveSent,
    ) -> Result<(), UserError> {
        self.may_manage_app_passwords(caller, email)?;
        if save_sent != SaveSent::Off && !self.saves_sent() {
            let message = "must be off: an external mail server does not store sent messages";
            return Err(Violations::of("save_sent", message).into());
        }
        let (email, lock, by) = (email.clone(), email.clone(), caller.clone());
        self.with_address_lock(&lock, async move |service: Self| service.put_save_sent(&email, save_sent, &by).await)
            .await
    }

    async fn put_save_sent(&self, email: &EmailAddress, save_sent: SaveSent, by: &Caller) -> Result<(), UserError> {
        let change = AccountChange { save_sent: Some(save_sent), ..AccountChange::default() };
        if !self.0.store.accounts().update(email, &change, self.0.clock.now()).await? {
            return Err(UserError::NotFound);
        }
        self.0.backend.provisioning.set_save_sent(email, save_sent).await.map_err(Unavailable::from)?;
        audit!(by, mailbox = %email, %save_sent, "preferences changed");
        Ok(())
    }
}
