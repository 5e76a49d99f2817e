//! `POST /mail/send` with a body that exceeds the memory limits while it arrives.

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::support::App;

/// Exceeds the limits of memory for a body and for one string.
const LARGE: usize = 2_000_000;

fn message(text: &str, content: &str) -> Value {
    json!({
        "from": "ann@example.org", "to": ["bob@example.org"], "subject": "Large", "body": { "text": text },
        "attachments": [
            { "filename": "small.txt", "content": "SGVsbG8=", "content_type": "text/plain" },
            { "filename": "large.bin", "content": content },
        ],
    })
}

#[tokio::test]
async fn invalid_json_has_its_position_whatever_its_size() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let whole = message("Hello", &"QUJD".repeat(LARGE / 4)).to_string();
    let cut = &whole[..whole.len() - 1];
    for (text, expected) in [
        (cut.to_owned(), format!("ends too early at line 1, column {}.", cut.len())),
        (format!("{whole}\n x"), "is not valid JSON at line 2, column 2.".to_owned()),
        (whole.replacen("\"to\"", "to", 1), format!("column {}.", whole.find("\"to\"").unwrap() + 1)),
    ] {
        let said = app.post_text(&ann, "/mail/send", text).await.assert_error(400, "INVALID_JSON");
        assert!(said.ends_with(&expected), "{said} {expected}");
    }
    assert_eq!(app.trouble.submitted(), 0);
}

#[tokio::test]
async fn a_large_string_breaks_the_rules_that_a_small_one_breaks() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let text = "x".repeat(LARGE);
    let mut body = message("Hello", &"QUJD".repeat(LARGE / 4).replacen("QUJD", "QU!D", 1));
    assert_eq!(app.post(&ann, "/mail/send", body.clone()).await.assert_invalid(), ["attachments[1].content"]);
    body["attachments"] = json!([]);
    body["subject"] = json!(text);
    body["cc"] = json!([text]);
    body["headers"] = json!({ "X-Large": text });
    let mut fields = app.post(&ann, "/mail/send", body).await.assert_invalid();
    fields.sort();
    assert_eq!(fields, ["cc[0]", "headers.X-Large", "subject"]);
    assert_eq!(app.trouble.submitted(), 0);
}

#[tokio::test]
async fn hundreds_of_small_files_are_one_message() {
    let app = App::with(|_, http| http.long_string_bytes = 64 * 1024).await;
    app.domain("example.org").await;
    let (ann, bob) = (app.user("ann@example.org").await, app.user("bob@example.org").await);
    let content = "QUJD".repeat(15_000);
    let files: Vec<_> = (0..250).map(|n| json!({ "filename": format!("{n}.txt"), "content": content })).collect();
    let body = json!({
        "from": "ann@example.org", "to": ["bob@example.org"], "body": { "text": "Hello" }, "attachments": files
    });
    app.post(&ann, "/mail/send", body).await.assert(StatusCode::ACCEPTED);
    app.mail_server.settle().await;
    let read = app.get(&bob, "/mailbox/bob@example.org/messages/1").await.assert(StatusCode::OK);
    let sizes: Vec<_> = read["attachments"].as_array().unwrap().iter().map(|file| file["size"].clone()).collect();
    assert_eq!(sizes, vec![json!(45_000); 250]);
}

#[tokio::test]
async fn too_many_values_are_refused_before_the_body_ends() {
    let (app, ann, _) = App::with_ann_and_bob().await;
    let piece = Bytes::from("{\"\":0},".repeat(100_000));
    let endless = stream::iter(std::iter::repeat_with(move || Ok::<_, std::io::Error>(piece.clone())));
    let body = stream::once(async { Ok(Bytes::from_static(b"{\"x\":[")) }).chain(endless.take(20));
    let body = Body::from_stream(body.chain(stream::pending()));
    let message = app.post_text(&ann, "/mail/send", body).await.assert_error(413, "PAYLOAD_TOO_LARGE");
    assert!(message.contains("too many values"), "{message}");
}

#[tokio::test]
async fn a_large_message_arrives_whole_and_a_retry_sends_nothing() {
    let (app, ann, bob) = App::with_ann_and_bob().await;
    let text = "Ünd \"quoted\" \\ back\r\nslash ☃ 😀\r\n".repeat(LARGE / 1000);
    let body = message(&text, &"QUJD\r\n".repeat(LARGE / 6)).to_string();
    let repeat = |key: &'static str, body: String| app.post_named(&ann, "/mail/send", key, body);
    let sent = repeat("one", body.clone()).await.assert(StatusCode::ACCEPTED);
    assert_eq!(repeat("one", body.clone()).await.assert(StatusCode::ACCEPTED), sent);
    repeat("one", body.replacen("Large", "large", 1)).await.assert_error(409, "IDEMPOTENCY_CONFLICT");
    assert_eq!(app.trouble.submitted(), 1);
    app.mail_server.settle().await;

    let read = app.get(&bob, "/mailbox/bob@example.org/messages/1").await.assert(StatusCode::OK);
    assert_eq!(read["attachments"][1]["size"], LARGE / 6 * 3);
    assert_eq!(read["body"]["text"].as_str().unwrap().replace("\r\n", "\n").trim(), text.replace("\r\n", "\n").trim());
    let content = app.get(&bob, "/mailbox/bob@example.org/messages/1/attachment/1").await;
    assert_eq!(content.bytes, "ABC".repeat(LARGE / 6));
}
