//! Provisioning for accounts in the same file. The message store changes in the transactions that change
//! accounts and domains, so later calls for the same change are no-ops.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{KnownMailbox, Provisioning, ProvisioningError, Quarantined};
use mailapi_model::{Alias, Clock, DomainName, EmailAddress, MailboxOptions, RuleSet, Violations};
use mailapi_store::StoreError;
use mailapi_store::sqlite::{Followed, FollowsAccounts};
use rusqlite::Connection;

use super::provisioning::{put_domain, remove_domain};
use super::{Announcement, Changes, MessageStore, MessageStoreError, Touched, alias, mailbox, quarantine, rules};

/// Changes mailboxes inside the transactions of the account store. It has no handle on the file, because the
/// file owns the follower.
pub(crate) struct Follower {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) changes: Arc<Changes>,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}

impl FollowsAccounts for Follower {
    fn follow(&self, connection: &Connection, changed: &[Followed]) -> Result<Box<dyn Send>, StoreError> {
        let mut touched = Touched::default();
        for one in changed {
            self.follow_one(connection, one, &mut touched).map_err(MessageStoreError::into_store)?;
        }
        Ok(Box::new(Announcement::new(touched, Arc::clone(&self.changes))))
    }
}

impl Follower {
    fn follow_one(
        &self,
        connection: &Connection,
        one: &Followed,
        touched: &mut Touched,
    ) -> Result<(), MessageStoreError> {
        match one {
            Followed::Domain { name, is_here: true } => put_domain(connection, name),
            Followed::Domain { name, is_here: false } => remove_domain(connection, name),
            Followed::Account { email, options, is_new } => {
                let now = self.clock.now();
                if *is_new {
                    // Old mail at the address must not be shown to the owner of a new account.
                    quarantine::set_apart(connection, email, now, touched)?;
                }
                mailbox::put_with(connection, email, *options, now)
            }
            Followed::AccountGone(email) => mailbox::remove(connection, email, self.clock.now(), touched).map(drop),
            Followed::Alias(changed) => Ok(alias::put(connection, changed)?),
            Followed::AliasGone(address) => Ok(alias::remove(connection, address)?),
            Followed::Rules(email, changed) => Ok(rules::put(connection, email, changed)?),
        }
    }
}

/// Provisioning of a message store that follows the accounts.
pub(crate) struct InAccountsFile(pub(crate) MessageStore);

#[async_trait]
impl Provisioning for InAccountsFile {
    async fn put_domain(&self, _: &DomainName) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn remove_domain(&self, _: &DomainName) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn put_mailbox(&self, _: &EmailAddress, _: Option<u64>) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn set_quota(&self, _: &EmailAddress, _: Option<u64>) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn remove_mailbox(&self, _: &EmailAddress) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn repair_mailbox(
        &self,
        mailbox: &EmailAddress,
        account: Option<MailboxOptions>,
    ) -> Result<(), ProvisioningError> {
        self.0.repair_mailbox(mailbox, account).await
    }

    async fn repair_domain(&self, domain: &DomainName, is_here: bool) -> Result<(), ProvisioningError> {
        self.0.repair_domain(domain, is_here).await
    }

    async fn repair_alias(&self, address: &EmailAddress, alias: Option<&Alias>) -> Result<(), ProvisioningError> {
        self.0.repair_alias(address, alias).await
    }

    async fn aliases_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<Alias>>, ProvisioningError> {
        self.0.aliases_after(after, limit).await
    }

    fn saves_sent(&self) -> bool {
        true
    }

    fn check_rules(&self, _: &RuleSet) -> Result<(), Violations> {
        Ok(())
    }

    async fn repair_rules(&self, mailbox: &EmailAddress, rules: &RuleSet) -> Result<(), ProvisioningError> {
        self.0.put_rules(mailbox, rules).await
    }

    async fn rules_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<(EmailAddress, RuleSet)>>, ProvisioningError> {
        self.0.rules_after(after, limit).await
    }

    async fn quarantined(&self) -> Result<Vec<Quarantined>, ProvisioningError> {
        self.0.quarantined().await
    }

    async fn domains(&self) -> Result<Option<Vec<DomainName>>, ProvisioningError> {
        self.0.domains().await
    }

    async fn mailboxes_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<KnownMailbox>>, ProvisioningError> {
        self.0.mailboxes_after(after, limit).await
    }
}
