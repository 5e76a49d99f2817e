//! `DELETE /mailbox/{email}/drafts/{uid}`.

use mailapi_model::EmailAddress;

use super::DraftError;
use crate::{Caller, Service};

impl Service {
    /// Permanently removes a draft.
    ///
    /// # Errors
    /// See [`DraftError`]. A message without the flag `\Draft` counts as missing.
    pub async fn delete_draft(&self, caller: &Caller, mailbox: &EmailAddress, uid: u32) -> Result<(), DraftError> {
        let owner = self.may_manage_drafts(caller, mailbox)?;
        let address = self.existing_mailbox(owner.address()).await?;
        Ok(self.0.backend.mailboxes.delete_draft(address, uid).await?)
    }
}
