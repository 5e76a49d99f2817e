//! `GET /mailbox/{email}/search`.

use axum::http::StatusCode;
use serde_json::json;

use super::{bobs_mailbox, refuses_strangers, refuses_unknown_folders};

#[tokio::test]
async fn what_does_not_exist_is_refused() {
    refuses_strangers("/mailbox/{}/search?q=minutes").await;
    refuses_unknown_folders("/mailbox/bob@example.org/search?q=minutes&folder={}").await;
}

#[tokio::test]
async fn a_text_that_is_missing_or_too_short_is_refused() {
    let (app, _, bob) = bobs_mailbox().await;
    let too_long = format!("?q={}", "x".repeat(201));
    let unseen = ["?q=%C2%AD%E2%80%8B", "?q=%20%20", "?q=+++", "?q=%C2%A0%E3%80%80"];
    for query in ["", "?q=", "?q=x", "?q=%C3%BC", "?q=a%00b", &too_long].into_iter().chain(unseen) {
        let answer = app.get(&bob, &format!("/mailbox/bob@example.org/search{query}")).await;
        assert_eq!(answer.assert_invalid(), ["q"], "{query}");
    }
    let answer = app.get(&bob, "/mailbox/bob@example.org/search?q=xx&limit=0").await;
    assert_eq!(answer.assert_invalid(), ["limit"]);
}

#[tokio::test]
async fn a_hit_has_its_shape() {
    let (app, _, bob) = bobs_mailbox().await;
    let found = app.get(&bob, "/mailbox/bob@example.org/search?q=SCH%C3%96N").await.assert(StatusCode::OK);
    let expected = json!({
        "success": true, "query": "SCHÖN", "total": 1, "limit": 50, "offset": 0, "messages": [{
            "uid": 1, "folder": "INBOX", "from": { "name": "Ann Lee", "email": "ann@example.org" },
            "subject": "Die Grüße", "date": "2026-11-20T08:00:00.000Z", "snippet": "See the minutes of Schönberg.",
        }],
    });
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_star_searches_all_folders() {
    let (app, _, bob) = bobs_mailbox().await;
    for (folder, total) in [("", 0), ("&folder=INBOX", 0), ("&folder=Projects%2F2026", 1), ("&folder=*", 1)] {
        let path = format!("/mailbox/bob@example.org/search?q=build+it{folder}");
        assert_eq!(app.get(&bob, &path).await.assert(StatusCode::OK)["total"], total, "{folder}");
    }
}
