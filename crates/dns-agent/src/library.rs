//! The crate dns-update: its clients, its records and its errors. What it does wrong is worked around here, and only here.

mod route53;

use std::cell::OnceCell;
use std::panic::catch_unwind;
use std::time::Duration;

use dns_update::http::{HttpClient, HttpClientBuilder};
use dns_update::providers::ovh::OvhEndpoint;
use dns_update::providers::route53::Route53Config;
use dns_update::{
    DnsRecord, DnsRecordType, DnsUpdater, Error, MXRecord, SRVRecord, TLSARecord, TlsaCertUsage, TlsaMatching,
    TlsaSelector,
};
use mailapi_hosted_dns::{FailureKind, HostedAccount, HostedError, HostedRecords};
use mailapi_model::{RecordData, RecordKind, TlsaRecord};
use serde_json::Value;

use self::route53::Route53Api;
use crate::change::{WantedChange, are_same};

/// Time limit of a request. The library's client for Route 53 takes none; the limits of a job bound its requests.
const REQUEST_LIMIT: Option<Duration> = Some(Duration::from_secs(6));
/// Some clients read only the first page of a list, which has as many records.
const PAGE: usize = 100;
/// Repetitions of a request that the provider limits, as in the library.
const RETRIES: u32 = 3;

/// A zone at a provider.
pub(crate) struct HostedZone {
    account: HostedAccount,
    updater: DnsUpdater,
    route53: Option<Route53Api>,
    found: OnceCell<FoundZone>,
}

/// A zone that the account has. Route 53 has an identifier for it.
#[derive(Debug, Clone)]
struct FoundZone {
    id: Option<String>,
}

impl HostedZone {
    /// Makes the client of the account's provider. It connects later.
    pub(crate) fn new(account: HostedAccount) -> Result<Self, HostedError> {
        // Without certificates of authorities the library panics.
        let made = catch_unwind(|| {
            let route53 = (account.provider().name == "route53").then(|| Route53Api::new(&account));
            updater(&account, None).map(|updater| (updater, route53))
        });
        let Ok(made) = made else {
            let message = "this machine has no usable certificates of authorities, or SSL_CERT_FILE names none";
            return Err(HostedError::new(FailureKind::Unanswered, message));
        };
        let (updater, route53) = made.map_err(|error| failure(&account, &error))?;
        Ok(Self { account, updater, route53, found: OnceCell::new() })
    }

    pub(crate) const fn account(&self) -> &HostedAccount {
        &self.account
    }

    /// Returns the records of a name and type.
    pub(crate) async fn list(&self, name: &str, kind: RecordKind) -> Result<HostedRecords, HostedError> {
        let unreadable =
            || HostedError::new(FailureKind::Unsupported, "the provider shows a record that cannot be read");
        let zone = self.find().await?;
        if let (Some(api), Some(id)) = (&self.route53, &zone.id) {
            let Some(set) = api.set_of(id, name, kind).await.map_err(|error| self.failure(&error))? else {
                return Ok(HostedRecords::default());
            };
            return Ok(HostedRecords { ttl: set.ttl, records: set.records().ok_or_else(unreadable)? });
        }
        let listed = self.updater.list_rrset(name, record_type(kind), self.account.zone()).await;
        let listed = listed.map_err(|error| self.failure(&error))?;
        // The clients of Cloudflare and DNSimple ignore later pages, so that a longer list would look complete.
        if listed.len() >= PAGE {
            return Err(HostedError::new(FailureKind::Unsupported, "the name has too many records of the type"));
        }
        let records: Option<_> = listed.into_iter().map(|record| self.read(record)).collect();
        Ok(HostedRecords { ttl: None, records: records.ok_or_else(unreadable)? })
    }

    /// Replaces the records of a name and type.
    pub(crate) async fn set(&self, change: &WantedChange) -> Result<(), HostedError> {
        let zone = self.find().await?;
        self.set_in(zone, change).await.map_err(|error| self.failure(&error))
    }

    async fn set_in(&self, zone: &FoundZone, change: &WantedChange) -> dns_update::Result<()> {
        let updater = match (&self.route53, &zone.id) {
            (Some(api), Some(id)) if change.after.is_empty() => {
                return match api.set_of(id, &change.name, change.kind).await? {
                    Some(set) if set.records().is_some_and(|records| are_same(&records, &change.before)) => {
                        api.delete(id, &set).await
                    }
                    // Another writer was faster.
                    Some(_) => Err(Error::BadRequest),
                    None => Ok(()),
                };
            }
            (_, Some(id)) => updater(&self.account, Some(id))?,
            (_, None) => self.updater.clone(),
        };
        let records = change.after.iter().map(|record| self.written(record)).collect();
        let kind = record_type(change.kind);
        updater.set_rrset(change.name.as_str(), kind, change.ttl, records, self.account.zone()).await
    }

    /// Checks once that the account has the zone itself.
    ///
    /// The clients of Cloudflare and deSEC otherwise take the closest zone above it, whose records at these names nothing
    /// uses. The client of deSEC does so after any error, and then takes 404 for a name without records.
    async fn find(&self) -> Result<&FoundZone, HostedError> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let found = self.found_zone().await.map_err(|error| match error {
            Error::NotFound => HostedError::new(FailureKind::NotFound, "the provider has no such zone in this account"),
            error => self.failure(&error),
        })?;
        Ok(self.found.get_or_init(|| found))
    }

    async fn found_zone(&self) -> dns_update::Result<FoundZone> {
        let zone = self.account.zone();
        let is_found = match self.account.provider().name {
            "cloudflare" => {
                let url = format!("https://api.cloudflare.com/client/v4/zones?name={zone}");
                let answer = self.client("Bearer", "api_token").get(url).send_with_retry::<Value>(RETRIES).await?;
                let mut zones = answer["result"].as_array().into_iter().flatten();
                zones.any(|found| found["name"].as_str() == Some(zone))
            }
            "desec" => {
                let url = format!("https://desec.io/api/v1/domains/{zone}/");
                self.client("Token", "token").get(url).send_with_retry::<Value>(RETRIES).await?;
                true
            }
            _ => true,
        };
        let id = match (&self.route53, self.account.credential("hosted_zone_id")) {
            (Some(_), Some(id)) if id.bytes().all(|octet| octet.is_ascii_alphanumeric()) => Some(id.to_owned()),
            (Some(_), Some(_)) => return Err(Error::Api("BadRequest: not a hosted zone ID".to_owned())),
            (Some(api), None) => Some(api.zone_id(zone).await?),
            (None, _) => None,
        };
        if is_found { Ok(FoundZone { id }) } else { Err(Error::NotFound) }
    }

    fn client(&self, scheme: &str, field: &str) -> HttpClient {
        let token = self.account.credential(field).unwrap_or_default();
        HttpClientBuilder::new()
            .with_header("Authorization", format!("{scheme} {token}"))
            .with_timeout(REQUEST_LIMIT)
            .build()
    }

    /// Returns a record as the client of this provider writes it rightly.
    fn written(&self, record: &RecordData) -> DnsRecord {
        // Without final dots, because some clients compare with what Cloudflare and others return. `.` is the root.
        match record {
            RecordData::Cname(target) => DnsRecord::CNAME(target.clone()),
            RecordData::Mx { preference, exchange } => {
                DnsRecord::MX(MXRecord { exchange: exchange.clone(), priority: *preference })
            }
            RecordData::Srv { priority, weight, port, target } => {
                let (priority, weight, port) = (*priority, *weight, *port);
                DnsRecord::SRV(SRVRecord { target: target.clone(), priority, weight, port })
            }
            RecordData::Tlsa(record) => DnsRecord::TLSA(tlsa_of(record)),
            RecordData::Txt(_) => {
                let text = record.joined_text().unwrap_or_default();
                DnsRecord::TXT(match self.account.provider().name {
                    // Puts the text between quotes as it is. The API itself splits long strings.
                    "desec" => text.replace('\\', r"\\").replace('"', "\\\""),
                    // Escape quotes, and no backslashes.
                    "gandi" | "scaleway" => text.replace('\\', r"\\"),
                    _ => text,
                })
            }
        }
    }

    /// Returns a record of the library; `None` for one of another type.
    fn read(&self, record: DnsRecord) -> Option<RecordData> {
        let (kind, text) = match record {
            DnsRecord::CNAME(target) => (RecordKind::Cname, absolute(&target)),
            DnsRecord::MX(mx) => (RecordKind::Mx, format!("{} {}", mx.priority, absolute(&mx.exchange))),
            DnsRecord::SRV(srv) => {
                let target = absolute(&srv.target);
                (RecordKind::Srv, format!("{} {} {} {target}", srv.priority, srv.weight, srv.port))
            }
            DnsRecord::TLSA(tlsa) => (RecordKind::Tlsa, tlsa.to_string()),
            DnsRecord::TXT(text) => return Some(RecordData::text(&self.unquoted(text))),
            _ => return None,
        };
        RecordData::parse(kind, &text).ok()
    }

    /// Removes the quotes of a text if the client leaves them there, as some users and APIs add them.
    fn unquoted(&self, text: String) -> String {
        let leaves_quotes = matches!(
            self.account.provider().name,
            "bunny" | "digitalocean" | "dnsimple" | "inwx" | "linode" | "netcup" | "ovh" | "porkbun"
        );
        let quoted = leaves_quotes.then(|| RecordData::parse(RecordKind::Txt, &text).ok()).flatten();
        quoted.and_then(|quoted| quoted.joined_text()).unwrap_or(text)
    }

    fn failure(&self, error: &Error) -> HostedError {
        failure(&self.account, error)
    }
}

fn failure(account: &HostedAccount, error: &Error) -> HostedError {
    // Credentials are removed before the message is cut.
    HostedError::new(kind_of(error), &account.scrub(&error.to_string()))
}

/// Whether the library returns the record as it is. It reads `\195` in a text as `195`, so that other octets than printable
/// ASCII are lost. Of a TLSA record, it knows the values of RFC 6698 alone.
pub(crate) fn can_be_expressed(record: &RecordData) -> bool {
    match record {
        RecordData::Txt(strings) => strings.iter().flatten().all(|octet| matches!(octet, b' '..=b'~')),
        RecordData::Tlsa(TlsaRecord { usage, selector, matching, .. }) => {
            *usage <= 3 && *selector <= 1 && *matching <= 2
        }
        RecordData::Cname(_) | RecordData::Mx { .. } | RecordData::Srv { .. } => true,
    }
}

fn updater(account: &HostedAccount, zone_id: Option<&str>) -> dns_update::Result<DnsUpdater> {
    let optional = |name: &str| account.credential(name).map(str::to_owned);
    // Required fields are there: the account was checked.
    let field = |name: &str| optional(name).unwrap_or_default();
    match account.provider().name {
        "bunny" => DnsUpdater::new_bunny(field("api_key"), REQUEST_LIMIT),
        "cloudflare" => DnsUpdater::new_cloudflare(field("api_token"), REQUEST_LIMIT),
        "desec" => DnsUpdater::new_desec(field("token"), REQUEST_LIMIT),
        "digitalocean" => DnsUpdater::new_digitalocean(field("api_token"), REQUEST_LIMIT),
        "dnsimple" => DnsUpdater::new_dnsimple(field("api_token"), field("account_id"), REQUEST_LIMIT),
        "gandi" => DnsUpdater::new_gandiv5(field("personal_access_token"), REQUEST_LIMIT),
        "hetzner" => DnsUpdater::new_hetzner(field("api_token"), REQUEST_LIMIT),
        "inwx" => DnsUpdater::new_inwx(field("username"), field("password"), false, REQUEST_LIMIT),
        "ionos" => DnsUpdater::new_ionos(field("api_key"), REQUEST_LIMIT),
        "linode" => DnsUpdater::new_linode(field("api_token"), REQUEST_LIMIT),
        "netcup" => {
            DnsUpdater::new_netcup(field("customer_number"), field("api_key"), field("api_password"), REQUEST_LIMIT)
        }
        "ovh" => {
            // The error of the library repeats the value.
            let endpoint = optional("endpoint").as_deref().unwrap_or("ovh-eu").parse::<OvhEndpoint>();
            let endpoint = endpoint.map_err(|_| Error::InvalidRegion)?;
            let (key, secret) = (field("application_key"), field("application_secret"));
            DnsUpdater::new_ovh(key, secret, field("consumer_key"), endpoint, REQUEST_LIMIT)
        }
        "porkbun" => DnsUpdater::new_porkbun(field("api_key"), field("secret_api_key"), REQUEST_LIMIT),
        "route53" => DnsUpdater::new_route53(Route53Config {
            access_key_id: field("access_key_id"),
            secret_access_key: field("secret_access_key"),
            session_token: None,
            region: optional("region"),
            // Without it the client takes the first zone of the longest name, also a private one of the same name.
            hosted_zone_id: zone_id.map(str::to_owned),
            private_zone_only: None,
            endpoint: None,
        }),
        "scaleway" => DnsUpdater::new_scaleway(field("secret_key"), REQUEST_LIMIT),
        "vultr" => DnsUpdater::new_vultr(field("api_key"), REQUEST_LIMIT),
        other => Err(Error::Unsupported(format!("the provider {other} has no client"))),
    }
}

const fn record_type(kind: RecordKind) -> DnsRecordType {
    match kind {
        RecordKind::Cname => DnsRecordType::CNAME,
        RecordKind::Mx => DnsRecordType::MX,
        RecordKind::Srv => DnsRecordType::SRV,
        RecordKind::Tlsa => DnsRecordType::TLSA,
        RecordKind::Txt => DnsRecordType::TXT,
    }
}

/// Returns a record whose values [`can_be_expressed`].
fn tlsa_of(record: &TlsaRecord) -> TLSARecord {
    TLSARecord {
        cert_usage: match record.usage {
            0 => TlsaCertUsage::PkixTa,
            1 => TlsaCertUsage::PkixEe,
            2 => TlsaCertUsage::DaneTa,
            3 => TlsaCertUsage::DaneEe,
            _ => TlsaCertUsage::Private,
        },
        selector: match record.selector {
            0 => TlsaSelector::Full,
            1 => TlsaSelector::Spki,
            _ => TlsaSelector::Private,
        },
        matching: match record.matching {
            0 => TlsaMatching::Raw,
            1 => TlsaMatching::Sha256,
            2 => TlsaMatching::Sha512,
            _ => TlsaMatching::Private,
        },
        cert_data: record.data.clone(),
    }
}

/// Adds the final dot. Some clients remove it also from the root.
fn absolute(host: &str) -> String {
    format!("{}.", host.strip_suffix('.').unwrap_or(host))
}

fn is_limited(error: &Error) -> bool {
    kind_of(error) == FailureKind::Limited
}

fn kind_of(error: &Error) -> FailureKind {
    match error {
        Error::Unauthorized => FailureKind::Credentials,
        Error::NotFound => FailureKind::NotFound,
        Error::BadRequest => FailureKind::Refused,
        Error::Unsupported(_) => FailureKind::Unsupported,
        Error::InvalidRegion => FailureKind::Invalid,
        Error::Api(text) => kind_of_text(text),
        _ => FailureKind::Unanswered,
    }
}

/// The library gives the status of an answer only as a part of a text.
fn kind_of_text(text: &str) -> FailureKind {
    let is_throttled = ["Throttling", "PriorRequestNotComplete"].iter().any(|code| text.contains(code));
    let status =
        ["HTTP ", "Route53 API error: "].iter().find_map(|start| text.strip_prefix(start)?.get(..3)?.parse().ok());
    let is_bad_request = text.starts_with("BadRequest") || text.starts_with("Route53 BadRequest");
    match status.or(is_bad_request.then_some(400)) {
        _ if is_throttled => FailureKind::Limited,
        // Cloudflare's code for a token that has not the form of one.
        Some(400) if text.contains("6111") => FailureKind::Credentials,
        Some(401 | 403) => FailureKind::Credentials,
        Some(404) => FailureKind::NotFound,
        Some(429) => FailureKind::Limited,
        Some(400..500) => FailureKind::Refused,
        None if text.contains("zone found") || text.ends_with("not found") => FailureKind::NotFound,
        _ => FailureKind::Unanswered,
    }
}

#[cfg(test)]
mod tests {
    use mailapi_hosted_dns::PROVIDERS;
    use mailapi_model::Secret;

    use super::*;

    fn zone(provider: &str) -> HostedZone {
        let info = mailapi_hosted_dns::provider(provider).unwrap();
        let fields = info.fields.iter().filter(|field| field.is_required);
        let fields = fields.map(|field| (field.name.to_owned(), Secret::new("canary-1".to_owned())));
        HostedZone::new(HostedAccount::new(provider, fields, "example.org").unwrap()).unwrap()
    }

    #[test]
    fn every_provider_of_the_table_has_a_client() {
        for provider in PROVIDERS {
            assert_eq!(zone(provider.name).account().provider(), provider);
        }
    }

    #[test]
    fn a_region_and_an_endpoint_are_checked() {
        for (provider, field) in [("route53", "region"), ("ovh", "endpoint")] {
            let info = mailapi_hosted_dns::provider(provider).unwrap();
            let fields = info.fields.iter().filter(|field| field.is_required).map(|field| field.name).chain([field]);
            let fields = fields.map(|name| (name.to_owned(), Secret::new("Canary 1".to_owned())));
            let account = HostedAccount::new(provider, fields, "example.org").unwrap();
            let error = HostedZone::new(account).err().unwrap();
            assert_eq!(error.kind, FailureKind::Invalid);
            assert!(!error.message.contains("Canary"), "{error}");
        }
    }

    #[test]
    fn failures_have_kinds() {
        for (error, kind) in [
            (Error::Unauthorized, FailureKind::Credentials),
            (Error::NotFound, FailureKind::NotFound),
            (Error::Api("HTTP 403: {}".to_owned()), FailureKind::Credentials),
            (Error::Api("HTTP 429".to_owned()), FailureKind::Limited),
            (Error::Api("HTTP 409: x".to_owned()), FailureKind::Refused),
            (Error::Api("HTTP 302".to_owned()), FailureKind::Unanswered),
            (Error::Api("HTTP 502: x".to_owned()), FailureKind::Unanswered),
            (Error::Api("BadRequest {}".to_owned()), FailureKind::Refused),
            (Error::Api("BadRequest {\"code\":6111}".to_owned()), FailureKind::Credentials),
            (Error::Api("Route53 BadRequest: x".to_owned()), FailureKind::Refused),
            (Error::Api("Route53 API error: 403 Forbidden - x".to_owned()), FailureKind::Credentials),
            (Error::Api("Route53 API error: 400 Bad Request - Throttling".to_owned()), FailureKind::Limited),
            (Error::Api("Failed to send request to https://a: b".to_owned()), FailureKind::Unanswered),
            (Error::Api("No suitable hosted zone found for name: a".to_owned()), FailureKind::NotFound),
            (Error::Api("HTTP é1".to_owned()), FailureKind::Unanswered),
            (Error::Serialize(String::new()), FailureKind::Unanswered),
        ] {
            assert_eq!(kind_of(&error), kind, "{error}");
        }
    }

    #[test]
    fn hosts_are_read_with_and_without_final_dots() {
        let mx = |exchange: &str| DnsRecord::MX(MXRecord { exchange: exchange.to_owned(), priority: 0 });
        let zone = zone("cloudflare");
        for (exchange, read) in [("MX.a", "0 mx.a."), ("mx.a.", "0 mx.a."), (".", "0 ."), ("", "0 .")] {
            assert_eq!(zone.read(mx(exchange)).unwrap().to_string(), read);
        }
        assert_eq!(zone.read(mx("10 mx.a.")), None);
    }

    #[test]
    fn texts_are_escaped_where_a_client_does_not() {
        let text = RecordData::text(r#"a"b\c"#);
        for (provider, expected) in [("desec", r#"a\"b\\c"#), ("gandi", r#"a"b\\c"#), ("cloudflare", r#"a"b\c"#)] {
            assert_eq!(zone(provider).written(&text), DnsRecord::TXT(expected.to_owned()));
        }
        assert_eq!(zone("ovh").unquoted(r#""a" "b""#.to_owned()), "ab");
        assert_eq!(zone("cloudflare").unquoted(r#""a" "b""#.to_owned()), r#""a" "b""#);
    }
}
