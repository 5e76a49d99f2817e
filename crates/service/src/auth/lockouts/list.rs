//! `GET /auth/lockouts`.

use mailapi_model::{Denied, Listed, Page};

use super::Lockout;
use crate::auth::failures::LockedOut;
use crate::{Caller, Service};

impl Service {
    /// Returns the lock-outs of this node, the longest remaining time first.
    ///
    /// # Errors
    /// [`Denied`] to all callers but admins.
    pub fn list_lockouts(&self, caller: &Caller, page: Page) -> Result<Listed<Lockout>, Denied> {
        caller.grants.admin()?;
        let (now, steady) = (self.0.clock.now(), self.0.clock.steady());
        let all = self.0.failed_logins.locked_out(steady);
        let shown = |LockedOut { mailbox, token, client, remaining }| Lockout {
            mailbox,
            token,
            client,
            until: now.plus(remaining),
        };
        let total = all.len() as u64;
        let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
        let items = all.into_iter().skip(offset).take(page.limit() as usize).map(shown).collect();
        Ok(Listed { total, items })
    }
}
