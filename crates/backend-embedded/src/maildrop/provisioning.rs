//! Domains and mailboxes as the accounts want them.

use async_trait::async_trait;
use mailapi_backend::{Provisioning, ProvisioningError};
use mailapi_model::{DomainName, EmailAddress};
use rusqlite::params;

use super::{Maildrop, MaildropError, mailbox};

#[async_trait]
impl Provisioning for Maildrop {
    async fn put_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.change_domain("INSERT INTO drop_domains (name) VALUES (?1) ON CONFLICT DO NOTHING", domain).await
    }

    async fn remove_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.change_domain("DELETE FROM drop_domains WHERE name = ?1", domain).await
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        let (address, now) = (mailbox.clone(), self.clock().now());
        self.write(move |connection, _| mailbox::put(connection, &address, quota_bytes, now).map(drop))
            .await
            .map_err(not_told)
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        let address = mailbox.clone();
        self.write(move |connection, touched| {
            if let Some(mailbox) = mailbox::remove(connection, &address)? {
                touched.mailbox(mailbox);
                touched.chores();
            }
            Ok(())
        })
        .await
        .map_err(not_told)
    }
}

impl Maildrop {
    async fn change_domain(&self, sql: &'static str, domain: &DomainName) -> Result<(), ProvisioningError> {
        let name = domain.as_str().to_owned();
        self.write(move |connection, _| {
            connection.prepare_cached(sql)?.execute(params![name])?;
            Ok(())
        })
        .await
        .map_err(not_told)
    }
}

fn not_told(error: MaildropError) -> ProvisioningError {
    ProvisioningError(error.to_string())
}
