//! IMAP4rev2 (RFC 9051) and UTF8=ACCEPT (RFC 6855) on a real mailbox.

use crate::test_server::TestServer;

#[tokio::test]
async fn a_session_of_rev2_sees_no_recent_and_its_neighbour_does() {
    let server = TestServer::open().await;
    server.deliver("Subject: one\n\n").await;
    let mut new = server.ann().await;
    assert_eq!(new.ok("ENABLE IMAP4rev2").await, ["* ENABLED IMAP4rev2"]);
    let selected = new.ok("EXAMINE INBOX").await;
    assert!(selected.contains(&"* LIST () \"/\" INBOX".to_owned()), "{selected:?}");
    assert!(!selected.iter().any(|line| line.contains("RECENT") || line.contains("UNSEEN")), "{selected:?}");
    let mut old = server.ann_in("INBOX").await;
    assert_eq!(old.ok("FETCH 1 FLAGS").await, ["* 1 FETCH (FLAGS (\\Recent))"]);
    assert_eq!(new.ok("FETCH 1 FLAGS").await, ["* 1 FETCH (FLAGS ())"]);
    server.deliver("Subject: two\n\n").await;
    assert_eq!(new.ok("NOOP").await, ["* 2 EXISTS"]);
    assert_eq!(old.ok("NOOP").await, ["* 2 EXISTS", "* 2 RECENT"]);
    new.ok("SELECT INBOX").await;
    server.deliver("Subject: three\n\n").await;
    assert_eq!(new.ok("NOOP").await, ["* 3 EXISTS"]);
    assert_eq!(new.ok("UID FETCH 3 FLAGS").await, ["* 3 FETCH (UID 3 FLAGS ())"]);
    assert_eq!(new.ok("SEARCH RECENT").await, ["* ESEARCH (TAG \"t9\")"]);
    old.ok("NOOP").await;
    assert_eq!(old.ok("SEARCH ALL").await, ["* SEARCH 1 2 3"]);
}

#[tokio::test]
async fn deleted_messages_are_counted() {
    let server = TestServer::open().await;
    for _ in 0..3 {
        server.put("INBOX", "Subject: x\r\n\r\n").await;
    }
    let mut client = server.ann_in("INBOX").await;
    let count = async |client: &mut crate::client::Client| client.ok("STATUS INBOX (DELETED MESSAGES)").await.remove(0);
    assert_eq!(count(&mut client).await, "* STATUS INBOX (DELETED 0 MESSAGES 3)");
    client.ok("STORE 1:2 +FLAGS (\\Deleted \\Seen)").await;
    assert_eq!(count(&mut client).await, "* STATUS INBOX (DELETED 2 MESSAGES 3)");
    client.ok("STORE 2 -FLAGS (\\Deleted)").await;
    client.ok("COPY 1 Sent").await;
    assert_eq!(count(&mut client).await, "* STATUS INBOX (DELETED 1 MESSAGES 3)");
    client.ok("EXPUNGE").await;
    assert_eq!(count(&mut client).await, "* STATUS INBOX (DELETED 0 MESSAGES 2)");
    let statuses = client.ok("LIST \"\" (INBOX Sent) RETURN (STATUS (DELETED))").await;
    assert_eq!(statuses[2..], ["* STATUS INBOX (DELETED 0)", "* STATUS Sent (DELETED 1)"]);
}

#[tokio::test]
async fn a_name_in_utf8_is_the_same_mailbox_for_every_client() {
    let server = TestServer::open().await;
    let (mut new, mut old) = (server.ann().await, server.ann().await);
    assert!(new.run("CREATE \"Entwürfe & mehr\"").await.end.starts_with("NO [CANNOT]"));
    assert_eq!(new.ok("ENABLE UTF8=ACCEPT").await, ["* ENABLED UTF8=ACCEPT"]);
    new.ok("CREATE \"Entwürfe & mehr\"").await;
    let message = "Subject: Grüße\r\nFrom: Jörg <j@x.org>\r\n\r\ntext\r\n";
    let append = format!("APPEND \"Entwürfe & mehr\" UTF8 (~{{{}+}}\r\n{message})", message.len());
    assert!(new.run(&append).await.end.starts_with("OK [APPENDUID"));
    assert_eq!(
        old.ok("STATUS \"Entw&APw-rfe &- mehr\" (MESSAGES)").await,
        ["* STATUS \"Entw&APw-rfe &- mehr\" (MESSAGES 1)"]
    );
    new.ok("SELECT \"Entwürfe & mehr\"").await;
    assert!(new.ok("FETCH 1 ENVELOPE").await[0].contains("(ENVELOPE (NIL \"Grüße\" ((\"Jörg\" NIL \"j\" \"x.org\"))"));
    assert_eq!(new.ok("SEARCH SUBJECT \"grüne\"").await, ["* SEARCH"]);
    assert_eq!(new.ok("SEARCH SUBJECT \"GRÜSSE\"").await, ["* SEARCH 1"]);
    assert!(new.run("SEARCH CHARSET UTF-8 ALL").await.end.starts_with("BAD"));
}
