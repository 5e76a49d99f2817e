//! Provisioning of mailboxes.

use mailapi_model::FolderName;

use super::story::{address, code, listed, mailbox, mailbox_with, newest, send};
use super::{Fixture, mail};
use crate::{MailboxError, SubmitError};

/// A removed mailbox behaves like one that never existed.
pub async fn mail_for_a_removed_mailbox_is_refused(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("one", "x")]).await;
    fixture.remove_mailbox(&bob).await;
    assert_eq!(fixture.backend().mailboxes.folders(&bob).await, Err(MailboxError::NoSuchMailbox));
    let answer = send(fixture, &[&bob]).await.answer;
    let Err(SubmitError::NoRecipients(refused)) = answer else { panic!("{answer:?}") };
    assert_eq!(code(&refused[0]), "5.1.1");
}

/// Removal is idempotent, so that it can be repeated after a crash.
pub async fn removing_twice_is_no_error(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    for gone in [&bob, &bob, &address(fixture, "nobody")] {
        fixture.remove_mailbox(gone).await;
    }
}

/// Provisioning a mailbox again changes only its quota.
pub async fn putting_twice_keeps_the_mail(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("one", "x")]).await;
    let before = newest(fixture, &bob).await;
    for limit in [Some(1_048_576), Some(1_048_576), None] {
        fixture.put_mailbox(&bob, limit).await;
        assert_eq!(fixture.backend().mailboxes.quota(&bob).await.unwrap().limit_bytes, limit);
        assert_eq!(newest(fixture, &bob).await, before);
    }
}

/// The end of a mailbox's sessions is repeatable and leaves its mail readable, over connections of this program too.
pub async fn ended_sessions_leave_the_mailbox_readable(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("one", "x")]).await;
    let before = newest(fixture, &bob).await;
    for mailbox in [&bob, &bob, &address(fixture, "nobody")] {
        fixture.backend().provisioning.end_sessions(mailbox).await.expect("the sessions end");
        assert_eq!(newest(fixture, &bob).await, before);
    }
}

/// A new owner of an address does not inherit the mail of the previous one.
pub async fn a_mailbox_that_comes_back_is_empty(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("one", "x")]).await;
    fixture.remove_mailbox(&bob).await;
    fixture.put_mailbox(&bob, None).await;
    assert_eq!(listed(fixture, &bob, &FolderName::inbox()).await, []);
    fixture.deliver(&bob, &mail::plain("two", "x")).await;
    fixture.settle().await;
    assert_eq!(newest(fixture, &bob).await.subject, "two");
}
