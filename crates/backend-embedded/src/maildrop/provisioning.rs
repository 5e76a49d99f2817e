//! Domains and mailboxes as the accounts want them.

use std::str::FromStr;

use async_trait::async_trait;
use mailapi_backend::{Provisioning, ProvisioningError};
use mailapi_model::{DomainName, EmailAddress};
use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

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

    async fn domains(&self) -> Result<Option<Vec<DomainName>>, ProvisioningError> {
        let names = self.names("SELECT name FROM drop_domains ORDER BY name", Vec::new()).await?;
        names.iter().map(|name| parsed(name)).collect::<Result<_, _>>().map(Some)
    }

    async fn mailboxes_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<EmailAddress>>, ProvisioningError> {
        let sql = "SELECT address FROM drop_mailboxes WHERE address > ?1 ORDER BY address LIMIT ?2";
        let after = after.map_or("", EmailAddress::as_str).to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let addresses = self.names(sql, vec![after.into(), limit.into()]).await?;
        addresses.iter().map(|address| parsed(address)).collect::<Result<_, _>>().map(Some)
    }
}

impl Maildrop {
    async fn names(&self, sql: &'static str, parameters: Vec<Value>) -> Result<Vec<String>, ProvisioningError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map(params_from_iter(parameters), |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<Vec<String>>>()?)
        })
        .await
        .map_err(not_told)
    }

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

fn parsed<T: FromStr>(stored: &str) -> Result<T, ProvisioningError> {
    stored.parse().map_err(|_| ProvisioningError("a stored name cannot be read".to_owned()))
}

fn not_told(error: MaildropError) -> ProvisioningError {
    ProvisioningError(error.to_string())
}
