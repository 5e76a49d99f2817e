//! The table of providers. The server shows it, and the program makes clients by it.
//!
//! It has only providers whose client in dns-update lists and replaces `MX`, `TXT`, `SRV` and `CNAME` records. Providers
//! whose API is at an address of the user's choice are left out: such an address can lead into the operator's network.

/// A provider of DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderInfo {
    /// The name on the wire and in the database.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
    /// What an account consists of.
    pub fields: &'static [CredentialField],
    /// Whether our tests run its client against an imitation of its API. The clients of others are unproven here.
    pub is_tested: bool,
}

/// A part of an account at a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CredentialField {
    /// The name on the wire and in the database.
    pub name: &'static str,
    /// The name for people, as the provider calls it.
    pub title: &'static str,
    /// Whether to hide it from people.
    pub is_secret: bool,
    /// Whether an account must have it.
    pub is_required: bool,
}

impl ProviderInfo {
    /// Returns the field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static CredentialField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Every provider: those of which our tests run the client, then the others by name.
pub const PROVIDERS: &[ProviderInfo] = &[
    tested("cloudflare", "Cloudflare", &[secret("api_token", "API token")]),
    tested("desec", "deSEC", &[secret("token", "API token")]),
    tested(
        "route53",
        "Amazon Route 53",
        &[
            public("access_key_id", "Access key ID"),
            secret("secret_access_key", "Secret access key"),
            optional("region", "Region"),
            optional("hosted_zone_id", "Hosted zone ID"),
        ],
    ),
    untested("bunny", "bunny.net", &[secret("api_key", "API key")]),
    untested("digitalocean", "DigitalOcean", &[secret("api_token", "API token")]),
    untested("dnsimple", "DNSimple", &[secret("api_token", "API token"), public("account_id", "Account ID")]),
    untested("gandi", "Gandi LiveDNS", &[secret("personal_access_token", "Personal access token")]),
    untested("hetzner", "Hetzner", &[secret("api_token", "Hetzner Cloud API token")]),
    untested("inwx", "INWX", &[public("username", "User name"), secret("password", "Password")]),
    untested("ionos", "IONOS", &[secret("api_key", "API key (prefix.secret)")]),
    untested("linode", "Linode", &[secret("api_token", "Personal access token")]),
    untested(
        "netcup",
        "netcup",
        &[
            public("customer_number", "Customer number"),
            secret("api_key", "API key"),
            secret("api_password", "API password"),
        ],
    ),
    untested(
        "ovh",
        "OVHcloud",
        &[
            public("application_key", "Application key"),
            secret("application_secret", "Application secret"),
            secret("consumer_key", "Consumer key"),
            optional("endpoint", "Endpoint: ovh-eu, ovh-us or ovh-ca"),
        ],
    ),
    untested("porkbun", "Porkbun", &[secret("api_key", "API key"), secret("secret_api_key", "Secret API key")]),
    untested("scaleway", "Scaleway", &[secret("secret_key", "Secret key of the API key")]),
    untested("vultr", "Vultr", &[secret("api_key", "API key")]),
];

/// Returns the provider of this name.
#[must_use]
pub fn provider(name: &str) -> Option<&'static ProviderInfo> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

const fn tested(name: &'static str, title: &'static str, fields: &'static [CredentialField]) -> ProviderInfo {
    ProviderInfo { name, title, fields, is_tested: true }
}

const fn untested(name: &'static str, title: &'static str, fields: &'static [CredentialField]) -> ProviderInfo {
    ProviderInfo { name, title, fields, is_tested: false }
}

const fn secret(name: &'static str, title: &'static str) -> CredentialField {
    CredentialField { name, title, is_secret: true, is_required: true }
}

const fn public(name: &'static str, title: &'static str) -> CredentialField {
    CredentialField { name, title, is_secret: false, is_required: true }
}

const fn optional(name: &'static str, title: &'static str) -> CredentialField {
    CredentialField { name, title, is_secret: false, is_required: false }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_have_simple_letters() {
        let names: BTreeSet<_> = PROVIDERS.iter().map(|provider| provider.name).collect();
        assert_eq!(names.len(), PROVIDERS.len());
        for provider in PROVIDERS {
            let fields: BTreeSet<_> = provider.fields.iter().map(|field| field.name).collect();
            assert_eq!(fields.len(), provider.fields.len());
            assert!(provider.fields.iter().any(|field| field.is_secret && field.is_required), "{}", provider.name);
            for name in fields.into_iter().chain([provider.name]) {
                assert!(name.bytes().all(|octet| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'_')), "{name}");
            }
        }
    }

    #[test]
    fn tests_run_three_providers() {
        let tested: Vec<_> =
            PROVIDERS.iter().filter(|provider| provider.is_tested).map(|provider| provider.name).collect();
        assert_eq!(tested, ["cloudflare", "desec", "route53"]);
        assert_eq!(provider("desec").map(|provider| provider.title), Some("deSEC"));
        assert_eq!(provider("rfc2136"), None);
    }
}
