//! `POST /auth/lockouts/unlock`.

use mailapi_model::{ClientNetwork, Denied, EmailAddress};

use crate::caller::audit;
use crate::{Caller, Service};

impl Service {
    /// Forgets the failed log-ins of a mailbox, of a client, or of both, on this node. Returns the number of lock-outs
    /// that ended.
    ///
    /// # Errors
    /// [`Denied`] to all callers but admins.
    pub fn unlock(
        &self,
        caller: &Caller,
        mailbox: Option<&EmailAddress>,
        client: Option<ClientNetwork>,
    ) -> Result<usize, Denied> {
        caller.grants.admin()?;
        let steady = self.0.clock.steady();
        let unlocked = self.0.failed_logins.forget(mailbox.map(EmailAddress::as_str), client, steady);
        audit!(caller, unlocked, "failed log-ins forgotten");
        Ok(unlocked)
    }
}
