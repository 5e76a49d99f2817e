//! Imitates the API of deSEC: <https://desec.readthedocs.io/en/latest/dns/rrsets.html>.

use serde_json::{Value, json};

use crate::store::{FakeAnswer, FakeRequest, ProviderState, StoredRecord, strings_of};

/// The token that the imitation accepts.
pub(crate) const TOKEN: &str = "canary-desec-token-0123456789";
const MIN_TTL: u64 = 3600;

pub(crate) fn answer(state: &mut ProviderState, request: &FakeRequest) -> FakeAnswer {
    if request.headers.get("authorization").map(String::as_str) != Some(&format!("Token {TOKEN}")) {
        return FakeAnswer::new(401, r#"{"detail":"Invalid token."}"#);
    }
    let path: Vec<_> = request.path.trim_start_matches("/api/v1/").trim_end_matches('/').split('/').collect();
    let missing = || FakeAnswer::new(404, r#"{"detail":"Not found."}"#);
    let ["domains", zone, path @ ..] = &path[..] else { return missing() };
    if !state.zones.iter().any(|known| known == zone) {
        return missing();
    }
    match (request.method.as_str(), path) {
        ("GET", []) => FakeAnswer::new(200, json!({"name": zone, "minimum_ttl": MIN_TTL}).to_string()),
        ("GET", ["rrsets", subname, kind]) => {
            let name = full_name(subname, zone);
            let mut shown = state.shown();
            shown.retain(|record| record.name == name && record.kind == *kind);
            if shown.is_empty() { missing() } else { FakeAnswer::new(200, set_json(zone, &shown).to_string()) }
        }
        ("DELETE", ["rrsets", subname, kind]) => {
            state.write();
            state.remove(&full_name(subname, zone), kind);
            FakeAnswer::new(204, "")
        }
        ("PUT", ["rrsets"]) => put(state, zone, &request.body),
        _ => FakeAnswer::new(405, r#"{"detail":"Method not allowed."}"#),
    }
}

fn put(state: &mut ProviderState, zone: &str, body: &str) -> FakeAnswer {
    let sets: Vec<Value> = serde_json::from_str(body).unwrap();
    let mut answers = Vec::new();
    for set in sets {
        let kind = set["type"].as_str().unwrap();
        let name = full_name(set["subname"].as_str().unwrap(), zone);
        let ttl = set["ttl"].as_u64().unwrap();
        if ttl < MIN_TTL {
            let message = "Ensure this value is greater than or equal to 3600.";
            return FakeAnswer::new(400, json!([{"ttl": [message]}]).to_string());
        }
        let values: Vec<_> = set["records"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let Some(values) = values.iter().map(|value| normal(kind, value)).collect::<Option<Vec<_>>>() else {
            let message = "Cannot parse record contents: malformed.";
            return FakeAnswer::new(400, json!([{"records": {"0": [message]}}]).to_string());
        };
        let is_other = |record: &StoredRecord| record.name == name && (record.kind == "CNAME") != (kind == "CNAME");
        if state.records.iter().any(is_other) {
            let message = "RRset with conflicting type present.";
            return FakeAnswer::new(400, json!([{"non_field_errors": [message]}]).to_string());
        }
        state.write();
        state.remove(&name, kind);
        for value in values {
            state.add(&name, kind, u32::try_from(ttl).unwrap(), &value);
        }
        let stored: Vec<_> = state.records.iter().filter(|record| record.name == name && record.kind == kind).collect();
        answers.push(set_json(zone, &stored.into_iter().cloned().collect::<Vec<_>>()));
    }
    FakeAnswer::new(200, Value::from(answers).to_string())
}

/// Returns the canonical form of a value; `None` if it is invalid. Long strings are split.
fn normal(kind: &str, value: &str) -> Option<String> {
    if kind == "TLSA" {
        let is_hex = |text: &str| text.len().is_multiple_of(2) && text.bytes().all(|octet| octet.is_ascii_hexdigit());
        let last = value.split(' ').nth(3).filter(|_| value.split(' ').count() == 4);
        return last.is_some_and(is_hex).then(|| value.to_ascii_lowercase());
    }
    if kind != "TXT" {
        return value.ends_with('.').then(|| value.to_ascii_lowercase());
    }
    let strings = strings_of(value)?;
    let escaped = |string: &[u8]| {
        let text = std::str::from_utf8(string).unwrap().replace('\\', r"\\").replace('"', "\\\"");
        format!("\"{text}\"")
    };
    let parts = strings.iter().flat_map(|string| match string.as_bytes() {
        [] => vec![escaped(b"")],
        octets => octets.chunks(255).map(escaped).collect(),
    });
    Some(parts.collect::<Vec<_>>().join(" "))
}

fn full_name(subname: &str, zone: &str) -> String {
    if matches!(subname, "" | "@") { zone.to_owned() } else { format!("{subname}.{zone}") }
}

fn set_json(zone: &str, records: &[StoredRecord]) -> Value {
    let first = &records[0];
    let subname = first.name.strip_suffix(zone).unwrap().trim_end_matches('.');
    json!({
        "created": "2026-01-01T00:00:00.000000Z", "touched": "2026-01-01T00:00:00.000000Z", "domain": zone,
        "subname": subname, "name": format!("{}.", first.name), "type": first.kind, "ttl": first.ttl,
        "records": records.iter().map(|record| record.value.clone()).collect::<Vec<_>>(),
    })
}
