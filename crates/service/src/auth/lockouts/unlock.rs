//! `POST /auth/lockouts/unlock`.

use mailapi_model::Denied;

use super::Unlock;
use crate::caller::audit;
use crate::{Caller, Service};

impl Service {
    /// Forgets failed logins on this node. Returns the number of lock-outs that ended.
    ///
    /// # Errors
    /// [`Denied`] to all callers but admins.
    pub fn unlock(&self, caller: &Caller, unlock: &Unlock) -> Result<usize, Denied> {
        caller.grants.admin()?;
        let steady = self.0.clock.steady();
        let unlocked = self.0.failed_logins.forget(unlock, steady);
        audit!(caller, unlocked, "failed logins forgotten");
        Ok(unlocked)
    }
}
