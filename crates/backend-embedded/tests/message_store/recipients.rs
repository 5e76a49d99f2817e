use std::time::Duration;

use mailapi_backend::{Mailboxes, Provisioning};
use mailapi_backend_embedded::accept::Relaying;
use mailapi_imap::Flags;
use mailapi_model::{Alias, EmailAddress, FolderName, Page, RuleSet, Timestamp};

use super::test_store::{TestStore, address, ann, bob, bytes, folder, mail};

/// Opens a server with the alias sales for bob, and with one for ann and another server.
async fn with_aliases() -> TestStore {
    let test_store = TestStore::new().await;
    for (name, members) in
        [("sales@example.org", vec![bob()]), ("team@example.org", vec![ann(), address("x@far.example")])]
    {
        let alias = Alias {
            address: address(name),
            members,
            senders: Vec::new(),
            active: true,
            created_at: Timestamp::from_seconds(0),
        };
        test_store.message_store.put_alias(&alias).await.unwrap();
    }
    test_store
}

/// Returns the messages of a folder as they are stored, oldest first.
async fn raw(test_store: &TestStore, mailbox: &EmailAddress, name: &FolderName) -> Vec<String> {
    let listed = test_store.message_store.list(mailbox, name, Page::new(100, 0)).await.unwrap();
    let mut all = Vec::new();
    for summary in listed.items.iter().rev() {
        let opened = test_store.message_store.open_raw(mailbox, name, summary.uid).await.unwrap();
        let message = bytes(opened.content).await.unwrap();
        assert_eq!((opened.size, summary.size), (message.len() as u64, message.len() as u64));
        all.push(String::from_utf8(message).unwrap());
    }
    all
}

/// Returns the recipients of the messages in a folder, oldest first.
async fn recipients(test_store: &TestStore, mailbox: &EmailAddress, name: &FolderName) -> Vec<String> {
    let listed = test_store.message_store.list(mailbox, name, Page::new(100, 0)).await.unwrap();
    for summary in &listed.items {
        let read = test_store.message_store.read(mailbox, name, summary.uid).await.unwrap();
        assert_eq!(read.summary.recipient, summary.recipient);
    }
    listed.items.into_iter().rev().map(|summary| summary.recipient.unwrap_or_else(|| "-".to_owned())).collect()
}

/// Returns the fields Delivered-To of a message.
fn fields(message: &str) -> Vec<&str> {
    message.lines().filter_map(|line| line.strip_prefix("Delivered-To: ")).collect()
}

#[tokio::test]
async fn a_sender_cannot_name_the_recipient_of_a_copy() {
    let test_store = with_aliases().await;
    let forged =
        "Delivered-To: forged@example.org\r\ndelivered-to:\r\n <bob+secret@EXAMPLE.org>\r\nDelivered-To: x\r\n";
    let message =
        format!("{forged}Delivered-To: me@elsewhere.example\r\n{}", mail("Hi", "Delivered-To: forged@example.org"));
    for relaying in [Relaying::Denied, Relaying::Allowed] {
        let mut incoming = test_store.incoming(&["sales@example.org"], &message);
        incoming.relaying = relaying;
        test_store.message_store.accept(incoming).await.unwrap();
    }
    for stored in raw(&test_store, &bob(), &FolderName::inbox()).await {
        let (header, body) = stored.split_once("\r\n\r\n").unwrap();
        assert_eq!(fields(header), ["sales@example.org", "me@elsewhere.example"], "{header}");
        assert_eq!(body, "Delivered-To: forged@example.org\r\n");
        assert!(!header.contains("secret"), "{header}");
    }
    let read = test_store.message_store.read(&bob(), &FolderName::inbox(), 1).await.unwrap();
    assert_eq!(
        (read.summary.subject.as_str(), read.text.as_deref().map(str::trim_end)),
        ("Hi", Some("Delivered-To: forged@example.org"))
    );
}

#[tokio::test]
async fn a_copy_for_another_server_keeps_the_fields_that_end_loops() {
    let test_store = with_aliases().await;
    let message = format!("Delivered-To: list@example.org\r\n{}", mail("Hi", "."));
    test_store.deliver(&["team@example.org"], &message).await;
    let lease = Duration::from_secs(60);
    let claimed = test_store.message_store.claim_due(10, lease).await.unwrap().remove(0);
    let sent =
        test_store.message_store.load_range(claimed.layout.content, claimed.layout.as_submitted()).await.unwrap();
    assert_eq!(sent, message.as_bytes());
    let inbox = raw(&test_store, &ann(), &FolderName::inbox()).await;
    assert_eq!(fields(&inbox[0]), ["team@example.org"]);
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 2);
}

#[tokio::test]
async fn each_copy_names_the_address_of_its_envelope() {
    let test_store = with_aliases().await;
    let all = ["bob@example.org", "Bob+Key@example.org", "sales@example.org", "ann@example.org"];
    test_store.deliver(&all[..], &mail("Hi", ".")).await;
    test_store.deliver(&["sales@example.org"], &mail("Hi", ".")).await;
    let inbox = FolderName::inbox();
    assert_eq!(recipients(&test_store, &ann(), &inbox).await, ["ann@example.org"]);
    let expected = ["bob@example.org", "bob+key@example.org", "sales@example.org"];
    assert_eq!(recipients(&test_store, &bob(), &inbox).await, expected);
    let stored = raw(&test_store, &bob(), &inbox).await;
    assert_eq!(stored.iter().map(|message| fields(message)[0]).collect::<Vec<_>>(), expected);
    for message in &stored {
        assert!(message.starts_with("Return-Path: <eve@elsewhere.example>\r\nDelivered-To: "), "{message}");
        assert_eq!(fields(message).len(), 1, "no other recipient is disclosed");
    }
    // The bytes are stored once, and once more for the second copy in one mailbox.
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 3);
}

#[tokio::test]
async fn copies_moves_and_appended_messages_keep_the_recipient() {
    let test_store = with_aliases().await;
    test_store.deliver(&["sales@example.org"], &mail("Hi", ".")).await;
    let (inbox, sent) = (FolderName::inbox(), folder("Sent"));
    let id = test_store.message_store.folder(&bob(), &inbox).await.unwrap().id;
    test_store.message_store.copy(id, vec![1], &sent).await.unwrap();
    test_store.message_store.move_messages(id, vec![1], &sent).await.unwrap();
    let stored = raw(&test_store, &bob(), &sent).await;
    // What a mail program or an import brings back has its own field.
    test_store.message_store.append(&bob(), &sent, &Flags::new(), None, stored[0].clone()).await.unwrap();
    test_store.message_store.append(&bob(), &sent, &Flags::new(), None, mail("Draft", ".")).await.unwrap();
    assert_eq!(raw(&test_store, &bob(), &sent).await[..3], [0; 3].map(|_| stored[0].clone()));
    let sales = "sales@example.org";
    assert_eq!(recipients(&test_store, &bob(), &sent).await, [sales, sales, sales, "-"]);
}

#[tokio::test]
async fn rules_decide_by_the_recipient() {
    let test_store = with_aliases().await;
    let rules = "rule\ton\ta\nif\trecipient\tis\tSales@example.org\ndo\tfolder\tSales\n\
                 rule\ton\tb\nif\trecipient\tcontains\t+lists\ndo\tfolder\tLists\n\
                 rule\ton\tc\nif\theader\tDelivered-To\tcontains\t+key\ndo\tflag\t\\\\Flagged\n";
    test_store.message_store.put_rules(&bob(), &RuleSet::from_text(rules).unwrap()).await.unwrap();
    let forged = format!("Delivered-To: bob+key@example.org\r\nTo: sales@example.org\r\n{}", mail("Hi", "."));
    let all = ["bob@example.org", "bob+Lists@example.org", "bob+key@example.org"];
    test_store.deliver(&all, &forged).await;
    test_store.deliver(&["sales@example.org"], &forged).await;
    for (name, expected) in [
        ("INBOX", &["bob@example.org", "bob+key@example.org"][..]),
        ("Lists", &["bob+lists@example.org"]),
        ("Sales", &["sales@example.org"]),
    ] {
        assert_eq!(recipients(&test_store, &bob(), &folder(name)).await, expected, "{name}");
    }
    assert_eq!(test_store.number("SELECT count(*) FROM drop_entries WHERE flags & 4"), 1);
}
