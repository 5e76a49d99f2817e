//! Aliases.

use crate::support::{ANN, Browser, ROOT, server};

#[tokio::test]
async fn an_alias_is_created_changed_and_deleted() {
    let app = server().await;
    let new = [("act", "create"), ("address", "team@a.example"), ("members", "ann@a.example,\nbob@a.example")];
    assert_eq!(Browser::of(&app, ANN).await.post("/console/aliases", &new).await.status, 403);
    let mut root = Browser::of(&app, ROOT).await;
    let wrong = [("act", "create"), ("address", "team@a.example"), ("members", "ann@a.example nobody")];
    let answer = root.post("/console/aliases", &wrong).await;
    assert!(answer.status == 422 && answer.text().contains("members[1]"));
    assert!(root.post("/console/aliases", &new).await.header("location").ends_with("done=alias-created"));
    assert!(root.page("/console/aliases").await.contains("2 members"));
    let update =
        [("act", "update"), ("address", "team@a.example"), ("members", "bob@a.example"), ("senders", "ann@a.example")];
    root.post("/console/aliases", &update).await;
    let page = root.page("/console/aliases?q=team").await;
    assert!(page.contains("1 member<") && page.contains("badge-disabled"));
    assert!(page.contains("rows=\"2\">ann@a.example</textarea>"), "{page}");
    root.post("/console/aliases", &[("act", "delete"), ("address", "team@a.example")]).await;
    assert!(root.page("/console/aliases").await.contains("No aliases."));
}
