//! `GET /domains/{domain}/verify`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::{Value, json};

use crate::support::App;

fn record<'a>(report: &'a Value, kind: &str) -> &'a Value {
    report["records"].as_array().unwrap().iter().find(|record| record["type"] == kind).unwrap()
}

#[tokio::test]
async fn only_managers_of_a_domain_verify_it() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for name in ["example.org", "nowhere.example"] {
        app.get(&ann, &format!("/domains/{name}/verify")).await.assert_error(403, "ACCESS_DENIED");
    }
    app.get(&app.admin, "/domains/nowhere.example/verify").await.assert_error(404, "DOMAIN_NOT_FOUND");
}

#[tokio::test]
async fn every_record_is_shown_with_its_expected_and_found_values() {
    let app = App::with(|settings, _| settings.mail_host = "mx.example.net".to_owned()).await;
    app.domain("example.org").await;
    let ann = app.user("ann@example.org").await;
    app.grant("ann@example.org", Permission::ManageDomains, "example.org").await;
    app.dns.set_mx("example.org", &["mx.example.net"]);
    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=none"]);
    app.dns.silence("_mta-sts.example.org");
    let report = app.get(&ann, "/domains/example.org/verify").await.assert(StatusCode::OK);
    assert_eq!(
        (&report["domain"], &report["verified"], &report["checked_at"]),
        (&json!("example.org"), &json!(false), &json!("2026-11-20T10:15:30.000Z"))
    );
    let mx = record(&report, "MX");
    assert_eq!((&mx["status"], &mx["required"], &mx["name"]), (&json!("ok"), &json!(true), &json!("example.org")));
    assert_eq!(record(&report, "SPF")["status"], "missing");
    assert_eq!(record(&report, "DMARC")["found"], json!(["v=DMARC1; p=none"]));
    let advice = record(&report, "MTA-STS");
    assert_eq!((&advice["status"], &advice["required"]), (&json!("error"), &json!(false)));
    let key = app.get(&ann, "/domains/example.org/dkim").await.assert(StatusCode::OK);
    let dkim = record(&report, "DKIM");
    assert_eq!(
        (&dkim["name"], &dkim["expected"], &dkim["status"]),
        (&key["dns_name"], &key["dns_value"], &json!("missing"))
    );
}
