//! Folders and message lists.

use mailapi_model::{FolderName, Page};

use super::story::{address, folder, listed, mailbox, mailbox_with, newest};
use super::{Fixture, mail};
use crate::{Correspondent, MailboxError};

/// A missing mailbox and a missing folder have different errors.
pub async fn what_is_missing_is_named(fixture: &dyn Fixture) {
    let (bob, unknown) = (mailbox(fixture, "bob").await, address(fixture, "nobody"));
    let mailboxes = &fixture.backend().mailboxes;
    assert_eq!(mailboxes.folders(&unknown).await, Err(MailboxError::NoSuchMailbox));
    let listed = mailboxes.list(&unknown, &FolderName::inbox(), Page::default()).await;
    assert_eq!(listed, Err(MailboxError::NoSuchMailbox));
    assert_eq!(mailboxes.list(&bob, &folder("Missing"), Page::default()).await, Err(MailboxError::NoSuchFolder));
    assert_eq!(mailboxes.quota(&unknown).await, Err(MailboxError::NoSuchMailbox));
}

/// A new mailbox can be listed at once.
pub async fn an_empty_mailbox_has_an_inbox(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let folders = fixture.backend().mailboxes.folders(&bob).await.unwrap();
    let inbox = &folders[0];
    assert_eq!((inbox.name.as_str(), inbox.messages, inbox.unread, inbox.size), ("INBOX", 0, 0, 0));
    assert_eq!(listed(fixture, &bob, &FolderName::inbox()).await, []);
}

/// A list shows the decoded header fields.
pub async fn a_summary_says_what_the_message_says(fixture: &dyn Fixture) {
    let subject = "=?utf-8?q?Caf=C3=A9?=\r\n plan";
    let bob = mailbox_with(fixture, &[mail::plain(subject, "x"), mail::with_attachments("a.bin", b"a")]).await;
    let messages = listed(fixture, &bob, &FolderName::inbox()).await;
    let [with_attachments, plain] = &messages[..] else { panic!("{} messages", messages.len()) };
    assert_eq!(plain.subject, "Café plan");
    assert_eq!(plain.message_id, "<utf8qCafC3A9plan@elsewhere.example>");
    let person = |name: &str, email: &str| Correspondent { name: name.to_owned(), email: email.to_owned() };
    assert_eq!(plain.from, person("Ann Lee", "ann@elsewhere.example"));
    assert_eq!(plain.to, [person("Bob", "bob@elsewhere.example")]);
    assert_eq!(plain.date.to_string(), "2026-11-20T10:15:30.000Z");
    assert!(!plain.flags.iter().any(|flag| flag == "\\Seen"));
    assert!(!plain.has_attachments && with_attachments.has_attachments);
}

/// Pages neither overlap nor leave gaps, and each contains the total.
pub async fn the_newest_comes_first_and_pages_do_not_overlap(fixture: &dyn Fixture) {
    let messages: Vec<_> = (1..=5).map(|number| mail::plain(&format!("number {number}"), "x")).collect();
    let bob = mailbox_with(fixture, &messages).await;
    let mut uids = Vec::new();
    for (offset, subjects) in
        [(0, &["number 5", "number 4"][..]), (2, &["number 3", "number 2"]), (4, &["number 1"]), (5, &[]), (900, &[])]
    {
        let page = Page::new(2, offset);
        let listed = fixture.backend().mailboxes.list(&bob, &FolderName::inbox(), page).await.unwrap();
        assert_eq!(listed.items.iter().map(|item| item.subject.as_str()).collect::<Vec<_>>(), subjects);
        assert_eq!(listed.total, 5);
        uids.extend(listed.items.iter().map(|item| item.uid));
    }
    assert!(uids.is_sorted_by(|a, b| a > b), "{uids:?}");
}

/// Each folder counts its messages, its unread messages and its bytes.
pub async fn folders_count_what_they_hold(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("one", "x"), mail::plain("two", "x")]).await;
    let nested = folder("Projekte/Köln");
    fixture.create_folder(&bob, &folder("Projekte")).await;
    fixture.create_folder(&bob, &nested).await;
    let seen = newest(fixture, &bob).await;
    fixture.set_flags(&bob, &FolderName::inbox(), seen.uid, &["\\Seen", "\\Flagged"]).await;
    let folders = fixture.backend().mailboxes.folders(&bob).await.unwrap();
    let messages = listed(fixture, &bob, &FolderName::inbox()).await;
    assert_eq!(folders[0].name, FolderName::inbox());
    assert!(folders[1..].is_sorted_by(|a, b| a.name < b.name));
    assert_eq!((folders[0].messages, folders[0].unread), (2, 1));
    assert_eq!(folders[0].size, messages.iter().map(|message| message.size).sum::<u64>());
    let empty = folders.iter().find(|one| one.name == nested).expect("the new folder");
    assert_eq!((empty.messages, empty.unread, empty.size), (0, 0, 0));
    let flags = &messages[0].flags;
    assert!(["\\Seen", "\\Flagged"].iter().all(|flag| flags.iter().any(|one| one == flag)), "{flags:?}");
}

/// A message that a mail client moved is found in its new folder.
pub async fn a_moved_message_is_in_its_new_folder_only(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("stays", "x"), mail::plain("moves", "x")]).await;
    let target = folder("Kept");
    fixture.create_folder(&bob, &target).await;
    let moved = newest(fixture, &bob).await;
    fixture.move_message(&bob, &FolderName::inbox(), moved.uid, &target).await;
    let subjects = |messages: Vec<crate::MessageSummary>| messages.into_iter().map(|m| m.subject).collect::<Vec<_>>();
    assert_eq!(subjects(listed(fixture, &bob, &target).await), ["moves"]);
    assert_eq!(subjects(listed(fixture, &bob, &FolderName::inbox()).await), ["stays"]);
    let gone = fixture.backend().mailboxes.read(&bob, &FolderName::inbox(), moved.uid).await;
    assert_eq!(gone, Err(MailboxError::NoSuchMessage));
}
