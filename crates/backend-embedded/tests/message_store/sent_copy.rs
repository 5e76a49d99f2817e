//! Copies of sent messages in the folder for sent mail.

use mailapi_backend::{Mailboxes, Provisioning, Recorded, Submission};
use mailapi_backend_embedded::MessageStore;
use mailapi_backend_embedded::accept::{Incoming, Submitter};
use mailapi_model::{Blob, EmailAddress, Envelope, FolderName, MessageId, Page, SaveSent, Timestamp};
use mailapi_testkit::SeededEntropy;

use super::test_store::{TestStore, address, ann, bob, folder, mail};

/// Sends a message of bob through the API.
async fn send(store: &TestStore, seed: u64, to: &str) {
    send_as(store, seed, bob(), to).await;
}

async fn send_as(store: &TestStore, seed: u64, sender: EmailAddress, to: &str) {
    let message_id = MessageId::random(Timestamp::from_millis(0), &SeededEntropy::new(seed));
    let envelope = Envelope { message_id, sender: Some(sender), recipients: vec![address(to)] };
    store.message_store.submit(envelope, Blob::from(mail("Hi", "Hello.")), &Recorded).await.unwrap();
}

/// Submits a message with the mail program of a mailbox.
async fn submit(store: &TestStore, mailbox: EmailAddress, from: &str) {
    let submitter = Some(Submitter { mailbox, from: address(from) });
    let incoming = Incoming { submitter, ..store.incoming(&["carl@elsewhere.example"], &mail("Hi", "Hello.")) };
    store.message_store.accept(incoming).await.unwrap();
}

async fn copies(store: &MessageStore, mailbox: &EmailAddress, name: &FolderName) -> u64 {
    store.list(mailbox, name, Page::default()).await.unwrap().total
}

#[tokio::test]
async fn each_way_of_sending_has_its_own_choice() {
    let store = TestStore::new().await;
    let (messages, sent) = (&store.message_store, folder("Sent"));
    for (at, (which, expected)) in [(SaveSent::Off, 0), (SaveSent::Api, 1), (SaveSent::All, 3)].into_iter().enumerate()
    {
        messages.set_save_sent(&bob(), which).await.unwrap();
        send(&store, at as u64, "carl@elsewhere.example").await;
        submit(&store, bob(), "bob@example.org").await;
        assert_eq!(copies(messages, &bob(), &sent).await, expected, "{which}");
    }
    let listed = messages.list(&bob(), &sent, Page::default()).await.unwrap();
    assert_eq!(listed.items[0].flags, ["\\Seen"]);
    assert_eq!(copies(messages, &bob(), &folder("INBOX")).await, 0);
    // Mail from outside is not sent here, whatever its sender address is.
    store.deliver(&["ann@example.org"], &mail("Hi", "Forged.")).await;
    assert_eq!(copies(messages, &bob(), &sent).await, 3);
}

#[tokio::test]
async fn a_copy_goes_to_the_author_or_to_the_mailbox_of_the_log_in() {
    let store = TestStore::new().await;
    let (messages, sent) = (&store.message_store, folder("Sent"));
    for mailbox in [ann(), bob()] {
        messages.set_save_sent(&mailbox, SaveSent::All).await.unwrap();
    }
    submit(&store, ann(), "bob@example.org").await;
    assert_eq!((copies(messages, &ann(), &sent).await, copies(messages, &bob(), &sent).await), (0, 1));
    submit(&store, ann(), "team@example.org").await;
    assert_eq!((copies(messages, &ann(), &sent).await, copies(messages, &bob(), &sent).await), (1, 1));
    send_as(&store, 1, address("bob+shop@example.org"), "carl@elsewhere.example").await;
    assert_eq!((copies(messages, &ann(), &sent).await, copies(messages, &bob(), &sent).await), (1, 2));
}

#[tokio::test]
async fn a_message_to_oneself_is_in_both_folders_and_stored_once() {
    let store = TestStore::new().await;
    let messages = &store.message_store;
    messages.set_save_sent(&bob(), SaveSent::Api).await.unwrap();
    send(&store, 1, "bob@example.org").await;
    for name in ["INBOX", "Sent"] {
        assert_eq!(copies(messages, &bob(), &folder(name)).await, 1, "{name}");
    }
    assert_eq!(store.number("SELECT refs FROM drop_messages"), 2);
    messages.maintain_until_done().await.unwrap();
    assert_eq!(store.number("SELECT count(*) FROM drop_unindexed"), 0);
}

#[tokio::test]
async fn a_full_mailbox_sends_without_a_copy() {
    let store = TestStore::new().await;
    let messages = &store.message_store;
    messages.set_save_sent(&bob(), SaveSent::Api).await.unwrap();
    messages.set_quota(&bob(), Some(10)).await.unwrap();
    send(&store, 1, "ann@example.org").await;
    assert_eq!(copies(messages, &bob(), &folder("Sent")).await, 0);
    assert_eq!(copies(messages, &ann(), &folder("INBOX")).await, 1);
}

#[tokio::test]
async fn a_removed_folder_is_created_again() {
    let store = TestStore::new().await;
    let messages = &store.message_store;
    messages.set_save_sent(&bob(), SaveSent::Api).await.unwrap();
    messages.rename_folder(&bob(), &folder("Sent"), &folder("Old")).await.unwrap();
    send(&store, 1, "carl@elsewhere.example").await;
    assert_eq!(copies(messages, &bob(), &folder("Old")).await, 1, "it still has the special use");
    messages.delete_folder(&bob(), &folder("Old")).await.unwrap();
    send(&store, 2, "carl@elsewhere.example").await;
    assert_eq!(copies(messages, &bob(), &folder("Sent")).await, 1);
}
