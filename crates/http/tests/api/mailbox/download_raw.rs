//! `GET /mailbox/{email}/messages/{uid}/raw`.

use super::{RICH, bobs_mailbox, refuses_strangers, refuses_unknown_folders, refuses_unknown_messages};

#[tokio::test]
async fn what_does_not_exist_is_refused() {
    refuses_strangers("/mailbox/{}/messages/1/raw").await;
    refuses_unknown_folders("/mailbox/bob@example.org/messages/1/raw?folder={}").await;
    refuses_unknown_messages("/mailbox/bob@example.org/messages/{}/raw").await;
}

#[tokio::test]
async fn it_is_the_message_as_it_was_received() {
    let (app, _, bob) = bobs_mailbox().await;
    let answer = app.get(&bob, "/mailbox/bob@example.org/messages/1/raw").await;
    // Servers add trace headers before the message.
    assert!(answer.bytes.ends_with(RICH.replace('\n', "\r\n").as_bytes()), "{:?}", answer.bytes);
    assert_eq!(answer.header("content-type"), "message/rfc822");
    assert_eq!(answer.header("content-length"), answer.bytes.len().to_string());
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"1.eml\"; filename*=UTF-8''1.eml");
    assert_eq!(answer.header("content-security-policy"), "sandbox");
}
