//! `GET`, `PUT` and `DELETE /domains/{domain}/dns/provider`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mailapi_backend::{DnsError, UpdateError};
use mailapi_hosted_dns::{HostedAccount, InvalidAccount};
use mailapi_model::{
    DnsProvider, DomainName, ProviderAccount, Secret, SecretText, TsigAlgorithm, TsigKey, UpdateServer, Violations,
};
use mailapi_store::StoreError;

use super::PublishError;
use crate::caller::audit;
use crate::dns_names::is_name;
use crate::domains::DomainError;
use crate::{Caller, Service};

/// The longest name of a server with its port.
const MAX_SERVER: usize = 260;
/// Maximum length of a secret in octets. HMAC hashes a key that is longer than a block (RFC 2104 section 3).
const MAX_SECRET: usize = 256;

/// The fields of a provider, as given.
#[derive(Debug)]
pub struct ProviderFields {
    /// The server: a host or an address, with or without port.
    pub server: String,
    /// The name of the key.
    pub key_name: String,
    /// The algorithm of the key; hmac-sha256 if it is not given.
    pub algorithm: Option<TsigAlgorithm>,
    /// The secret of the key, in base64.
    pub secret: SecretText,
}

impl ProviderFields {
    /// Reads the fields.
    ///
    /// # Errors
    /// All violations.
    pub fn parse(self) -> Result<DnsProvider, Violations> {
        let mut violations = Violations::none();
        let server = self.server.trim().to_owned();
        if server.is_empty()
            || server.len() > MAX_SERVER
            || server.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            violations.add("server", "must be a host or an address, with or without a port");
        }
        let name = self.key_name.trim_end_matches('.').to_ascii_lowercase();
        if !is_name(&name) {
            violations.add("key_name", "must be the name of a key, such as mailapi-key");
        }
        let algorithm = self.algorithm.unwrap_or_default();
        let secret = STANDARD.decode(self.secret.expose().trim()).unwrap_or_default();
        if secret.is_empty() || secret.len() > MAX_SECRET {
            violations.add("secret", "must be the secret of the key in base64");
        }
        let key = TsigKey { name, algorithm, secret: Secret::new(secret) };
        violations.or(Some(DnsProvider::NameServer(UpdateServer { server, key })))
    }
}

/// The account at a hosted provider, as given.
#[derive(Debug)]
pub struct AccountFields {
    /// The name of the provider.
    pub provider: String,
    /// The values by the names of their fields.
    pub credentials: Vec<(String, SecretText)>,
}

impl AccountFields {
    /// Reads the fields.
    ///
    /// # Errors
    /// The first violation, in the members `provider` and `credentials`.
    pub fn parse(self) -> Result<DnsProvider, Violations> {
        let Self { provider, credentials } = self;
        // The zone is found later.
        let checked = HostedAccount::new(&provider, credentials.clone(), "example.org");
        let wrong = |field: &str, message: String| Violations::of(field, message);
        let account = checked.map_err(|error| match error {
            InvalidAccount::UnknownProvider => wrong("provider", "must be one of GET /dns/providers".to_owned()),
            InvalidAccount::MissingField(name) => wrong(&format!("credentials.{name}"), "is required".to_owned()),
            other => wrong("credentials", format!("are no account of this provider: {other}")),
        })?;
        let credentials = account.credentials().clone();
        Ok(DnsProvider::Hosted(ProviderAccount { provider, credentials }))
    }
}

impl Service {
    /// Sets the name server that takes changes of the domain's records, after it accepted the key.
    ///
    /// # Errors
    /// [`PublishError::Refused`] if it does not, [`PublishError::Unanswered`] if it does not answer; see [`PublishError`].
    pub async fn set_dns_provider(
        &self,
        caller: &Caller,
        name: &DomainName,
        provider: DnsProvider,
    ) -> Result<(), PublishError> {
        caller.grants.admin()?;
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        let primary = self.primary_at(name, provider.clone()).await?;
        primary.accepts_the_key(name).await.map_err(|error| match error {
            UpdateError::Unanswered(why) => PublishError::Unanswered(DnsError::Failed(why)),
            error => error.into(),
        })?;
        self.0.store.dns_providers().set(name, &provider).await.map_err(|error| match error {
            // The domain was deleted meanwhile.
            StoreError::Reference => DomainError::NotFound.into(),
            error => PublishError::from(error),
        })?;
        let server = match &provider {
            DnsProvider::NameServer(server) => Some(&server.server),
            DnsProvider::Hosted(_) => None,
        };
        audit!(caller, domain = %name, provider = provider.name(), server, "DNS provider set");
        Ok(())
    }

    /// Returns the provider of a domain. The secret is not for callers.
    ///
    /// # Errors
    /// [`PublishError::NoProvider`] if it has none; see [`PublishError`].
    pub async fn get_dns_provider(&self, caller: &Caller, name: &DomainName) -> Result<DnsProvider, PublishError> {
        caller.grants.admin()?;
        self.provider_of(name).await
    }

    /// Forgets the provider of a domain. Its records stay.
    ///
    /// # Errors
    /// [`PublishError::NoProvider`] if it has none; see [`PublishError`].
    pub async fn remove_dns_provider(&self, caller: &Caller, name: &DomainName) -> Result<(), PublishError> {
        caller.grants.admin()?;
        self.0.store.domains().get(name).await?.ok_or(DomainError::NotFound)?;
        if !self.0.store.dns_providers().delete(name).await? {
            return Err(PublishError::NoProvider);
        }
        audit!(caller, domain = %name, "DNS provider removed");
        Ok(())
    }
}
