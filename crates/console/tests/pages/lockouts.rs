//! Lock-outs after failed logins.

use mailapi_testkit::PASSWORD;

use crate::support::{ANN, Browser, ROOT, server};

#[tokio::test]
async fn an_admin_sees_and_ends_a_lock_out() {
    let app = server().await;
    let mut root = Browser::of(&app, ROOT).await;
    assert!(root.page("/console/lockouts").await.contains("None."));
    let mut stranger = Browser::new(&app);
    for email in [ANN, "my secret password"] {
        for _ in 0..5 {
            assert_eq!(stranger.post("/console/login", &[("email", email), ("password", "wrong")]).await.status, 401);
        }
    }
    let log_in = [("email", ANN), ("password", PASSWORD)];
    assert_eq!(stranger.post("/console/login", &log_in).await.status, 429);
    let page = root.page("/console/lockouts").await;
    assert!(page.contains(">ann@a.example</th>") && !page.contains("secret"), "{page}");
    let unlock = [("mailbox", ANN)];
    assert_eq!(Browser::of(&app, "bob@a.example").await.post("/console/lockouts", &unlock).await.status, 403);
    assert_eq!(stranger.post("/console/login", &log_in).await.status, 429);
    assert_eq!(root.post("/console/lockouts", &[("mailbox", "no address")]).await.status, 422);
    assert_eq!(root.post("/console/lockouts", &unlock).await.header("location"), "/console/lockouts?done=unlocked");
    assert_eq!(stranger.post("/console/login", &log_in).await.status, 303);
}
