//! Permanent failures.

use mailapi_backend::Provisioning;
use mailapi_backend_embedded::accept::{Incoming, Relaying};
use mailapi_model::{Clock, Outcome};
use mailapi_smtp::{Notify, Ret};
use mailapi_testkit::SmtpSink;

use crate::mail_host::{MailHost, address, mail};
use crate::socket::Line;

fn event(recipient: &str, outcome: Outcome, code: &str) -> (String, Outcome, String) {
    (recipient.to_owned(), outcome, code.to_owned())
}

#[tokio::test]
async fn there_is_no_bounce_of_a_bounce() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["550 5.1.1 Unknown"]);
    let null = Incoming::new(None, [address("zoe@far.example")], mail("Hi"), host.clock.now(), Relaying::Allowed);
    host.message_store.accept(null).await.unwrap();
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(host.reported().await, [event("zoe@far.example", Outcome::Bounced, "5.1.1")]);
    assert!(host.queue_is_empty().await);
}

#[tokio::test]
async fn a_sender_who_wants_no_notice_gets_none() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["550 5.1.1 Unknown"]);
    let mut outgoing = host.outgoing(&["zoe@far.example"], &mail("Hi"));
    outgoing.recipients[0].notify = Some(Notify::NEVER);
    host.message_store.accept(outgoing).await.unwrap();
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert!(host.inbox("ann@here.example").await.is_empty());
}

#[tokio::test]
async fn a_sender_who_is_gone_loses_the_notice_and_nothing_else() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["550 5.1.1 Unknown"]);
    host.send(&["zoe@far.example"], &mail("Hi")).await;
    host.message_store.remove_mailbox(&address("ann@here.example")).await.unwrap();
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(host.reported().await, [event("zoe@far.example", Outcome::Bounced, "5.1.1")]);
    assert!(host.queue_is_empty().await);
}

#[tokio::test]
async fn the_next_owner_of_an_address_gets_no_notice_of_the_last() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["550 5.1.1 Unknown"]);
    host.send(&["zoe@far.example", "tim@far.example"], &mail("Secret")).await;
    host.message_store.remove_mailbox(&address("ann@here.example")).await.unwrap();
    host.message_store.put_mailbox(&address("ann@here.example"), None).await.unwrap();
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let bounced = event("zoe@far.example", Outcome::Bounced, "5.1.1");
    assert_eq!(host.reported().await, [bounced, event("tim@far.example", Outcome::Sent, "2.0.0")]);
    assert!(host.inbox("ann@here.example").await.is_empty() && host.queue_is_empty().await);
}

#[tokio::test]
async fn each_recipient_has_its_outcome_and_one_notice_lists_refusals() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["550 5.1.1 Unknown"]);
    sink.refuse("joe@far.example", &["450 4.2.1 Later"]);
    sink.refuse("eva@far.example", &["554 5.7.1 Not from you"]);
    host.send(&["zoe@far.example", "joe@far.example", "tim@far.example", "eva@far.example"], &mail("Hi")).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let reported: Vec<_> = host.reported().await.into_iter().take(4).collect();
    assert_eq!(
        reported,
        [
            event("zoe@far.example", Outcome::Bounced, "5.1.1"),
            event("joe@far.example", Outcome::Deferred, "4.2.1"),
            event("tim@far.example", Outcome::Sent, "2.0.0"),
            event("eva@far.example", Outcome::Bounced, "5.7.1"),
        ]
    );
    assert_eq!(sink.received()[0].recipients, ["tim@far.example"]);
    let inbox = host.inbox("ann@here.example").await;
    assert_eq!(inbox.len(), 1);
    let report = &inbox[0];
    for part in [
        "Return-Path: <>\r\n",
        "Subject: Your message could not be delivered to zoe@far.example and 1 other\r\n",
        "From: \"Mail Delivery System\" <MAILER-DAEMON@mx.here.example>\r\n",
        "Auto-Submitted: auto-replied\r\n",
        "Final-Recipient: rfc822;zoe@far.example\r\nAction: failed\r\nStatus: 5.1.1\r\nRemote-MTA: dns;127.0.0.1\r\n",
        "Final-Recipient: rfc822;eva@far.example\r\n",
        "Diagnostic-Code: smtp;554 5.7.1 Not from you\r\n",
        "Content-Type: text/rfc822-headers\r\n",
    ] {
        assert!(report.contains(part), "{part} in {report}");
    }
    assert!(!report.contains("joe@far.example") && !report.contains("Hello."), "{report}");
}

#[tokio::test]
async fn the_whole_message_comes_back_when_its_sender_wants_it() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse_data(&["554 5.6.0 Not like this"]);
    let mut outgoing = host.outgoing(&["zoe@far.example"], &mail("Hi"));
    outgoing.ret = Some(Ret::Full);
    host.message_store.accept(outgoing).await.unwrap();
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let report = host.inbox("ann@here.example").await.remove(0);
    assert!(report.contains("Content-Type: message/rfc822\r\n") && report.contains("Hello."), "{report}");
}

#[tokio::test]
async fn recipients_refused_after_data_are_reported_to_the_sender() {
    let host = MailHost::open().await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    // Without a declared size, the message exceeds the room of one mailbox only at its end.
    line.say("MAIL FROM:<zoe@far.example>").await;
    assert!(line.say("RCPT TO:<full@here.example>").await.starts_with("250"));
    assert!(line.say("RCPT TO:<bob@here.example>").await.starts_with("250"));
    line.say("DATA").await;
    line.send(format!("Subject: long\r\n\r\n{}\r\n", "x".repeat(600)).as_bytes()).await;
    assert!(line.say(".").await.starts_with("250 2.0.0"));
    assert_eq!(host.inbox("bob@here.example").await.len(), 1);
    let sink = SmtpSink::start().await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let received = sink.received();
    let [notice] = &received[..] else { panic!("{received:?}") };
    assert_eq!((notice.sender.as_str(), &notice.recipients[..]), ("", &["zoe@far.example".to_owned()][..]));
    let report = String::from_utf8(notice.data.clone()).unwrap();
    assert!(report.contains("Final-Recipient: rfc822;full@here.example\r\nAction: failed\r\nStatus: 5.2.2\r\n"));
}

#[tokio::test]
async fn answers_to_notices_are_taken_and_dropped() {
    let host = MailHost::open().await;
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    for others in [&[][..], &["RCPT TO:<bob@here.example>"]] {
        line.say("MAIL FROM:<zoe@far.example>").await;
        for command in [&["RCPT TO:<mailer-daemon@mx.here.example>"][..], others].concat() {
            assert!(line.say(command).await.starts_with("250"), "{command}");
        }
        line.say("DATA").await;
        line.send(mail("Re: Your message").as_bytes()).await;
        assert!(line.say(".").await.starts_with("250"));
        assert_eq!(host.inbox("bob@here.example").await.len(), others.len());
        assert_eq!(host.counted().len(), others.len());
    }
    line.say("MAIL FROM:<zoe@far.example>").await;
    assert!(line.say("RCPT TO:<mailer-daemon@far.example>").await.starts_with("550 5.7.1"));
    assert!(host.queue_is_empty().await && host.inbox("ann@here.example").await.is_empty());
}

#[tokio::test]
async fn a_message_whose_notice_cannot_be_kept_is_not_taken_either() {
    let host = MailHost::open().await;
    // Only the notice goes through the queue.
    let stop = "CREATE TRIGGER stop BEFORE INSERT ON drop_queue_recipients WHEN NEW.recipient = 'zoe@far.example'
        BEGIN SELECT RAISE(FAIL, 'stopped'); END";
    host.database().execute_batch(stop).unwrap();
    let mut line = Line::to(host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    for (end, reply) in [("", "451 4.3.0"), ("DROP TRIGGER stop", "250 2.0.0")] {
        host.database().execute_batch(end).unwrap();
        for command in ["MAIL FROM:<zoe@far.example>", "RCPT TO:<full@here.example>", "RCPT TO:<bob@here.example>"] {
            assert!(line.say(command).await.starts_with("250"), "{command}");
        }
        line.say("DATA").await;
        line.send(format!("Subject: long\r\n\r\n{}\r\n", "x".repeat(600)).as_bytes()).await;
        assert!(line.say(".").await.starts_with(reply), "{reply}");
        let kept = usize::from(reply.starts_with('2'));
        assert_eq!(host.inbox("bob@here.example").await.len(), kept);
        assert_eq!(host.queue_is_empty().await, kept == 0);
    }
}
