//! `GET`, `PUT` and `DELETE /domains/{domain}/dns/provider`.

use axum::extract::State;
use mailapi_model::{DnsProvider, DomainName};
use mailapi_service::domains::ProviderFields;
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::{KeyNameText, KeySecretText, NameServerText, TsigAlgorithmName};
use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};
use crate::json::JsonBody;
use crate::path::PathParameters;
use crate::request_body::request_body;
use crate::routes::domains::domain_in;
use crate::routes::to_the_end;
use crate::state::HttpState;

/// The name server that takes changes of a domain's records.
#[derive(Serialize, ToSchema)]
#[schema(as = DnsProvider, example = json!({
    "success": true, "domain": "example.test", "provider": "rfc2136", "server": "ns1.example.test", "key_name": "mailapi",
    "algorithm": "hmac-sha256"
}))]
pub(crate) struct ProviderRecord {
    /// Always true.
    success: bool,
    /// Domain name.
    domain: String,
    /// Always `rfc2136`.
    provider: &'static str,
    /// The server: a host or an address, with or without a port.
    server: String,
    /// Name of the key.
    key_name: String,
    /// Algorithm of the key.
    #[schema(value_type = TsigAlgorithmName)]
    algorithm: &'static str,
}

impl ProviderRecord {
    fn new(domain: &DomainName, provider: DnsProvider) -> Self {
        let DnsProvider { server, key } = provider;
        let (provider, algorithm) = ("rfc2136", key.algorithm.as_str());
        Self { success: true, domain: domain.shown().to_owned(), provider, server, key_name: key.name, algorithm }
    }
}

request_body! {
    /// The name server that takes changes, and its key.
    pub(crate) struct SetDnsProvider as "SetDnsProvider" {
        /// The server: a host or an address, with or without a port.
        server: NameServerText,
        /// Name of the key.
        key_name: KeyNameText,
        /// Algorithm of the key; `hmac-sha256` by default.
        algorithm: Option<TsigAlgorithmName>,
        /// Secret of the key, in base64. It is stored, and never returned.
        secret: KeySecretText,
    }
    example { "server": "ns1.example.test", "key_name": "mailapi", "secret": "c2VjcmV0IG9mIGFuIGV4YW1wbGU=" }
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
/// For admins. Returns the name server that takes changes of the domain's records. The secret is not returned.
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
/// For admins. The name server must accept the key (`DNS_REFUSED` otherwise); nothing is changed there. From then on,
/// `/domains/{domain}/dns/plan` says which records need a change.
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
    let SetDnsProvider { server, key_name, algorithm, secret } = body.read()?;
    let provider = ProviderFields { server, key_name, algorithm, secret }.parse()?;
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
