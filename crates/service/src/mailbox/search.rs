//! `GET /mailbox/{email}/search`.

use mailapi_backend::{SearchHit, SearchQuery};
use mailapi_model::{EmailAddress, Listed};

use super::ReadError;
use crate::{Caller, Service};

impl Service {
    /// Searches for messages that contain a text; newest first.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn search(
        &self,
        caller: &Caller,
        mailbox: &EmailAddress,
        query: &SearchQuery,
    ) -> Result<Listed<SearchHit>, ReadError> {
        let reader = caller.grants.may_read(mailbox)?;
        Ok(self.0.backend.mailboxes.search(self.existing(&reader).await?, query).await?)
    }
}
