//! `GET /mailbox/{email}/messages/{uid}/attachment/{index}`, and by name.

use crate::support::App;

use super::{bobs_mailbox, refuses_strangers, refuses_unknown_folders, refuses_unknown_messages};

#[tokio::test]
async fn what_does_not_exist_is_refused() {
    refuses_strangers("/mailbox/{}/messages/1/attachment/0").await;
    refuses_strangers("/mailbox/{}/folders/INBOX/messages/1/attachments/%C3%9C.txt").await;
    refuses_unknown_folders("/mailbox/bob@example.org/messages/1/attachment/0?folder={}").await;
    refuses_unknown_folders("/mailbox/bob@example.org/folders/{}/messages/1/attachments/x").await;
    refuses_unknown_messages("/mailbox/bob@example.org/messages/{}/attachment/0").await;
    refuses_unknown_messages("/mailbox/bob@example.org/folders/INBOX/messages/{}/attachments/x").await;
}

#[tokio::test]
async fn an_attachment_that_is_not_there_is_named() {
    let (app, _, bob) = bobs_mailbox().await;
    for index in ["3", "99", "-1", "x", "4294967296", "0x0"] {
        let path = format!("/mailbox/bob@example.org/messages/1/attachment/{index}");
        app.get(&bob, &path).await.assert_error(404, "ATTACHMENT_NOT_FOUND");
    }
    let at = "/mailbox/bob@example.org/folders/INBOX/messages/1/attachments";
    for name in ["minutes.txt", "%C3%9C.txt?index=0", "%C3%9C.txt?index=9", "%C3%9C.TXT"] {
        app.get(&bob, &format!("{at}/{name}")).await.assert_error(404, "ATTACHMENT_NOT_FOUND");
    }
    assert_eq!(app.get(&bob, &format!("{at}/%C3%9C.txt?index=x")).await.assert_invalid(), ["index"]);
}

#[tokio::test]
async fn a_browser_saves_whatever_it_is() {
    let (app, _, bob) = bobs_mailbox().await;
    let answer = app.get(&bob, "/mailbox/bob@example.org/messages/1/attachment/0").await;
    assert_eq!(answer.bytes.as_ref(), b"<script>alert(1)</script>");
    for (name, value) in [
        ("content-type", "text/html"),
        ("content-length", "25"),
        ("content-disposition", "attachment; filename=\"evil _page_.html\"; filename*=UTF-8''evil%20%22page%22.html"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox"),
        ("cache-control", "no-store"),
        ("ratelimit-limit", "100"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn a_file_says_how_its_characters_are_written() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    let types = [
        ("text/html; charset=\"utf-8; x=y\"; method=\"a b\"", "text/html", ""),
        ("text/plain; charset=\"a,b\"; format=\"flo\\\"wed\"; profile=c", "text/plain", ""),
        ("text/plain; charset=\"utf-8\\\r\n Set-Cookie: x=y\"", "text/plain", ""),
        ("broken; charset=utf-8", "application/octet-stream", ""),
        ("TEXT/Plain; DelSp=yes; CHARSET=ISO-8859-1", "text/plain", "; charset=ISO-8859-1; delsp=yes"),
        ("text/calendar; method=REQUEST; charset=\"utf-8\"", "text/calendar", "; charset=utf-8; method=REQUEST"),
    ];
    let part = |content_type: &str| {
        format!("--b\nContent-Type: {content_type}\nContent-Disposition: attachment; filename=a\n\nhello\n")
    };
    let parts: String = types.iter().map(|(written, ..)| part(written)).collect();
    app.deliver("bob@example.org", &format!("Content-Type: multipart/mixed; boundary=b\n\n{parts}--b--\n")).await;
    let listed = app.get(&bob, "/mailbox/bob@example.org/messages/1").await.json()["attachments"].clone();
    for (index, (written, media_type, parameters)) in types.iter().enumerate() {
        let answer = app.get(&bob, &format!("/mailbox/bob@example.org/messages/1/attachment/{index}")).await;
        assert_eq!(answer.header("content-type"), format!("{media_type}{parameters}"), "{written}");
        assert_eq!(listed[index]["content_type"], *media_type, "{written}");
        for (name, value) in [("x-content-type-options", "nosniff"), ("content-security-policy", "sandbox")] {
            assert_eq!(answer.header(name), value, "{written}");
        }
        assert!(answer.header("content-disposition").starts_with("attachment;"), "{written}");
    }
}

#[tokio::test]
async fn of_equal_names_the_first_or_the_index_is_taken() {
    let (app, _, bob) = bobs_mailbox().await;
    let at = "/mailbox/bob@example.org/folders/INBOX/messages/1/attachments/%C3%9C.txt";
    for (query, content, content_type) in [
        ("", &b"first"[..], "text/plain"),
        ("?index=1", b"first", "text/plain"),
        ("?index=2", b"second", "application/pdf"),
    ] {
        let answer = app.get(&bob, &format!("{at}{query}")).await;
        assert_eq!((answer.bytes.as_ref(), answer.header("content-type")), (content, content_type), "{query}");
        assert_eq!(answer.header("content-disposition"), "attachment; filename=\"_.txt\"; filename*=UTF-8''%C3%9C.txt");
    }
}

#[tokio::test]
async fn a_file_is_found_by_the_name_that_was_sent() {
    let (app, _, bob) = App::with_ann_and_bob().await;
    let long = format!("{}.txt", "a".repeat(251));
    let files = [
        (".gitignore", ".gitignore", ".gitignore"),
        ("dir/x.txt", "dir%2Fx.txt", "dir_x.txt"),
        ("two  spaces.txt", "two%20%20spaces.txt", "two spaces.txt"),
        (&long, &long, &long),
    ];
    let part = |(name, ..): &(&str, &str, &str)| {
        format!("--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename=\"{name}\"\n\nhello\n")
    };
    let parts: String = files.iter().map(part).collect();
    app.deliver("bob@example.org", &format!("Content-Type: multipart/mixed; boundary=b\n\n{parts}--b--\n")).await;
    let listed = app.get(&bob, "/mailbox/bob@example.org/messages/1").await.json()["attachments"].clone();
    for (index, (name, in_path, saved_as)) in files.iter().enumerate() {
        assert_eq!(listed[index]["filename"], *name);
        let at = "/mailbox/bob@example.org/folders/INBOX/messages/1/attachments";
        let answer = app.get(&bob, &format!("{at}/{in_path}")).await;
        assert_eq!(answer.bytes.as_ref(), b"hello", "{name}");
        let disposition = answer.header("content-disposition");
        assert!(disposition.starts_with(&format!("attachment; filename=\"{saved_as}\";")), "{disposition}");
    }
}
