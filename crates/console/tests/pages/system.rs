//! The state of the server.

use crate::support::{Browser, ROOT, server};

#[tokio::test]
async fn an_admin_sees_health_and_metrics() {
    let app = server().await;
    let page = Browser::of(&app, ROOT).await.page("/console/system").await;
    assert!(page.contains("Account database") && page.contains("badge-ok") && page.contains("mailapi_http_requests"));
}
