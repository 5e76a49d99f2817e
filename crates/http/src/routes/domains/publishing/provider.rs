//! `GET`, `PUT` and `DELETE /domains/{domain}/dns/provider`.

use std::collections::BTreeMap;

use axum::extract::State;
use mailapi_model::{DnsProvider, DomainName, ProviderAccount, UpdateServer, Violations};
use mailapi_service::domains::{AccountFields, ProviderFields, hosted_provider};
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::{KeyNameText, KeySecretText, NameServerText, ProviderNameText, TsigAlgorithmName};
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::path::PathParameters;
use crate::request_body::{CredentialFields, request_body};
use crate::routes::domains::domain_in;
use crate::routes::to_the_end;
use crate::state::HttpState;

/// Who takes changes of a domain's records.
#[derive(Serialize, ToSchema)]
#[schema(as = DnsProvider, example = json!({
    "success": true, "domain": "example.test", "provider": "rfc2136", "server": "ns1.example.test", "key_name": "mailapi",
    "algorithm": "hmac-sha256", "credentials": {}
}))]
pub(crate) struct ProviderRecord {
    /// Always true.
    success: bool,
    /// Domain name.
    domain: String,
    /// `rfc2136`, or the name of a hosted provider.
    provider: String,
    /// The server: a host or an address, with or without a port. Null for a hosted provider.
    #[schema(required)]
    server: Option<String>,
    /// Name of the key. Null for a hosted provider.
    #[schema(required)]
    key_name: Option<String>,
    /// Algorithm of the key. Null for a hosted provider.
    #[schema(required, value_type = Option<TsigAlgorithmName>)]
    algorithm: Option<&'static str>,
    /// The account at a hosted provider, without its secrets.
    credentials: BTreeMap<String, String>,
}

impl ProviderRecord {
    fn new(domain: &DomainName, provider: DnsProvider) -> Self {
        let (domain, name) = (domain.shown().to_owned(), provider.name().to_owned());
        let empty = Self {
            success: true,
            domain,
            provider: name,
            server: None,
            key_name: None,
            algorithm: None,
            credentials: BTreeMap::new(),
        };
        match provider {
            DnsProvider::NameServer(UpdateServer { server, key }) => Self {
                server: Some(server),
                key_name: Some(key.name),
                algorithm: Some(key.algorithm.as_str()),
                ..empty
            },
            DnsProvider::Hosted(account) => Self { credentials: shown_fields(&account), ..empty },
        }
    }
}

/// Returns the fields of an account that may be shown.
fn shown_fields(account: &ProviderAccount) -> BTreeMap<String, String> {
    let info = hosted_provider(&account.provider);
    let is_shown = |name: &str| info.and_then(|info| info.field(name)).is_some_and(|field| !field.is_secret);
    let fields = account.credentials.iter().filter(|(name, _)| is_shown(name));
    fields.map(|(name, value)| (name.clone(), value.expose().clone())).collect()
}

request_body! {
    /// Who takes changes: a name server with its key, or an account at a hosted provider.
    pub(crate) struct SetDnsProvider as "SetDnsProvider" {
        /// `rfc2136` (default), or the name of a hosted provider.
        provider: Option<ProviderNameText>,
        /// With `rfc2136`: the server, a host or an address, with or without a port.
        server: Option<NameServerText>,
        /// With `rfc2136`: name of the key.
        key_name: Option<KeyNameText>,
        /// With `rfc2136`: algorithm of the key; `hmac-sha256` by default.
        algorithm: Option<TsigAlgorithmName>,
        /// With `rfc2136`: secret of the key, in base64. It is stored, and never returned.
        secret: Option<KeySecretText>,
        /// With a hosted provider: its fields, as `GET /dns/providers` lists them. They are stored, and the secret ones are
        /// never returned.
        credentials: Option<CredentialFields>,
    }
    example { "server": "ns1.example.test", "key_name": "mailapi", "secret": "c2VjcmV0IG9mIGFuIGV4YW1wbGU=" }
}

/// A member that only dynamic updates need is missing.
const FOR_UPDATES: &str = "is required for rfc2136";

impl SetDnsProvider {
    /// Returns the provider.
    fn checked(self) -> Result<DnsProvider, Violations> {
        let Self { provider, server, key_name, algorithm, secret, credentials } = self;
        if let Some(provider) = provider.filter(|name| name != DnsProvider::DYNAMIC_UPDATES) {
            let credentials =
                credentials.ok_or_else(|| Violations::of("credentials", "is required for a hosted provider"))?;
            return AccountFields { provider, credentials }.parse();
        }
        let mut violations = Violations::none();
        let mut given = |field: &str, value: Option<String>| {
            if value.is_none() {
                violations.add(field, FOR_UPDATES);
            }
            value.unwrap_or_default()
        };
        let (server, key_name) = (given("server", server), given("key_name", key_name));
        if secret.is_none() {
            violations.add("secret", FOR_UPDATES);
        }
        let secret = violations.or(secret)?;
        ProviderFields { server, key_name, algorithm, secret }.parse()
    }
}

/// The provider was removed.
#[derive(Serialize, ToSchema)]
#[schema(as = DnsProviderRemoved, example = json!({ "success": true, "message": "The provider was removed." }))]
pub(crate) struct ProviderRemoved {
    /// Always true.
    success: bool,
    /// Result in words.
    message: &'static str,
}

documented_errors!(Errors, documented, [AccessDenied, DomainNotFound, DnsProviderNotFound]);
documented_errors!(
    SetErrors,
    documented_with_body,
    [AccessDenied, DomainNotFound, DnsZoneNotFound, DnsRefused, DnsUnavailable]
);

/// Get the DNS provider of a domain
///
/// For admins. Returns who takes changes of the domain's records, without secrets.
#[utoipa::path(get, path = "/domains/{domain}/dns/provider", tag = "domains", operation_id = "get_dns_provider",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    responses((status = 200, description = "The provider.", body = ProviderRecord), Errors))]
pub(crate) async fn get(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
) -> Result<Json<ProviderRecord>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let provider = state.service().get_dns_provider(&caller, &name).await?;
    Ok(Json(ProviderRecord::new(&name, provider)))
}

/// Set the DNS provider of a domain
///
/// For admins. The name server must accept the key, or the hosted provider the account (`DNS_REFUSED` otherwise); nothing is
/// changed there. From then on, `/domains/{domain}/dns/plan` says which records need a change.
#[utoipa::path(put, path = "/domains/{domain}/dns/provider", tag = "domains", operation_id = "set_dns_provider",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    request_body = SetDnsProvider,
    responses((status = 200, description = "The provider is set.", body = ProviderRecord), SetErrors))]
pub(crate) async fn set(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
    body: JsonBody<SetDnsProvider>,
) -> Result<Json<ProviderRecord>, ApiError> {
    let name = domain_in(&path, &caller)?;
    let provider = body.read()?.checked()?;
    let (service, domain, set) = (state.service().clone(), name.clone(), provider.clone());
    to_the_end(async move { service.set_dns_provider(&caller, &name, set).await }).await??;
    Ok(Json(ProviderRecord::new(&domain, provider)))
}

/// Remove the DNS provider of a domain
///
/// For admins. The published records stay.
#[utoipa::path(delete, path = "/domains/{domain}/dns/provider", tag = "domains", operation_id = "remove_dns_provider",
    params(("domain" = String, Path, format = IdnHostname, description = "Domain name.", example = "example.test")),
    responses((status = 200, description = "The provider is removed.", body = ProviderRemoved), Errors))]
pub(crate) async fn remove(
    State(state): State<HttpState>,
    AdminCaller(caller): AdminCaller,
    path: PathParameters,
) -> Result<Json<ProviderRemoved>, ApiError> {
    let name = domain_in(&path, &caller)?;
    state.service().remove_dns_provider(&caller, &name).await?;
    Ok(Json(ProviderRemoved { success: true, message: "The provider was removed." }))
}
