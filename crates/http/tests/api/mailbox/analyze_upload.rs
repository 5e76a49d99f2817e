//! `POST /security/analyze`.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Answer, App, api};

const FRAUD: &str = "\
Authentication-Results: mail.test; dmarc=pass header.from=bank.example\r
From: \"support@bank.com\" <ann@examp1e.org>\r
X-Spam-Status: Yes, score=7.50 required=15.00\r
Content-Type: text/html\r
\r
<a href=http://192.0.2.1/login>https://www.bank.com/</a>\r
";

async fn upload(app: &App, token: &str, media_type: &str, message: impl Into<Body>) -> Answer {
    let request = api(Method::POST, "/security/analyze").header("X-MAILAPI-TOKEN", token);
    app.send(request.header("content-type", media_type).body(message.into()).unwrap()).await
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for (media_type, body, status, code) in [
        ("application/json", "{}", 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("text/plain", "x", 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("message/rfc822", "", 422, "VALIDATION_ERROR"),
    ] {
        upload(&app, &ann, media_type, body).await.assert_error(status, code);
    }
    let request = api(Method::POST, "/security/analyze").header("X-MAILAPI-TOKEN", &ann);
    let request = request.header("content-type", "message/rfc822").header("content-encoding", "gzip");
    app.send(request.body("x".into()).unwrap()).await.assert_error(415, "UNSUPPORTED_MEDIA_TYPE");
    upload(&app, "", "message/rfc822", FRAUD).await.assert_error(401, "NO_API_TOKEN");
}

#[tokio::test]
async fn it_is_off_unless_the_operator_switches_it_on() {
    let app = App::with(|settings, _| settings.security_analysis = false).await;
    upload(&app, &app.admin, "message/rfc822", FRAUD).await.assert_error(403, "ANALYSIS_OFF");
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused() {
    let app = App::with(|_, http| http.max_request_bytes = 1000).await;
    upload(&app, &app.admin, "message/rfc822", "x".repeat(1000)).await.assert(StatusCode::OK);
    upload(&app, &app.admin, "message/rfc822", "x".repeat(1001)).await.assert_error(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn an_uploaded_message_is_analyzed_and_not_kept() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    for token in [&ann, &app.admin] {
        let seen = upload(&app, token, "Message/RFC822; charset=utf-8", FRAUD).await.assert(StatusCode::OK);
        let codes: Vec<_> = seen["reasons"].as_array().unwrap().iter().map(|reason| reason["code"].clone()).collect();
        assert_eq!(codes, ["lookalike_sender", "name_is_address", "link_shows_other_host", "link_to_number"]);
        assert_eq!(
            (&seen["success"], &seen["verdict"], &seen["uid"]),
            (&json!(true), &json!("dangerous"), &Value::Null)
        );
        assert_eq!(seen["sender"]["first_contact"], Value::Null);
        // Anybody may write such a field into a file.
        assert_eq!(seen["authentication"]["source"], "header", "{seen}");
        assert_eq!(seen["spam"], json!({ "source": "header", "is_spam": true, "score": 7.5 }));
    }
    let folders = app.get(&ann, "/mailbox/ann@example.org/messages").await.json();
    assert_eq!(folders["total"], 0, "{folders}");
}

#[tokio::test]
async fn a_large_message_is_analyzed_through_the_buffer() {
    let app = App::start().await;
    let filler = "filler text \r\n".repeat(300_000);
    let attached = format!(
        "MIME-Version: 1.0\r\nFrom: a@example.net\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nHi\r\n\
         --b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=log.pdf.exe\r\n\r\n{filler}\r\n--b--\r\n"
    );
    let seen = upload(&app, &app.admin, "message/rfc822", attached).await.assert(StatusCode::OK);
    assert_eq!(seen["verdict"], "dangerous", "{seen}");
    assert_eq!(seen["attachments"][0]["filename"], "log.pdf.exe");
}
