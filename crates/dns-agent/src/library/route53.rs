//! Lists and deletes record sets of Amazon Route 53, which the library's client does wrongly.
//!
//! That client reads pages of a whole zone and demands a TTL of each set on them. An alias of Route 53 has none, so that one
//! alias anywhere in the zone makes lists and deletions fail. It also takes the first zone whose name fits, be it private or
//! not the wanted one. Here a list is one set of one zone.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dns_update::crypto::{hmac_sha256, sha256_digest};
use dns_update::http::{HttpClient, HttpClientBuilder, HttpRequest};
use dns_update::{Error, Result};
use mailapi_hosted_dns::HostedAccount;
use mailapi_model::{RecordData, RecordKind, Secret, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::{REQUEST_LIMIT, RETRIES, absolute, is_limited};

const HOST: &str = "route53.amazonaws.com";
const DEFAULT_REGION: &str = "us-east-1";
/// First pause after a limited request; each later one is twice as long. A zone takes five requests in a second.
const PAUSE: Duration = Duration::from_millis(250);

/// The parts of the API that are used here.
pub(super) struct Route53Api {
    client: HttpClient,
    key: SigningKey,
}

/// Signs requests (Signature Version 4 of AWS).
struct SigningKey {
    access_key_id: String,
    secret_access_key: Secret<String>,
    region: String,
    service: &'static str,
}

/// A record set.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FoundSet {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Type")]
    kind: String,
    /// Absent in an alias, as are the values.
    #[serde(rename = "TTL")]
    pub(super) ttl: Option<u32>,
    #[serde(rename = "ResourceRecords")]
    records: Option<SetRecords>,
    /// There are several sets of the name and type, for clients in different places or by chance.
    #[serde(rename = "SetIdentifier")]
    identifier: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct SetRecords {
    #[serde(rename = "ResourceRecord", default)]
    list: Vec<SetRecord>,
}

#[derive(Debug, Clone, Deserialize)]
struct SetRecord {
    #[serde(rename = "Value")]
    value: String,
}

#[derive(Deserialize)]
struct SetsAnswer {
    #[serde(rename = "ResourceRecordSets")]
    sets: FoundSets,
}

#[derive(Deserialize)]
struct FoundSets {
    #[serde(rename = "ResourceRecordSet", default)]
    list: Vec<FoundSet>,
}

#[derive(Deserialize)]
struct ZonesAnswer {
    #[serde(rename = "HostedZones")]
    zones: FoundZones,
}

#[derive(Deserialize)]
struct FoundZones {
    #[serde(rename = "HostedZone", default)]
    list: Vec<FoundZone>,
}

#[derive(Deserialize)]
struct FoundZone {
    #[serde(rename = "Id")]
    id: String,
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Config")]
    config: Option<ZoneConfig>,
}

#[derive(Deserialize)]
struct ZoneConfig {
    #[serde(rename = "PrivateZone", default)]
    is_private: bool,
}

impl Route53Api {
    pub(super) fn new(account: &HostedAccount) -> Self {
        let field = |name: &str| account.credential(name).unwrap_or_default().to_owned();
        let region = account.credential("region").unwrap_or(DEFAULT_REGION).to_owned();
        let key = SigningKey {
            access_key_id: field("access_key_id"),
            secret_access_key: Secret::new(field("secret_access_key")),
            region,
            service: "route53",
        };
        Self { client: HttpClientBuilder::new().with_timeout(REQUEST_LIMIT).build(), key }
    }

    /// Returns the identifier of the public zone of this name.
    pub(super) async fn zone_id(&self, zone: &str) -> Result<String> {
        // The list begins at the name. Zones of one name follow each other.
        let query = format!("dnsname={zone}.&maxitems=100");
        let answer: ZonesAnswer = self.send("GET", "/2013-04-01/hostedzonesbyname", &query, None).await?;
        let is_public = |found: &FoundZone| !found.config.as_ref().is_some_and(|config| config.is_private);
        let zones = answer.zones.list.into_iter().filter(|found| is_same(&found.name, zone) && is_public(found));
        match &zones.collect::<Vec<_>>()[..] {
            [found] => Ok(found.id.trim_start_matches("/hostedzone/").to_owned()),
            [] => Err(Error::NotFound),
            _ => {
                Err(Error::Unsupported("the account has several zones of the name; choose a hosted zone ID".to_owned()))
            }
        }
    }

    /// Returns the record set of a name and type.
    pub(super) async fn set_of(&self, zone_id: &str, name: &str, kind: RecordKind) -> Result<Option<FoundSet>> {
        let query = format!("maxitems=1&name={name}.&type={}", kind.as_str());
        let answer: SetsAnswer = self.send("GET", &path_of(zone_id), &query, None).await?;
        // The list begins with the first set that does not sort before the wanted one.
        let mut found =
            answer.sets.list.into_iter().filter(|set| is_same(&set.name, name) && set.kind == kind.as_str());
        match found.next() {
            Some(set) if set.identifier.is_some() || set.ttl.is_none() => {
                Err(Error::Unsupported("the records have a routing policy, or are an alias, of Route 53".to_owned()))
            }
            set => Ok(set),
        }
    }

    /// Deletes a record set, which the API compares with its own.
    pub(super) async fn delete(&self, zone_id: &str, set: &FoundSet) -> Result<()> {
        let values =
            set.values().map(|value| format!("<ResourceRecord><Value>{}</Value></ResourceRecord>", escaped(value)));
        let body = format!(
            "<ChangeResourceRecordSetsRequest xmlns=\"https://{HOST}/doc/2013-04-01/\"><ChangeBatch><Changes><Change>\
             <Action>DELETE</Action><ResourceRecordSet><Name>{}</Name><Type>{}</Type><TTL>{}</TTL><ResourceRecords>{}\
             </ResourceRecords></ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>",
            escaped(&set.name),
            set.kind,
            set.ttl.unwrap_or_default(),
            values.collect::<String>(),
        );
        self.send_raw("POST", &path_of(zone_id), "", Some(&body)).await.map(|_| ())
    }

    async fn send<T: DeserializeOwned>(&self, method: &str, path: &str, query: &str, body: Option<&str>) -> Result<T> {
        let answer = self.send_raw(method, path, query, body).await?;
        quick_xml::de::from_str(&answer)
            .map_err(|error| Error::Parse(format!("the answer is not as expected: {error}")))
    }

    /// Sends a request, and again while the provider limits requests. Its query is sorted, and needs no escapes.
    async fn send_raw(&self, method: &str, path: &str, query: &str, body: Option<&str>) -> Result<String> {
        let mut repetitions = 0;
        loop {
            let request = self.request(method, path, query, body, now());
            match request.send_raw().await {
                Err(error) if repetitions < RETRIES && is_limited(&error) => sleep(PAUSE * (1 << repetitions)).await,
                answer => return answer,
            }
            repetitions += 1;
        }
    }

    fn request(&self, method: &str, path: &str, query: &str, body: Option<&str>, at: Timestamp) -> HttpRequest {
        let separator = if query.is_empty() { "" } else { "?" };
        let url = format!("https://{HOST}{path}{separator}{query}");
        let request = if method == "POST" { self.client.post(url) } else { self.client.get(url) };
        let (date, authorization) = self.key.authorization(HOST, method, path, query, body.unwrap_or_default(), at);
        let request = request.set_header("content-type", "application/xml");
        let request = request.with_header("x-amz-date", date).with_header("authorization", authorization);
        match body {
            Some(body) => request.with_raw_body(body.to_owned()),
            None => request,
        }
    }
}

impl SigningKey {
    /// Returns the values of the headers `x-amz-date` and `authorization`.
    fn authorization(
        &self,
        host: &str,
        method: &str,
        path: &str,
        query: &str,
        body: &str,
        at: Timestamp,
    ) -> (String, String) {
        let text = at.to_text();
        let seconds = text.as_str().split('.').next().unwrap_or_default();
        let date = format!("{}Z", seconds.replace(['-', ':'], ""));
        let day = date.split('T').next().unwrap_or_default();
        let signed = "host;x-amz-date";
        let digest = hex(&sha256_digest(body.as_bytes()));
        let request = format!("{method}\n{path}\n{query}\nhost:{host}\nx-amz-date:{date}\n\n{signed}\n{digest}");
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&sha256_digest(request.as_bytes())));
        let first = format!("AWS4{}", self.secret_access_key.expose()).into_bytes();
        let parts = [day, &self.region, self.service, "aws4_request"];
        let key = parts.iter().fold(first, |key, part| hmac_sha256(&key, part.as_bytes()));
        let signature = hex(&hmac_sha256(&key, to_sign.as_bytes()));
        let credential = format!("{}/{scope}", self.access_key_id);
        let algorithm = "AWS4-HMAC-SHA256";
        (date.clone(), format!("{algorithm} Credential={credential}, SignedHeaders={signed}, Signature={signature}"))
    }
}

impl FoundSet {
    /// Returns the records; `None` if one is invalid for the type.
    pub(super) fn records(&self) -> Option<Vec<RecordData>> {
        self.values().map(|value| record_of(&self.kind, value)).collect()
    }

    fn values(&self) -> impl Iterator<Item = &str> {
        self.records.iter().flat_map(|records| &records.list).map(|record| record.value.as_str())
    }
}

fn record_of(kind: &str, value: &str) -> Option<RecordData> {
    let kind: RecordKind = kind.parse().ok()?;
    let text = match (kind, value.trim().rsplit_once(' ')) {
        (RecordKind::Txt, _) => decimal(value),
        (RecordKind::Tlsa, _) => value.to_owned(),
        (_, Some((head, host))) => format!("{head} {}", absolute(host)),
        (_, None) => absolute(value.trim()),
    };
    RecordData::parse(kind, &text).ok()
}

/// Returns a text with decimal escapes (RFC 1035 section 5.1) for the octal ones of Route 53.
fn decimal(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut changed = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        changed.push('\\');
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(octet) => changed.push_str(&format!("{octet:03}{}", &part[3..])),
            // An escaped backslash; the next part is plain.
            None if part.is_empty() => {
                changed.push('\\');
                changed.push_str(parts.next().unwrap_or_default());
            }
            None => changed.push_str(part),
        }
    }
    changed
}

fn path_of(zone_id: &str) -> String {
    format!("/2013-04-01/hostedzone/{zone_id}/rrset")
}

fn is_same(shown: &str, name: &str) -> bool {
    shown.trim_end_matches('.').eq_ignore_ascii_case(name)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Returns the time for a signature, which the provider compares with its own.
#[expect(clippy::disallowed_methods, reason = "no decision depends on the time of a signature")]
fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_seconds(i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The cases `get-vanilla` and `get-vanilla-query-order-key-case` of the test suite that AWS publishes.
    #[test]
    fn signatures_are_those_of_the_published_cases() {
        let key = SigningKey {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
            region: "us-east-1".to_owned(),
            service: "service",
        };
        let at = Timestamp::from_seconds(1_440_938_160);
        for (query, signature) in [
            ("", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("Param1=value1&Param2=value2", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
        ] {
            let (date, authorization) = key.authorization("example.amazonaws.com", "GET", "/", query, "", at);
            assert_eq!(date, "20150830T123600Z");
            assert_eq!(
                authorization,
                format!(
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                     SignedHeaders=host;x-amz-date, Signature={signature}"
                )
            );
        }
    }

    #[test]
    fn values_of_route_53_are_read() {
        for (kind, value, text) in [
            ("MX", "10 MX.example", "10 mx.example."),
            ("MX", "0 .", "0 ."),
            ("SRV", "0 1 993 mx.example.", "0 1 993 mx.example."),
            ("CNAME", "mx.example", "mx.example."),
            ("TXT", r#""a\052b" "\\052\"c""#, r#""a*b" "\\052\"c""#),
            ("TXT", r#""caf\303\251""#, r#""caf\195\169""#),
        ] {
            assert_eq!(record_of(kind, value).unwrap().to_string(), text, "{value}");
        }
        assert_eq!(record_of("TXT", "a"), None);
        assert_eq!(record_of("A", "192.0.2.1"), None);
    }

    proptest! {
        #[test]
        fn no_value_makes_a_reader_panic(value in r#"["\\ a0-9.é]{0,40}"#) {
            for kind in ["MX", "SRV", "CNAME", "TXT", "A"] {
                let _ = record_of(kind, &value);
            }
        }

        #[test]
        fn no_answer_makes_a_reader_panic(answer in r#"[<>/A-Za-z0-9"&; ]{0,80}"#) {
            let _ = quick_xml::de::from_str::<SetsAnswer>(&answer);
            let _ = quick_xml::de::from_str::<ZonesAnswer>(&answer);
        }
    }
}
