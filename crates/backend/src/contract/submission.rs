//! Submission of messages.

use mailapi_model::FolderName;

use super::Fixture;
use super::story::{
    WatchedRecord, address, attempt, code, end_of_feed, events_of, listed, mailbox, send, send_recorded,
};
use crate::{RecordError, SubmitError};

/// If every recipient is unknown, the message is rejected with each reply, and the feed reports nothing.
pub async fn without_known_recipients_a_message_is_refused(fixture: &dyn Fixture) {
    mailbox(fixture, "bob").await;
    let start = end_of_feed(fixture).await;
    let (unknown, no_one) = (address(fixture, "nobody"), address(fixture, "no.one"));
    let sent = send(fixture, &[&unknown, &no_one]).await;
    let error = sent.answer.unwrap_err();
    assert!(!error.is_transient(), "{error}");
    let SubmitError::NoRecipients(refused) = error else { panic!("another error: {error}") };
    let shown: Vec<_> = refused.iter().map(|refusal| (&refusal.recipient, code(refusal))).collect();
    assert_eq!(shown, [(&unknown, "5.1.1".to_owned()), (&no_one, "5.1.1".to_owned())]);
    assert_eq!(events_of(fixture, &start, sent.id).await, []);
}

/// If one recipient is unknown, the other receives the message.
pub async fn one_unknown_recipient_does_not_harm_the_others(fixture: &dyn Fixture) {
    let (bob, unknown) = (mailbox(fixture, "bob").await, address(fixture, "nobody"));
    let accepted = send(fixture, &[&unknown, &bob]).await.answer.expect("the message is accepted");
    assert!(!accepted.queue_id.0.is_empty());
    assert_eq!(accepted.refused.len(), 1);
    assert_eq!((&accepted.refused[0].recipient, code(&accepted.refused[0])), (&unknown, "5.1.1".to_owned()));
    assert_eq!(listed(fixture, &bob, &FolderName::inbox()).await.len(), 1);
}

/// A look-up after a crash returns what submission returned.
pub async fn a_message_that_was_taken_is_found_again(fixture: &dyn Fixture) {
    let (bob, unknown) = (mailbox(fixture, "bob").await, address(fixture, "nobody"));
    let sent = send(fixture, &[&bob, &unknown]).await;
    let accepted = sent.answer.expect("the message is accepted");
    let found = fixture.backend().submission.find(&attempt(fixture, sent.id)).await.unwrap();
    assert_eq!(found, Some(accepted));
}

/// A look-up finds neither rejected messages nor messages that were never sent.
pub async fn a_message_that_was_not_taken_is_not_found(fixture: &dyn Fixture) {
    let refused = send(fixture, &[&address(fixture, "nobody")]).await;
    assert!(refused.answer.is_err());
    for id in [refused.id, fixture.new_message_id()] {
        assert_eq!(fixture.backend().submission.find(&attempt(fixture, id)).await.unwrap(), None);
    }
}

/// A message whose record cannot be stored is not accepted, and the next message is.
pub async fn a_message_without_a_record_is_not_accepted(fixture: &dyn Fixture) {
    let bob = mailbox(fixture, "bob").await;
    for error in [RecordError::Exists, RecordError::Unavailable("the disk is full".to_owned())] {
        for may_repeat in [false, true] {
            let record = WatchedRecord::new(Err(error.clone()), may_repeat);
            let held = send_recorded(fixture, &[&bob], "Hello.", &record).await;
            assert_eq!(held.answer, Err(SubmitError::NotRecorded(error.clone())));
            assert_eq!(record.calls(), ["begin"]);
            assert_eq!(fixture.backend().submission.find(&attempt(fixture, held.id)).await.unwrap(), None);
        }
    }
    let sent = send(fixture, &[&bob]).await;
    sent.answer.expect("the message is accepted");
    let messages = listed(fixture, &bob, &FolderName::inbox()).await;
    let own_id = format!("<{}@{}>", sent.id, fixture.domain());
    assert_eq!(messages.iter().map(|message| message.message_id.as_str()).collect::<Vec<_>>(), [own_id]);
}

/// An accepted message is recorded before and after. A rejected one is recorded before, whatever rejected it.
pub async fn a_message_is_recorded_before_it_is_accepted(fixture: &dyn Fixture) {
    let (bob, unknown) = (mailbox(fixture, "bob").await, address(fixture, "nobody"));
    for may_repeat in [false, true] {
        for (recipient, calls) in [(&bob, &["begin", "submitted"][..]), (&unknown, &["begin"])] {
            let record = WatchedRecord::new(Ok(()), may_repeat);
            let sent = send_recorded(fixture, &[recipient], "Hello.", &record).await;
            assert_eq!((sent.answer.is_ok(), record.calls().as_slice()), (calls.len() == 2, calls));
        }
    }
}

/// One message to two mailboxes is stored once in each.
pub async fn a_recipient_of_several_gets_one_copy(fixture: &dyn Fixture) {
    let (bob, eve) = (mailbox(fixture, "bob").await, mailbox(fixture, "eve").await);
    let sent = send(fixture, &[&bob, &eve]).await;
    assert_eq!(sent.answer.expect("the message is accepted").refused, []);
    for recipient in [&bob, &eve] {
        let messages = listed(fixture, recipient, &FolderName::inbox()).await;
        let own_id = format!("<{}@{}>", sent.id, fixture.domain());
        assert_eq!(messages.iter().map(|message| message.message_id.as_str()).collect::<Vec<_>>(), [own_id]);
    }
}

/// The health check of a working server succeeds.
pub async fn a_healthy_server_says_so(fixture: &dyn Fixture) {
    assert_eq!(fixture.backend().submission.check().await, Ok(()));
    assert_eq!(fixture.backend().mailboxes.check().await, Ok(()));
}
