//! Reading one message.

use mailapi_model::FolderName;

use super::story::{address, bytes, folder, mailbox_with, newest};
use super::{Fixture, mail};
use crate::MailboxError;

/// Maximum length of a stream's chunks, however long the stream is.
const MAX_CHUNK: usize = 1 << 20;

/// A missing mailbox, folder, message and attachment have different errors.
pub async fn what_is_missing_is_named(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("one", "x")]).await;
    let (inbox, missing, unknown) = (FolderName::inbox(), folder("Missing"), address(fixture, "nobody"));
    let mailboxes = &fixture.backend().mailboxes;
    let uid = newest(fixture, &bob).await.uid;
    for (mailbox, folder, uid, error) in [
        (&unknown, &inbox, uid, MailboxError::NoSuchMailbox),
        (&bob, &missing, uid, MailboxError::NoSuchFolder),
        (&bob, &inbox, uid + 1, MailboxError::NoSuchMessage),
        (&bob, &inbox, u32::MAX, MailboxError::NoSuchMessage),
        (&bob, &inbox, 0, MailboxError::NoSuchMessage),
    ] {
        assert_eq!(mailboxes.read(mailbox, folder, uid).await.err(), Some(error.clone()));
        assert_eq!(mailboxes.open_raw(mailbox, folder, uid).await.err(), Some(error.clone()));
        assert_eq!(mailboxes.open_attachment(mailbox, folder, uid, 0).await.err(), Some(error));
    }
    let attachment = mailboxes.open_attachment(&bob, &inbox, uid, 0).await;
    assert_eq!(attachment.err(), Some(MailboxError::NoSuchAttachment));
}

/// All parts of a message are decoded.
pub async fn a_message_is_read_with_both_bodies(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::with_attachments("plan%20%E2%82%AC.bin", b"\x00\xff")]).await;
    let summary = newest(fixture, &bob).await;
    let message = fixture.backend().mailboxes.read(&bob, &FolderName::inbox(), summary.uid).await.unwrap();
    assert_eq!(message.summary, summary);
    assert_eq!(message.text.as_deref().map(str::trim_end), Some("The café is open."));
    assert_eq!(message.html.as_deref().map(str::trim_end), Some("<p>The <b>café</b> is open.</p>"));
    assert_eq!(message.cc[0].email, "eve@elsewhere.example");
    let note = message.headers.iter().find(|(name, _)| name == "X-Note").expect("the header");
    assert_eq!(note.1, "one\nzwö");
    let shown: Vec<_> = message
        .attachments
        .iter()
        .map(|one| (one.index, one.filename.as_str(), one.content_type.as_str(), one.size, one.content_id.as_deref()))
        .collect();
    let forwarded = "Subject: the plan\r\n\r\nAs we said.".len() as u64;
    let parameters: Vec<_> = message.attachments.iter().map(|one| one.type_parameters.as_str()).collect();
    assert_eq!(parameters, ["", "; charset=koi8-r", ""]);
    assert_eq!(
        shown,
        [
            (0, "attachment-1.png", "image/png", 8, Some("logo@elsewhere.example")),
            (1, "plan €.bin", "application/octet-stream", 2, None),
            (2, "the plan.eml", "message/rfc822", forwarded, None),
        ]
    );
}

/// Reading never sets the `\Seen` flag.
pub async fn reading_leaves_the_flags_alone(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::with_attachments("a.bin", b"a")]).await;
    let inbox = FolderName::inbox();
    let uid = newest(fixture, &bob).await.uid;
    fixture.set_flags(&bob, &inbox, uid, &["\\Flagged"]).await;
    let before = fixture.flags(&bob, &inbox, uid).await;
    let mailboxes = &fixture.backend().mailboxes;
    mailboxes.read(&bob, &inbox, uid).await.unwrap();
    bytes(mailboxes.open_raw(&bob, &inbox, uid).await.unwrap().content).await;
    bytes(mailboxes.open_attachment(&bob, &inbox, uid, 1).await.unwrap().content).await;
    assert!(before.iter().any(|flag| flag == "\\Flagged"));
    assert_eq!(fixture.flags(&bob, &inbox, uid).await, before);
    assert_eq!(mailboxes.folders(&bob).await.unwrap()[0].unread, 1);
}

/// Each attachment has the bytes that were sent, and the announced size.
pub async fn an_attachment_comes_as_it_was_sent(fixture: &dyn Fixture) {
    let content: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let bob = mailbox_with(fixture, &[mail::with_attachments("all.bin", &content)]).await;
    let uid = newest(fixture, &bob).await.uid;
    let (mailboxes, inbox) = (&fixture.backend().mailboxes, FolderName::inbox());
    let listed = mailboxes.read(&bob, &inbox, uid).await.unwrap().attachments;
    for (info, expected) in
        listed.into_iter().zip([&b"\x89PNG\r\n\x1a\n"[..], &content, b"Subject: the plan\r\n\r\nAs we said."])
    {
        let opened = mailboxes.open_attachment(&bob, &inbox, uid, info.index).await.unwrap();
        assert_eq!(opened.info, info);
        let (bytes, _) = bytes(opened.content).await;
        assert_eq!(bytes, expected);
        assert_eq!(bytes.len() as u64, info.size);
    }
    let beyond = mailboxes.open_attachment(&bob, &inbox, uid, 3).await;
    assert_eq!(beyond.err(), Some(MailboxError::NoSuchAttachment));
}

/// A long attachment arrives in chunks, so that it never needs to be in memory as a whole.
pub async fn a_long_attachment_is_streamed(fixture: &dyn Fixture) {
    let content: Vec<u8> =
        (0..3_000_000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let bob = mailbox_with(fixture, &[mail::with_attachments("long.bin", &content)]).await;
    let uid = newest(fixture, &bob).await.uid;
    let (mailboxes, inbox) = (&fixture.backend().mailboxes, FolderName::inbox());
    let opened = mailboxes.open_attachment(&bob, &inbox, uid, 1).await.unwrap();
    assert_eq!(opened.info.size, content.len() as u64);
    let (bytes, longest) = bytes(opened.content).await;
    assert!(bytes == content, "the downloaded bytes differ");
    assert!(longest <= MAX_CHUNK, "a chunk of {longest} bytes");
    // Dropping a stream in the middle must not break later reads.
    drop(mailboxes.open_attachment(&bob, &inbox, uid, 1).await.unwrap());
    assert_eq!(newest(fixture, &bob).await.uid, uid);
}

/// The raw message is the message as sent, after the trace fields of receiving servers.
pub async fn the_raw_message_is_what_was_delivered(fixture: &dyn Fixture) {
    let message = mail::plain("raw", ".leading dot\r\n\r\n naïve \t\r\nend");
    let bob = mailbox_with(fixture, std::slice::from_ref(&message)).await;
    let summary = newest(fixture, &bob).await;
    let opened = fixture.backend().mailboxes.open_raw(&bob, &FolderName::inbox(), summary.uid).await.unwrap();
    assert_eq!(opened.size, summary.size);
    let (bytes, _) = bytes(opened.content).await;
    assert_eq!(bytes.len() as u64, summary.size);
    assert!(bytes.ends_with(&message), "{}", bytes.escape_ascii());
}

/// A message without a header has a body.
pub async fn a_message_without_header_is_readable(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[b"Just text, said the sender.\r\n".to_vec()]).await;
    let uid = newest(fixture, &bob).await.uid;
    let message = fixture.backend().mailboxes.read(&bob, &FolderName::inbox(), uid).await.unwrap();
    assert_eq!(message.text.as_deref().map(str::trim), Some("Just text, said the sender."));
    assert_eq!(message.attachments, []);
}

/// The text inside two hundred nested multiparts is found.
pub async fn nested_beyond_reason_is_readable(fixture: &dyn Fixture) {
    let opened: String =
        (0..199).map(|n| format!("--b{n}\r\nContent-Type: multipart/mixed; boundary=b{}\r\n\r\n", n + 1)).collect();
    let closed: String = (0..200).rev().map(|n| format!("--b{n}--\r\n")).collect();
    let body = format!("{opened}--b199\r\n\r\nat the bottom\r\n{closed}");
    let message = mail::with_header("nested", "Content-Type: multipart/mixed; boundary=b0\r\n", &body);
    let bob = mailbox_with(fixture, &[message]).await;
    let uid = newest(fixture, &bob).await.uid;
    let message = fixture.backend().mailboxes.read(&bob, &FolderName::inbox(), uid).await.unwrap();
    assert_eq!(message.text.as_deref(), Some("at the bottom"));
}
