//! `GET /dns/providers`.

use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::Json;
use crate::caller::AdminCaller;
use crate::error::{ApiError, documented_errors};

/// The ways to change DNS records.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "success": true, "providers": [{
        "name": "rfc2136", "description": "Dynamic updates with a TSIG key (RFC 2136, RFC 8945).",
        "fields": [{ "name": "secret", "required": true, "secret": true, "description": "Secret of the key, in base64." }]
    }]
}))]
pub(crate) struct DnsProviders {
    /// Always true.
    success: bool,
    /// The providers.
    providers: [DnsProviderKind; 1],
}

/// A way to change DNS records.
#[derive(Serialize, ToSchema)]
struct DnsProviderKind {
    /// Name of the provider.
    name: &'static str,
    /// What it is.
    description: &'static str,
    /// Members of `PUT /domains/{domain}/dns/provider`.
    fields: [DnsProviderField; 4],
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

const RFC_2136: DnsProviderKind = DnsProviderKind {
    name: "rfc2136",
    description: "Dynamic updates with a TSIG key (RFC 2136, RFC 8945), as BIND, Knot and PowerDNS take them.",
    fields: [
        field("server", true, false, "The name server that takes updates: a host or an address, port 53 by default."),
        field("key_name", true, false, "Name of the key."),
        field("algorithm", false, false, "hmac-sha256 (default), hmac-sha384 or hmac-sha512."),
        field("secret", true, true, "Secret of the key, in base64."),
    ],
};

documented_errors!(Errors, documented, [AccessDenied]);

/// List DNS providers
///
/// For admins. Returns the ways to change DNS records, and what each one needs.
#[utoipa::path(get, path = "/dns/providers", tag = "domains", operation_id = "list_dns_providers",
    responses((status = 200, description = "The providers.", body = DnsProviders), Errors))]
pub(crate) async fn list(AdminCaller(_): AdminCaller) -> Result<Json<DnsProviders>, ApiError> {
    Ok(Json(DnsProviders { success: true, providers: [RFC_2136] }))
}
