//! Aliases whose members cannot all receive a message.

use mailapi_backend::{InboundAction, Judgement, Provisioning};
use mailapi_model::{Alias, Timestamp};
use mailapi_testkit::SmtpSink;

use crate::mail_host::{MailHost, address, mail};
use crate::socket::Line;

const LONG: usize = 600;

async fn with_team(members: &[&str]) -> MailHost {
    let host = MailHost::open().await;
    let members = members.iter().map(|member| address(member)).collect();
    let (address, created_at) = (address("team@here.example"), Timestamp::from_seconds(0));
    host.message_store
        .put_alias(&Alias { address, members, senders: Vec::new(), active: true, created_at })
        .await
        .unwrap();
    host
}

/// Sends a message from outside to the alias; returns the replies to RCPT and to the end of the message.
async fn sent(host: &MailHost, sender: &str, size: usize) -> (String, String) {
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    line.say(&format!("MAIL FROM:<{sender}> SIZE={size}")).await;
    let to_recipient = line.say("RCPT TO:<team@here.example>").await;
    line.say("DATA").await;
    line.send(format!("{}{}\r\n", mail("Hello"), "x".repeat(LONG)).as_bytes()).await;
    (to_recipient, line.say(".").await)
}

#[tokio::test]
async fn an_alias_waits_only_while_every_member_is_full() {
    let host = with_team(&["full@here.example", "gone@here.example"]).await;
    let (to_recipient, _) = sent(&host, "zoe@far.example", 5_000).await;
    assert!(to_recipient.starts_with("452 4.2.2"), "{to_recipient}");
    // Without a declared size, the message is too long only at its end.
    let (to_recipient, to_message) = sent(&host, "zoe@far.example", 0).await;
    assert!(to_recipient.starts_with("250") && to_message.starts_with("452 4.2.2"), "{to_recipient} {to_message}");
    assert!(host.counted().is_empty() && host.events().await.is_empty(), "the other server tries again");
}

#[tokio::test]
async fn the_sender_gets_one_notice_that_does_not_name_the_members() {
    let host = with_team(&["full@here.example", "gone@here.example", "bob@here.example"]).await;
    let sink = SmtpSink::start().await;
    let (to_recipient, to_message) = sent(&host, "zoe@far.example", 5_000).await;
    assert!(to_recipient.starts_with("250") && to_message.starts_with("250"), "{to_recipient} {to_message}");
    assert_eq!(host.inbox("bob@here.example").await.len(), 1);
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let received = sink.received();
    let [notice] = &received[..] else { panic!("{received:?}") };
    assert_eq!((notice.sender.as_str(), &notice.recipients[..]), ("", &["zoe@far.example".to_owned()][..]));
    let notice = String::from_utf8(notice.data.clone()).unwrap();
    assert!(notice.contains("Final-Recipient: rfc822;team@here.example\r\nAction: failed\r\nStatus: 5.2.2\r\n"));
    assert!(!notice.contains("full@") && !notice.contains("gone@"), "{notice}");
}

#[tokio::test]
async fn a_forged_local_sender_gets_no_notice() {
    let host = with_team(&["gone@here.example", "bob@here.example"]).await;
    let (_, to_message) = sent(&host, "ann@here.example", 0).await;
    assert!(to_message.starts_with("250"), "{to_message}");
    assert_eq!(host.inbox("bob@here.example").await.len(), 1);
    assert!(host.inbox("ann@here.example").await.is_empty() && host.queue_is_empty().await, "ann did not send it");
    let outcomes: Vec<_> = host.reported().await.into_iter().map(|(_, _, code)| code).collect();
    assert_eq!(outcomes, ["5.1.1", "2.0.0"], "the log has the failure");
}

#[tokio::test]
async fn junk_for_an_alias_causes_no_notice() {
    let host = with_team(&["gone@here.example", "bob@here.example"]).await;
    host.judge.set(Judgement { action: InboundAction::Junk, ..Judgement::unchecked() });
    let (_, to_message) = sent(&host, "ann@here.example", 0).await;
    assert!(to_message.starts_with("250"), "{to_message}");
    assert!(host.inbox("ann@here.example").await.is_empty() && host.queue_is_empty().await);
    let outcomes: Vec<_> = host.reported().await.into_iter().map(|(recipient, _, code)| (recipient, code)).collect();
    let team = |code: &str| ("team@here.example".to_owned(), code.to_owned());
    assert_eq!(outcomes, [team("5.1.1"), team("2.0.0")], "the log has the failure");
}

#[tokio::test]
async fn tags_of_one_alias_multiply_a_message_only_a_few_times() {
    let members: Vec<String> = (0..600).map(|n| format!("u{n}@far.example")).collect();
    let host = with_team(&members.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    for message in 1..=2 {
        line.say("MAIL FROM:<zoe@far.example>").await;
        for tag in ["a", "b"] {
            let reply = line.say(&format!("RCPT TO:<team+{tag}@here.example>")).await;
            assert!(reply.starts_with("250"), "{reply}");
        }
        let reply = line.say("RCPT TO:<team+c@here.example>").await;
        assert!(reply.starts_with("452 4.5.3"), "the client sends it in another transaction: {reply}");
        assert!(line.say("RCPT TO:<bob@here.example>").await.starts_with("250"));
        line.say("DATA").await;
        line.send(mail("Hello").as_bytes()).await;
        assert!(line.say(".").await.starts_with("250"));
        assert_eq!(host.inbox("bob@here.example").await.len(), message);
    }
    assert!(host.refused().is_empty(), "the client tries again");
}
