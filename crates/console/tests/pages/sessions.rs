//! Sessions to see and to end.

use crate::support::{ANN, Browser, ROOT, server};

/// The numbers of the sessions on a page.
fn numbers(page: &str) -> Vec<String> {
    let part = page.split("aria-label=\"Sessions\"").nth(1).unwrap_or_default();
    part.split("name=\"id\" value=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_owner_ends_another_session_and_no_stranger_does() {
    let app = server().await;
    let (mut ann, other) = (Browser::of(&app, ANN).await, Browser::of(&app, ANN).await);
    let page = ann.page("/console/account").await;
    assert_eq!(page.matches("this one").count(), 1, "{page}");
    let ids = numbers(&page);
    assert_eq!(ids.len(), 2);
    let mut bob = Browser::of(&app, "bob@a.example").await;
    for path in ["/console/account", "/console/users/ann@a.example"] {
        let answer = bob.post(path, &[("act", "end-session"), ("id", &ids[0])]).await;
        assert!(answer.status == 404 || answer.status == 403, "{path}: {}", answer.status);
    }
    other.page("/console").await;
    // The newest comes first.
    let answer = ann.post("/console/account", &[("act", "end-session"), ("id", &ids[0])]).await;
    assert_eq!(answer.header("location"), "/console/account?done=session-ended");
    assert_eq!(other.get("/console").await.status, 303, "it has ended");
    assert_eq!(numbers(&ann.page("/console/account").await), ids[1..]);
    assert_eq!(ann.post("/console/account", &[("act", "end-session"), ("id", &ids[0])]).await.status, 404);
}

#[tokio::test]
async fn an_admin_ends_the_session_of_a_user() {
    let app = server().await;
    let ann = Browser::of(&app, ANN).await;
    let mut root = Browser::of(&app, ROOT).await;
    let path = "/console/users/ann@a.example";
    let ids = numbers(&root.page(path).await);
    root.post(path, &[("act", "end-session"), ("id", &ids[0])]).await;
    assert_eq!(ann.get("/console").await.status, 303);
    assert!(numbers(&root.page(path).await).is_empty());
}
