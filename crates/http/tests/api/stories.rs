//! End-to-end tests: real sockets, the real mail server, and effects of one operation seen through the others.

use mailapi_testkit::TestApp;
use serde_json::{Value, json};

/// Returns the newest message in the INBOX, as its owner sees it.
async fn newest(app: &TestApp, token: &str) -> Value {
    app.get(token, "/mail/inbox?limit=1").await.expect(200)["messages"][0].clone()
}

#[tokio::test]
async fn a_message_goes_from_one_user_to_another() {
    let app = TestApp::start().await;
    let (ann, bob) = (app.user("ann@example.org").await, app.user("bob@example.org").await);
    let body = json!({
        "from": "Ann <ann@example.org>", "to": ["bob@example.org", "nobody@example.org"], "subject": "Protokoll für Köln",
        "body": { "text": "Siehe Anhang.", "html": "<p>Siehe <b>Anhang</b>.</p>" },
        "attachments": [{ "filename": "Übersicht.csv", "content": "YTtiCg==", "content_type": "text/csv" }],
    });
    let sent = app.post(&ann, "/mail/send", body).await.expect(202);
    let id = sent["message_id"].as_str().unwrap().to_owned();
    app.settle().await;

    let status = app.get(&ann, &format!("/mail/{id}/status")).await.expect(200);
    assert_eq!(status["status"], "partial", "{status}");
    assert_eq!(
        (&status["recipients"][0]["status"], &status["recipients"][1]["status"]),
        (&json!("sent"), &json!("bounced"))
    );
    assert_eq!(status["recipients"][1]["dsn_code"], "5.1.1");

    let message = newest(&app, &bob).await;
    assert_eq!((&message["subject"], &message["has_attachments"]), (&json!("Protokoll für Köln"), &json!(true)));
    let at = format!("/mailbox/bob@example.org/messages/{}", message["uid"]);
    let read = app.get(&bob, &at).await.expect(200);
    assert_eq!(read["body"]["text"].as_str().unwrap().trim(), "Siehe Anhang.");
    assert_eq!(read["message_id"], format!("<{id}@example.org>"));
    assert!(read["headers"]["DKIM-Signature"].as_str().unwrap().contains("d=example.org"));
    let file = app.get(&bob, &format!("{at}/attachment/0")).await;
    assert_eq!((file.status, file.body.as_slice(), file.header("content-type")), (200, &b"a;b\n"[..], "text/csv"));
    let raw = app.get(&bob, &format!("{at}/raw")).await;
    assert_eq!(raw.header("content-length"), message["size"].to_string());
    let found = app.get(&bob, "/mailbox/bob@example.org/search?q=k%C3%B6ln").await.expect(200);
    assert_eq!((&found["total"], &found["messages"][0]["uid"]), (&json!(1), &message["uid"]));

    let folders = app.get(&bob, "/mailbox/bob@example.org/folders").await.expect(200);
    assert_eq!((&folders["folders"][0]["name"], &folders["folders"][0]["unread"]), (&json!("INBOX"), &json!(1)));
    let user = app.get(app.admin(), "/users/bob@example.org").await.expect(200);
    assert_eq!((&user["user"]["message_count"], &user["user"]["quota_used_bytes"]), (&json!(1), &message["size"]));
}

#[tokio::test]
async fn hostile_mail_from_outside_is_listed_read_and_downloaded() {
    let app = TestApp::start().await;
    let ann = app.user("ann@example.org").await;
    let nested =
        (0..200).map(|n| format!("Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n")).collect::<String>();
    let long = format!("Subject: {}\nX-\u{0}: \u{1}\n\nbody\u{0}\n", "x".repeat(20_000));
    for message in [
        nested.as_str(),
        &long,
        "",
        "\n\n\n",
        "no headers at all",
        "Content-Type: text/plain; charset=x-none\n\n\u{ff}",
    ] {
        app.deliver("eve@elsewhere.example", "ann@example.org", message).await;
        let uid = newest(&app, &ann).await["uid"].clone();
        let at = format!("/mailbox/ann@example.org/messages/{uid}");
        let read = app.get(&ann, &at).await.expect(200);
        for attachment in read["attachments"].as_array().unwrap() {
            let file = app.get(&ann, &format!("{at}/attachment/{}", attachment["index"])).await;
            assert_eq!((file.status, json!(file.body.len())), (200, attachment["size"].clone()));
        }
        assert_eq!(app.get(&ann, &format!("{at}/raw")).await.status, 200);
    }
    assert_eq!(app.get(&ann, "/mail/inbox").await.expect(200)["total"], 6);
}

#[tokio::test]
async fn the_account_story() {
    let app = TestApp::start().await;
    let admin = app.admin();
    let domain = app.post(admin, "/domains", json!({ "domain": "example.org" })).await.expect(201);
    assert_eq!(domain["domain"]["active"], true);
    let user = json!({ "email": "ann@example.org", "password": "correct horse battery", "name": "Ann" });
    assert_eq!(app.post(admin, "/users", user).await.expect(201)["user"]["email"], "ann@example.org");
    let token = json!({ "name": "laptop", "email": "ann@example.org" });
    let made = app.post(admin, "/tokens", token).await.expect(201);
    let ann = made["token"].as_str().unwrap();
    assert_eq!(app.get(ann, "/users/me").await.expect(200)["user"]["name"], "Ann");
    assert_eq!(app.get(ann, "/mail/inbox").await.expect(200)["total"], 0);
    assert_eq!(app.delete(admin, &format!("/tokens/{}", made["id"])).await.expect(200)["id"], made["id"]);
    assert_eq!(app.get(ann, "/users/me").await.error(), (401, "TOKEN_EXPIRED".to_owned()));
}
