//! One mailbox, accessed by IMAP and by the API.

use mailapi_backend::Mailboxes;
use mailapi_imap::SystemFlag;
use mailapi_model::{FolderName, Page};

use crate::test_server::{TestServer, ann};

fn inbox() -> FolderName {
    FolderName::inbox()
}

#[tokio::test]
async fn imap_and_the_api_share_uids_and_flags_and_reading_keeps_seen() {
    let server = TestServer::open().await;
    server.deliver("From: Eve <eve@elsewhere.example>\nSubject: Hello\n\ntext\n").await;
    let mut client = server.ann_in("INBOX").await;
    let api = server.message_store.list(&ann(), &inbox(), Page::new(50, 0)).await.unwrap().items.remove(0);
    let read = server.message_store.read(&ann(), &inbox(), api.uid).await.unwrap();
    assert_eq!(read.text.as_deref(), Some("text\r\n"));
    let fetched = client.ok("FETCH 1 (UID FLAGS RFC822.SIZE)").await;
    assert_eq!(fetched, [format!("* 1 FETCH (UID {} FLAGS (\\Recent) RFC822.SIZE {})", api.uid, api.size)]);
    client.ok("FETCH 1 BODY.PEEK[]").await;
    assert!(server.message_store.list(&ann(), &inbox(), Page::new(50, 0)).await.unwrap().items[0].flags.is_empty());
    // Reading by IMAP without PEEK sets the flag.
    let fetched = client.ok("FETCH 1 BODY[TEXT]").await;
    assert!(fetched[0].ends_with(" FLAGS (\\Seen \\Recent))"), "{fetched:?}");
    let api = server.message_store.list(&ann(), &inbox(), Page::new(50, 0)).await.unwrap().items.remove(0);
    assert_eq!(api.flags, [SystemFlag::Seen.as_str()]);
}

#[tokio::test]
async fn examine_leaves_seen_alone() {
    let server = TestServer::open().await;
    server.deliver("Subject: Hello\n\ntext\n").await;
    let mut client = server.ann().await;
    client.ok("EXAMINE INBOX").await;
    client.ok("FETCH 1 BODY[]").await;
    assert!(server.message_store.list(&ann(), &inbox(), Page::new(50, 0)).await.unwrap().items[0].flags.is_empty());
}

#[tokio::test]
async fn an_appended_message_is_read_by_the_api() {
    let server = TestServer::open().await;
    let mut client = server.ann().await;
    client.ok("CREATE Work").await;
    let message = "From: Ann <ann@example.org>\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\n\r\nbody\r\n";
    let command =
        format!("APPEND Work (\\Flagged todo) \" 1-Feb-2024 10:00:00 +0200\" {{{}+}}\r\n{message}", message.len());
    let end = client.run(&command).await.end;
    let uid: u32 = end.split(['[', ']', ' ']).nth(4).unwrap().parse().unwrap();
    let read = server.message_store.read(&ann(), &"Work".parse().unwrap(), uid).await.unwrap();
    assert_eq!((read.summary.subject.as_str(), read.text.as_deref()), ("café", Some("body\r\n")));
    assert_eq!(read.summary.flags, ["\\Flagged", "todo"]);
    assert_eq!(read.summary.date.to_string(), "2024-02-01T08:00:00.000Z");
    client.ok("SELECT Work").await;
    let fetched = client.ok("FETCH 1 INTERNALDATE").await;
    assert_eq!(fetched, ["* 1 FETCH (INTERNALDATE \" 1-Feb-2024 08:00:00 +0000\")"]);
}

#[tokio::test]
async fn folders_have_the_same_figures() {
    let server = TestServer::open().await;
    let mut client = server.ann().await;
    client.append("Sent", "\\Seen", "Subject: a\n\n").await;
    client.append("Sent", "", "Subject: b\n\n").await;
    let sent: FolderName = "Sent".parse().unwrap();
    let info =
        server.message_store.folders(&ann()).await.unwrap().into_iter().find(|folder| folder.name == sent).unwrap();
    let expected = format!("MESSAGES {} UNSEEN {} SIZE {}", info.messages, info.unread, info.size);
    assert_eq!((info.messages, info.unread), (2, 1));
    assert_eq!(client.ok("STATUS Sent (MESSAGES UNSEEN SIZE)").await, [format!("* STATUS Sent ({expected})")]);
}
