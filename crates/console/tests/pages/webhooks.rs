//! Webhooks.

use crate::support::{ANN, Browser, ROOT, server};

#[tokio::test]
async fn a_webhook_is_registered_changed_and_deleted() {
    let app = server().await;
    let new = [("url", "http://127.0.0.1:1/hook"), ("type", "message.*"), ("type", "user.created"), ("signing", "v1")];
    let mut root = Browser::of(&app, ROOT).await;
    assert_eq!(root.post("/console/webhooks", &[("url", "no url"), ("type", "message.*")]).await.status, 422);
    let made = root.post("/console/webhooks", &new).await;
    assert!(made.status == 200 && made.text().contains("whsec_"), "{}", made.text());
    assert!(root.page("/console/webhooks").await.contains("http://127.0.0.1:1/hook"));
    let path = "/console/webhooks/1";
    assert!(root.page(path).await.contains("message.*, user.created"));
    assert_eq!(Browser::of(&app, ANN).await.get(path).await.status, 403);
    root.post(path, &[("act", "disable")]).await;
    assert!(root.page(path).await.contains("badge-disabled"));
    assert!(root.post(path, &[("act", "rotate")]).await.text().contains("whsec_"));
    root.post(path, &[("act", "delete")]).await;
    assert_eq!(root.get(path).await.status, 404);
}
