//! Publishing the DNS records of a domain.

use mailapi_service::AgentProgram;

use crate::support::{Browser, PROOF, ROOT, server, server_named, server_with};

const PATH: &str = "/console/domains/a.example/dns";
const SECRET: &str = "c2VjcmV0IG9mIHRoZSB0ZXN0cw==";

/// Returns the value of the first hidden field of this name.
fn hidden<'a>(page: &'a str, name: &str) -> &'a str {
    let start = format!("<input type=\"hidden\" name=\"{name}\" value=\"");
    page.split_once(&start).and_then(|(_, rest)| rest.split_once('"')).map_or("", |(value, _)| value)
}

#[tokio::test]
async fn records_are_planned_made_and_undone() {
    let app = server_named("mx.a.example").await;
    app.dns.set_addresses("mx.a.example", &["192.0.2.25"]);
    app.dns.set_zone("a.example", &["ns.a.example"]);
    app.dns.set_addresses("ns.a.example", &["192.0.2.53"]);
    app.dns.set_mx("a.example", &["elsewhere.example"]);
    app.dns.set_addresses("elsewhere.example", &["192.0.2.99"]);
    let mut root = Browser::of(&app, ROOT).await;
    assert!(root.page("/console/domains/a.example").await.contains(PATH));
    assert!(!root.page(PATH).await.contains("<h2>Plan"), "there is no provider yet");
    let set = |server: &'static str, secret: &'static str| {
        [
            ("act", "provider"),
            ("server", server),
            ("key_name", "mailapi"),
            ("algorithm", "hmac-sha256"),
            ("secret", secret),
        ]
    };
    assert_eq!(root.post(PATH, &set("192.0.2.53", "no base64")).await.status, 422);
    let answer = root.post(PATH, &set("192.0.2.53", SECRET)).await;
    assert_eq!(answer.header("location"), format!("{PATH}?done=provider-set"));
    let page = root.page(PATH).await;
    assert!(page.contains("192.0.2.53") && !page.contains(SECRET));
    assert!(page.contains("elsewhere.example") && page.contains("v=DMARC1"), "{page}");
    let again = root.page(&format!("{PATH}?replace=MX")).await;
    assert_ne!(hidden(&page, "plan"), hidden(&again, "plan"));
    assert_eq!(hidden(&again, "replace"), "MX");

    let apply = [("act", "apply"), ("plan", hidden(&page, "plan"))];
    assert_eq!(root.post(PATH, &apply).await.status, 422, "the proof is missing");
    let stale = [("act", "apply"), ("plan", "another"), PROOF];
    assert_eq!(root.post(PATH, &stale).await.status, 409);
    let made = root.post(PATH, &[apply[0], apply[1], PROOF]).await;
    assert_eq!(made.status, 200, "{}", made.text());
    assert!(made.text().contains("badge-applied") && made.text().contains("ns.a.example"));
    let page = root.page(PATH).await;
    assert!(page.contains("Changes that were made") && page.contains("Undo the newest plan"));
    let newest = page.rsplit_once("proof-rollback").map_or("", |(before, _)| before);
    let plan = newest.rsplit_once("name=\"plan\" value=\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0;
    let undone = root.post(PATH, &[("act", "rollback"), ("plan", plan), PROOF]).await;
    assert!(undone.text().contains("badge-rolled_back"), "{}", undone.text());
    assert!(!root.page(PATH).await.contains("Undo the newest plan"));

    assert_eq!(root.post(PATH, &[("act", "forget")]).await.status, 422);
    let answer = root.post(PATH, &[("act", "forget"), PROOF]).await;
    assert_eq!(answer.header("location"), format!("{PATH}?done=provider-forgotten"));
    assert!(!root.page(PATH).await.contains("<h2>Plan"));
}

#[tokio::test]
async fn a_plan_that_cannot_be_made_says_why() {
    let app = server().await;
    app.dns.set_zone("a.example", &["ns.a.example"]);
    app.dns.set_addresses("ns.a.example", &["192.0.2.53"]);
    let mut root = Browser::of(&app, ROOT).await;
    let set = [
        ("act", "provider"),
        ("server", "ns.a.example"),
        ("key_name", "mailapi"),
        ("algorithm", "hmac-sha256"),
        ("secret", SECRET),
    ];
    assert_eq!(root.post(PATH, &set).await.status, 303);
    app.dns.silence("a.example");
    let page = root.page(PATH).await;
    assert!(page.contains("There is no plan.") && page.contains("Use a name server"), "{page}");
    assert_eq!(root.get("/console/domains/nowhere.example/dns").await.status, 404);
}

#[tokio::test]
async fn a_hosted_provider_has_a_form_of_its_fields() {
    let app = server_with(|settings| settings.dns_agent = AgentProgram::new("/nowhere/mailapi-dns", [])).await;
    app.dns.set_zone("a.example", &["ns.a.example"]);
    let mut root = Browser::of(&app, ROOT).await;
    let page = root.page(PATH).await;
    assert!(page.contains("Use a hosted provider") && !page.contains("secret_access_key"), "{page}");
    let page = root.page(&format!("{PATH}?provider=route53")).await;
    assert!(page.contains("name=\"secret_access_key\"") && page.contains("type=\"password\" required"), "{page}");
    assert!(!page.contains("The tests of mailapi do not run"), "{page}");
    assert!(root.page(&format!("{PATH}?provider=gandi")).await.contains("The tests of mailapi do not run"));
    let account = [("act", "provider"), ("provider", "cloudflare"), ("api_token", "")];
    assert_eq!(root.post(PATH, &account).await.status, 422);
    let account = [("act", "provider"), ("provider", "cloudflare"), ("api_token", "canary-secret")];
    let answer = root.post(PATH, &account).await;
    assert_eq!(answer.status, 503, "the program is not installed: {}", answer.text());
    assert!(!answer.text().contains("canary-secret"), "{}", answer.text());
}
