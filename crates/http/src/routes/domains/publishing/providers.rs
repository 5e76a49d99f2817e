//! `GET /dns/providers`.

use mailapi_model::DnsProvider;
use mailapi_service::domains::{CredentialField, PROVIDERS, ProviderInfo};
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};

/// The ways to change DNS records.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "providers": [{
        "name": "rfc2136", "description": "Dynamic updates with a TSIG key (RFC 2136, RFC 8945).", "tested": true,
        "fields": [{ "name": "secret", "required": true, "secret": true, "description": "Secret of the key, in base64." }]
    }]
}))]
pub(crate) struct DnsProviders {
    /// Always true.
    success: bool,
    /// The providers.
    providers: Vec<DnsProviderKind>,
}

/// A way to change DNS records.
#[derive(Serialize, ToSchema)]
struct DnsProviderKind {
    /// Name of the provider.
    name: &'static str,
    /// What it is.
    description: &'static str,
    /// Whether the tests of mailapi run it against name servers, or against an imitation of the provider's API.
    tested: bool,
    /// Members of `PUT /domains/{domain}/dns/provider` for `rfc2136`, and of its `credentials` for hosted providers.
    fields: Vec<DnsProviderField>,
}

/// A member that a provider takes.
#[derive(Serialize, ToSchema)]
struct DnsProviderField {
    /// Name of the member.
    name: &'static str,
    /// Whether it must be given.
    required: bool,
    /// Whether it is never returned.
    secret: bool,
    /// What it is.
    description: &'static str,
}

const fn field(name: &'static str, required: bool, secret: bool, description: &'static str) -> DnsProviderField {
    DnsProviderField { name, required, secret, description }
}

fn dynamic_updates() -> DnsProviderKind {
    DnsProviderKind {
        name: DnsProvider::DYNAMIC_UPDATES,
        description: "Dynamic updates with a TSIG key (RFC 2136, RFC 8945), as BIND, Knot and PowerDNS take them.",
        tested: true,
        fields: vec![
            field(
                "server",
                true,
                false,
                "The name server that takes updates: a host or an address, port 53 by default.",
            ),
            field("key_name", true, false, "Name of the key."),
            field("algorithm", false, false, "hmac-sha256 (default), hmac-sha384 or hmac-sha512."),
            field("secret", true, true, "Secret of the key, in base64."),
        ],
    }
}

impl From<&ProviderInfo> for DnsProviderKind {
    fn from(info: &ProviderInfo) -> Self {
        let fields = info.fields.iter().map(|CredentialField { name, title, is_secret, is_required }| {
            field(name, *is_required, *is_secret, title)
        });
        Self { name: info.name, description: info.title, tested: info.is_tested, fields: fields.collect() }
    }
}

documented_errors!(Errors, documented, [AccessDenied]);

/// List DNS providers
///
/// For admins. Returns the ways to change DNS records, and what each one needs.
#[utoipa::path(get, path = "/dns/providers", tag = "domains", operation_id = "list_dns_providers",
    responses((status = 200, description = "The providers.", body = DnsProviders), Errors))]
pub(crate) async fn list(AdminCaller(_): AdminCaller) -> Result<Json<DnsProviders>, ApiError> {
    let hosted = PROVIDERS.iter().map(DnsProviderKind::from);
    Ok(Json(DnsProviders { success: true, providers: [dynamic_updates()].into_iter().chain(hosted).collect() }))
}
