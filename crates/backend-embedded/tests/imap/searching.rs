//! SEARCH by message attributes, and by texts like the API's search.

use futures_util::FutureExt;
use mailapi_backend::{FolderScope, Mailboxes, SearchQuery};
use mailapi_model::Page;

use crate::client::Client;
use crate::test_server::{TestServer, ann};

async fn found(client: &mut Client, keys: &str) -> Vec<u32> {
    let answer = client.ok(&format!("UID SEARCH {keys}")).await;
    let numbers = answer[0].strip_prefix("* SEARCH").unwrap();
    numbers.split_whitespace().map(|uid| uid.parse().unwrap()).collect()
}

async fn server() -> TestServer {
    let server = TestServer::open_with(|settings| settings.listeners.imap.max_search_texts = 3).await;
    for message in [
        "From: =?utf-8?q?J=C3=BCrgen?= <j@x.example>\r\nTo: ann@example.org\r\nSubject: =?utf-8?q?F=C3=BC=C3=9Fe?=\r\n\
         Date: Fri, 20 Nov 2026 23:15:30 -0800\r\nMessage-ID: <one@x.example>\r\n\r\nNothing here\r\n",
        "From: bob@example.org, carl@x.example\r\nCc: Dora <d@x.example>\r\nBcc: hidden@x.example\r\nSubject: parts\r\n\
         Content-Type: multipart/alternative; boundary=b\r\n\r\n\
         --b\r\nContent-Transfer-Encoding: base64\r\n\r\nTmVlZGxlIGluIGEgaGF5c3RhY2s=\r\n\
         --b\r\nContent-Type: text/html\r\n\r\n<p>spli<b>t wo</b>rd</p>\r\n--b--\r\n",
        "Subject: needle\r\nX-Tag: Stack\r\n\r\n",
    ] {
        server.put("INBOX", message).await;
    }
    server
}

#[tokio::test]
async fn decoded_text_is_found_in_any_case_indexed_or_not() {
    let server = server().await;
    let mut client = server.ann_in("INBOX").await;
    for indexed in [false, true] {
        if indexed {
            server.message_store.maintain_until_done().await.unwrap();
        }
        for (keys, expected) in [
            ("TEXT absent", &[][..]),
            ("TEXT needle", &[2, 3]),
            ("BODY NEEDLE", &[2]),
            ("SUBJECT Needle", &[3]),
            ("BODY \"split word\"", &[2]),
            ("FROM {7+}\r\nJÜRGEN", &[1]),
            ("SUBJECT {6+}\r\nfüße", &[1]),
            ("TO ann CC x", &[]),
            ("CC dora", &[2]),
            ("TO dora", &[]),
            ("BCC hidden", &[2]),
            ("HEADER X-Tag sta", &[3]),
            ("HEADER x-tag \"\"", &[3]),
            ("FROM \"\"", &[1, 2]),
            ("BODY \"\"", &[1, 2, 3]),
            ("HEADER Message-ID <one@", &[1]),
            ("NOT TEXT needle", &[1]),
            ("OR SUBJECT needle FROM bob", &[2, 3]),
            ("TEXT ne", &[1, 2, 3]),
            ("TEXT needle UID 3:9", &[3]),
        ] {
            assert_eq!(found(&mut client, keys).await, expected, "{keys}, indexed: {indexed}");
        }
    }
}

#[tokio::test]
async fn rows_decide_the_rest() {
    let server = server().await;
    let mut client = server.ann_in("INBOX").await;
    client.ok("STORE 2 FLAGS.SILENT (\\Seen todo)").await;
    for (keys, expected) in [
        ("SENTON 20-Nov-2026", &[1][..]),
        ("SENTON 21-Nov-2026", &[]),
        ("SENTBEFORE 1-Jan-2027", &[1]),
        ("ON 20-Nov-2026", &[1, 2, 3]),
        ("SINCE 21-Nov-2026", &[]),
        ("UNSEEN", &[1, 3]),
        ("KEYWORD TODO", &[2]),
        ("SMALLER 60", &[3]),
        ("1:2 NOT SEEN", &[1]),
    ] {
        assert_eq!(found(&mut client, keys).await, expected, "{keys}");
    }
}

#[tokio::test]
async fn a_search_for_too_many_texts_is_refused() {
    let server = server().await;
    let mut client = server.ann_in("INBOX").await;
    assert_eq!(client.run("SEARCH TEXT a TEXT b TEXT c TEXT d").await.end, "NO [LIMIT] Server limit reached");
    // A failed SORT leaves no saved result, as a failed SEARCH.
    client.ok("SEARCH RETURN (SAVE) ALL").await;
    let failed = client.run("SORT RETURN (SAVE) (DATE) UTF-8 TEXT a TEXT b TEXT c TEXT d").await;
    assert_eq!(failed.end, "NO [LIMIT] Server limit reached");
    assert_eq!(client.ok("SEARCH $").await, ["* SEARCH"]);
    client.ok("SEARCH TEXT a TEXT b TEXT c TEXT a").await;
}

#[tokio::test]
async fn texts_are_read_in_the_charset_that_the_client_names() {
    let server = server().await;
    let mut client = server.ann_in("INBOX").await;
    assert_eq!(client.run("SEARCH CHARSET KOI8-R ALL").await.end, "NO [BADCHARSET (US-ASCII UTF-8)] Unknown charset");
    for (charset, text) in [
        ("UTF-8", "füße".as_bytes()),
        ("utf8", "füße".as_bytes()),
        ("\"ISO-8859-1\"", b"f\xfc\xdfe"),
        ("iso-8859-1", b"f\xfc\xdfe"),
        ("US-ASCII", "füße".as_bytes()),
    ] {
        let command = format!("a UID SEARCH CHARSET {charset} SUBJECT {{{}+}}\r\n", text.len());
        client.send(&[command.as_bytes(), text, b"\r\n"].concat()).await;
        assert_eq!(client.line().await.as_deref(), Some("* SEARCH 1"), "{charset}");
        assert!(client.line().await.unwrap().starts_with("a OK"), "{charset}");
    }
    // Without a charset, other octets than UTF-8 have no meaning.
    client.send(b"b SEARCH SUBJECT {4+}\r\nf\xfc\xdfe\r\n").await;
    assert_eq!(client.line().await.as_deref(), Some("b NO [BADCHARSET (US-ASCII UTF-8)] Unknown charset"));
}

#[tokio::test]
async fn the_envelope_shows_names_and_every_field() {
    let server = TestServer::open().await;
    let header = "From: John Doe\r\nTo: a@x.example\r\nSubject: x\r\nTo: Bo <b@x.example>\r\nCc: root\r\n\r\n";
    server.put("INBOX", header).await;
    let mut client = server.ann_in("INBOX").await;
    let answer = client.ok("FETCH 1  ( ENVELOPE )").await;
    let john = "((\"John Doe\" NIL \"\" \"\"))";
    let to = "((NIL NIL \"a\" \"x.example\")(\"Bo\" NIL \"b\" \"x.example\"))";
    let expected =
        format!("* 1 FETCH (ENVELOPE (NIL \"x\" {john} {john} {john} {to} ((NIL NIL \"root\" \"\")) NIL NIL NIL))");
    assert_eq!(answer, [expected]);
    let page = server.message_store.list(&ann(), &"INBOX".parse().unwrap(), Page::new(1, 0)).await.unwrap();
    let shown: Vec<&str> = page.items[0].to.iter().map(|person| person.email.as_str()).collect();
    assert_eq!(shown, ["a@x.example", "b@x.example"], "the API shows the same");
}

#[tokio::test]
async fn the_api_finds_the_same() {
    let server = server().await;
    let mut client = server.ann_in("INBOX").await;
    for text in ["needle", "split word", "j@x", "haystack", "nothing"] {
        let (scope, page) = (FolderScope::One("INBOX".parse().unwrap()), Page::new(50, 0));
        let query = SearchQuery { text: text.parse().unwrap(), scope, page };
        let hits = server.message_store.search(&ann(), &query).await.unwrap();
        let mut uids: Vec<u32> = hits.items.iter().map(|hit| hit.uid).collect();
        uids.reverse();
        assert_eq!(found(&mut client, &format!("TEXT \"{text}\"")).await, uids);
    }
}

#[tokio::test]
async fn a_long_search_gives_way_to_other_searches_of_the_mailbox() {
    let server = TestServer::open_with(|settings| settings.message_store.mailbox_searches = 1).await;
    let lines = "X-Line: 0123456789\r\n".repeat(1_000);
    server.put("INBOX", format!("Subject: long\r\n{lines}\r\n")).await;
    let (mut long, mut short) = (server.ann_in("INBOX").await, server.ann_in("Drafts").await);
    for _ in 0..11 {
        long.ok("COPY 1:* INBOX").await;
    }
    long.send(b"x SEARCH HEADER X-None y\r\n").await;
    assert_eq!(short.ok("SEARCH HEADER X-None y").await, ["* SEARCH"]);
    assert!(long.line().now_or_never().is_none(), "the long search is still running");
    assert_eq!(long.line().await.as_deref(), Some("* SEARCH"));
    assert_eq!(long.line().await.as_deref(), Some("x OK SEARCH completed"));
}
