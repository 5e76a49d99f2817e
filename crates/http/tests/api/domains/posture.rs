//! `GET /domains/{domain}/security`.

use axum::http::StatusCode;
use mailapi_model::Permission;
use serde_json::{Value, json};

use crate::support::App;

const STS_STEP: &str = "Publish v=STSv1;";

/// Returns the levels of the protections, in their order.
fn levels(posture: &Value) -> Vec<&str> {
    posture["protections"].as_array().unwrap().iter().map(|found| found["level"].as_str().unwrap()).collect()
}

/// A server whose domain has no records yet, and a manager of the domain.
async fn managed_domain() -> (App, String) {
    let app = App::with(|settings, _| settings.mail_host = "mx.example.net".to_owned()).await;
    app.domain("example.org").await;
    let ann = app.user("ann@example.org").await;
    app.grant("ann@example.org", Permission::ManageDomains, "example.org").await;
    app.dns.set_addresses("mx.example.net", &["192.0.2.1"]);
    (app, ann)
}

#[tokio::test]
async fn only_managers_of_a_domain_see_its_protection() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for name in ["example.org", "nowhere.example"] {
        app.get(&ann, &format!("/domains/{name}/security")).await.assert_error(403, "ACCESS_DENIED");
    }
    app.get(&app.admin, "/domains/nowhere.example/security").await.assert_error(404, "DOMAIN_NOT_FOUND");
}

#[tokio::test]
async fn step_by_step_a_domain_becomes_protected() {
    let (app, ann) = managed_domain().await;
    let key = app.get(&ann, "/domains/example.org/dkim").await.assert(StatusCode::OK);
    let posture = async || app.get(&ann, "/domains/example.org/security").await.assert(StatusCode::OK);

    let bare = posture().await;
    assert_eq!((&bare["level"], levels(&bare)), (&json!("weak"), vec!["missing"; 5]));
    assert_eq!(bare["next_step"], "Publish v=spf1 a:mx.example.net mx -all at example.org.");

    app.dns.set_txt("example.org", &["v=spf1 a:mx.example.net -all", "unrelated"]);
    let step = posture().await["next_step"].as_str().unwrap().to_owned();
    assert!(step.starts_with("Publish v=DKIM1;"), "{step}");
    app.dns.set_txt(key["dns_name"].as_str().unwrap(), &[key["dns_value"].as_str().unwrap()]);
    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=none"]);
    let watched = posture().await;
    assert_eq!(levels(&watched), ["strong", "strong", "weak", "missing", "missing"]);
    assert_eq!(watched["protections"][2]["found"], json!(["v=DMARC1; p=none"]));
    assert_eq!(watched["protections"][2]["text"], "Receivers accept forged mail.");
    assert!(watched["next_step"].as_str().unwrap().contains("rua="), "{watched}");

    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=reject; rua=mailto:a@example.org"]);
    let enforced = posture().await;
    assert_eq!((&enforced["level"], &levels(&enforced)[2]), (&json!("fair"), &"strong"));
    assert!(enforced["next_step"].as_str().unwrap().starts_with(STS_STEP), "{enforced}");

    app.dns.set_txt("_mta-sts.example.org", &["v=STSv1; id=1"]);
    app.dns.set_txt("_smtp._tls.example.org", &["v=TLSRPTv1; rua=mailto:a@example.org"]);
    let strong = posture().await;
    assert_eq!((&strong["level"], &strong["next_step"]), (&json!("strong"), &Value::Null), "{strong}");
}

#[tokio::test]
async fn the_policy_of_a_parent_protects_as_it_says_of_names_below() {
    let (app, _) = managed_domain().await;
    app.domain("news.example.org").await;
    app.dns.set_txt("_dmarc.example.org", &["v=DMARC1; p=reject; sp=quarantine; rua=mailto:a@example.org"]);
    let posture = app.get(&app.admin, "/domains/news.example.org/security").await.assert(StatusCode::OK);
    assert_eq!(posture["protections"][2]["level"], "fair", "{posture}");
    assert!(posture["protections"][2]["next_step"].as_str().unwrap().contains("p=reject"), "{posture}");
}

#[tokio::test]
async fn name_servers_that_do_not_answer_prove_nothing() {
    let (app, ann) = managed_domain().await;
    app.dns.silence("_dmarc.example.org");
    app.dns.set_txt("example.org", &["v=spf1 a:mx.example.net +all"]);
    let posture = app.get(&ann, "/domains/example.org/security").await.assert(StatusCode::OK);
    assert_eq!(levels(&posture)[..3], ["weak", "missing", "unknown"]);
    assert_eq!(posture["next_step"], "Name only servers that send for this domain, and end the policy with ~all.");
    // Looking changes nothing.
    let domain = app.get(&app.admin, "/domains/example.org").await.assert(StatusCode::OK);
    assert_eq!(domain["domain"]["verified"], false, "{domain}");
}
