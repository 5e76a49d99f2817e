//! Quota and purge.

use mailapi_model::{EmailAddress, FolderName, Outcome, Quota};

use super::story::{address, code, end_of_feed, events_of, folder, listed, mailbox, mailbox_with, newest, send_text};
use super::{Fixture, mail};
use crate::MailboxError;

const LIMIT: u64 = 20_480;

async fn quota(fixture: &dyn Fixture, mailbox: &EmailAddress) -> Quota {
    fixture.backend().mailboxes.quota(mailbox).await.expect("a quota")
}

/// A mailbox without room for the message is rejected with 5.2.2, at submission or in the feed. The other
/// mailboxes receive it.
pub async fn a_full_mailbox_refuses_and_the_others_get_the_message(fixture: &dyn Fixture) {
    let (bob, full) = (mailbox(fixture, "bob").await, address(fixture, "full"));
    fixture.put_mailbox(&full, Some(LIMIT)).await;
    let start = end_of_feed(fixture).await;
    let text = "A line of the long message.\r\n".repeat(1000);
    let sent = send_text(fixture, &[&full, &bob], &text).await;
    let refused = sent.answer.expect("the message is accepted for the other recipients").refused;
    let mut reported: Vec<_> = refused.iter().map(|refusal| (refusal.recipient.clone(), code(refusal))).collect();
    let bounced =
        events_of(fixture, &start, sent.id).await.into_iter().filter(|event| event.outcome == Outcome::Bounced);
    reported.extend(bounced.map(|event| (event.recipient, event.dsn.map(|dsn| dsn.to_string()).unwrap_or_default())));
    assert_eq!(reported, [(full.clone(), "5.2.2".to_owned())]);
    assert_eq!(listed(fixture, &full, &FolderName::inbox()).await, []);
    assert_eq!(listed(fixture, &bob, &FolderName::inbox()).await.len(), 1);
    send_text(fixture, &[&full], "A short one fits.").await.answer.expect("the short message is accepted");
    assert_eq!(listed(fixture, &full, &FolderName::inbox()).await.len(), 1);
}

/// The used quota is the sum of all folders.
pub async fn the_quota_counts_all_folders(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("one", "x"), mail::plain("two", "x")]).await;
    fixture.put_mailbox(&bob, Some(LIMIT)).await;
    let kept = folder("Kept");
    fixture.create_folder(&bob, &kept).await;
    let moved = newest(fixture, &bob).await.uid;
    fixture.move_message(&bob, &FolderName::inbox(), moved, &kept).await;
    let folders = fixture.backend().mailboxes.folders(&bob).await.unwrap();
    let used_bytes = folders.iter().map(|folder| folder.size).sum();
    assert!(used_bytes > 0);
    assert_eq!(quota(fixture, &bob).await, Quota { used_bytes, messages: 2, limit_bytes: Some(LIMIT) });
}

/// Purging a mailbox that does not exist fails.
pub async fn purging_an_unknown_mailbox_is_refused(fixture: &dyn Fixture) {
    let purged = fixture.backend().mailboxes.purge(&address(fixture, "nobody")).await;
    assert_eq!(purged, Err(MailboxError::NoSuchMailbox));
}

/// A purge removes all mail from every folder, keeps the folders, and frees the quota.
pub async fn a_purge_removes_the_mail_and_leaves_the_folders(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("one", "needle"), mail::plain("two", "needle")]).await;
    let eve = mailbox(fixture, "eve").await;
    fixture.deliver(&eve, &mail::plain("other", "needle")).await;
    let kept = folder("Kept");
    fixture.create_folder(&bob, &kept).await;
    let uid = newest(fixture, &bob).await.uid;
    fixture.move_message(&bob, &FolderName::inbox(), uid, &kept).await;
    let before = fixture.backend().mailboxes.folders(&bob).await.unwrap();
    let purged = fixture.backend().mailboxes.purge(&bob).await.unwrap();
    fixture.settle().await;
    assert_eq!((purged.messages, purged.folders), (2, before.len() as u64));
    let after = fixture.backend().mailboxes.folders(&bob).await.unwrap();
    assert!(after.iter().all(|folder| (folder.messages, folder.unread, folder.size) == (0, 0, 0)));
    let names = |folders: &[crate::FolderInfo]| folders.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
    let left = quota(fixture, &bob).await;
    assert_eq!((left.used_bytes, left.messages), (0, 0));
    assert_eq!(listed(fixture, &eve, &FolderName::inbox()).await.len(), 1);
    assert_eq!(fixture.backend().mailboxes.purge(&bob).await.unwrap().messages, 0);
}

/// A UID is never reused (RFC 3501 section 2.3.1.1).
pub async fn numbers_are_not_used_again_after_a_purge(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("old", "x")]).await;
    let old = newest(fixture, &bob).await.uid;
    fixture.backend().mailboxes.purge(&bob).await.unwrap();
    fixture.deliver(&bob, &mail::plain("new", "x")).await;
    fixture.settle().await;
    assert!(newest(fixture, &bob).await.uid > old);
    let gone = fixture.backend().mailboxes.read(&bob, &FolderName::inbox(), old).await;
    assert_eq!(gone, Err(MailboxError::NoSuchMessage));
}
