//! Statistics.

use serde_json::json;

use crate::support::{ANN, Browser, ROOT, server};

#[tokio::test]
async fn what_was_sent_is_drawn_and_listed_for_those_who_may_see_it() {
    let app = server().await;
    let token = app.user("carl@a.example").await;
    for to in [ANN, "eve@invalid.test"] {
        let mail = json!({ "from": "carl@a.example", "to": [to], "subject": "x", "body": { "text": "x" } });
        assert_eq!(app.post(&token, "/mail/send", mail).await.status, 202);
    }
    app.settle().await;
    app.service.roll_up_once().await.unwrap();
    let root = Browser::of(&app, ROOT).await;
    for period in ["", "?period=day", "?period=month", "?period=quarter&sender=a.example"] {
        let page = root.page(&format!("/console/statistics{period}")).await;
        assert!(page.contains("<rect class=\"bar-sent\""), "{period}: {page}");
        for id in ["delivery", "delays", "deferrals", "bounces", "inbound", "storage", "queue", "webhooks"] {
            assert!(page.contains(&format!("<h2 id=\"{id}\"")), "{period}: {id}");
        }
        assert!(page.contains("<rect class=\"bar-fast\"") && page.contains("<th scope=\"row\">carl@a.example</th>"));
    }
    assert_eq!(root.get("/console/statistics?sender=no%20domain").await.status, 422);
    let carl = Browser::of(&app, "carl@a.example").await;
    let page = carl.page("/console/statistics").await;
    assert!(page.contains("<rect class=\"bar-sent\"") && page.contains("<rect class=\"bar-fast\""), "{page}");
    for id in ["inbound", "storage", "queue", "webhooks"] {
        assert!(!page.contains(&format!("<h2 id=\"{id}\"")), "{id} is not for users");
    }
    let bob = Browser::of(&app, "bob@a.example").await;
    assert!(!bob.page("/console/statistics").await.contains("<rect class=\"bar-sent\""));
    assert_eq!(bob.get("/console/statistics?sender=carl%40a.example").await.status, 403);
}
