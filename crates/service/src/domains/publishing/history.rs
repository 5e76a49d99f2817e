//! `GET /domains/{domain}/dns/history`.

use std::time::Duration;

use mailapi_model::{DomainName, Listed, Page, RecordedChange};
use tokio::time::timeout;

use super::PublishError;
use crate::domains::DomainError;
use crate::{Caller, Service};

/// Time to find out about changes without a known answer. A provider that hangs must not delay the list.
const UNTIL_SETTLED: Duration = Duration::from_secs(3);

impl Service {
    /// Returns a page of the changes of a domain's records, newest first.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn dns_history(
        &self,
        caller: &Caller,
        name: &DomainName,
        page: Page,
    ) -> Result<Listed<RecordedChange>, PublishError> {
        caller.grants.admin()?;
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        self.try_to_settle(name).await;
        Ok(self.0.store.dns_changes().list(name, page).await?)
    }

    /// Looks at the changes without a known answer, if their server answers.
    async fn try_to_settle(&self, name: &DomainName) {
        if self.0.store.dns_changes().pending(name).await.is_ok_and(|pending| pending.is_empty()) {
            return;
        }
        let domain = name.clone();
        let settled = self.with_domain_lock(name, async move |service: Self| {
            let primary = service.primary_of(&domain).await?;
            service.settle(&primary, &domain).await
        });
        // The task with the lock goes on after this time.
        let problem = match timeout(UNTIL_SETTLED, settled).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the provider takes long to answer".to_owned(),
        };
        tracing::warn!(domain = %name, error = problem, "it is not known yet what became of a change of DNS records");
    }
}
