use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use mailapi_backend::{MailboxError, Mailboxes};
use mailapi_backend_embedded::MessageStoreSettings;
use mailapi_backend_embedded::message_store::FlagChange;
use mailapi_imap::Flags;
use mailapi_model::Page;

use super::test_store::{TestStore, address, ann, bytes, folder, mail};

#[tokio::test]
async fn a_missing_mailbox_folder_and_message_are_different_errors() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], &mail("Hi", ".")).await;
    let (message_store, inbox) = (&test_store.message_store, folder("INBOX"));
    let read =
        async |mailbox: &str, name: &str, uid| message_store.read(&address(mailbox), &folder(name), uid).await.err();
    assert_eq!(read("nobody@example.org", "INBOX", 1).await, Some(MailboxError::NoSuchMailbox));
    assert_eq!(read("ann@example.org", "Nowhere", 1).await, Some(MailboxError::NoSuchFolder));
    assert_eq!(read("ann@example.org", "INBOX", 2).await, Some(MailboxError::NoSuchMessage));
    let missing = message_store.open_attachment(&ann(), &inbox, 1, 0).await.err();
    assert_eq!(missing, Some(MailboxError::NoSuchAttachment));
    assert_eq!(message_store.open_raw(&ann(), &inbox, 9).await.err(), Some(MailboxError::NoSuchMessage));
}

#[tokio::test]
async fn pages_come_newest_first_and_do_not_overlap() {
    let test_store = TestStore::new().await;
    for n in 1..=5 {
        test_store.deliver(&["ann@example.org"], &mail(&format!("number {n}"), ".")).await;
    }
    let mut seen = Vec::new();
    for offset in [0, 2, 4, 6] {
        let page = test_store.message_store.list(&ann(), &folder("INBOX"), Page::new(2, offset)).await.unwrap();
        assert_eq!(page.total, 5);
        seen.extend(page.items.into_iter().map(|summary| summary.subject));
    }
    assert_eq!(seen, ["number 5", "number 4", "number 3", "number 2", "number 1"]);
}

/// Creates a store with tiny chunks, so that every read crosses their borders.
async fn in_small_pieces() -> TestStore {
    TestStore::with(MessageStoreSettings { chunk_bytes: 7, ..MessageStoreSettings::default() }).await
}

const WITH_ATTACHMENT: &str = "From: Eve <eve@elsewhere.example>\r\nTo: Ann <ann@example.org>, bob@example.org\r\n\
    Cc: carl@elsewhere.example\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nMessage-ID: <m1@elsewhere.example>\r\n\
    Date: Fri, 20 Nov 2026 11:00:00 +0100\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Transfer-Encoding: quoted-printable\r\n\r\nSch=C3=B6n.\r\n--b\r\n\
    Content-Type: application/octet-stream; name=data.bin\r\nContent-Disposition: attachment\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nAAECAwQFBgcICQoLDA0ODw==\r\n--b--\r\n";

#[tokio::test]
async fn reading_and_streaming_a_message_changes_no_flag() {
    let test_store = in_small_pieces().await;
    test_store.deliver(&["ann@example.org"], WITH_ATTACHMENT).await;
    let inbox = folder("INBOX");
    let full = test_store.message_store.read(&ann(), &inbox, 1).await.unwrap();
    assert_eq!(full.summary.subject, "Grüße");
    assert_eq!(full.summary.message_id, "<m1@elsewhere.example>");
    assert_eq!(full.summary.date.to_string(), "2026-11-20T10:00:00.000Z");
    assert_eq!(full.summary.to[0].name, "Ann");
    assert_eq!(full.cc[0].email, "carl@elsewhere.example");
    assert_eq!(full.headers[0], ("Return-Path".to_owned(), "<eve@elsewhere.example>".to_owned()));
    assert_eq!(full.text.as_deref().map(str::trim_end), Some("Schön."));
    assert_eq!(full.html, None);
    assert_eq!((full.attachments[0].filename.as_str(), full.attachments[0].size), ("data.bin", 16));

    let opened = test_store.message_store.open_attachment(&ann(), &inbox, 1, 0).await.unwrap();
    assert_eq!(opened.info, full.attachments[0]);
    assert_eq!(bytes(opened.content).await.unwrap(), (0..16).collect::<Vec<u8>>());
    let raw = test_store.message_store.open_raw(&ann(), &inbox, 1).await.unwrap();
    assert!(bytes(raw.content).await.unwrap().ends_with(WITH_ATTACHMENT.as_bytes()));

    let listed = test_store.message_store.list(&ann(), &inbox, Page::default()).await.unwrap();
    assert_eq!(listed.items[0], full.summary);
    assert!(listed.items[0].flags.is_empty() && listed.items[0].has_attachments);
}

/// Returns a message with an attachment of `length` bytes, and these bytes.
fn with_file(length: usize) -> (String, Vec<u8>) {
    let file: Vec<u8> = (0..length).map(|n| (n % 251).to_le_bytes()[0]).collect();
    let lines: Vec<String> =
        STANDARD.encode(&file).as_bytes().chunks(76).map(|l| String::from_utf8_lossy(l).into()).collect();
    let head = WITH_ATTACHMENT.split_once("AAECAwQFBgcICQoLDA0ODw==").unwrap().0;
    (format!("{head}{}\r\n--b--\r\n", lines.join("\r\n")), file)
}

#[tokio::test]
async fn attachments_are_equal_in_rows_of_any_length() {
    for length in [0, 1, 1_000, 20_000, 100_000] {
        for (chunk_bytes, inline_bytes) in [(128 * 1024, 256 * 1024), (128 * 1024, 0), (20_000, 30_000), (500, 0)] {
            let settings = MessageStoreSettings { chunk_bytes, inline_bytes, ..MessageStoreSettings::default() };
            let test_store = TestStore::with(settings).await;
            let (message, file) = with_file(length);
            test_store.deliver(&["ann@example.org"], &message).await;
            let full = test_store.message_store.read(&ann(), &folder("INBOX"), 1).await.unwrap();
            assert_eq!(full.text.as_deref().map(str::trim_end), Some("Schön."));
            let opened = test_store.message_store.open_attachment(&ann(), &folder("INBOX"), 1, 0).await.unwrap();
            assert_eq!(opened.info.size, length as u64);
            assert_eq!(bytes(opened.content).await.unwrap(), file, "{length} in {chunk_bytes}");
        }
    }
}

#[tokio::test]
async fn an_attachment_removed_while_read_ends_with_an_error() {
    let settings = MessageStoreSettings { chunk_bytes: 20_000, inline_bytes: 0, ..MessageStoreSettings::default() };
    let test_store = TestStore::with(settings).await;
    test_store.deliver(&["ann@example.org"], &with_file(100_000).0).await;
    let opened = test_store.message_store.open_attachment(&ann(), &folder("INBOX"), 1, 0).await.unwrap();
    test_store.message_store.purge(&ann()).await.unwrap();
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(bytes(opened.content).await, Err(MailboxError::NoSuchMessage));
}

#[tokio::test]
async fn a_message_removed_while_read_ends_with_an_error() {
    let test_store = in_small_pieces().await;
    test_store.deliver(&["ann@example.org"], &mail("Hi", "Hello.")).await;
    let inbox = test_store.message_store.folder(&ann(), &folder("INBOX")).await.unwrap().id;
    let raw = test_store.message_store.open_raw(&ann(), &folder("INBOX"), 1).await.unwrap();
    let deleted = Flags::from_words(["\\Deleted"]);
    test_store.message_store.store_flags(inbox, vec![1], FlagChange::Set, deleted).await.unwrap();
    test_store.message_store.expunge(inbox, None).await.unwrap();
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(bytes(raw.content).await, Err(MailboxError::NoSuchMessage));
}

#[tokio::test]
async fn a_header_that_is_too_long_is_read_up_to_its_limit() {
    let limits = mailapi_backend::mime::Limits::default();
    let test_store = TestStore::new().await;
    let most = limits.max_header_bytes;
    let hostile = format!("Subject: hostile\r\nX-Long: {}\r\n\r\nhello\r\n", "x".repeat(most + 1_000));
    let fields: String = (0..limits.max_fields + 5).map(|number| format!("{number}: x\r\n")).collect();
    for message in [hostile, format!("Subject: hostile\r\n{fields}\r\nhello\r\n")] {
        test_store.deliver(&["ann@example.org"], &message).await;
    }
    let long = test_store.message_store.read(&ann(), &folder("INBOX"), 1).await.unwrap();
    assert_eq!((long.summary.subject.as_str(), long.text.as_deref()), ("hostile", Some("hello\r\n")));
    assert!((most - 100..most).contains(&long.headers.last().unwrap().1.len()));
    let many = test_store.message_store.read(&ann(), &folder("INBOX"), 2).await.unwrap();
    assert_eq!((many.headers.len(), many.text.as_deref()), (limits.max_fields, Some("hello\r\n")));
}

#[tokio::test]
async fn every_range_of_every_length_is_read_right() {
    for length in [0, 1, 6, 7, 8, 14, 15] {
        let test_store = in_small_pieces().await;
        let message: String = ('a'..='z').take(length).collect();
        let bytes = bytes::Bytes::from(message.clone());
        test_store.message_store.append(&ann(), &folder("Sent"), &Flags::new(), None, bytes).await.unwrap();
        let sent = test_store.message_store.folder(&ann(), &folder("Sent")).await.unwrap().id;
        let meta = test_store.message_store.fetch_meta(sent, vec![1]).await.unwrap().remove(0);
        assert_eq!(test_store.message_store.load(meta.content).await.unwrap(), message.as_bytes());
        for start in 0..=length {
            for end in start..=length + 2 {
                let part = test_store.message_store.load_range(meta.content, start as u64..end as u64).await.unwrap();
                assert_eq!(part, message.as_bytes()[start..end.min(length)]);
            }
        }
    }
}

#[tokio::test]
async fn a_purge_empties_every_folder_and_leaves_them_there() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org", "bob@example.org"], &mail("Hi", ".")).await;
    let bytes = bytes::Bytes::from(mail("Draft", "."));
    test_store.message_store.append(&ann(), &folder("Drafts"), &Flags::new(), None, bytes).await.unwrap();
    let purged = test_store.message_store.purge(&ann()).await.unwrap();
    assert_eq!((purged.folders, purged.messages), (6, 2));
    let quota = test_store.message_store.quota(&ann()).await.unwrap();
    assert_eq!((quota.used_bytes, quota.messages), (0, 0));
    let folders = test_store.message_store.folders(&ann()).await.unwrap();
    assert!(folders.len() == 6 && folders.iter().all(|f| (f.messages, f.unread, f.size) == (0, 0, 0)));
    assert_eq!(test_store.message_store.quota(&address("bob@example.org")).await.unwrap().messages, 1);
    test_store.message_store.maintain_until_done().await.unwrap();
    assert_eq!(test_store.number("SELECT count(*) FROM drop_messages"), 1);
}

#[tokio::test]
async fn a_digest_that_another_version_wrote_is_made_again() {
    let test_store = TestStore::new().await;
    test_store.deliver(&["ann@example.org"], WITH_ATTACHMENT).await;
    let before = test_store.message_store.read(&ann(), &folder("INBOX"), 1).await.unwrap();
    test_store.database().execute_batch("UPDATE drop_messages SET digest = x'00'").unwrap();
    assert_eq!(test_store.message_store.read(&ann(), &folder("INBOX"), 1).await.unwrap(), before);
}
