//! Provisioning of domains and mailboxes at the mail server.

use async_trait::async_trait;
use mailapi_model::{Alias, DomainName, EmailAddress, MailboxOptions, RuleSet, SaveSent, Timestamp, Violations};

/// Keeps the mail server's domains, mailboxes and aliases equal to the accounts. All operations may be repeated. For a
/// mail server that reads the account database itself they do nothing.
#[async_trait]
pub trait Provisioning: Send + Sync {
    /// Makes the mail server deliver mail for the domain here.
    async fn put_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError>;

    /// Makes the mail server stop delivering mail for the domain here.
    async fn remove_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError>;

    /// Creates the mailbox of a new account. An existing mailbox belonged to an earlier owner, and the new
    /// owner must not read it.
    async fn new_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        self.put_mailbox(mailbox, quota_bytes).await
    }

    /// Changes the quota of an account in bytes. Creates no mailbox.
    async fn set_quota(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        let _ = (mailbox, quota_bytes);
        Ok(())
    }

    /// Returns whether the mail server copies sent messages to the mailbox of their author.
    fn saves_sent(&self) -> bool {
        false
    }

    /// Changes which messages of the owner are copied to the folder for sent mail. Creates no mailbox.
    async fn set_save_sent(&self, mailbox: &EmailAddress, save_sent: SaveSent) -> Result<(), ProvisioningError> {
        let _ = (mailbox, save_sent);
        Ok(())
    }

    /// Creates the mailbox if needed, and sets its quota in bytes.
    async fn put_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError>;

    /// Removes the mailbox with all its mail.
    async fn remove_mailbox(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError>;

    /// Invalidates the mail server's cache of an account after a change of its password, state or name.
    async fn account_changed(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        let _ = mailbox;
        Ok(())
    }

    /// Creates an alias, or replaces its members and its state.
    async fn put_alias(&self, alias: &Alias) -> Result<(), ProvisioningError> {
        let _ = alias;
        Ok(())
    }

    /// Removes an alias.
    async fn remove_alias(&self, address: &EmailAddress) -> Result<(), ProvisioningError> {
        let _ = address;
        Ok(())
    }

    /// Removes all aliases of a domain.
    async fn remove_aliases_of(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        let _ = domain;
        Ok(())
    }

    /// Returns at most `limit` aliases of the mail server after `after`, in the order of their addresses; `None` as for
    /// [`Provisioning::domains`].
    async fn aliases_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<Alias>>, ProvisioningError> {
        let _ = (after, limit);
        Ok(None)
    }

    /// Makes the alias with this address match the accounts, after the two have diverged. `alias` is `None` if it does
    /// not exist.
    async fn repair_alias(&self, address: &EmailAddress, alias: Option<&Alias>) -> Result<(), ProvisioningError> {
        match alias {
            Some(alias) => self.put_alias(alias).await,
            None => self.remove_alias(address).await,
        }
    }

    /// Checks that the mail server applies these rules.
    ///
    /// # Errors
    /// What it does not apply, as violations of members of `rules`.
    fn check_rules(&self, rules: &RuleSet) -> Result<(), Violations> {
        let _ = rules;
        Err(Violations::of("rules", "are not applied by this mail server; use its own filters"))
    }

    /// Replaces the rules of a mailbox.
    async fn put_rules(&self, mailbox: &EmailAddress, rules: &RuleSet) -> Result<(), ProvisioningError> {
        let _ = (mailbox, rules);
        Ok(())
    }

    /// Returns the rules of at most `limit` mailboxes with rules after `after`, in the order of their addresses; `None`
    /// as for [`Provisioning::domains`].
    async fn rules_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<(EmailAddress, RuleSet)>>, ProvisioningError> {
        let _ = (after, limit);
        Ok(None)
    }

    /// Makes the rules of a mailbox match the accounts, after the two have diverged.
    async fn repair_rules(&self, mailbox: &EmailAddress, rules: &RuleSet) -> Result<(), ProvisioningError> {
        self.put_rules(mailbox, rules).await
    }

    /// Ends the open sessions of a mailbox at a mail server that does not check them before each command. Mail programs
    /// that are still allowed log in again.
    async fn end_sessions(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        let _ = mailbox;
        Ok(())
    }

    /// Returns whether the mail server looks up mailboxes in the account database. It then has no others, and
    /// querying it for one costs a failed login.
    fn looks_accounts_up(&self) -> bool {
        false
    }

    /// Makes the mailbox of this address match the accounts, after the two have diverged. `account` has the
    /// options of its account, or is `None` without an account. Mail without an owner is quarantined.
    async fn repair_mailbox(
        &self,
        mailbox: &EmailAddress,
        account: Option<MailboxOptions>,
    ) -> Result<(), ProvisioningError> {
        let _ = (mailbox, account);
        Ok(())
    }

    /// Makes a domain match the accounts: whether its mail is delivered here.
    async fn repair_domain(&self, domain: &DomainName, is_here: bool) -> Result<(), ProvisioningError> {
        let _ = (domain, is_here);
        Ok(())
    }

    /// Returns the quarantined mailboxes, which have no owner.
    async fn quarantined(&self) -> Result<Vec<Quarantined>, ProvisioningError> {
        Ok(Vec::new())
    }

    /// Returns all domains of the mail server in alphabetical order, so that changes lost in a crash can be
    /// repeated; `None` if it reads the account database itself.
    async fn domains(&self) -> Result<Option<Vec<DomainName>>, ProvisioningError> {
        Ok(None)
    }

    /// Returns at most `limit` mailboxes of the mail server after `after`, in alphabetical order; `None` as
    /// for [`Provisioning::domains`].
    async fn mailboxes_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<KnownMailbox>>, ProvisioningError> {
        let _ = (after, limit);
        Ok(None)
    }
}

/// A mailbox as the mail server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownMailbox {
    /// The address.
    pub address: EmailAddress,
    /// Its options.
    pub options: MailboxOptions,
}

/// A mailbox without an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// The mailbox's former address.
    pub address: EmailAddress,
    /// Number of messages in it.
    pub messages: u64,
    /// When it was quarantined.
    pub since: Timestamp,
}

/// Provisioning failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the mail server could not be updated: {0}")]
pub struct ProvisioningError(pub String);
