//! Publishing the DNS records of a domain.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use mailapi_backend::UpdateError;
use mailapi_model::{
    DnsProvider, KeyDigests, KeyPublication, ProviderAccount, RecordData, RecordKind, Secret, TlsaRecord,
};
use mailapi_service::AgentProgram;
use mailapi_service::domains::ServerKeys;
use serde_json::{Value, json};

use crate::support::App;

const SECRET: &str = "c2VjcmV0IG9mIHRoZSB0ZXN0cw==";

/// An app whose domain `example.org` has a zone with one name server, and a provider.
async fn with_provider() -> App {
    let app = App::with(|settings, _| settings.mail_host = "mx.example.org".to_owned()).await;
    with_zone(&app).await;
    app
}

async fn with_zone(app: &App) {
    app.domain("example.org").await;
    app.dns.set_zone("example.org", &["ns.example.org"]);
    app.dns.set_addresses("ns.example.org", &["192.0.2.53"]);
    app.dns.set_addresses("mx.example.org", &["192.0.2.25"]);
    let provider = json!({ "server": "ns.example.org", "key_name": "MailAPI.", "secret": SECRET });
    app.put(&app.admin, "/domains/example.org/dns/provider", provider).await.assert(StatusCode::OK);
}

async fn plan(app: &App, query: &str) -> Value {
    app.get(&app.admin, &format!("/domains/example.org/dns/plan{query}")).await.assert(StatusCode::OK)
}

async fn apply(app: &App, plan: &Value, replace: &[&str]) -> Value {
    let body = json!({ "plan_id": plan["plan_id"], "replace": replace });
    app.post(&app.admin, "/domains/example.org/dns/apply", body).await.assert(StatusCode::OK)
}

async fn history(app: &App) -> Value {
    app.get(&app.admin, "/domains/example.org/dns/history").await.assert(StatusCode::OK)
}

fn purposes(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["purpose"].as_str().unwrap()).collect()
}

fn states(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap_or("none")).collect()
}

#[tokio::test]
async fn a_provider_is_checked_before_it_is_set_and_keeps_its_secret() {
    let app = App::with(|_, _| ()).await;
    app.domain("example.org").await;
    let path = "/domains/example.org/dns/provider";
    app.get(&app.admin, path).await.assert_error(404, "DNS_PROVIDER_NOT_FOUND");
    let bad = json!({ "server": "a b", "key_name": "", "algorithm": "hmac-md5", "secret": "?" });
    let refused = app.put(&app.admin, path, bad).await.assert(StatusCode::UNPROCESSABLE_ENTITY);
    let fields: Vec<_> = refused["details"].as_array().unwrap().iter().map(|one| one["field"].clone()).collect();
    assert_eq!(fields, ["algorithm"]);
    let bad = json!({ "server": "a b", "key_name": "", "secret": "?" });
    let refused = app.put(&app.admin, path, bad).await.assert(StatusCode::UNPROCESSABLE_ENTITY);
    let fields: Vec<_> = refused["details"].as_array().unwrap().iter().map(|one| one["field"].clone()).collect();
    assert_eq!(fields, ["server", "key_name", "secret"]);
    let good =
        json!({ "server": "192.0.2.53:5353", "key_name": "MailAPI.", "algorithm": "hmac-sha512", "secret": SECRET });
    app.put(&app.admin, path, good.clone()).await.assert_error(409, "DNS_ZONE_NOT_FOUND");
    app.dns.set_zone("example.org", &["ns.example.org"]);
    app.dns.refuse_key(Some(UpdateError::BadKey));
    let refused = app.put(&app.admin, path, good.clone()).await.assert_error(409, "DNS_REFUSED");
    assert!(refused.contains("does not accept the key"), "{refused}");
    app.get(&app.admin, path).await.assert_error(404, "DNS_PROVIDER_NOT_FOUND");
    app.dns.refuse_key(None);
    let expected = json!({
        "success": true, "domain": "example.org", "provider": "rfc2136", "server": "192.0.2.53:5353",
        "key_name": "mailapi", "algorithm": "hmac-sha512", "credentials": {}
    });
    assert_eq!(app.put(&app.admin, path, good).await.assert(StatusCode::OK), expected);
    assert_eq!(app.get(&app.admin, path).await.assert(StatusCode::OK), expected);
    app.delete(&app.admin, path).await.assert(StatusCode::OK);
    app.delete(&app.admin, path).await.assert_error(404, "DNS_PROVIDER_NOT_FOUND");
    let kinds = app.get(&app.admin, "/dns/providers").await.assert(StatusCode::OK);
    assert_eq!(kinds["providers"][0]["fields"][3]["secret"], json!(true));
}

#[tokio::test]
async fn an_account_at_a_hosted_provider_has_its_fields() {
    let app = App::with(|settings, _| settings.dns_agent = AgentProgram::new("/nowhere/mailapi-dns", [])).await;
    app.domain("example.org").await;
    app.dns.set_zone("example.org", &["ns.example.org"]);
    let path = "/domains/example.org/dns/provider";
    let region = json!({ "access_key_id": "AKIDEXAMPLE", "secret_access_key": "canary-secret", "zone": "x" });
    for (body, fields) in [
        (json!({}), vec!["server", "key_name", "secret"]),
        (json!({ "provider": "rfc2136", "server": "a" }), vec!["key_name", "secret"]),
        (json!({ "provider": "nowhere", "credentials": {} }), vec!["provider"]),
        (json!({ "provider": "cloudflare" }), vec!["credentials"]),
        (json!({ "provider": "cloudflare", "credentials": { "api_token": 1 } }), vec!["credentials.api_token"]),
        (json!({ "provider": "cloudflare", "credentials": {} }), vec!["credentials.api_token"]),
        (json!({ "provider": "route53", "credentials": region }), vec!["credentials"]),
        (json!({ "provider": "cloudflare", "credentials": { "api_token": "a\nb" } }), vec!["credentials"]),
    ] {
        let refused = app.put(&app.admin, path, body.clone()).await;
        assert!(!String::from_utf8_lossy(&refused.bytes).contains("canary-secret"));
        assert_eq!(refused.assert_invalid(), fields, "{body}");
    }
    // The program is not installed here.
    let good = json!({ "provider": "cloudflare", "credentials": { "api_token": "canary-secret" } });
    let refused = app.put(&app.admin, path, good).await.assert_error(503, "DNS_UNAVAILABLE");
    assert!(refused.contains("mailapi-dns does not start") && !refused.contains("canary-secret"), "{refused}");
    app.get(&app.admin, path).await.assert_error(404, "DNS_PROVIDER_NOT_FOUND");
}

#[tokio::test]
async fn the_secrets_of_an_account_are_not_shown() {
    let app = App::start().await;
    app.domain("example.org").await;
    let secret = |value: &str| Secret::new(value.to_owned());
    let credentials = [
        ("access_key_id".to_owned(), secret("AKIDEXAMPLE")),
        ("secret_access_key".to_owned(), secret("canary-secret")),
    ];
    let account = ProviderAccount { provider: "route53".to_owned(), credentials: credentials.into() };
    app.store.dns_providers().set(&"example.org".parse().unwrap(), &DnsProvider::Hosted(account)).await.unwrap();
    let shown = app.get(&app.admin, "/domains/example.org/dns/provider").await.assert(StatusCode::OK);
    let expected = json!({
        "success": true, "domain": "example.org", "provider": "route53", "server": null, "key_name": null,
        "algorithm": null, "credentials": { "access_key_id": "AKIDEXAMPLE" }
    });
    assert_eq!(shown, expected);
    let kinds = app.get(&app.admin, "/dns/providers").await.assert(StatusCode::OK);
    let route53 = kinds["providers"].as_array().unwrap().iter().find(|kind| kind["name"] == "route53").unwrap();
    let secrets = route53["fields"].as_array().unwrap().iter().filter(|field| field["secret"] == true);
    assert_eq!(secrets.map(|field| field["name"].clone()).collect::<Vec<_>>(), ["secret_access_key"]);
}

#[tokio::test]
async fn an_empty_zone_becomes_a_verified_domain_and_is_empty_again() {
    let app = with_provider().await;
    app.dns.set_txt("example.org", &["other-verification=1"]);
    let seen = plan(&app, "").await;
    assert_eq!((&seen["zone"], &seen["name_servers"]), (&json!("example.org"), &json!(["ns.example.org"])));
    assert_eq!(purposes(&seen["changes"]), ["SPF", "DKIM", "DMARC", "MX"]);
    assert_eq!(seen["conflicts"], json!([]));
    let spf = &seen["changes"][0];
    let before = json!({ "ttl": 3600, "records": ["\"other-verification=1\""] });
    assert_eq!((&spf["action"], &spf["before"]), (&json!("add"), &before));
    let policy = "\"v=spf1 a:mx.example.org mx -all\"";
    assert_eq!(spf["after"]["records"], json!(["\"other-verification=1\"", policy]));
    assert_eq!(plan(&app, "").await, seen, "a plan changes nothing");
    let applied = apply(&app, &seen, &[]).await;
    assert!(states(&applied["changes"]).iter().all(|state| *state == "applied"), "{applied}");
    assert_eq!(applied["servers"], json!([{ "server": "ns.example.org", "state": "seen", "error": null }]));
    assert_eq!(applied["verified"], json!(true));
    assert_eq!(purposes(&plan(&app, "").await["changes"]), [""; 0]);
    let body = json!({ "plan_id": "another" });
    app.post(&app.admin, "/domains/example.org/dns/rollback", body).await.assert_error(409, "DNS_PLAN_CHANGED");
    let body = json!({ "plan_id": seen["plan_id"] });
    let undone = app.post(&app.admin, "/domains/example.org/dns/rollback", body.clone()).await.assert(StatusCode::OK);
    assert_eq!(states(&undone["changes"]), ["rolled_back"; 4]);
    assert_eq!(plan(&app, "").await, seen, "all is as it was");
    let recorded = history(&app).await;
    assert_eq!((&recorded["total"], states(&recorded["changes"])), (&json!(4), vec!["rolled_back"; 4]));
    app.post(&app.admin, "/domains/example.org/dns/rollback", body).await.assert_error(409, "DNS_PLAN_CHANGED");
}

#[tokio::test]
async fn records_that_lead_elsewhere_stay_unless_the_plan_names_them() {
    let app = with_provider().await;
    app.dns.set_mx("example.org", &["other.example.net"]);
    app.dns.set_addresses("other.example.net", &["192.0.2.99"]);
    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=invalid; rua=x", "note"]);
    let seen = plan(&app, "").await;
    assert_eq!(purposes(&seen["conflicts"]), ["MX", "DMARC"]);
    assert_eq!(
        (&seen["conflicts"][0]["replaceable"], &seen["conflicts"][0]["found"]),
        (&json!(true), &json!(["10 other.example.net"]))
    );
    let replacing = plan(&app, "?replace=mx").await;
    assert_ne!(replacing["plan_id"], seen["plan_id"]);
    let last = replacing["changes"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["purpose"], &last["action"]), (&json!("MX"), &json!("replace")));
    assert_eq!(last["before"]["records"], json!(["10 other.example.net."]));
    assert_eq!(last["after"]["records"], json!(["10 mx.example.org."]));
    // A plan is bound to what it replaces.
    let body = json!({ "plan_id": replacing["plan_id"] });
    app.post(&app.admin, "/domains/example.org/dns/apply", body).await.assert_error(409, "DNS_PLAN_CHANGED");
    apply(&app, &replacing, &["MX"]).await;
    let dmarc = plan(&app, "?replace=DMARC").await;
    let after = &dmarc["changes"][0]["after"]["records"];
    assert_eq!(after.as_array().unwrap().len(), 2, "texts of other purposes stay: {dmarc}");
    assert_eq!((&dmarc["conflicts"], &after[0]), (&json!([]), &json!("\"note\"")));
}

#[tokio::test]
async fn an_alias_does_not_come_beside_other_records() {
    let app = App::with(|settings, _| {
        settings.mail_host = "mx.example.org".to_owned();
        settings.web_host = Some("web.example.org".to_owned());
    })
    .await;
    with_zone(&app).await;
    app.dns.set_txt("mta-sts.example.org", &["a note"]);
    let seen = plan(&app, "").await;
    assert!(purposes(&seen["changes"]).contains(&"AUTOCONFIG"), "{seen}");
    assert_eq!(purposes(&seen["conflicts"]), ["MTA-STS-HOST"]);
    let conflict = &seen["conflicts"][0];
    assert_eq!(conflict["replaceable"], json!(false));
    assert!(conflict["reason"].as_str().unwrap().contains("has TXT records"), "{conflict}");
    let applied = apply(&app, &seen, &[]).await;
    assert!(states(&applied["changes"]).iter().all(|state| *state == "applied"), "{applied}");
}

#[tokio::test]
async fn this_server_joins_the_one_spf_policy() {
    let app = with_provider().await;
    app.dns.set_txt("example.org", &["v=spf1 include:other.example -all", "other"]);
    app.dns.set_txt("other.example", &["v=spf1 ip4:192.0.2.1 -all"]);
    let seen = plan(&app, "").await;
    let spf = &seen["changes"][0];
    assert_eq!((&spf["purpose"], &spf["action"]), (&json!("SPF"), &json!("replace")));
    let records = json!(["\"other\"", "\"v=spf1 a:mx.example.org include:other.example -all\""]);
    assert_eq!(spf["after"]["records"], records);
    // Ten look-ups are the most.
    let many: String = (0..10).map(|number| format!("a:a{number}.other.example ")).collect();
    app.dns.set_txt("example.org", &[&format!("v=spf1 {many}-all")]);
    let full = plan(&app, "").await;
    let conflict = &full["conflicts"][0];
    assert_eq!(conflict["purpose"], json!("SPF"));
    assert!(conflict["reason"].as_str().unwrap().contains("needs 11 look-ups"), "{conflict}");
    app.dns.set_txt("example.org", &["v=spf1 -all", "v=spf1 mx -all"]);
    let two = plan(&app, "").await;
    assert_eq!(purposes(&two["conflicts"]), ["SPF"]);
}

#[tokio::test]
async fn dns_that_moved_since_the_plan_is_not_changed() {
    let app = with_provider().await;
    let seen = plan(&app, "").await;
    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=none"]);
    let body = json!({ "plan_id": seen["plan_id"] });
    app.post(&app.admin, "/domains/example.org/dns/apply", body).await.assert_error(409, "DNS_PLAN_CHANGED");
    assert_eq!(history(&app).await["total"], json!(0));
}

#[tokio::test]
async fn a_refused_change_has_its_reason_and_the_others_are_made() {
    let app = with_provider().await;
    let seen = plan(&app, "").await;
    app.dns.answer_update(Err(UpdateError::Refused), false);
    let applied = apply(&app, &seen, &[]).await;
    assert_eq!(states(&applied["changes"]), ["refused", "applied", "applied", "applied"]);
    assert!(applied["changes"][0]["error"].as_str().unwrap().contains("may not change"), "{applied}");
    assert_eq!(applied["verified"], json!(false));
    assert_eq!(purposes(&plan(&app, "").await["changes"]), ["SPF"]);
}

#[tokio::test]
async fn a_change_without_an_answer_stays_open_until_the_next_look() {
    for is_applied in [true, false] {
        let app = with_provider().await;
        let seen = plan(&app, "").await;
        app.dns.answer_update(Err(UpdateError::Unanswered("cut off".to_owned())), is_applied);
        let applied = apply(&app, &seen, &[]).await;
        assert_eq!(states(&applied["changes"]), ["pending", "none", "none", "none"]);
        let expected = if is_applied { "applied" } else { "refused" };
        assert_eq!(states(&history(&app).await["changes"]), [expected]);
        let next = plan(&app, "").await;
        assert_eq!(purposes(&next["changes"]).contains(&"SPF"), !is_applied);
        apply(&app, &next, &[]).await;
    }
}

#[tokio::test]
async fn a_rollback_leaves_what_changed_since() {
    let app = with_provider().await;
    let seen = plan(&app, "").await;
    apply(&app, &seen, &[]).await;
    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=none"]);
    let body = json!({ "plan_id": seen["plan_id"] });
    let undone = app.post(&app.admin, "/domains/example.org/dns/rollback", body).await.assert(StatusCode::OK);
    let kept: Vec<_> =
        undone["changes"].as_array().unwrap().iter().filter(|change| change["state"] == "applied").collect();
    assert_eq!(kept.len(), 1, "{undone}");
    assert_eq!(kept[0]["name"], json!("_dmarc.example.org"));
    assert!(kept[0]["error"].as_str().unwrap().contains("changed meanwhile"), "{undone}");
}

/// The keys of a server, each of 32 equal octets.
#[derive(Debug)]
struct OwnKeys(Mutex<KeyDigests>);

impl OwnKeys {
    fn set(&self, current: u8, next: u8, former: Option<u8>) {
        let [current, next] = [current, next].map(|octet| [octet; 32]);
        *self.0.lock().unwrap() = KeyDigests { current, next, former: former.map(|octet| [octet; 32]) };
    }
}

impl ServerKeys for OwnKeys {
    fn digests(&self) -> Option<KeyDigests> {
        Some(*self.0.lock().unwrap())
    }
}

/// An app whose domain has a signed zone, with two keys of the server.
async fn with_keys() -> (App, Arc<OwnKeys>) {
    let keys = Arc::new(OwnKeys(Mutex::new(KeyDigests { current: [1; 32], next: [2; 32], former: None })));
    let of_app = keys.clone();
    let app = App::with(move |settings, _| {
        settings.mail_host = "mx.example.org".to_owned();
        settings.server_keys = Some(of_app);
    });
    let app = app.await;
    with_zone(&app).await;
    app.dns.set_mx("example.org", &["mx.example.org"]);
    (app, keys)
}

/// The first octets of the keys in DNS; others than those of keys have the usage 2.
async fn keys_in_dns(app: &App) -> Vec<u8> {
    use mailapi_backend::ZoneDns as _;
    let server = "192.0.2.53:53".parse().unwrap();
    let found = app.dns.records_at(server, "_25._tcp.mx.example.org", RecordKind::Tlsa).await.unwrap();
    let octet = |data: RecordData| match data {
        RecordData::Tlsa(record) => record.data[0],
        other => panic!("{other}"),
    };
    found.set.records.into_iter().map(octet).collect()
}

#[tokio::test]
async fn the_keys_of_the_server_are_published_and_rolled_over() {
    let (app, keys) = with_keys().await;
    let unsigned = plan(&app, "").await;
    assert!(!purposes(&unsigned["changes"]).contains(&"TLSA"), "others believe signed records only");
    assert_eq!(app.service.keep_server_keys().await, KeyPublication::Absent);
    assert!(keys_in_dns(&app).await.is_empty(), "and nothing is published that no person has seen");

    app.dns.sign_mx("example.org");
    let signed = plan(&app, "").await;
    let of_keys: Vec<_> =
        signed["changes"].as_array().unwrap().iter().filter(|change| change["purpose"] == "TLSA").collect();
    let value = |octet: u8| RecordData::Tlsa(TlsaRecord::of_key([octet; 32])).to_string();
    assert_eq!(of_keys.len(), 2, "{signed}");
    assert_eq!(of_keys[0]["type"], "TLSA");
    assert_eq!(
        (&of_keys[1]["before"]["records"], &of_keys[1]["after"]["records"]),
        (&json!([value(1)]), &json!([value(1), value(2)]))
    );
    let applied = apply(&app, &signed, &[]).await;
    assert!(states(&applied["changes"]).iter().all(|state| *state == "applied"), "{applied}");
    assert_eq!(app.service.keep_server_keys().await, KeyPublication::Complete { ttl: 3600 });
    assert!(!purposes(&plan(&app, "").await["changes"]).contains(&"TLSA"));

    // The server shows the second key, and its former one goes.
    keys.set(2, 3, Some(1));
    assert_eq!(app.service.keep_server_keys().await, KeyPublication::Complete { ttl: 3600 });
    assert_eq!(keys_in_dns(&app).await, [2, 3]);
    let undone = history(&app).await;
    assert_eq!(undone["changes"][0]["before"]["records"], json!([value(1), value(2), value(3)]), "{undone}");
}

#[tokio::test]
async fn records_of_keys_that_others_made_stay() {
    let (app, keys) = with_keys().await;
    app.dns.sign_mx("example.org");
    let authority = TlsaRecord { usage: 2, ..TlsaRecord::of_key([9; 32]) };
    let name = "_25._tcp.mx.example.org";
    app.dns.set_keys(name, vec![authority]);
    assert_eq!(app.service.keep_server_keys().await, KeyPublication::Open, "a person keeps these records");
    assert_eq!(keys_in_dns(&app).await, [9]);
    let seen = plan(&app, "").await;
    apply(&app, &seen, &[]).await;
    keys.set(2, 3, Some(1));
    app.service.keep_server_keys().await;
    assert_eq!(keys_in_dns(&app).await, [9, 2, 3]);

    // A name server that is behind, or does not answer, may still answer without the next key.
    app.dns.silence(name);
    assert_eq!(app.service.keep_server_keys().await, KeyPublication::Open);
    keys.set(3, 4, Some(2));
    assert_eq!(app.service.keep_server_keys().await, KeyPublication::Open);
}
