//! Bytes sent to the client: whole, in pieces, in sections.

use crate::test_server::TestServer;

/// Returns a message of many lines, each with its number.
fn long_message(lines: usize) -> String {
    let body: String = (0..lines).map(|n| format!("line {n:06}\r\n")).collect();
    format!("From: eve@elsewhere.example\r\nSubject: long\r\n\r\n{body}")
}

fn literal(response: &str) -> &str {
    response.split_once("}\n").unwrap().1
}

#[tokio::test]
async fn a_message_comes_out_as_it_went_in_however_its_pieces_are_cut() {
    for (chunk_bytes, write_bytes) in [(61, 7), (128 * 1024, 64 * 1024), (4096, 1 << 30)] {
        let server = TestServer::open_with(|settings| {
            settings.message_store.chunk_bytes = chunk_bytes;
            settings.listeners.imap.write_bytes = write_bytes;
        })
        .await;
        let message = long_message(20_000 / if write_bytes < 100 { 20 } else { 1 });
        server.put("INBOX", message.clone()).await;
        let mut client = server.ann_in("INBOX").await;
        let whole = client.ok("FETCH 1 (RFC822.SIZE BODY.PEEK[] UID)").await.remove(0);
        assert_eq!(literal(&whole), format!("{message} UID 1)"));
        assert!(whole.contains(&format!("RFC822.SIZE {} BODY[] ", message.len())));
        let (header, text) = message.split_at(message.find("\r\n\r\n").unwrap() + 4);
        let parts = client.ok("FETCH 1 (BODY.PEEK[HEADER] BODY.PEEK[TEXT] BODY.PEEK[1])").await.remove(0);
        assert_eq!(
            literal(&parts),
            format!("{header} BODY[TEXT] {{{0}}}\n{text} BODY[1] {{{0}}}\n{text})", text.len())
        );
    }
}

#[tokio::test]
async fn ranges_stop_at_the_end() {
    let server = TestServer::open_with(|settings| settings.message_store.chunk_bytes = 61).await;
    let message = long_message(100);
    server.put("INBOX", message.clone()).await;
    let mut client = server.ann_in("INBOX").await;
    let mut fetched = String::new();
    for origin in (0..message.len() + 100).step_by(100) {
        let answer = client.ok(&format!("UID FETCH 1 BODY.PEEK[]<{origin}.100>")).await.remove(0);
        assert!(answer.contains(&format!("BODY[]<{origin}> ")), "{answer}");
        fetched.push_str(literal(&answer).strip_suffix(')').unwrap());
    }
    assert_eq!(fetched, message);
    let beyond = client.ok("FETCH 1 BODY.PEEK[TEXT]<99999.4294967295>").await.remove(0);
    assert_eq!(beyond, "* 1 FETCH (BODY[TEXT]<99999> {0}\n)");
}

#[tokio::test]
async fn a_nul_does_not_break_the_protocol() {
    let server = TestServer::open().await;
    server.put("INBOX", "Subject: a\0b\r\n\r\nx\0y\r\n").await;
    let mut client = server.ann_in("INBOX").await;
    client.send(b"x FETCH 1 (BODY.PEEK[] BODY.PEEK[HEADER.FIELDS (Subject)])\r\n").await;
    let response = client.response().await.unwrap();
    assert!(!response.contains(&0));
    assert_eq!(response.iter().filter(|byte| **byte == 0x80).count(), 3);
}

#[tokio::test]
async fn a_fetch_of_many_messages_names_each_once_whatever_the_steps() {
    for (messages, bytes) in [(1, 1 << 20), (3, 1 << 20), (500, 1), (500, 60), (3, 60)] {
        let server = TestServer::open_with(|settings| {
            settings.listeners.imap.fetch_messages = messages;
            settings.listeners.imap.fetch_bytes = bytes;
        })
        .await;
        for n in 0..10 {
            server.put("INBOX", format!("Subject: {n}\r\n\r\n{n}\r\n")).await;
        }
        let mut client = server.ann_in("INBOX").await;
        client.ok("UID STORE 1,2,6,10 +FLAGS.SILENT (\\Deleted)").await;
        client.ok("EXPUNGE").await;
        for items in ["UID", "(UID ENVELOPE)", "(UID BODYSTRUCTURE)", "(UID BODY.PEEK[HEADER.FIELDS (Subject)])"] {
            let lines = client.ok(&format!("FETCH 1:* {items}")).await;
            let uids: Vec<_> = lines.iter().map(|line| line.split_once("UID ").unwrap().1[..1].to_owned()).collect();
            assert_eq!(uids, ["3", "4", "5", "7", "8", "9"]);
        }
    }
}

#[tokio::test]
async fn a_fetch_omits_removed_messages_and_answers_expungeissued() {
    let server = TestServer::open_with(|settings| settings.listeners.imap.fetch_messages = 2).await;
    for n in 0..5 {
        server.put("INBOX", format!("Subject: {n}\r\n\r\n")).await;
    }
    let mut client = server.ann_in("INBOX").await;
    let mut other = server.ann_in("INBOX").await;
    other.ok("STORE 1:2,5 +FLAGS.SILENT (\\Deleted)").await;
    other.ok("EXPUNGE").await;
    let answer = client.run("FETCH 1:* RFC822.SIZE").await;
    assert_eq!(answer.end, "OK [EXPUNGEISSUED] Some messages no longer exist");
    assert_eq!(answer.untagged, ["* 3 FETCH (RFC822.SIZE 14)", "* 4 FETCH (RFC822.SIZE 14)"]);
    // Two messages, three removed ones, and the number of recent ones.
    assert_eq!(client.run("UID FETCH 1:* BODY[]").await.untagged.len(), 2 + 3 + 1);
}

#[tokio::test]
async fn sections_of_a_delivered_message_count_from_its_return_path() {
    let server = TestServer::open().await;
    server
        .deliver(
            "Subject: parts\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\none\n\
         --b\nContent-Type: message/rfc822\n\nSubject: inner\nX-Tag: y\n\ninner text\n--b--\n",
        )
        .await;
    let mut client = server.ann_in("INBOX").await;
    let header = client.ok("FETCH 1 BODY.PEEK[HEADER]").await.remove(0);
    assert!(literal(&header).starts_with("Return-Path: <eve@elsewhere.example>\r\n"));
    for (section, expected) in [
        ("1", "one"),
        ("2", "Subject: inner\r\nX-Tag: y\r\n\r\ninner text"),
        ("2.HEADER", "Subject: inner\r\nX-Tag: y\r\n\r\n"),
        ("2.TEXT", "inner text"),
        ("2.1", "inner text"),
        ("2.MIME", "Content-Type: message/rfc822\r\n\r\n"),
        ("2.HEADER.FIELDS (x-tag)", "X-Tag: y\r\n\r\n"),
        ("2.HEADER.FIELDS.NOT (x-tag)", "Subject: inner\r\n\r\n"),
        ("HEADER.FIELDS (Return-Path)", "Return-Path: <eve@elsewhere.example>\r\n\r\n"),
    ] {
        let answer = client.ok(&format!("FETCH 1 BODY.PEEK[{section}]")).await.remove(0);
        assert_eq!(literal(&answer), format!("{expected})"), "{section}");
    }
    for section in ["3", "1.1", "1.HEADER", "2.2", "2.1.HEADER.FIELDS (a)"] {
        let answer = client.ok(&format!("FETCH 1 BODY.PEEK[{section}]")).await;
        assert_eq!(answer, [format!("* 1 FETCH (BODY[{section}] NIL)")]);
    }
}

#[tokio::test]
async fn hostile_structures_are_shown() {
    let server = TestServer::open().await;
    let nested: String =
        (0..200).map(|n| format!("Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n")).collect();
    let forwarded = "Content-Type: message/rfc822\r\n\r\n".repeat(200);
    for message in [nested, forwarded, "\r\n".to_owned(), "no header".to_owned(), "\0".repeat(20)] {
        server.put("INBOX", message).await;
    }
    let mut client = server.ann_in("INBOX").await;
    let answers = client.ok("FETCH 1:* (ENVELOPE BODYSTRUCTURE BODY BODY.PEEK[1.1.1.1])").await;
    assert_eq!(answers.len(), 5);
    assert!(answers.iter().all(|answer| answer.matches('(').count() == answer.matches(')').count()));
}
