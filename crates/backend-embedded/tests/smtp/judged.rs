//! Mail from outside that is checked before it is accepted. The checks themselves are those of the service.

use mailapi_backend::{DeliveryFeed, InboundAction, Judgement, Mailboxes};
use mailapi_model::InboundOutcome::{Accepted, Rejected, Spam};
use mailapi_model::{
    Authentication, AuthenticationResult, CheckedDomain, CheckedSignature, FeedCursor, FolderName, Page,
};

use crate::mail_host::{MailHost, address, mail};
use crate::socket::Line;

const FIELD: &str = "Authentication-Results: mx.here.example;\r\n\tdmarc=fail\r\n";

/// Returns results of which each differs from the others.
fn authentication() -> Authentication {
    use AuthenticationResult::{Fail, None, Pass, Softfail};
    let domain = |name: &str| Some(name.to_owned());
    let signature = |result, name| CheckedSignature { result, domain: domain(name), selector: domain("s1") };
    Authentication {
        spf: CheckedDomain { result: Softfail, domain: domain("far.example") },
        dkim: vec![signature(Pass, "list.example"), signature(Fail, "far.example")],
        dmarc: CheckedDomain { result: Fail, domain: domain("far.example") },
        arc: None,
    }
}

fn judged(action: InboundAction) -> Judgement {
    Judgement {
        action,
        authentication: Some(authentication()),
        fields: FIELD.to_owned(),
        own_fields: vec!["X-Spam"],
        ..Judgement::unchecked()
    }
}

/// Sends a message from outside; returns the reply to its end.
async fn sent(host: &MailHost, recipients: &[&str], message: &str) -> String {
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    line.say("MAIL FROM:<zoe@far.example>").await;
    for recipient in recipients {
        assert!(line.say(&format!("RCPT TO:<{recipient}>")).await.starts_with("250"));
    }
    line.say("DATA").await;
    line.send(message.as_bytes()).await;
    line.say(".").await
}

/// Returns the names of the folders of a mailbox that contain messages, with their number.
async fn filled(host: &MailHost, mailbox: &str) -> Vec<(String, u64)> {
    let folders = host.message_store.list_folders(&address(mailbox)).await.unwrap();
    let filled = folders.into_iter().filter(|folder| folder.messages > 0);
    filled.map(|folder| (folder.name.to_string(), folder.messages)).collect()
}

fn outcome(outcome: mailapi_model::InboundOutcome) -> (String, Option<String>, mailapi_model::InboundOutcome) {
    ("here.example".to_owned(), Some("far.example".to_owned()), outcome)
}

#[tokio::test]
async fn a_refused_message_is_nowhere() {
    let host = MailHost::open().await;
    host.judge.set(judged(InboundAction::Refuse("far.example asks for that".to_owned())));
    let reply = sent(&host, &["ann@here.example", "bob@here.example"], &mail("Hello")).await;
    assert_eq!(reply, "550 5.7.1 far.example asks for that");
    assert_eq!((filled(&host, "ann@here.example").await, filled(&host, "bob@here.example").await), (vec![], vec![]));
    assert_eq!(host.counted(), [outcome(Rejected), outcome(Rejected)]);
    assert_eq!(host.events().await, []);
}

#[tokio::test]
async fn a_deferred_message_is_not_counted() {
    let host = MailHost::open().await;
    host.judge.set(judged(InboundAction::Defer("Try again later".to_owned())));
    assert_eq!(sent(&host, &["ann@here.example"], &mail("Hello")).await, "451 4.7.1 Try again later");
    assert_eq!(filled(&host, "ann@here.example").await, []);
    assert_eq!((host.counted(), host.refused(), host.events().await), (vec![], vec![], vec![]));
}

#[tokio::test]
async fn fields_of_the_checks_are_not_forged() {
    let host = MailHost::open().await;
    let forged = format!("X-Spam: No\r\n{}", mail("Hello"));
    // Another server is trusted to write them.
    assert!(sent(&host, &["bob@here.example"], &forged).await.starts_with("250"));
    assert!(host.inbox("bob@here.example").await[0].contains("\r\nX-Spam: No\r\n"));
    host.judge.set(judged(InboundAction::Deliver));
    assert!(sent(&host, &["ann@here.example"], &forged).await.starts_with("250"));
    let received = host.inbox("ann@here.example").await.remove(0);
    assert!(received.contains("Hello") && !received.contains("X-Spam"), "{received}");
}

#[tokio::test]
async fn the_checks_see_the_message_as_it_was_sent() {
    let host = MailHost::open().await;
    let message = format!("Return-Path: <boss@here.example>\r\n{FIELD}{}", mail("Hello"));
    sent(&host, &["bob@here.example"], &message).await;
    let asked = host.judge.asked();
    let [(client_name, sender, bytes)] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!((client_name.as_str(), sender.as_str()), ("client.example", "zoe@far.example"));
    assert_eq!(bytes.to_bytes().unwrap(), message.as_bytes());
    let (recipients, queue_id) = host.judge.envelopes().remove(0);
    assert_eq!(recipients, [address("bob@here.example")]);
    // rspamd logs the id that the message has in the mailbox.
    let received = host.inbox("bob@here.example").await.remove(0);
    assert!(received.contains(&format!(" id {queue_id}\r\n\tfor <bob@here.example>;")), "{received}");
}

#[tokio::test]
async fn the_results_are_above_the_trace_of_this_server() {
    let host = MailHost::open().await;
    host.judge.set(judged(InboundAction::Deliver));
    let forged = "Authentication-Results: mx.here.example; dmarc=pass\r\n";
    assert!(sent(&host, &["bob@here.example"], &format!("{forged}{}", mail("Hello"))).await.starts_with("250"));
    let inbox = host.inbox("bob@here.example").await;
    let beginning = format!(
        "Return-Path: <zoe@far.example>\r\nDelivered-To: bob@here.example\r\n{FIELD}Received: from client.example"
    );
    assert!(inbox[0].starts_with(&beginning), "{}", inbox[0]);
    assert!(!inbox[0].contains("dmarc=pass"), "{}", inbox[0]);
    assert_eq!(host.counted(), [outcome(Accepted)]);
}

#[tokio::test]
async fn the_feed_has_the_results_beside_the_place() {
    let host = MailHost::open().await;
    sent(&host, &["bob@here.example"], &mail("Hello")).await;
    host.judge.set(judged(InboundAction::Junk));
    sent(&host, &["bob@here.example"], &mail("Hello")).await;
    let received = host.message_store.read_after(&FeedCursor::default(), 10).await.unwrap().received;
    let found: Vec<_> = received.into_iter().map(|mail| (mail.place.unwrap().0, mail.authentication)).collect();
    assert_eq!(found, [(FolderName::inbox(), None), ("Junk".parse().unwrap(), Some(authentication()))]);
}

#[tokio::test]
async fn junk_goes_to_the_folder_of_that_use() {
    let host = MailHost::open().await;
    host.judge.set(judged(InboundAction::Junk));
    let (ann, bob) = (address("ann@here.example"), address("bob@here.example"));
    let name = |text: &str| text.parse::<FolderName>().unwrap();
    host.message_store.rename_folder(&ann, &name("Junk"), &name("Spam")).await.unwrap();
    host.message_store.create_folder(&ann, &name("Junk")).await.unwrap();
    host.message_store.delete_folder(&bob, &name("Junk")).await.unwrap();
    for _ in 0..2 {
        assert!(sent(&host, &["ann@here.example", "bob@here.example"], &mail("Hello")).await.starts_with("250"));
    }
    // The renamed folder keeps its use, and a missing one is created once.
    assert_eq!(filled(&host, "ann@here.example").await, [("Spam".to_owned(), 2)]);
    assert_eq!(filled(&host, "bob@here.example").await, [("Junk".to_owned(), 2)]);
    let junk = host.message_store.folder(&bob, &name("Junk")).await.unwrap();
    assert_eq!(junk.special_use.as_deref(), Some("\\Junk"));
    let listed = host.message_store.list(&bob, &name("Junk"), Page::new(10, 0)).await.unwrap();
    assert_eq!(listed.items.len(), 2);
    assert_eq!(host.counted(), [Spam; 4].map(outcome));
}

#[tokio::test]
async fn a_long_message_in_a_file_is_judged_too() {
    let host =
        MailHost::open_buffering(|_, _| {}, |buffer| (buffer.max_memory_bytes, buffer.write_bytes) = (100, 50)).await;
    host.judge.set(judged(InboundAction::Junk));
    let message = format!("{}{}", mail("Hello"), "hello\r\n".repeat(4000));
    assert!(sent(&host, &["bob@here.example"], &message).await.starts_with("250"));
    assert_eq!(host.judge.asked()[0].2.to_bytes().unwrap(), message.as_bytes());
    assert_eq!(filled(&host, "bob@here.example").await, [("Junk".to_owned(), 1)]);
}

#[tokio::test]
async fn mail_of_a_user_who_logged_in_is_not_judged() {
    let host = MailHost::open().await;
    host.judge.set(judged(InboundAction::Junk));
    let mut line = Line::to(host.submission).await;
    line.reply().await;
    let log_in = "AUTH PLAIN AGFubkBoZXJlLmV4YW1wbGUAc2VjcmV0";
    for command in ["EHLO client.example", log_in, "MAIL FROM:<ann@here.example>", "RCPT TO:<bob@here.example>", "DATA"]
    {
        assert!(line.say(command).await.starts_with(['2', '3']), "{command}");
    }
    line.send(mail("Hello").as_bytes()).await;
    assert!(line.say(".").await.starts_with("250"));
    assert!(host.judge.asked().is_empty());
    assert_eq!(filled(&host, "bob@here.example").await, [("INBOX".to_owned(), 1)]);
}
