//! `GET /mail/inbox`.

use axum::http::StatusCode;

use crate::support::App;

#[tokio::test]
async fn naming_another_inbox_does_not_open_it() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    app.get(&ann, "/mail/inbox?mailbox=bob@example.org").await.assert_error(403, "ACCESS_DENIED");
    app.get(&ann, "/mail/inbox?folder=Nowhere").await.assert_error(400, "INVALID_FOLDER");
    let fields = app.get(&ann, "/mail/inbox?mailbox=x&limit=0").await.assert_invalid();
    assert_eq!(fields, ["mailbox", "limit"]);
}

#[tokio::test]
async fn an_admin_token_has_to_name_a_mailbox() {
    let (app, ..) = App::with_ann_and_bob().await;
    assert_eq!(app.get(&app.admin, "/mail/inbox").await.assert_invalid(), ["mailbox"]);
    let unknown = app.get(&app.admin, "/mail/inbox?mailbox=nobody@example.org").await;
    unknown.assert_error(404, "MAILBOX_NOT_FOUND");
    app.get(&app.admin, "/mail/inbox?mailbox=ann@example.org").await.assert(StatusCode::OK);
}

#[tokio::test]
async fn it_answers_what_the_mailbox_path_answers() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for subject in ["one", "two", "three"] {
        app.deliver("ann@example.org", &format!("Subject: {subject}\n\nHello\n")).await;
    }
    for query in ["", "?limit=2", "?limit=1&offset=2"] {
        let inbox = app.get(&ann, &format!("/mail/inbox{query}")).await.assert(StatusCode::OK);
        let messages = app.get(&ann, &format!("/mailbox/ann@example.org/messages{query}")).await;
        assert_eq!(inbox, messages.assert(StatusCode::OK), "{query}");
    }
}
