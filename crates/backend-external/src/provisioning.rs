//! Provisioning: Postfix and Dovecot look up mailboxes in this server's database, through the views that the maps
//! printed by `mailapi config` use. What remains is to clear caches, theirs and ours.

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{MailboxError, Mailboxes as _, Provisioning, ProvisioningError};
use mailapi_model::{DomainName, EmailAddress, RuleSet, Violations};

use crate::doveadm::{Doveadm, DoveadmError};
use crate::mailboxes::ImapMailboxes;

/// Provisioning for mail servers that read the account database.
pub(crate) struct SharedDatabase {
    mailboxes: Arc<ImapMailboxes>,
    doveadm: Option<Arc<Doveadm>>,
    applies_rules: bool,
}

impl SharedDatabase {
    pub(crate) const fn new(mailboxes: Arc<ImapMailboxes>, doveadm: Option<Arc<Doveadm>>, applies_rules: bool) -> Self {
        Self { mailboxes, doveadm, applies_rules }
    }

    /// Drops what the caches hold of a mailbox. An entry that could not be flushed expires by itself, so a failure is
    /// only logged.
    async fn forget(&self, mailbox: &EmailAddress) {
        self.mailboxes.forget(mailbox);
        if let Some(doveadm) = &self.doveadm
            && let Err(error @ DoveadmError::Failed(_)) = doveadm.flush_auth_cache(mailbox).await
        {
            tracing::warn!(%error, %mailbox, "could not flush Dovecot's authentication cache for a mailbox");
        }
    }

    /// Ends the sessions of a mailbox. A failure is only logged: the change in the account database is done.
    async fn let_go(&self, mailbox: &EmailAddress) {
        if let Some(doveadm) = &self.doveadm
            && let Err(error @ DoveadmError::Failed(_)) = doveadm.let_go(mailbox).await
        {
            tracing::warn!(%error, %mailbox, "could not end the sessions of a mailbox");
        }
    }
}

#[async_trait]
impl Provisioning for SharedDatabase {
    fn looks_accounts_up(&self) -> bool {
        true
    }

    async fn put_domain(&self, _: &DomainName) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn remove_domain(&self, _: &DomainName) -> Result<(), ProvisioningError> {
        Ok(())
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, _: Option<u64>) -> Result<(), ProvisioningError> {
        self.forget(mailbox).await;
        Ok(())
    }

    async fn set_quota(&self, mailbox: &EmailAddress, _: Option<u64>) -> Result<(), ProvisioningError> {
        self.forget(mailbox).await;
        Ok(())
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        match self.mailboxes.purge(mailbox).await {
            Ok(_) | Err(MailboxError::NoSuchMailbox) => {}
            Err(error) => return Err(ProvisioningError(error.to_string())),
        }
        self.let_go(mailbox).await;
        // If the server no longer has the mailbox, the purge has not erased the index.
        self.mailboxes.erase_index(mailbox).await;
        self.mailboxes.forget(mailbox);
        Ok(())
    }

    fn check_rules(&self, rules: &RuleSet) -> Result<(), Violations> {
        if !self.applies_rules {
            let message = "are not applied in front of this Dovecot; see `mail.external.rules` in the configuration";
            return Err(Violations::of("rules", message));
        }
        if rules.compare_fraud() {
            let message =
                "must have no verdict suspicious or dangerous in front of Dovecot: it delivers before the analysis";
            return Err(Violations::of("rules", message));
        }
        // One address that Sieve refuses would disable the whole script.
        let foreign = rules.addresses().find(|address| !address.as_str().is_ascii());
        let violation =
            |address| Violations::of("rules", format!("must not contain {address}: Sieve has no such addresses"));
        foreign.map_or(Ok(()), |address| Err(violation(address)))
    }

    async fn account_changed(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.forget(mailbox).await;
        Ok(())
    }

    async fn end_sessions(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        self.let_go(mailbox).await;
        Ok(())
    }
}
