//! Provisioning: creates, changes and removes domains, mailboxes and aliases for the accounts.

use std::str::FromStr;

use async_trait::async_trait;
use mailapi_backend::{KnownMailbox, Provisioning, ProvisioningError, Quarantined};
use mailapi_model::{Alias, DomainName, EmailAddress, MailboxOptions, RuleSet, SaveSent, Violations};
use mailapi_store::StoreError;
use rusqlite::{Connection, Row, params};

use super::{MessageStore, MessageStoreError, alias, mailbox, quarantine, rules};

#[async_trait]
impl Provisioning for MessageStore {
    async fn put_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.change_domain(put_domain, domain).await
    }

    async fn remove_domain(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        self.change_domain(remove_domain, domain).await
    }

    async fn put_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        let (address, now) = (mailbox.clone(), self.clock().now());
        self.write(move |connection, _| mailbox::put(connection, &address, quota_bytes, now).map(drop))
            .await
            .map_err(provisioning_error)
    }

    async fn new_mailbox(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        let (address, now) = (mailbox.clone(), self.clock().now());
        self.write(move |connection, touched| {
            quarantine::set_apart(connection, &address, now, touched)?;
            mailbox::put(connection, &address, quota_bytes, now).map(drop)
        })
        .await
        .map_err(provisioning_error)
    }

    async fn set_quota(&self, mailbox: &EmailAddress, quota_bytes: Option<u64>) -> Result<(), ProvisioningError> {
        let address = mailbox.clone();
        self.write(move |connection, _| match mailbox::find(connection, &address)? {
            Some(found) => mailbox::set_quota(connection, found.id, quota_bytes).map_err(MessageStoreError::from),
            None => Ok(()),
        })
        .await
        .map_err(provisioning_error)
    }

    async fn repair_mailbox(
        &self,
        mailbox: &EmailAddress,
        account: Option<MailboxOptions>,
    ) -> Result<(), ProvisioningError> {
        let (address, now) = (mailbox.clone(), self.clock().now());
        if let Some(options) = account {
            let put = self.write(move |connection, _| mailbox::put_with(connection, &address, options, now)).await;
            return put.map_err(provisioning_error);
        }
        // Mail without an account is quarantined.
        let job =
            move |connection: &Connection, touched: &mut _| quarantine::set_apart(connection, &address, now, touched);
        self.write(job).await.map_err(provisioning_error)
    }

    async fn repair_domain(&self, domain: &DomainName, is_here: bool) -> Result<(), ProvisioningError> {
        self.change_domain(if is_here { put_domain } else { remove_domain }, domain).await
    }

    async fn quarantined(&self) -> Result<Vec<Quarantined>, ProvisioningError> {
        self.kept_apart().await.map_err(provisioning_error)
    }

    async fn remove_mailbox(&self, mailbox: &EmailAddress) -> Result<(), ProvisioningError> {
        let (address, now) = (mailbox.clone(), self.clock().now());
        self.write_freeing(move |connection, touched| mailbox::remove(connection, &address, now, touched).map(drop))
            .await
            .map_err(provisioning_error)
    }

    async fn put_alias(&self, alias: &Alias) -> Result<(), ProvisioningError> {
        let alias = alias.clone();
        self.change_rows(move |connection| alias::put(connection, &alias)).await
    }

    async fn remove_alias(&self, address: &EmailAddress) -> Result<(), ProvisioningError> {
        let address = address.clone();
        self.change_rows(move |connection| alias::remove(connection, &address)).await
    }

    async fn remove_aliases_of(&self, domain: &DomainName) -> Result<(), ProvisioningError> {
        let domain = domain.clone();
        self.change_rows(move |connection| alias::remove_all_of(connection, &domain)).await
    }

    async fn aliases_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<Alias>>, ProvisioningError> {
        let after = after.map_or("", EmailAddress::as_str).to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let aliases = self.read(move |connection| alias::after(connection, &after, limit)).await;
        aliases.map(Some).map_err(|error: StoreError| ProvisioningError(error.to_string()))
    }

    fn saves_sent(&self) -> bool {
        true
    }

    async fn set_save_sent(&self, mailbox: &EmailAddress, save_sent: SaveSent) -> Result<(), ProvisioningError> {
        let address = mailbox.clone();
        self.change_rows(move |connection| match mailbox::find(connection, &address)? {
            Some(found) => mailbox::set_save_sent(connection, found.id, save_sent),
            None => Ok(()),
        })
        .await
    }

    fn check_rules(&self, _: &RuleSet) -> Result<(), Violations> {
        Ok(())
    }

    async fn put_rules(&self, mailbox: &EmailAddress, new: &RuleSet) -> Result<(), ProvisioningError> {
        let (mailbox, new) = (mailbox.clone(), new.clone());
        self.change_rows(move |connection| rules::put(connection, &mailbox, &new)).await
    }

    async fn rules_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<(EmailAddress, RuleSet)>>, ProvisioningError> {
        let after = after.map_or("", EmailAddress::as_str).to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.read(move |connection| rules::after(connection, &after, limit)).await;
        found.map(Some).map_err(|error: StoreError| ProvisioningError(error.to_string()))
    }

    async fn domains(&self) -> Result<Option<Vec<DomainName>>, ProvisioningError> {
        let names: Vec<String> =
            self.rows("SELECT name FROM drop_domains ORDER BY name", None, |row| row.get(0)).await?;
        names.iter().map(|name| parsed(name)).collect::<Result<_, _>>().map(Some)
    }

    async fn mailboxes_after(
        &self,
        after: Option<&EmailAddress>,
        limit: usize,
    ) -> Result<Option<Vec<KnownMailbox>>, ProvisioningError> {
        // Quarantined and removed mailboxes have names without an @.
        let sql = "SELECT address, quota_bytes, save_sent FROM drop_mailboxes WHERE address > ?1
            AND instr(address, '@') > 0 ORDER BY address LIMIT ?2";
        let after = after.map_or("", EmailAddress::as_str).to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows: Vec<(String, Option<u64>, String)> =
            self.rows(sql, Some((after, limit)), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).await?;
        let known = |(address, quota_bytes, save_sent): (String, _, String)| {
            let options = MailboxOptions { quota_bytes, save_sent: parsed(&save_sent)? };
            Ok(KnownMailbox { address: parsed(&address)?, options })
        };
        rows.into_iter().map(known).collect::<Result<_, _>>().map(Some)
    }
}

impl MessageStore {
    /// Returns the rows of a query; of a paginated one, at most the given number after a name.
    async fn rows<T: Send + 'static>(
        &self,
        sql: &'static str,
        piece: Option<(String, i64)>,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, ProvisioningError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let rows: rusqlite::Result<Vec<T>> = match piece {
                Some((after, limit)) => statement.query_map(params![after, limit], read)?.collect(),
                None => statement.query_map([], read)?.collect(),
            };
            Ok(rows?)
        })
        .await
        .map_err(provisioning_error)
    }

    async fn change_rows(
        &self,
        change: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), ProvisioningError> {
        let changed = self.write(move |connection, _| change(connection)).await;
        changed.map_err(|error: StoreError| ProvisioningError(error.to_string()))
    }

    async fn change_domain(
        &self,
        change: fn(&Connection, &DomainName) -> Result<(), MessageStoreError>,
        domain: &DomainName,
    ) -> Result<(), ProvisioningError> {
        let name = domain.clone();
        self.write_freeing(move |connection, _| change(connection, &name)).await.map_err(provisioning_error)
    }
}

pub(super) fn put_domain(connection: &Connection, domain: &DomainName) -> Result<(), MessageStoreError> {
    let sql = "INSERT INTO drop_domains (name) VALUES (?1) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![domain.as_str()])?;
    Ok(())
}

pub(super) fn remove_domain(connection: &Connection, domain: &DomainName) -> Result<(), MessageStoreError> {
    connection.prepare_cached("DELETE FROM drop_domains WHERE name = ?1")?.execute(params![domain.as_str()])?;
    Ok(())
}

fn parsed<T: FromStr>(stored: &str) -> Result<T, ProvisioningError> {
    stored.parse().map_err(|_| ProvisioningError("a stored name is invalid".to_owned()))
}

fn provisioning_error(error: MessageStoreError) -> ProvisioningError {
    ProvisioningError(error.to_string())
}
