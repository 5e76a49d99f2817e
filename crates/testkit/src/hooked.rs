//! Provisioning in which a test can block or fail single changes. Everything else is passed on.

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{KnownMailbox, Provisioning, ProvisioningError, Quarantined};
use mailapi_model::{Alias, DomainName, EmailAddress, MailboxOptions, RuleSet, SaveSent, Violations};

/// Called around each change of the mail server.
#[async_trait]
pub trait ProvisioningHook: Send + Sync {
    /// Called before the change; an error replaces it.
    async fn before(&self) -> Result<(), ProvisioningError> {
        Ok(())
    }

    /// Called after the change.
    async fn after(&self) {}
}

/// Provisioning with a hook.
pub struct HookedProvisioning<H> {
    /// Makes the changes.
    pub behind: Arc<dyn Provisioning>,
    /// Called around them.
    pub hook: H,
}

impl<H: ProvisioningHook> HookedProvisioning<H> {
    async fn around<T>(
        &self,
        change: impl Future<Output = Result<T, ProvisioningError>>,
    ) -> Result<T, ProvisioningError> {
        self.hook.before().await?;
        let changed = change.await;
        self.hook.after().await;
        changed
    }
}

#[async_trait]
impl<H: ProvisioningHook> Provisioning for HookedProvisioning<H> {
    async fn put_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.around(self.behind.put_domain(domain)).await
    }

    async fn remove_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.around(self.behind.remove_domain(domain)).await
    }

    async fn new_mailbox(&self, mailbox: &EmailAddress, quota: Option<u64>) -> Result<(), ProvisioningError> {
        self.around(self.behind.new_mailbox(mailbox, quota)).await
    }

    async fn set_quota(&self, mailbox: &EmailAddress, quota: Option<u64>) -> Result<(), ProvisioningError> {
        self.around(self.behind.set_quota(mailbox, quota)).await
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, quota: Option<u64>) -> Result<(), ProvisioningError> {
        self.around(self.behind.put_mailbox(mailbox, quota)).await
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.around(self.behind.remove_mailbox(mailbox)).await
    }

    async fn account_changed(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.around(self.behind.account_changed(mailbox)).await
    }

    async fn put_alias(&self, alias: &Alias) -> Result<(), ProvisioningError> {
        self.around(self.behind.put_alias(alias)).await
    }

    async fn remove_alias(&self, address: &EmailAddress) -> Result<(), ProvisioningError> {
        self.around(self.behind.remove_alias(address)).await
    }

    async fn remove_aliases_of(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.around(self.behind.remove_aliases_of(domain)).await
    }

    async fn aliases_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<Alias>>, ProvisioningError> {
        self.behind.aliases_after(after, limit).await
    }

    async fn repair_alias(&self, address: &EmailAddress, alias: Option<&Alias>) -> Result<(), ProvisioningError> {
        self.around(self.behind.repair_alias(address, alias)).await
    }

    fn saves_sent(&self) -> bool {
        self.behind.saves_sent()
    }

    async fn set_save_sent(&self, mailbox: &EmailAddress, save_sent: SaveSent) -> Result<(), ProvisioningError> {
        self.around(self.behind.set_save_sent(mailbox, save_sent)).await
    }

    fn check_rules(&self, rules: &RuleSet) -> Result<(), Violations> {
        self.behind.check_rules(rules)
    }

    async fn put_rules(&self, mailbox: &EmailAddress, rules: &RuleSet) -> Result<(), ProvisioningError> {
        self.around(self.behind.put_rules(mailbox, rules)).await
    }

    async fn rules_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<(EmailAddress, RuleSet)>>, ProvisioningError> {
        self.behind.rules_after(after, limit).await
    }

    async fn repair_rules(&self, mailbox: &EmailAddress, rules: &RuleSet) -> Result<(), ProvisioningError> {
        self.around(self.behind.repair_rules(mailbox, rules)).await
    }

    fn looks_accounts_up(&self) -> bool {
        self.behind.looks_accounts_up()
    }

    async fn repair_mailbox(
        &self,
        mailbox: &EmailAddress,
        account: Option<MailboxOptions>,
    ) -> Result<(), ProvisioningError> {
        self.around(self.behind.repair_mailbox(mailbox, account)).await
    }

    async fn repair_domain(&self, domain: &DomainName, is_here: bool) -> Result<(), ProvisioningError> {
        self.around(self.behind.repair_domain(domain, is_here)).await
    }

    async fn quarantined(&self) -> Result<Vec<Quarantined>, ProvisioningError> {
        self.behind.quarantined().await
    }

    async fn domains(&self) -> Result<Option<Vec<DomainName>>, ProvisioningError> {
        self.behind.domains().await
    }

    async fn mailboxes_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<KnownMailbox>>, ProvisioningError> {
        self.behind.mailboxes_after(after, limit).await
    }
}
