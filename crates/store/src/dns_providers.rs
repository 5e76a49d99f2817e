//! The name servers and hosted providers that take changes of domains' records.

use mailapi_model::{DnsProvider, DomainName, ProviderAccount, Secret, TsigKey, UpdateServer};

use crate::StoreError;
use crate::db::{Db, Row, Stmt};

/// The providers that take changes, one for a domain.
#[derive(Debug, Clone, Copy)]
pub struct DnsProviders<'a>(pub(crate) &'a Db);

impl DnsProviders<'_> {
    /// Sets the provider of a domain.
    ///
    /// # Errors
    /// [`StoreError::Reference`] when the domain does not exist.
    pub async fn set(&self, domain: &DomainName, provider: &DnsProvider) -> Result<(), StoreError> {
        let account;
        let (server, key_name, algorithm, secret) = match provider {
            DnsProvider::NameServer(UpdateServer { server, key }) => {
                (server.as_str(), key.name.as_str(), key.algorithm.as_str(), &key.secret)
            }
            DnsProvider::Hosted(hosted) => {
                account = lines_of(hosted);
                ("", "", "", &account)
            }
        };
        let sql = "INSERT INTO dns_providers (domain, server, key_name, algorithm, secret, provider) \
                   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (domain) DO UPDATE \
                   SET server = $2, key_name = $3, algorithm = $4, secret = $5, provider = $6";
        let set = Stmt::new(sql).bind(domain).bind(server).bind(key_name).bind(algorithm).bind(secret);
        self.0.execute(set.bind(provider.name())).await.map(drop)
    }

    /// Returns the provider of a domain.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn get(&self, domain: &DomainName) -> Result<Option<DnsProvider>, StoreError> {
        let sql = "SELECT provider, server, key_name, algorithm, secret FROM dns_providers WHERE domain = $1";
        self.0.first(Stmt::new(sql).bind(domain)).await?.map(read_provider).transpose()
    }

    /// Forgets the provider of a domain; returns whether there was one.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn delete(&self, domain: &DomainName) -> Result<bool, StoreError> {
        let sql = "DELETE FROM dns_providers WHERE domain = $1";
        Ok(self.0.execute(Stmt::new(sql).bind(domain)).await?.touched > 0)
    }
}

fn read_provider(mut row: Row) -> Result<DnsProvider, StoreError> {
    let provider = row.text()?;
    let (server, name) = (row.text()?, row.text()?);
    if provider != DnsProvider::DYNAMIC_UPDATES {
        let _algorithm = row.text()?;
        let lines = row.bytes()?;
        let account = account_of(provider, &lines).ok_or_else(|| row.odd("is no account"))?;
        return Ok(DnsProvider::Hosted(account));
    }
    let key = TsigKey { name, algorithm: row.parsed()?, secret: Secret::new(row.bytes()?) };
    Ok(DnsProvider::NameServer(UpdateServer { server, key }))
}

/// Returns the fields of an account. Neither names nor values have tabs or line ends.
fn lines_of(account: &ProviderAccount) -> Secret<Vec<u8>> {
    let lines = account.credentials.iter().map(|(name, value)| format!("{name}\t{}\n", value.expose()));
    Secret::new(lines.collect::<String>().into_bytes())
}

fn account_of(provider: String, lines: &[u8]) -> Option<ProviderAccount> {
    let lines = std::str::from_utf8(lines).ok()?;
    let field =
        |line: &str| line.split_once('\t').map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned())));
    let credentials = lines.lines().map(field).collect::<Option<_>>()?;
    Some(ProviderAccount { provider, credentials })
}
