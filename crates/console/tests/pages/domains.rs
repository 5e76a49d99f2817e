//! Domains.

use crate::support::{ANN, Browser, PROOF, ROOT, server};

#[tokio::test]
async fn only_an_admin_creates_and_deletes_domains() {
    let app = server().await;
    let mut ann = Browser::of(&app, ANN).await;
    assert_eq!(ann.post("/console/domains", &[("domain", "b.example")]).await.status, 403);
    assert_eq!(ann.get("/console/domains/a.example").await.status, 403);
    let mut root = Browser::of(&app, ROOT).await;
    for (domain, status) in [("", 422), ("no domain", 422), ("a.example", 409)] {
        assert_eq!(root.post("/console/domains", &[("domain", domain)]).await.status, status, "{domain}");
    }
    let answer = root.post("/console/domains", &[("domain", "b.example"), ("description", "Tea")]).await;
    assert_eq!(answer.header("location"), "/console/domains/b.example?done=domain-created");
    let page = root.page("/console/domains/b.example?done=domain-created").await;
    assert!(page.contains("Publish its DNS records next.") && page.contains("v=spf1") && page.contains("v=DKIM1"));
    assert_eq!(
        root.post("/console/domains/b.example", &[("act", "delete"), ("confirm", "a.example")]).await.status,
        422
    );
    let delete = [("act", "delete"), ("confirm", "b.example"), PROOF];
    let answer = root.post("/console/domains/b.example", &delete).await;
    assert_eq!(answer.header("location"), "/console/domains?done=domain-deleted");
    assert_eq!(root.get("/console/domains/b.example").await.status, 404);
}

#[tokio::test]
async fn a_domain_is_verified_and_disabled() {
    let app = server().await;
    let mut root = Browser::of(&app, ROOT).await;
    let verified = root.post("/console/domains/a.example", &[("act", "verify")]).await;
    assert_eq!(verified.status, 200);
    assert!(verified.text().contains("Required records are missing or different."));
    let page = root.page("/console/domains/a.example").await;
    assert!(page.contains("<strong>Next step:</strong> Publish v=spf1"), "{page}");
    assert!(
        page.contains("<th scope=\"row\">DMARC</th><td><span class=\"badge badge-missing\">missing</span>"),
        "{page}"
    );
    let answer = root.post("/console/domains/a.example", &[("act", "disable")]).await;
    assert_eq!(answer.header("location"), "/console/domains/a.example?done=domain-changed");
    assert!(root.page("/console/domains").await.contains("badge-disabled"));
    let key = [("act", "dkim"), ("algorithm", "ed25519-sha256"), PROOF];
    root.post("/console/domains/a.example", &key).await;
    assert!(
        root.page("/console/domains/a.example")
            .await
            .contains("<td>ed25519-sha256</td><td><span class=\"badge badge-pending\">")
    );
}
