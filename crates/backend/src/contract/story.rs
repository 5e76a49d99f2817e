//! Helpers shared by the stories.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::StreamExt;
use mailapi_model::{
    Alias, DeliveryEvent, EmailAddress, EnhancedCode, Envelope, FeedCursor, FolderName, MessageId, Page, Timestamp,
};

use super::{Fixture, mail};
use crate::{Accepted, Attempt, ByteStream, MessageSummary, Record, RecordError, Recorded, Refusal, SubmitError};

/// Returns an address in the fixture's domain.
pub(super) fn address(fixture: &dyn Fixture, local: &str) -> EmailAddress {
    format!("{local}@{}", fixture.domain()).parse().expect("an address")
}

/// Creates a mailbox without a quota limit.
pub(super) async fn mailbox(fixture: &dyn Fixture, local: &str) -> EmailAddress {
    let mailbox = address(fixture, local);
    fixture.put_mailbox(&mailbox, None).await;
    mailbox
}

/// Creates an alias with one member.
pub(super) async fn alias(fixture: &dyn Fixture, local: &str, member: &EmailAddress) -> EmailAddress {
    let (address, created_at) = (address(fixture, local), Timestamp::from_seconds(0));
    let members = vec![member.clone()];
    fixture
        .put_alias(&Alias { address: address.clone(), members, senders: Vec::new(), active: true, created_at })
        .await;
    address
}

/// Creates a mailbox with these messages in its INBOX, the last one newest.
pub(super) async fn mailbox_with(fixture: &dyn Fixture, messages: &[Vec<u8>]) -> EmailAddress {
    let mailbox = mailbox(fixture, "bob").await;
    for message in messages {
        fixture.deliver(&mailbox, message).await;
    }
    fixture.settle().await;
    mailbox
}

/// A submitted message and the backend's answer.
pub(super) struct Sent {
    pub(super) id: MessageId,
    pub(super) answer: Result<Accepted, SubmitError>,
}

/// Submits a message from a mailbox of the fixture, and waits until it is delivered.
pub(super) async fn send(fixture: &dyn Fixture, recipients: &[&EmailAddress]) -> Sent {
    send_text(fixture, recipients, "Hello.").await
}

pub(super) async fn send_text(fixture: &dyn Fixture, recipients: &[&EmailAddress], text: &str) -> Sent {
    send_recorded(fixture, recipients, text, &Recorded).await
}

/// Like [`send_text`], with a record.
pub(super) async fn send_recorded(
    fixture: &dyn Fixture,
    recipients: &[&EmailAddress],
    text: &str,
    record: &dyn Record,
) -> Sent {
    let id = fixture.new_message_id();
    let sender = mailbox(fixture, "sender").await;
    let own_id = format!("Message-ID: <{id}@{}>", fixture.domain());
    let message = String::from_utf8(mail::plain("sent", text)).expect("a message in UTF-8");
    let message = message.replace("Message-ID: <sent@elsewhere.example>", &own_id);
    let recipients = recipients.iter().map(|&recipient| recipient.clone()).collect();
    let envelope = Envelope { message_id: id, sender: Some(sender), recipients };
    let answer = fixture.backend().submission.submit(envelope, message.into(), record).await;
    fixture.settle().await;
    Sent { id, answer }
}

/// A record that notes which of its methods the backend calls.
pub(super) struct WatchedRecord {
    begin: Result<(), RecordError>,
    may_repeat: bool,
    calls: Mutex<Vec<&'static str>>,
}

impl WatchedRecord {
    /// Returns a record whose storing ends like this.
    pub(super) fn new(begin: Result<(), RecordError>, may_repeat: bool) -> Self {
        Self { begin, may_repeat, calls: Mutex::default() }
    }

    /// Returns the names of the called methods, in order.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, call: &'static str) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}

#[async_trait]
impl Record for WatchedRecord {
    fn may_repeat(&self) -> bool {
        self.may_repeat
    }

    async fn begin(&self) -> Result<(), RecordError> {
        self.note("begin");
        self.begin.clone()
    }

    async fn submitted(&self, _: &Accepted) {
        self.note("submitted");
    }

    /// Returns a value that no backend recognizes.
    fn enlist(&self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(()))
    }
}

/// Returns the attempt to look up a message that was sent with [`send`].
pub(super) fn attempt(fixture: &dyn Fixture, message_id: MessageId) -> Attempt {
    Attempt { message_id, sender: address(fixture, "sender"), since: Timestamp::from_millis(0), by_this_node: true }
}

/// Returns the enhanced status code of a rejection.
pub(super) fn code(refusal: &Refusal) -> String {
    refusal.reply.enhanced.as_ref().map(EnhancedCode::to_string).unwrap_or_default()
}

/// Returns all events after `cursor`, and the cursor at the end of the feed.
pub(super) async fn feed_after(fixture: &dyn Fixture, cursor: &FeedCursor) -> (Vec<DeliveryEvent>, FeedCursor) {
    let (mut events, mut cursor) = (Vec::new(), cursor.clone());
    loop {
        let batch = fixture.backend().delivery_feed.read_after(&cursor, 100).await.expect("the feed is read");
        events.extend(batch.events);
        cursor = batch.cursor;
        if !batch.more {
            return (events, cursor);
        }
    }
}

/// Returns the cursor at the end of the feed.
pub(super) async fn end_of_feed(fixture: &dyn Fixture) -> FeedCursor {
    feed_after(fixture, &FeedCursor::default()).await.1
}

/// Returns the events of one message.
pub(super) async fn events_of(fixture: &dyn Fixture, after: &FeedCursor, id: MessageId) -> Vec<DeliveryEvent> {
    let (mut events, _) = feed_after(fixture, after).await;
    events.retain(|event| event.message_id == Some(id));
    events
}

/// Returns the newest messages of a folder.
pub(super) async fn listed(fixture: &dyn Fixture, mailbox: &EmailAddress, folder: &FolderName) -> Vec<MessageSummary> {
    let page = Page::new(Page::MAX_LIMIT, 0);
    fixture.backend().mailboxes.list(mailbox, folder, page).await.expect("the folder is listed").items
}

/// Returns the newest message of the INBOX.
pub(super) async fn newest(fixture: &dyn Fixture, mailbox: &EmailAddress) -> MessageSummary {
    listed(fixture, mailbox, &FolderName::inbox()).await.into_iter().next().expect("a message in the INBOX")
}

/// Parses a folder name.
pub(super) fn folder(name: &str) -> FolderName {
    name.parse().expect("a folder's name")
}

/// Returns all bytes of a stream, and the length of its longest chunk.
pub(super) async fn bytes(mut stream: ByteStream) -> (Vec<u8>, usize) {
    let (mut bytes, mut longest) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.expect("a stream to its end");
        longest = longest.max(chunk.len());
        bytes.extend_from_slice(&chunk);
    }
    (bytes, longest)
}
