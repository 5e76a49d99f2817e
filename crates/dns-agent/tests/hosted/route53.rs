//! Imitates the API of Amazon Route 53: <https://docs.aws.amazon.com/Route53/latest/APIReference/>.

use crate::store::{FakeAnswer, FakeRequest, ProviderState, StoredRecord, strings_of};

/// The key that the imitation accepts. It does not check the signature.
pub(crate) const ACCESS_KEY: &str = "CANARYAWSACCESSKEY01";
/// The secret of the key.
pub(crate) const SECRET_KEY: &str = "canary/aws+secret/0123456789";
/// The start of the name of a zone that only networks in the cloud use.
pub(crate) const PRIVATE: &str = "private ";
/// Sets on a page. The real API shows 300.
const PAGE: usize = 3;

pub(crate) fn answer(state: &mut ProviderState, request: &FakeRequest) -> FakeAnswer {
    if !is_signed(request) {
        return error(403, "SignatureDoesNotMatch", "The request signature we calculated does not match.");
    }
    let path: Vec<_> = request.path.trim_start_matches("/2013-04-01/").split('/').collect();
    match (request.method.as_str(), &path[..]) {
        ("GET", ["hostedzonesbyname"]) => list_zones(state),
        ("GET", ["hostedzone", zone, "rrset"]) if zone_named(state, zone).is_some() => list_sets(state, request),
        ("POST", ["hostedzone", zone, "rrset"]) if zone_named(state, zone).is_some() => change(state, &request.body),
        _ => error(404, "NoSuchHostedZone", "No hosted zone found with that ID"),
    }
}

fn is_signed(request: &FakeRequest) -> bool {
    let header = |name: &str| request.headers.get(name).map(String::as_str).unwrap_or_default();
    let date = header("x-amz-date");
    let scope =
        format!("Credential={ACCESS_KEY}/{}/us-east-1/route53/aws4_request,", date.get(..8).unwrap_or_default());
    let authorization = header("authorization");
    let signature = authorization.split("Signature=").nth(1).unwrap_or_default();
    date.len() == 16
        && authorization.starts_with(&format!("AWS4-HMAC-SHA256 {scope}"))
        && authorization.contains("host;x-amz-date")
        && signature.len() == 64
        && signature.bytes().all(|octet| octet.is_ascii_hexdigit())
}

fn zone_named<'a>(state: &'a ProviderState, id: &str) -> Option<&'a String> {
    state.zones.iter().find(|zone| id == zone_id(zone))
}

fn zone_id(zone: &str) -> String {
    format!("Z{}", zone.replace(['.', '-', ' '], "").to_ascii_uppercase())
}

fn list_zones(state: &ProviderState) -> FakeAnswer {
    let zones = state.zones.iter().map(|zone| {
        let name = zone.trim_start_matches(PRIVATE);
        let is_private = name != zone;
        format!(
            "<HostedZone><Id>/hostedzone/{}</Id><Name>{name}.</Name><CallerReference>a</CallerReference>\
             <Config><PrivateZone>{is_private}</PrivateZone></Config><ResourceRecordSetCount>2</ResourceRecordSetCount>\
             </HostedZone>",
            zone_id(zone)
        )
    });
    let zones: String = zones.collect();
    xml(&format!(
        "<ListHostedZonesByNameResponse><HostedZones>{zones}</HostedZones><IsTruncated>false</IsTruncated>\
         <MaxItems>100</MaxItems></ListHostedZonesByNameResponse>"
    ))
}

fn list_sets(state: &mut ProviderState, request: &FakeRequest) -> FakeAnswer {
    let mut sets: Vec<Vec<StoredRecord>> = Vec::new();
    let mut shown = state.shown();
    shown.sort_by_key(|record| (key(&record.name, &record.kind), record.id));
    for record in shown {
        match sets.last_mut().filter(|set| set[0].name == record.name && set[0].kind == record.kind) {
            Some(set) => set.push(record),
            None => sets.push(vec![record]),
        }
    }
    let start = |member: &str| request.query.get(member).map(String::as_str).unwrap_or_default();
    let start = key(start("name").trim_end_matches('.'), start("type"));
    sets.retain(|set| key(&set[0].name, &set[0].kind) >= start);
    let page = request.query.get("maxitems").map_or(PAGE, |text| text.parse().unwrap());
    let next = sets.get(page).map(|set| {
        let (name, kind) = (&set[0].name, &set[0].kind);
        format!("<NextRecordName>{name}.</NextRecordName><NextRecordType>{kind}</NextRecordType>")
    });
    let shown: String = sets.iter().take(page).map(|set| set_xml(set)).collect();
    xml(&format!(
        "<ListResourceRecordSetsResponse><ResourceRecordSets>{shown}</ResourceRecordSets>\
         <IsTruncated>{}</IsTruncated>{}<MaxItems>{page}</MaxItems></ListResourceRecordSetsResponse>",
        next.is_some(),
        next.unwrap_or_default()
    ))
}

/// The order of the API: by the labels from the last to the first, then by the type.
fn key(name: &str, kind: &str) -> (Vec<String>, String) {
    (name.split('.').rev().map(str::to_owned).collect(), kind.to_owned())
}

/// An alias has a target in place of a TTL and values. Here its value begins with `alias `.
fn set_xml(set: &[StoredRecord]) -> String {
    let StoredRecord { name, kind, ttl, value, .. } = &set[0];
    let name = name.replace('*', r"\052");
    if let Some(target) = value.strip_prefix("alias ") {
        return format!(
            "<ResourceRecordSet><Name>{name}.</Name><Type>{kind}</Type><AliasTarget><HostedZoneId>Z2</HostedZoneId>\
             <DNSName>{target}</DNSName><EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget>\
             </ResourceRecordSet>"
        );
    }
    let values = set.iter().map(|record| {
        let value = record.value.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
        format!("<ResourceRecord><Value>{value}</Value></ResourceRecord>")
    });
    let values: String = values.collect();
    format!(
        "<ResourceRecordSet><Name>{name}.</Name><Type>{kind}</Type><TTL>{ttl}</TTL>\
         <ResourceRecords>{values}</ResourceRecords></ResourceRecordSet>"
    )
}

fn change(state: &mut ProviderState, body: &str) -> FakeAnswer {
    let member = |name: &str| between(body, name).next().unwrap_or_default();
    let (action, kind) = (member("Action"), member("Type"));
    let name = member("Name").trim_end_matches('.').to_ascii_lowercase();
    let ttl: u32 = member("TTL").parse().unwrap();
    let mut values: Vec<_> = between(body, "Value").collect();
    values.sort();
    let invalid = |message: &str| error(400, "InvalidChangeBatch", message);
    let is_text =
        |value: &String| strings_of(value).is_some_and(|strings| strings.iter().all(|string| string.len() <= 255));
    if values.is_empty() || (kind == "TXT" && !values.iter().all(is_text)) {
        return invalid("Invalid Resource Record: 'InvalidCharacterString'");
    }
    if action == "DELETE" {
        let exact = state.records.iter().all(|record| record.name != name || record.kind != kind || record.ttl == ttl);
        if !exact || state.values(&name, &kind) != values {
            return invalid("Tried to delete resource record set but the values provided do not match");
        }
    }
    let is_other = |record: &StoredRecord| record.name == name && (record.kind == "CNAME") != (kind == "CNAME");
    if action == "UPSERT" && state.records.iter().any(is_other) {
        return invalid("RRSet of type CNAME with DNS name is not permitted as it conflicts with other records");
    }
    state.write();
    state.remove(&name, &kind);
    if action == "UPSERT" {
        for value in &values {
            state.add(&name, &kind, ttl, value);
        }
    }
    xml("<ChangeResourceRecordSetsResponse><ChangeInfo><Id>/change/C1</Id><Status>PENDING</Status>\
         <SubmittedAt>2026-01-01T00:00:00Z</SubmittedAt></ChangeInfo></ChangeResourceRecordSetsResponse>")
}

fn between<'a>(text: &'a str, element: &str) -> impl Iterator<Item = String> + use<'a> {
    let (start, end) = (format!("<{element}>"), format!("</{element}>"));
    let parts: Vec<_> = text.split(&start).skip(1).map(|part| part.split(&end).next().unwrap_or_default()).collect();
    let unescaped =
        |part: &str| part.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    parts.into_iter().map(unescaped)
}

fn error(status: u16, code: &str, message: &str) -> FakeAnswer {
    let error = format!("<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>");
    FakeAnswer { status, ..xml(&format!("<ErrorResponse>{error}<RequestId>a</RequestId></ErrorResponse>")) }
}

fn xml(body: &str) -> FakeAnswer {
    FakeAnswer::new(200, format!("<?xml version=\"1.0\"?>\n{body}"))
}
