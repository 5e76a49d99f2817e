//! The check of the records of every domain once a day.

use std::time::Duration;

use mailapi_model::DomainName;

use super::PublishError;
use crate::{Service, Unavailable, is_local_name};

/// Time between two checks of a domain.
const USUAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Time between two checks of a domain that was found broken, or has a key that waits for its record.
const SOON: Duration = Duration::from_secs(60 * 60);

/// Maximum number of domains in one step.
const STEP: usize = 20;

impl Service {
    /// Checks the records of domains whose last check is old. Returns whether more of them wait.
    ///
    /// A domain is unverified when two checks in a row have found a record that is not right: name servers that are being
    /// changed answer anything for a moment.
    ///
    /// # Errors
    /// [`Unavailable`] if the store is. A domain that cannot be checked does not stop the others.
    pub async fn watch_domains_once(&self) -> Result<bool, Unavailable> {
        // No record can be right for a server that others cannot find.
        if is_local_name(&self.0.settings.mail_host) {
            return Ok(false);
        }
        let (domains, now) = (self.0.store.domains(), self.0.clock.now());
        let (usual, soon) = (now.minus(USUAL), now.minus(SOON));
        let waiting = domains.due_for_check(usual, soon, STEP).await?;
        for name in &waiting {
            if domains.begin_check(name, soon, now).await? {
                self.watch_domain(name).await.unwrap_or_else(|error| {
                    tracing::warn!(domain = %name, %error, "could not check the DNS records of a domain");
                });
            }
        }
        Ok(waiting.len() == STEP)
    }

    async fn watch_domain(&self, name: &DomainName) -> Result<(), PublishError> {
        let check = self.check_records(name).await?;
        match check.verdict {
            Some(true) => self.set_verified(name, &check).await?,
            Some(false) if self.0.store.domains().check_failed(name).await? => {
                self.set_unverified(name, &check).await?
            }
            Some(false) | None => {}
        }
        self.step_dkim_keys(name, &check).await?;
        self.rotate_old_keys(name, &check).await?;
        self.publish_keys(name).await
    }
}
