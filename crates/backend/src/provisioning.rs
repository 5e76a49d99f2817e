//! Telling the mail server who has a mailbox.

use async_trait::async_trait;
use mailapi_model::{DomainName, EmailAddress, Timestamp};

/// Keeps the mail server's view of domains and mailboxes equal to the accounts. Everything here may be repeated; a
/// mail server that reads the account database itself has nothing to do.
#[async_trait]
pub trait Provisioning: Send + Sync {
    /// Mail for the domain is to be delivered here.
    async fn put_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError>;

    /// Mail for the domain is no longer to be delivered here.
    async fn remove_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError>;

    /// The account is new. An existing mailbox belonged to an earlier owner, and the new owner must not read it.
    async fn new_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        self.put_mailbox(mailbox, quota_bytes).await
    }

    /// The account's limit changed. Creates no mailbox.
    async fn set_quota(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        let _ = (mailbox, quota_bytes);
        Ok(())
    }

    /// The mailbox exists and may hold this many octets.
    async fn put_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError>;

    /// The mailbox and all its mail are gone.
    async fn remove_mailbox(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError>;

    /// The password, the state or the name of a mailbox's account changed: what the mail server remembers of it is out
    /// of date. One that remembers nothing has nothing to do.
    async fn account_changed(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        let _ = mailbox;
        Ok(())
    }

    /// Whether the mail server looks mailboxes up in the account database: it then has none that is not there, and
    /// asking it for one costs a failed log-in.
    fn looks_accounts_up(&self) -> bool {
        false
    }

    /// Makes the mailbox of this address match the accounts, after the two have diverged. `account` is the limit of its
    /// account, or `None` without an account. Mail without an owner is quarantined.
    async fn repair_mailbox(
        &self,
        mailbox: &EmailAddress,
        account: Option<Option<u64>>,
    ) -> Result<(), ProvisioningError> {
        let _ = (mailbox, account);
        Ok(())
    }

    /// The same for a domain: whether its mail is delivered here.
    async fn repair_domain(&self, domain: &DomainName, is_here: bool) -> Result<(), ProvisioningError> {
        let _ = (domain, is_here);
        Ok(())
    }

    /// Quarantined mail: mail without an owner.
    async fn quarantined(&self) -> Result<Vec<Quarantined>, ProvisioningError> {
        Ok(Vec::new())
    }

    /// All domains that the mail server was told of, in alphabetical order, so that what a crash left out can be
    /// told again; `None` where the mail server reads the account database itself.
    async fn domains(&self) -> Result<Option<Vec<DomainName>>, ProvisioningError> {
        Ok(None)
    }

    /// At most `limit` mailboxes behind `after` in alphabetical order, as the mail server was told of them; `None` as for
    /// [`Provisioning::domains`].
    async fn mailboxes_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<KnownMailbox>>, ProvisioningError> {
        let _ = (after, limit);
        Ok(None)
    }
}

/// A mailbox as the mail server was told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownMailbox {
    /// Whose it is.
    pub address: EmailAddress,
    /// How many octets it may hold; any number without a limit.
    pub quota_bytes: Option<u64>,
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

/// The mail server could not be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the mail server could not be told: {0}")]
pub struct ProvisioningError(pub String);
