//! `POST /domains/{domain}/dns/rollback`: undoes the newest plan.

use mailapi_model::{ChangeState, DomainName, RecordedChange, SetChange};

use super::PublishError;
use super::apply::{AttemptedChange, made};
use crate::caller::audit;
use crate::{Caller, Service};

impl Service {
    /// Undoes the changes of the newest plan that is applied, the last one first. Records that changed since stay as they are.
    ///
    /// # Errors
    /// [`PublishError::PlanChanged`] if another plan is the newest one; see [`PublishError`].
    pub async fn roll_back_dns(
        &self,
        caller: &Caller,
        name: &DomainName,
        plan_id: &str,
    ) -> Result<Vec<AttemptedChange>, PublishError> {
        caller.grants.admin()?;
        let (plan_id, domain, by) = (plan_id.to_owned(), name.clone(), caller.clone());
        self.with_domain_lock(name, async move |service: Self| service.roll_back(&domain, &plan_id, &by).await).await
    }

    async fn roll_back(
        &self,
        name: &DomainName,
        plan_id: &str,
        by: &Caller,
    ) -> Result<Vec<AttemptedChange>, PublishError> {
        let primary = self.primary_of(name).await?;
        self.settle(&primary, name).await?;
        let rows = self.0.store.dns_changes();
        let newest = rows.newest_applied(name).await?;
        if newest.first().is_none_or(|change| change.plan != plan_id) {
            return Err(PublishError::PlanChanged);
        }
        let mut undone = Vec::new();
        for RecordedChange { id, change, .. } in newest {
            let SetChange { zone, name: record, kind, before, after } = change;
            let back = SetChange { zone, name: record, kind, before: after, after: before };
            let (state, error) = made(&primary, &back).await;
            // A refused or unanswered way back leaves the change applied, until the next look.
            if state == ChangeState::Applied {
                rows.set_state(id, ChangeState::RolledBack, self.0.clock.now()).await?;
            }
            let state = if state == ChangeState::Applied { ChangeState::RolledBack } else { ChangeState::Applied };
            audit!(by, domain = %name, record = back.name, state = state.as_str(), error, "DNS record changed back");
            undone.push(AttemptedChange { change: back, state: Some(state), error });
        }
        Ok(undone)
    }
}
