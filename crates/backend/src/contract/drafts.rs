//! Drafts.

use mailapi_model::{EmailAddress, FolderName};

use super::story::{address, bytes, listed, mailbox, mailbox_with, newest};
use super::{Fixture, mail};
use crate::{MailboxError, NewDraft, SavedDraft};

const LIMIT: u64 = 20_480;

fn draft(subject: &str, body: &str, replaces: Option<u32>) -> NewDraft {
    let message = mail::plain(subject, body).into();
    NewDraft { message, message_id: format!("<{subject}@elsewhere.example>"), replaces }
}

async fn save(fixture: &dyn Fixture, mailbox: &EmailAddress, draft: NewDraft) -> SavedDraft {
    fixture.backend().mailboxes.save_draft(mailbox, draft).await.expect("the draft is saved")
}

/// Returns the UIDs of the folder for drafts, newest first.
async fn uids(fixture: &dyn Fixture, mailbox: &EmailAddress, folder: &FolderName) -> Vec<u32> {
    listed(fixture, mailbox, folder).await.iter().map(|message| message.uid).collect()
}

/// A missing mailbox and a missing draft have different errors.
pub async fn what_is_missing_is_named(fixture: &dyn Fixture) {
    let (bob, unknown) = (mailbox(fixture, "bob").await, address(fixture, "nobody"));
    let mailboxes = &fixture.backend().mailboxes;
    assert_eq!(mailboxes.drafts_folder(&unknown).await, Err(MailboxError::NoSuchMailbox));
    assert_eq!(mailboxes.save_draft(&unknown, draft("one", "x", None)).await, Err(MailboxError::NoSuchMailbox));
    assert_eq!(mailboxes.delete_draft(&unknown, 1).await, Err(MailboxError::NoSuchMailbox));
    assert_eq!(mailboxes.delete_draft(&bob, 1).await, Err(MailboxError::NoSuchMessage));
    let saved = save(fixture, &bob, draft("one", "x", None)).await;
    for uid in [0, saved.uid + 1, u32::MAX] {
        assert_eq!(mailboxes.delete_draft(&bob, uid).await, Err(MailboxError::NoSuchMessage), "{uid}");
    }
}

/// A draft is a read message with `\Draft`, in the folder for drafts, with the bytes that were saved.
pub async fn a_draft_is_stored_as_it_is(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let mailboxes = &fixture.backend().mailboxes;
    for (subject, lines) in [("short", 1), ("long", 60_000)] {
        let new = draft(subject, &"A line of the text, which is not short.\r\n".repeat(lines), None);
        let expected = new.message.to_bytes().expect("the bytes of the draft");
        let saved = save(fixture, &bob, new).await;
        assert_eq!(mailboxes.drafts_folder(&bob).await, Ok(Some(saved.folder.clone())));
        let mut flags = fixture.flags(&bob, &saved.folder, saved.uid).await;
        flags.sort();
        assert_eq!(flags, ["\\Draft", "\\Seen"]);
        let newest = &listed(fixture, &bob, &saved.folder).await[0];
        assert_eq!((newest.uid, newest.subject.as_str()), (saved.uid, subject));
        let opened = mailboxes.open_raw(&bob, &saved.folder, saved.uid).await.expect("the draft");
        assert!(bytes(opened.content).await.0 == expected, "the stored bytes differ");
    }
}

/// Saving replaces only the draft that it names. It also succeeds if that draft no longer exists.
pub async fn a_draft_replaces_the_one_before(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let other = save(fixture, &bob, draft("other", "x", None)).await;
    let first = save(fixture, &bob, draft("first", "x", None)).await;
    let second = save(fixture, &bob, draft("second", "x", Some(first.uid))).await;
    assert!(second.uid > first.uid);
    assert_eq!(uids(fixture, &bob, &second.folder).await, [second.uid, other.uid]);
    let third = save(fixture, &bob, draft("third", "x", Some(first.uid))).await;
    assert_eq!(uids(fixture, &bob, &third.folder).await, [third.uid, second.uid, other.uid]);
}

/// A deleted draft is gone, and the others stay.
pub async fn a_deleted_draft_is_gone(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    let one = save(fixture, &bob, draft("one", "x", None)).await;
    let two = save(fixture, &bob, draft("two", "x", None)).await;
    let mailboxes = &fixture.backend().mailboxes;
    assert_eq!(mailboxes.delete_draft(&bob, one.uid).await, Ok(()));
    assert_eq!(mailboxes.delete_draft(&bob, one.uid).await, Err(MailboxError::NoSuchMessage));
    assert_eq!(uids(fixture, &bob, &two.folder).await, [two.uid]);
    assert_eq!(mailboxes.quota(&bob).await.expect("a quota").messages, 1);
}

/// A message without `\Draft` is neither replaced nor deleted.
pub async fn a_message_that_is_no_draft_stays(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("kept", "x"), mail::plain("filed", "x")]).await;
    let inbox = newest(fixture, &bob).await.uid;
    let folder = save(fixture, &bob, draft("one", "x", None)).await.folder;
    fixture.move_message(&bob, &FolderName::inbox(), inbox, &folder).await;
    let filed = listed(fixture, &bob, &folder).await[0].uid;
    save(fixture, &bob, draft("two", "x", Some(filed))).await;
    let deleted = fixture.backend().mailboxes.delete_draft(&bob, filed).await;
    assert_eq!(deleted, Err(MailboxError::NoSuchMessage));
    assert!(uids(fixture, &bob, &folder).await.contains(&filed));
    assert_eq!(listed(fixture, &bob, &FolderName::inbox()).await.len(), 1);
}

/// A draft that does not fit is refused, and the earlier version stays.
pub async fn a_full_mailbox_keeps_the_draft_before(fixture: &dyn Fixture) {
    let full = address(fixture, "full");
    fixture.put_mailbox(&full, Some(LIMIT)).await;
    let first = save(fixture, &full, draft("first", "x", None)).await;
    let long = draft("long", &"A line of the long message.\r\n".repeat(1000), Some(first.uid));
    assert_eq!(fixture.backend().mailboxes.save_draft(&full, long).await, Err(MailboxError::Full));
    assert_eq!(uids(fixture, &full, &first.folder).await, [first.uid]);
    let second = save(fixture, &full, draft("second", "x", Some(first.uid))).await;
    assert_eq!(uids(fixture, &full, &second.folder).await, [second.uid]);
}
