//! Compares the mail server's domains, mailboxes, rules and aliases with the accounts. Repairs differences left by a crash
//! or an older version.

use std::collections::{BTreeMap, BTreeSet};

use mailapi_backend::Quarantined;
use mailapi_model::{Alias, DomainName, EmailAddress, MailboxOptions, RuleSet};
use mailapi_store::StoreError;

use crate::{Service, Unavailable};

/// Number of rows per read.
const STEP: usize = 500;

/// Number of aliases per read; each may have many members.
const ALIASES_STEP: usize = 50;

/// Number of mailboxes whose rules are read at once; each may have many rules.
const RULES_STEP: usize = 50;

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// Number of domains, mailboxes and aliases changed to match the accounts.
    pub repaired: usize,
    /// Mail without an owner, including mail quarantined earlier.
    pub quarantined: Vec<Quarantined>,
}

impl Service {
    /// Makes the mail server's domains, mailboxes, rules and aliases match the accounts: adds missing ones, corrects
    /// options, and removes those without an account. Mail without an owner is quarantined.
    ///
    /// # Errors
    /// [`Unavailable`]; the call can be repeated.
    pub async fn reconcile(&self) -> Result<Reconciled, Unavailable> {
        let removed = usize::try_from(self.remove_closed_accounts().await?).unwrap_or(usize::MAX);
        let repaired = removed
            + self.reconcile_domains().await?
            + self.reconcile_mailboxes().await?
            + self.reconcile_aliases().await?
            + self.reconcile_rules().await?;
        self.write_scripts().await?;
        Ok(Reconciled { repaired, quarantined: self.quarantined().await? })
    }

    /// Returns mail without an owner.
    ///
    /// # Errors
    /// [`Unavailable`] if the mail server cannot be queried.
    pub async fn quarantined(&self) -> Result<Vec<Quarantined>, Unavailable> {
        Ok(self.0.backend.provisioning.quarantined().await?)
    }

    async fn reconcile_domains(&self) -> Result<usize, Unavailable> {
        let Some(known) = self.0.backend.provisioning.domains().await? else { return Ok(0) };
        let known: BTreeSet<DomainName> = known.into_iter().collect();
        let approved: BTreeSet<DomainName> = self.0.store.domains().approved_names().await?.into_iter().collect();
        if approved.is_empty() && !known.is_empty() && self.0.store.accounts().all_options(None, 1).await?.is_empty() {
            // A wrong database is more likely than an installation without any domain.
            tracing::warn!(domains = known.len(), "the database has no domains and no accounts; no domain is removed");
            return Ok(0);
        }
        let differing: Vec<_> = known.symmetric_difference(&approved).cloned().collect();
        for domain in &differing {
            let name = domain.clone();
            self.with_domain_lock(domain, async move |service: Self| service.repair_domain(&name).await).await?;
        }
        Ok(differing.len())
    }

    /// Repairs the domain while it is locked: another process may have changed it since the lists were read.
    async fn repair_domain(&self, name: &DomainName) -> Result<(), Unavailable> {
        let is_here = self.0.store.domains().get(name).await?.is_some_and(|domain| domain.approved);
        Ok(self.0.backend.provisioning.repair_domain(name, is_here).await?)
    }

    /// Walks both lists in parallel; they have the same order.
    async fn reconcile_mailboxes(&self) -> Result<usize, Unavailable> {
        let (mut repaired, mut after): (usize, Option<EmailAddress>) = (0, None);
        let mut seen_accounts = false;
        loop {
            let accounts = self.0.store.accounts().all_options(after.as_ref(), STEP).await?;
            let last = accounts.last().map(|(email, _)| email.clone());
            seen_accounts |= last.is_some();
            let Some(known) = self.mailboxes_between(after.as_ref(), last.as_ref()).await? else { return Ok(repaired) };
            if !seen_accounts && !known.is_empty() {
                // A wrong database is more likely than an installation without any account.
                tracing::warn!(mailboxes = known.len(), "the database has no accounts; no mailbox is removed");
                return Ok(repaired);
            }
            let accounts: BTreeMap<_, _> = accounts.into_iter().collect();
            let addresses: BTreeSet<_> = known.keys().chain(accounts.keys()).collect();
            for address in addresses.into_iter().filter(|address| known.get(address) != accounts.get(address)) {
                let email = address.clone();
                self.with_address_lock(address, async move |service: Self| service.repair_mailbox(&email).await)
                    .await?;
                repaired += 1;
            }
            match last {
                Some(last) => after = Some(last),
                None => return Ok(repaired),
            }
        }
    }

    /// Repairs the mailbox while it is locked: another process may have changed it since the lists were read.
    async fn repair_mailbox(&self, email: &EmailAddress) -> Result<(), Unavailable> {
        let account = self.0.store.accounts().options(email).await?;
        Ok(self.0.backend.provisioning.repair_mailbox(email, account).await?)
    }

    /// The mail server's mailboxes after `after`, up to and including `last`, or all of them.
    async fn mailboxes_between(
        &self,
        after: Option<&EmailAddress>,
        last: Option<&EmailAddress>,
    ) -> Result<Option<BTreeMap<EmailAddress, MailboxOptions>>, Unavailable> {
        let (mut known, mut after) = (BTreeMap::new(), after.cloned());
        loop {
            let page = self.0.backend.provisioning.mailboxes_after(after.as_ref(), STEP).await?;
            let Some(page) = page else { return Ok(None) };
            let Some(end) = page.last().map(|mailbox| mailbox.address.clone()) else { return Ok(Some(known)) };
            let within = page.into_iter().filter(|mailbox| last.is_none_or(|last| mailbox.address <= *last));
            known.extend(within.map(|mailbox| (mailbox.address, mailbox.options)));
            if last.is_some_and(|last| end >= *last) {
                return Ok(Some(known));
            }
            after = Some(end);
        }
    }

    async fn reconcile_aliases(&self) -> Result<usize, Unavailable> {
        let (mut repaired, mut after): (usize, Option<EmailAddress>) = (0, None);
        loop {
            let aliases = self.0.store.aliases().after(after.as_ref(), ALIASES_STEP).await?;
            let last = aliases.last().map(|alias| alias.address.clone());
            let Some(known) = self.aliases_between(after.as_ref(), last.as_ref()).await? else { return Ok(repaired) };
            let aliases: BTreeMap<_, _> = aliases.into_iter().map(|alias| (alias.address.clone(), alias)).collect();
            let addresses: BTreeSet<_> = known.keys().chain(aliases.keys()).collect();
            for address in addresses.into_iter().filter(|address| known.get(address) != aliases.get(address)) {
                let address = address.clone();
                let lock = address.clone();
                self.with_address_lock(&lock, async move |service: Self| service.repair_alias(&address).await).await?;
                repaired += 1;
            }
            match last {
                Some(last) => after = Some(last),
                None => return Ok(repaired),
            }
        }
    }

    /// Walks both lists in parallel, as [`Service::reconcile_mailboxes`].
    async fn reconcile_rules(&self) -> Result<usize, Unavailable> {
        let (mut repaired, mut after): (usize, Option<EmailAddress>) = (0, None);
        loop {
            let rules = self.0.store.rules().after(after.as_ref(), RULES_STEP).await?;
            let last = rules.last().map(|(email, _)| email.clone());
            let Some(known) = self.rules_between(after.as_ref(), last.as_ref()).await? else { return Ok(repaired) };
            let rules: BTreeMap<_, _> = rules.into_iter().collect();
            let emails: BTreeSet<_> = known.keys().chain(rules.keys()).collect();
            for email in emails.into_iter().filter(|email| known.get(email) != rules.get(email)) {
                let (email, lock) = (email.clone(), email.clone());
                self.with_address_lock(&lock, async move |service: Self| service.repair_rules(&email).await).await?;
                repaired += 1;
            }
            match last {
                Some(last) => after = Some(last),
                None => return Ok(repaired),
            }
        }
    }

    /// Writes the Sieve scripts of rules that an older version stored.
    async fn write_scripts(&self) -> Result<(), Unavailable> {
        loop {
            let emails = self.0.store.rules().without_script(RULES_STEP).await?;
            if emails.is_empty() {
                return Ok(());
            }
            for email in emails {
                let lock = email.clone();
                self.with_address_lock(&lock, async move |service: Self| service.write_script(&email).await).await?;
            }
        }
    }

    async fn write_script(&self, email: &EmailAddress) -> Result<(), Unavailable> {
        let rules = self.0.store.rules().get(email).await?;
        match self.0.store.rules().put(email, &rules).await {
            // The account was deleted meanwhile.
            Err(StoreError::Reference) => Ok(()),
            written => Ok(written?),
        }
    }

    /// Repairs the rules while the mailbox is locked, as [`Service::repair_mailbox`].
    async fn repair_rules(&self, email: &EmailAddress) -> Result<(), Unavailable> {
        let rules = self.0.store.rules().get(email).await?;
        Ok(self.0.backend.provisioning.repair_rules(email, &rules).await?)
    }

    /// The mail server's rules after `after`, up to and including `last`, or all of them.
    async fn rules_between(
        &self,
        after: Option<&EmailAddress>,
        last: Option<&EmailAddress>,
    ) -> Result<Option<BTreeMap<EmailAddress, RuleSet>>, Unavailable> {
        let (mut known, mut after) = (BTreeMap::new(), after.cloned());
        loop {
            let page = self.0.backend.provisioning.rules_after(after.as_ref(), RULES_STEP).await?;
            let Some(page) = page else { return Ok(None) };
            let Some(end) = page.last().map(|(email, _)| email.clone()) else { return Ok(Some(known)) };
            known.extend(page.into_iter().filter(|(email, _)| last.is_none_or(|last| email <= last)));
            if last.is_some_and(|last| end >= *last) {
                return Ok(Some(known));
            }
            after = Some(end);
        }
    }

    /// Repairs the alias while it is locked, as [`Service::repair_mailbox`].
    async fn repair_alias(&self, address: &EmailAddress) -> Result<(), Unavailable> {
        let alias = self.0.store.aliases().get(address).await?;
        Ok(self.0.backend.provisioning.repair_alias(address, alias.as_ref()).await?)
    }

    /// The mail server's aliases after `after`, up to and including `last`, or all of them.
    async fn aliases_between(
        &self,
        after: Option<&EmailAddress>,
        last: Option<&EmailAddress>,
    ) -> Result<Option<BTreeMap<EmailAddress, Alias>>, Unavailable> {
        let (mut known, mut after) = (BTreeMap::new(), after.cloned());
        loop {
            let page = self.0.backend.provisioning.aliases_after(after.as_ref(), ALIASES_STEP).await?;
            let Some(page) = page else { return Ok(None) };
            let Some(end) = page.last().map(|alias| alias.address.clone()) else { return Ok(Some(known)) };
            let within = page.into_iter().filter(|alias| last.is_none_or(|last| alias.address <= *last));
            known.extend(within.map(|alias| (alias.address.clone(), alias)));
            if last.is_some_and(|last| end >= *last) {
                return Ok(Some(known));
            }
            after = Some(end);
        }
    }
}
