//! `GET /domains/{domain}/dns`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::{Value, json};

use crate::support::App;

fn record<'a>(setup: &'a Value, purpose: &str) -> &'a Value {
    setup["records"].as_array().unwrap().iter().find(|record| record["purpose"] == purpose).unwrap()
}

#[tokio::test]
async fn only_managers_of_a_domain_see_its_records() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for name in ["example.org", "nowhere.example"] {
        app.get(&ann, &format!("/domains/{name}/dns")).await.assert_error(403, "ACCESS_DENIED");
    }
    app.get(&app.admin, "/domains/nowhere.example/dns").await.assert_error(404, "DOMAIN_NOT_FOUND");
    app.get(&app.admin, "/domains/not%20a%20name/dns").await.assert_error(404, "DOMAIN_NOT_FOUND");
}

#[tokio::test]
async fn every_wanted_record_has_its_value_and_status() {
    let app = App::with(|settings, _| settings.mail_host = "mx.example.net".to_owned()).await;
    app.domain("example.org").await;
    let ann = app.user("ann@example.org").await;
    app.grant("ann@example.org", Permission::ManageDomains, "example.org").await;
    app.dns.set_mx("example.org", &["other.example.net"]);
    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=none"]);
    let key = app.get(&ann, "/domains/example.org/dkim").await.assert(StatusCode::OK);
    app.dns.silence(key["dns_name"].as_str().unwrap());
    let setup = app.get(&ann, "/domains/example.org/dns").await.assert(StatusCode::OK);
    assert_eq!((&setup["domain"], &setup["checked_at"]), (&json!("example.org"), &json!("2026-11-20T10:15:30.000Z")));
    let expected = json!({
        "type": "MX", "name": "example.org", "value": "10 mx.example.net.", "ttl": 3600, "purpose": "MX",
        "required": true, "status": "different", "found": ["10 other.example.net"],
        "hint": "Mail for the domain goes to another server; add mx.example.net unless that is intended."
    });
    assert_eq!(record(&setup, "MX"), &expected);
    let statuses = ["SPF", "DKIM", "DMARC", "PTR"].map(|purpose| record(&setup, purpose)["status"].clone());
    assert_eq!(statuses, ["missing", "unknown", "found", "unknown"]);
    assert_eq!(record(&setup, "DKIM")["value"], key["dns_value"]);
    assert_eq!(record(&setup, "PTR")["value"], Value::Null, "{setup}");
    let zone_file = setup["zone_file"].as_str().unwrap();
    assert!(zone_file.contains("\nexample.org. 3600 IN TXT \"v=spf1 a:mx.example.net mx -all\"\n"), "{zone_file}");
}
