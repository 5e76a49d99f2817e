//! PREVIEW (RFC 8970): the beginning of a message's text.

use crate::test_server::TestServer;

#[tokio::test]
async fn a_preview_shows_the_text_and_sets_no_flag() {
    let server = TestServer::open().await;
    let html = "<style>p { color: red }</style><p>Lunch&nbsp;at <b>noon</b>?</p>";
    for (head, body) in [
        ("", "Hello,\r\n\r\n  how are\tyou?\r\n"),
        ("Content-Type: text/html; charset=utf-8\r\n", html),
        ("Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n", "R3LDvMOfZQ=="),
        ("Content-Type: image/png\r\n", "x"),
        ("", ""),
    ] {
        server.put("INBOX", format!("Subject: x\r\n{head}\r\n{body}")).await;
    }
    let mut client = server.ann_in("INBOX").await;
    assert!(client.run("FETCH 1 PREVIEW (NOW)").await.end.starts_with("BAD"));
    let previews = client.ok("FETCH 1:* (PREVIEW)").await;
    let expected = ["\"Hello, how are you?\"", "\"Lunch at noon?\"", "{7}\nGrüße", "\"\"", "\"\""];
    for ((number, preview), expected) in (1..).zip(previews).zip(expected) {
        assert_eq!(preview, format!("* {number} FETCH (PREVIEW {expected})"));
    }
    assert_eq!(
        client.ok("FETCH 1:2 (PREVIEW (LAZY) FLAGS)").await[1],
        "* 2 FETCH (PREVIEW \"Lunch at noon?\" FLAGS (\\Recent))"
    );
}

#[tokio::test]
async fn a_preview_is_short_and_comes_before_the_index() {
    let server = TestServer::open_with(|settings| settings.listeners.imap.fetch_bytes = 300).await;
    for _ in 0..5 {
        server.deliver(&format!("Subject: long\n\n{}", "word and ".repeat(200_000))).await;
    }
    let mut client = server.ann_in("INBOX").await;
    let previews = client.ok("FETCH 1:* PREVIEW").await;
    assert_eq!(previews.len(), 5);
    for preview in previews {
        let (_, text) = preview.split_once("}\n").unwrap();
        let length = text.chars().count() - 1;
        assert!(text.starts_with("word and word") && (150..=200).contains(&length), "{text}");
    }
}
