//! The matrix of permissions.

use crate::support::{ANN, Browser, PROOF, ROOT, server};

#[tokio::test]
async fn permissions_are_granted_and_revoked() {
    let app = server().await;
    let all = [("permission", "manage_users"), ("permission", "view_stats"), PROOF];
    let grant = [[("email", ANN), ("domain", "a.example")].as_slice(), &all].concat();
    assert_eq!(Browser::of(&app, ANN).await.post("/console/permissions", &grant).await.status, 403);
    let mut root = Browser::of(&app, ROOT).await;
    assert_eq!(root.post("/console/permissions", &[("email", ANN), ("domain", "a.example")]).await.status, 422);
    assert!(root.post("/console/permissions", &grant).await.header("location").ends_with("done=granted"));
    let page = root.page("/console/permissions").await;
    assert_eq!(page.matches("name=\"revoke\"").count(), 2, "{page}");
    assert!(Browser::of(&app, ANN).await.page("/console/account").await.contains("manage_users on a.example"));
    let id = page.split("name=\"revoke\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    root.post("/console/permissions", &[("revoke", &id)]).await;
    assert_eq!(root.page("/console/permissions").await.matches("name=\"revoke\"").count(), 1);
}
