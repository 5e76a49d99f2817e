//! The name servers that take changes of domains' records.

use mailapi_model::{DnsProvider, DomainName, Secret, TsigKey};

use crate::StoreError;
use crate::db::{Db, Row, Stmt};

/// The name servers that take changes, one for a domain.
#[derive(Debug, Clone, Copy)]
pub struct DnsProviders<'a>(pub(crate) &'a Db);

impl DnsProviders<'_> {
    /// Sets the server of a domain.
    ///
    /// # Errors
    /// [`StoreError::Reference`] when the domain does not exist.
    pub async fn set(&self, domain: &DomainName, provider: &DnsProvider) -> Result<(), StoreError> {
        let DnsProvider { server, key } = provider;
        let sql = "INSERT INTO dns_providers (domain, server, key_name, algorithm, secret) VALUES ($1, $2, $3, $4, $5) \
                   ON CONFLICT (domain) DO UPDATE SET server = $2, key_name = $3, algorithm = $4, secret = $5";
        let set = Stmt::new(sql).bind(domain).bind(server.as_str()).bind(key.name.as_str());
        self.0.execute(set.bind(key.algorithm.as_str()).bind(&key.secret)).await.map(drop)
    }

    /// Returns the server of a domain.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, domain: &DomainName) -> Result<Option<DnsProvider>, StoreError> {
        let sql = "SELECT server, key_name, algorithm, secret FROM dns_providers WHERE domain = $1";
        self.0.first(Stmt::new(sql).bind(domain)).await?.map(read_provider).transpose()
    }

    /// Forgets the server of a domain; returns whether there was one.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn delete(&self, domain: &DomainName) -> Result<bool, StoreError> {
        let sql = "DELETE FROM dns_providers WHERE domain = $1";
        Ok(self.0.execute(Stmt::new(sql).bind(domain)).await?.touched > 0)
    }
}

fn read_provider(mut row: Row) -> Result<DnsProvider, StoreError> {
    let server = row.text()?;
    let key = TsigKey { name: row.text()?, algorithm: row.parsed()?, secret: Secret::new(row.bytes()?) };
    Ok(DnsProvider { server, key })
}
