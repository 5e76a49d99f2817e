//! `GET` and `PUT /users/{email}/rules`.

use mailapi_model::{Denied, EmailAddress, OwnRules, RuleFields, RuleSet, Violations};
use mailapi_store::StoreError;

use super::UserError;
use crate::caller::audit;
use crate::{Caller, Service, Unavailable};

impl Service {
    /// Returns the right to manage the rules of this account.
    ///
    /// # Errors
    /// [`Denied`] without the right.
    pub fn may_manage_rules(&self, caller: &Caller, email: &EmailAddress) -> Result<OwnRules, Denied> {
        caller.grants.may_manage_rules_of(email)
    }

    /// Returns the rules of a mailbox.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn get_rules(&self, caller: &Caller, email: &EmailAddress) -> Result<RuleSet, UserError> {
        self.may_manage_rules(caller, email)?;
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(UserError::NotFound);
        }
        Ok(self.0.store.rules().get(email).await?)
    }

    /// Replaces the rules of a mailbox.
    ///
    /// The account database is changed first; after a crash, [`Service::reconcile`] repairs the difference.
    ///
    /// # Errors
    /// See [`UserError`]. Rules that the mail server does not apply are violations.
    pub async fn replace_rules(
        &self,
        caller: &Caller,
        email: &EmailAddress,
        rules: Vec<RuleFields>,
    ) -> Result<RuleSet, UserError> {
        self.may_manage_rules(caller, email)?;
        let rules = RuleSet::check(email, rules)?;
        if rules.compare_fraud() && !self.0.settings.security_analysis {
            let message = "must have no verdict suspicious or dangerous while security.analysis is off";
            return Err(Violations::of("rules", message).into());
        }
        if !rules.is_empty() {
            self.0.backend.provisioning.check_rules(&rules)?;
        }
        let (email, lock, by) = (email.clone(), email.clone(), caller.clone());
        self.with_address_lock(&lock, async move |service: Self| service.put_rules(&email, rules, &by).await).await
    }

    async fn put_rules(&self, email: &EmailAddress, rules: RuleSet, by: &Caller) -> Result<RuleSet, UserError> {
        if self.0.store.accounts().get(email).await?.is_none() {
            return Err(UserError::NotFound);
        }
        match self.0.store.rules().put(email, &rules).await {
            Ok(()) => {}
            // The account was deleted meanwhile.
            Err(StoreError::Reference) => return Err(UserError::NotFound),
            Err(error) => return Err(error.into()),
        }
        self.0.backend.provisioning.put_rules(email, &rules).await.map_err(Unavailable::mailboxes)?;
        audit!(by, mailbox = %email, rules = rules.all().len(), "rules replaced");
        Ok(rules)
    }
}
