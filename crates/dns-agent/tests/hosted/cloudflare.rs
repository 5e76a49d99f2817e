//! Imitates the API of Cloudflare: <https://developers.cloudflare.com/api/resources/dns/>.

use serde_json::{Value, json};

use crate::store::{FakeAnswer, FakeRequest, ProviderState, StoredRecord, strings_of};

/// The token that the imitation accepts.
pub(crate) const TOKEN: &str = "canary-cloudflare-token-0123456789";
/// Records on a page without `per_page`.
const PAGE: usize = 100;

pub(crate) fn answer(state: &mut ProviderState, request: &FakeRequest) -> FakeAnswer {
    if request.headers.get("authorization").map(String::as_str) != Some(&format!("Bearer {TOKEN}")) {
        return error(403, 9109, "Invalid access token");
    }
    let path: Vec<_> = request.path.trim_start_matches("/client/v4/").split('/').collect();
    match (request.method.as_str(), &path[..]) {
        ("GET", ["zones"]) => {
            let named = |zone: &&String| request.query.get("name") == Some(zone);
            let zones =
                state.zones.iter().filter(named).map(|zone| json!({"id": format!("id-of-{zone}"), "name": zone}));
            page(request, zones.collect())
        }
        ("GET", ["zones", zone, "dns_records"]) if has(state, zone) => {
            let wanted = |member: &str, value: &str| request.query.get(member).is_none_or(|wanted| wanted == value);
            let shown = state.shown();
            let found = shown.iter().filter(|record| wanted("name", &record.name) && wanted("type", &record.kind));
            page(request, found.map(record_json).collect())
        }
        ("POST", ["zones", zone, "dns_records"]) if has(state, zone) => create(state, &request.body),
        ("DELETE", ["zones", zone, "dns_records", id]) if has(state, zone) => {
            let Some(index) = state.records.iter().position(|record| record.id.to_string() == *id) else {
                return error(404, 81044, "Record does not exist.");
            };
            state.write();
            state.records.remove(index);
            result(json!({"id": id}))
        }
        _ => error(404, 7003, "Could not route to the path, perhaps your object identifier is invalid?"),
    }
}

fn create(state: &mut ProviderState, body: &str) -> FakeAnswer {
    let Ok(body) = serde_json::from_str::<Value>(body) else { return error(400, 9207, "Request body is invalid.") };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, kind) = (text(&body["name"]).to_ascii_lowercase(), text(&body["type"]));
    let host = |value: &Value| match text(value).as_str() {
        "." => ".".to_owned(),
        host => host.trim_end_matches('.').to_ascii_lowercase(),
    };
    let value = match kind.as_str() {
        "MX" => format!("{} {}", body["priority"], host(&body["content"])),
        "SRV" => {
            let data = &body["data"];
            format!("{} {} {} {}", data["priority"], data["weight"], data["port"], host(&data["target"]))
        }
        "TLSA" => {
            let data = &body["data"];
            let certificate = text(&data["certificate"]).to_ascii_lowercase();
            format!("{} {} {} {certificate}", data["usage"], data["selector"], data["matching_type"])
        }
        "CNAME" => host(&body["content"]),
        _ => text(&body["content"]),
    };
    let ttl = body["ttl"].as_u64().and_then(|ttl| u32::try_from(ttl).ok()).unwrap_or(1);
    let is_text = |strings: Vec<String>| strings.iter().all(|string| string.len() <= 255);
    if kind == "TXT" && !strings_of(&value).is_some_and(is_text) {
        return error(400, 9207, "Content for TXT record is invalid.");
    }
    if ttl != 1 && !(60..=86400).contains(&ttl) {
        return error(400, 9021, "Invalid TTL. Must be between 60 and 86400 seconds, or 1 for Automatic.");
    }
    if state.values(&name, &kind).contains(&value) {
        return error(400, 81058, "An identical record already exists.");
    }
    let is_other = |record: &StoredRecord| record.name == name && (record.kind == "CNAME") != (kind == "CNAME");
    if state.records.iter().any(is_other) {
        return error(400, 81054, "A CNAME record with that host already exists.");
    }
    state.write();
    state.add(&name, &kind, ttl, &value);
    result(state.records.last().map(record_json).unwrap())
}

fn record_json(record: &StoredRecord) -> Value {
    let common = json!({
        "id": record.id.to_string(), "name": record.name, "type": record.kind, "ttl": record.ttl, "content": record.value,
        "proxied": false, "proxiable": false, "settings": {}, "meta": {}, "comment": null, "tags": [],
        "created_on": "2026-01-01T00:00:00Z", "modified_on": "2026-01-01T00:00:00Z",
    });
    let words: Vec<_> = record.value.split(' ').collect();
    let number = |text: &str| text.parse::<u16>().unwrap();
    let mut record = common;
    match (record["type"].as_str().unwrap(), &words[..]) {
        ("MX", [priority, host]) => {
            record["priority"] = json!(number(priority));
            record["content"] = json!(host);
        }
        ("SRV", [priority, weight, port, target]) => {
            record["priority"] = json!(number(priority));
            record["content"] = json!(format!("{weight} {port} {target}"));
            record["data"] =
                json!({"priority": number(priority), "weight": number(weight), "port": number(port), "target": target});
        }
        ("TLSA", [usage, selector, matching_type, certificate]) => {
            let [usage, selector, matching_type] = [usage, selector, matching_type].map(|text| number(text));
            record["data"] = json!({
                "usage": usage, "selector": selector, "matching_type": matching_type, "certificate": certificate,
            });
        }
        _ => {}
    }
    record
}

fn has(state: &ProviderState, id: &str) -> bool {
    state.zones.iter().any(|zone| id == format!("id-of-{zone}"))
}

fn page(request: &FakeRequest, all: Vec<Value>) -> FakeAnswer {
    let number =
        |member: &str, otherwise| request.query.get(member).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (page, per_page) = (number("page", 1), number("per_page", PAGE));
    let shown: Vec<_> = all.iter().skip((page - 1) * per_page).take(per_page).collect();
    let info = json!({
        "page": page, "per_page": per_page, "count": shown.len(), "total_count": all.len(),
        "total_pages": all.len().div_ceil(per_page),
    });
    let body = json!({"result": shown, "result_info": info, "success": true, "errors": [], "messages": []});
    FakeAnswer::new(200, body.to_string())
}

fn result(value: Value) -> FakeAnswer {
    FakeAnswer::new(200, json!({"result": value, "success": true, "errors": [], "messages": []}).to_string())
}

fn error(status: u16, code: u32, message: &str) -> FakeAnswer {
    let errors = [json!({"code": code, "message": message})];
    FakeAnswer::new(status, json!({"result": null, "success": false, "errors": errors, "messages": []}).to_string())
}
