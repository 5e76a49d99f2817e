//! DNS over the network: implements the [`Dns`] port with hickory-resolver. No type of that crate is exposed.

mod root_keys;
mod validation;
mod zone_client;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::domain::Label;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{ResolverBuilder, TokioResolver};
use mailapi_backend::{Dns, DnsError, MailExchange, Proven, ServiceLocation, TlsaRecords, reverse_name};
use mailapi_tls::{Trust, client_config};
pub use root_keys::RootKeys;
use validation::Validation;
pub use zone_client::ZoneClient;

/// Settings of the resolver.
#[derive(Debug, Clone)]
pub struct DnsSettings {
    /// The name servers to query; empty means those of the system.
    pub servers: Vec<SocketAddr>,
    /// Time limit for one attempt.
    pub timeout: Duration,
    /// The number of retries.
    pub retries: usize,
    /// The number of cached responses. Each is cached for its TTL.
    pub cached_answers: u64,
    /// Whether signatures are verified. Otherwise nothing is proven.
    pub dnssec: bool,
    /// The public keys of the root zone; `None` means those that IANA publishes.
    pub root_keys: Option<RootKeys>,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Duration::from_secs(3),
            retries: 1,
            cached_answers: 1024,
            dnssec: true,
            root_keys: None,
        }
    }
}

impl DnsSettings {
    /// Returns the settings for look-ups that the name servers answer each time.
    #[must_use]
    pub fn without_cache(&self) -> Self {
        Self { cached_answers: 0, ..self.clone() }
    }
}

/// The resolver cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnsSetupError {
    /// No server is configured and the system lists none.
    #[error("cannot read the system's name servers: {0}")]
    Servers(String),
    /// The TLS library, which look-ups do not use, cannot be set up.
    #[error("{0}")]
    Tls(String),
    /// The keys of the root zone cannot be used.
    #[error("cannot read the keys of the root zone: {0}")]
    RootKeys(String),
}

/// Queries name servers over the network.
pub struct NetworkDns {
    resolver: TokioResolver,
    /// `None` without DNSSEC.
    validation: Option<Validation>,
}

impl NetworkDns {
    /// Creates a resolver with these settings.
    ///
    /// # Errors
    /// [`DnsSetupError`] if no server is configured and the system lists none, or if the keys cannot be read.
    pub fn new(settings: &DnsSettings) -> Result<Self, DnsSetupError> {
        let resolver = builder(settings)?.build().map_err(of_servers)?;
        let validation = settings.dnssec.then(|| Validation::new(settings)).transpose()?;
        Ok(Self { resolver, validation })
    }

    /// Returns the look-ups with DNSSEC, if they work.
    async fn validation(&self) -> Option<&Validation> {
        let validation = self.validation.as_ref()?;
        validation.works().await.then_some(validation)
    }

    async fn records<T>(
        &self,
        name: &str,
        kind: RecordType,
        pick: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, DnsError> {
        match self.resolver.lookup(query_name(name)?, kind).await {
            Ok(found) => Ok(found.answers().iter().filter_map(|record| pick(&record.data)).collect()),
            Err(error) if error.is_nx_domain() => Err(DnsError::NoSuchName),
            // NODATA: the name exists without records of this type.
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => Err(of_network(&error)),
        }
    }
}

fn of_servers(error: NetError) -> DnsSetupError {
    DnsSetupError::Servers(error.to_string())
}

fn of_network(error: &NetError) -> DnsError {
    match error {
        NetError::Timeout => DnsError::Timeout,
        error => DnsError::Failed(error.to_string()),
    }
}

/// Returns the name of a query. It is absolute, so the resolver appends none of the system's search domains.
///
/// ASCII labels are used unchanged (RFC 2181 section 11). The library's rules for host names refuse some names that exist,
/// and a sender could use one to turn a failed check into a temporary error.
///
/// # Errors
/// [`DnsError::NoSuchName`] if `name` is not a domain name.
fn query_name(name: &str) -> Result<Name, DnsError> {
    let name = name.trim_end_matches('.');
    if name.is_empty() {
        return Ok(Name::root());
    }
    let label = |label: &str| match label.is_ascii() {
        true => Label::from_raw_bytes(label.as_bytes()),
        false => Label::from_utf8(label),
    };
    let labels: Result<Vec<_>, _> = name.split('.').map(label).collect();
    labels.and_then(Name::from_labels).map_err(|_| DnsError::NoSuchName)
}

fn builder(settings: &DnsSettings) -> Result<ResolverBuilder<TokioRuntimeProvider>, DnsSetupError> {
    // Name servers are asked without TLS. The library would fail where no certificate is trusted, as in many container
    // images.
    let no_tls = client_config(&Trust::Nobody).map_err(|error| DnsSetupError::Tls(error.to_string()))?;
    let builder = for_servers(&settings.servers).map_err(of_servers)?;
    let mut builder = builder.with_tls_config(Arc::unwrap_or_clone(no_tls));
    let options = builder.options_mut();
    options.timeout = settings.timeout;
    options.attempts = settings.retries;
    options.cache_size = settings.cached_answers;
    Ok(builder)
}

fn for_servers(servers: &[SocketAddr]) -> Result<ResolverBuilder<TokioRuntimeProvider>, NetError> {
    if servers.is_empty() {
        return TokioResolver::builder_tokio();
    }
    let servers = servers.iter().map(|server| {
        let mut config = NameServerConfig::udp_and_tcp(server.ip());
        for connection in &mut config.connections {
            let ConnectionConfig { port, .. } = connection;
            *port = server.port();
        }
        config
    });
    let config = ResolverConfig::from_name_servers(servers.collect());
    Ok(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()))
}

#[async_trait]
impl Dns for NetworkDns {
    async fn mx(&self, domain: &str) -> Result<Vec<MailExchange>, DnsError> {
        self.records(domain, RecordType::MX, exchange).await
    }

    async fn alias_target(&self, name: &str) -> Result<Option<String>, DnsError> {
        let pick = |data: &RData| match data {
            RData::CNAME(target) => Some(host(&target.0)),
            _ => None,
        };
        Ok(self.records(name, RecordType::CNAME, pick).await?.into_iter().next())
    }

    async fn mx_with_proof(&self, domain: &str) -> Result<Proven<Vec<MailExchange>>, DnsError> {
        match self.validation().await {
            Some(validation) => validation.mx(domain).await,
            None => Ok(Proven { value: self.mx(domain).await?, is_proven: false }),
        }
    }

    async fn tlsa(&self, host: &str, port: u16) -> Result<Option<TlsaRecords>, DnsError> {
        match self.validation().await {
            Some(validation) => validation.tlsa(host, port).await,
            None => Ok(None),
        }
    }

    async fn txt(&self, name: &str) -> Result<Vec<String>, DnsError> {
        let pick = |data: &RData| match data {
            RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
            _ => None,
        };
        self.records(name, RecordType::TXT, pick).await
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        let pick = |data: &RData| match data {
            RData::A(a) => Some(IpAddr::V4(a.0)),
            RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
            _ => None,
        };
        let mut addresses = self.records(host, RecordType::A, pick).await?;
        addresses.extend(self.records(host, RecordType::AAAA, pick).await?);
        Ok(addresses)
    }

    async fn names_of(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        let pick = |data: &RData| match data {
            RData::PTR(name) => Some(host(&name.0)),
            _ => None,
        };
        self.records(&reverse_name(address), RecordType::PTR, pick).await
    }

    async fn srv(&self, name: &str) -> Result<Vec<ServiceLocation>, DnsError> {
        let pick = |data: &RData| match data {
            RData::SRV(srv) => Some(ServiceLocation {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                target: host(&srv.target),
            }),
            _ => None,
        };
        self.records(name, RecordType::SRV, pick).await
    }
}

fn exchange(data: &RData) -> Option<MailExchange> {
    match data {
        RData::MX(mx) => Some(MailExchange { preference: mx.preference, exchange: host(&mx.exchange) }),
        _ => None,
    }
}

/// Returns a name without its final dot. The root stays a dot and does not become an empty name: it is a null MX (RFC
/// 7505 section 3), or a service that is not offered (RFC 2782).
fn host(name: &Name) -> String {
    let ascii = name.to_ascii();
    let host = ascii.trim_end_matches('.');
    if host.is_empty() { ".".to_owned() } else { host.to_owned() }
}
