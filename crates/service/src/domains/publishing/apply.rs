//! `POST /domains/{domain}/dns/apply`: makes the changes of a plan.

use std::time::Duration;

use mailapi_backend::UpdateError;
use mailapi_model::{ChangeState, DomainName, RecordedChange, SetChange};
use tokio::time::{Instant, sleep};

use super::PublishError;
use super::plan::{DnsPlan, PlanOptions, PlannedChange};
use super::primary::Primary;
use super::propagation::ServerView;
use crate::caller::audit;
use crate::{Caller, Service};

/// Time until a server answers what it accepted: one that signs its zone needs some milliseconds.
const UNTIL_ANSWERED: Duration = Duration::from_secs(5);

/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// What became of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedPlan {
    /// The plan.
    pub plan: DnsPlan,
    /// Its changes, in order. After one that failed, the others may not have been tried.
    pub changes: Vec<AttemptedChange>,
    /// The name servers of the zone, and whether each one has all records; empty if all changes failed.
    pub servers: Vec<ServerView>,
    /// Whether the domain is verified now.
    pub verified: bool,
}

/// A change that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptedChange {
    /// The change.
    pub change: SetChange,
    /// What became of it; `None` if it was not tried.
    pub state: Option<ChangeState>,
    /// Why it was not applied.
    pub error: Option<String>,
}

impl Service {
    /// Makes the changes of a plan, if it is still the plan that the caller has seen. Then waits until the name servers of the
    /// zone have the records, and verifies the domain.
    ///
    /// # Errors
    /// [`PublishError::PlanChanged`] if DNS has moved since the plan was made; see [`PublishError`]. A refused change is no
    /// error but a state of the change.
    pub async fn apply_dns(
        &self,
        caller: &Caller,
        name: &DomainName,
        plan_id: &str,
        options: &PlanOptions,
    ) -> Result<AppliedPlan, PublishError> {
        caller.grants.admin()?;
        let (plan_id, options, domain, by) = (plan_id.to_owned(), options.clone(), name.clone(), caller.clone());
        let applied = self.with_domain_lock(name, async move |service: Self| {
            let mut applied = service.apply_plan(&domain, &plan_id, &options, &by).await?;
            if applied.changes.iter().all(|change| change.state == Some(ChangeState::Applied)) {
                applied.verified = service.verify_domain(&by, &domain).await?.verified;
            }
            Ok(applied)
        });
        applied.await
    }

    async fn apply_plan(
        &self,
        name: &DomainName,
        plan_id: &str,
        options: &PlanOptions,
        by: &Caller,
    ) -> Result<AppliedPlan, PublishError> {
        let primary = self.primary_of(name).await?;
        self.settle(&primary, name).await?;
        let plan = self.plan_at(&primary, name, options).await?;
        if plan.plan_id != plan_id {
            return Err(PublishError::PlanChanged);
        }
        let changes = self.make_changes(&primary, name, plan_id, &plan.changes, by).await?;
        let made = changes.iter().filter(|attempted| attempted.state == Some(ChangeState::Applied));
        let made: Vec<_> = made.map(|attempted| attempted.change.clone()).collect();
        // Without a change that was made, there is nothing to see.
        let servers = match made.is_empty() && !changes.is_empty() {
            true => Vec::new(),
            false => self.seen_at_servers(&primary, &made).await,
        };
        Ok(AppliedPlan { plan, changes, servers, verified: false })
    }

    /// Publishes the records of DKIM keys that wait for them, and removes those of retired keys, if the operator wants keys to
    /// be rotated and the domain has a provider.
    pub(in crate::domains) async fn publish_keys(&self, name: &DomainName) -> Result<(), PublishError> {
        if self.0.settings.dkim_rotate_after.is_none() || self.0.store.dns_providers().get(name).await?.is_none() {
            return Ok(());
        }
        self.publish_alone(name, "DKIM").await
    }

    /// Makes the changes of one purpose. Everything else of the plan is left to a person.
    pub(in crate::domains) async fn publish_alone(
        &self,
        name: &DomainName,
        purpose: &'static str,
    ) -> Result<(), PublishError> {
        let domain = name.clone();
        let published = self.with_domain_lock(name, async move |service: Self| {
            let primary = service.primary_of(&domain).await?;
            service.settle(&primary, &domain).await?;
            let mut plan = service.plan_at(&primary, &domain, &PlanOptions::default()).await?;
            plan.changes.retain(|change| change.purpose == purpose);
            let by = Caller::operator();
            service.make_changes(&primary, &domain, &plan.plan_id, &plan.changes, &by).await.map(drop)
        });
        published.await
    }

    /// Makes changes in their order. After one whose result is open, none is tried.
    async fn make_changes(
        &self,
        primary: &Primary<'_>,
        name: &DomainName,
        plan_id: &str,
        planned: &[PlannedChange],
        by: &Caller,
    ) -> Result<Vec<AttemptedChange>, PublishError> {
        let mut changes: Vec<AttemptedChange> = Vec::new();
        for PlannedChange { change, purpose, .. } in planned {
            let goes_on =
                changes.iter().all(|before| before.error.is_none() || before.state == Some(ChangeState::Refused));
            let attempted = match goes_on {
                true => self.attempt(primary, name, plan_id, change).await?,
                false => AttemptedChange { change: change.clone(), state: None, error: None },
            };
            let state = attempted.state.map(ChangeState::as_str);
            audit!(by, domain = %name, purpose, record = change.name, state, error = attempted.error, "DNS record changed");
            changes.push(attempted);
        }
        Ok(changes)
    }

    /// Makes one change. Its row is there before it is sent, so that a crash leaves no change unknown.
    async fn attempt(
        &self,
        primary: &Primary<'_>,
        name: &DomainName,
        plan_id: &str,
        change: &SetChange,
    ) -> Result<AttemptedChange, PublishError> {
        let (rows, clock) = (self.0.store.dns_changes(), &self.0.clock);
        let id = rows.begin(name, plan_id, change, clock.now()).await?;
        let (state, error) = made(primary, change).await;
        rows.set_state(id, state, clock.now()).await?;
        Ok(AttemptedChange { change: change.clone(), state: Some(state), error })
    }

    /// Finds out what became of the changes without a known answer.
    pub(super) async fn settle(&self, primary: &Primary<'_>, name: &DomainName) -> Result<(), PublishError> {
        let rows = self.0.store.dns_changes();
        for RecordedChange { id, change, .. } in rows.pending(name).await? {
            let now = primary.records(&change.name, change.kind).await.map_err(PublishError::Unanswered)?;
            let state = if now.has_records_of(&change.after) { ChangeState::Applied } else { ChangeState::Refused };
            rows.set_state(id, state, self.0.clock.now()).await?;
        }
        Ok(())
    }
}

/// Sends a change, and reads the records back: an accepted change may be ignored (RFC 2136 section 3.4.2).
pub(super) async fn made(primary: &Primary<'_>, change: &SetChange) -> (ChangeState, Option<String>) {
    match primary.replace(change).await {
        Ok(()) => {}
        Err(error @ (UpdateError::Unanswered(_) | UpdateError::NotSigned)) => {
            return (ChangeState::Pending, Some(error.to_string()));
        }
        Err(error) => return (ChangeState::Refused, Some(error.to_string())),
    }
    let end = Instant::now() + UNTIL_ANSWERED;
    loop {
        let found = primary.records(&change.name, change.kind).await;
        match found {
            Ok(found) if found.has_records_of(&change.after) => return (ChangeState::Applied, None),
            Err(error) if Instant::now() >= end => return (ChangeState::Pending, Some(error.to_string())),
            Ok(_) if Instant::now() >= end => {
                let why =
                    "the change was accepted, and other records are answered: the name may belong to another zone";
                return (ChangeState::Refused, Some(why.to_owned()));
            }
            _ => sleep(PAUSE).await,
        }
    }
}
