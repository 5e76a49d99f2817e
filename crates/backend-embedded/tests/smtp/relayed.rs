//! Relaying of all outbound mail.

use mailapi_backend_embedded::accept::{Incoming, Relaying};
use mailapi_backend_embedded::delivery_agent::Relay;
use mailapi_model::{Clock, EmailAddress, Outcome};
use mailapi_smtp::{Notify, Ret};
use mailapi_testkit::SmtpSink;

use crate::mail_host::{MailHost, mail, relay_at};
use crate::socket::Line;

fn sent(recipient: &str) -> (String, Outcome, String) {
    (recipient.to_owned(), Outcome::Sent, "2.0.0".to_owned())
}

#[tokio::test]
async fn nothing_is_done_for_an_empty_queue() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    assert_eq!(host.agent_to(&sink).deliver_due_once().await.unwrap(), 0);
    assert!(sink.received().is_empty());
}

#[tokio::test]
async fn the_relay_gets_the_exact_message_once_for_all_recipients() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let message = "From: ann@here.example\r\nSubject: Gr\u{fc}\u{df}e\r\n\r\n.\r\n..dots\r\nlast\r\n";
    host.send(&["zoe@far.example", "bob@here.example", "joe@away.example"], message).await;
    assert_eq!(host.agent_to(&sink).deliver_due_once().await.unwrap(), 2);
    let received = sink.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].sender, "ann@here.example");
    assert_eq!(received[0].recipients, ["zoe@far.example", "joe@away.example"]);
    assert_eq!(String::from_utf8_lossy(&received[0].data), message);
    let expected = ["bob@here.example", "zoe@far.example", "joe@away.example"].map(sent);
    assert_eq!(host.reported().await, expected);
    let relay = host.events().await[1].relay.clone().unwrap();
    assert_eq!(relay, format!("127.0.0.1[127.0.0.1]:{}", sink.address().port()));
    assert!(host.queue_is_empty().await);
}

#[tokio::test]
async fn many_messages_share_connections_and_arrive_once_each() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    for number in 0..30 {
        host.send(&["zoe@far.example"], &mail(&format!("number {number}"))).await;
    }
    let agent = host.agent(|settings| {
        settings.relay = relay_at(sink.address());
        settings.max_messages_per_connection = 4;
        settings.max_claimed = 7;
    });
    assert_eq!(agent.deliver_due_once().await.unwrap(), 30);
    let mut subjects: Vec<_> =
        sink.received().iter().map(|message| String::from_utf8_lossy(&message.data).into_owned()).collect();
    subjects.sort();
    subjects.dedup();
    assert_eq!((subjects.len(), sink.received().len()), (30, 30));
}

#[tokio::test]
async fn a_connection_that_was_kept_and_is_closed_is_replaced_at_once() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("joe@away.example", &["421 4.3.2 Enough for now"]);
    host.send(&["zoe@far.example"], &mail("one")).await;
    host.send(&["joe@away.example"], &mail("two")).await;
    let agent = host.agent(|settings| {
        settings.relay = relay_at(sink.address());
        settings.max_connections_per_destination = 1;
    });
    agent.deliver_due_once().await.unwrap();
    assert_eq!(host.reported().await, ["zoe@far.example", "joe@away.example"].map(sent));
}

#[tokio::test]
async fn more_recipients_than_one_transaction_takes_follow_in_another() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let recipients: Vec<String> = (0..5).map(|number| format!("r{number}@far.example")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    host.send(&recipients, &mail("Hi")).await;
    let agent = host.agent(|settings| {
        settings.relay = relay_at(sink.address());
        settings.max_recipients = 2;
    });
    agent.deliver_due_once().await.unwrap();
    let received: Vec<_> = sink.received().into_iter().flat_map(|message| message.recipients).collect();
    assert_eq!(received, recipients);
    assert_eq!(sink.received().len(), 3);
}

#[tokio::test]
async fn a_success_notice_is_sent_if_the_next_server_sends_none() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let mut outgoing = host.outgoing(&["zoe@far.example", "bob@here.example"], &mail("Hi"));
    let success = Notify { success: true, failure: true, delay: false };
    for recipient in &mut outgoing.recipients {
        recipient.notify = Some(success);
    }
    outgoing.ret = Some(Ret::Full);
    outgoing.envid = Some("QQ1".to_owned());
    host.message_store.accept(outgoing).await.unwrap();
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    // The sink offers DSN, so it is responsible for the notice about zoe.
    let inbox = host.inbox("ann@here.example").await;
    assert_eq!(inbox.len(), 1, "{inbox:?}");
    let report = &inbox[0];
    for part in ["Return-Path: <>\r\n", "Original-Envelope-Id: QQ1", "Final-Recipient: rfc822;bob@here.example"] {
        assert!(report.contains(part), "{part} in {report}");
    }
    assert!(report.contains("Action: delivered\r\nStatus: 2.0.0\r\n") && !report.contains("zoe@far.example"));
    assert!(report.contains("Subject: Hi\r\n") && !report.contains("Hello."), "headers only: {report}");
    assert!(host.queue_is_empty().await);
}

#[tokio::test]
async fn a_relay_that_is_not_there_is_no_fault_of_the_mail() {
    let host = MailHost::open().await;
    host.send(&["zoe@far.example"], &mail("Hi")).await;
    let agent = host.agent(|settings| settings.relay = Some(Relay::new("gone.example", 25)));
    agent.deliver_due_once().await.unwrap();
    assert_eq!(host.reported().await, [("zoe@far.example".to_owned(), Outcome::Deferred, "4.4.0".to_owned())]);
}

#[tokio::test]
async fn a_submission_is_relayed_with_trace_fields_and_signature() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let mut line = Line::to(host.submission).await;
    line.reply().await;
    for command in ["EHLO client.example", "AUTH PLAIN AGFubkBoZXJlLmV4YW1wbGUAc2VjcmV0"] {
        assert!(line.say(command).await.starts_with('2'), "{command}");
    }
    line.say("MAIL FROM:<ann@here.example>").await;
    line.say("RCPT TO:<Zoe@far.example>").await;
    line.say("DATA").await;
    let message = "From: ann@here.example\r\nDate: today\r\nMessage-ID: <1@here.example>\r\n\r\nhello\r\n";
    line.send(message.as_bytes()).await;
    let queued = line.say(".").await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let received = &sink.received()[0];
    let data = String::from_utf8_lossy(&received.data);
    assert!(data.starts_with("Received: from client.example"), "{data}");
    assert!(data.ends_with(&format!("\r\nDKIM-Signature: d=here.example\r\n{message}")), "{data}");
    let event = &host.events().await[0];
    assert!(queued.ends_with(&event.queue_id.0) && data.contains(&event.queue_id.0), "{queued}");
    assert_eq!(event.message_id, None);
}

const FORWARDER: &str = "SRS0=AbCd=2K=far.example=Zoe@fwd.example";

#[tokio::test]
async fn a_local_part_leaves_as_it_was_given() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let mut line = Line::to(host.submission).await;
    line.reply().await;
    let rcpt = format!("RCPT TO:<{FORWARDER}>");
    for command in
        ["EHLO client.example", "AUTH PLAIN AGFubkBoZXJlLmV4YW1wbGUAc2VjcmV0", "MAIL FROM:<ann@here.example>"]
    {
        assert!(line.say(command).await.starts_with('2'), "{command}");
    }
    assert!(line.say(&rcpt).await.starts_with('2'));
    // Another spelling of the address is the same recipient.
    assert!(line.say(&rcpt.to_uppercase()).await.starts_with('2'));
    line.say("DATA").await;
    line.send(mail("Hi").as_bytes()).await;
    line.say(".").await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(sink.received()[0].recipients, [FORWARDER]);
    let event = &host.events().await[0];
    assert_eq!((event.recipient.shown(), event.recipient.as_str()), (FORWARDER, &*FORWARDER.to_lowercase()));
}

#[tokio::test]
async fn a_notice_goes_to_the_sender_as_it_was_given() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["550 5.1.1 Unknown"]);
    let sender = EmailAddress::as_given(FORWARDER).unwrap();
    let recipient = EmailAddress::as_given("Zoe@far.example").unwrap();
    let forwarded = Incoming::new(Some(sender), [recipient], mail("Hi"), host.clock.now(), Relaying::Allowed);
    host.message_store.accept(forwarded).await.unwrap();
    for _ in 0..2 {
        host.agent_to(&sink).deliver_due_once().await.unwrap();
    }
    let received = sink.received();
    let [notice] = &received[..] else { panic!("one notice: {received:?}") };
    assert_eq!((notice.sender.as_str(), &notice.recipients[..]), ("", &[FORWARDER.to_owned()][..]));
    let text = String::from_utf8_lossy(&notice.data);
    assert!(text.contains(&format!("To: <{FORWARDER}>")), "{text}");
    assert!(text.contains("Final-Recipient: rfc822;Zoe@far.example"), "{text}");
}

#[tokio::test]
async fn who_gets_a_copy_unseen_stays_unseen() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let mut line = Line::to(host.submission).await;
    line.reply().await;
    for command in [
        "EHLO client.example",
        "AUTH PLAIN AGFubkBoZXJlLmV4YW1wbGUAc2VjcmV0",
        "MAIL FROM:<ann@here.example>",
        "RCPT TO:<zoe@far.example>",
        "RCPT TO:<bob@here.example>",
    ] {
        assert!(line.say(command).await.starts_with('2'), "{command}");
    }
    line.say("DATA").await;
    let message = "From: ann@here.example\r\nBcc: boss@far.example,\r\n bob@here.example\r\nDate: today\r\n\
                   Resent-Bcc: boss@far.example\r\nReturn-Path: <boss@far.example>\r\n\
                   Authentication-Results: mx.here.example;\r\n dmarc=pass header.from=boss@far.example\r\n\
                   Message-ID: <1@here.example>\r\nTo: zoe@far.example\r\n\r\nhello\r\n";
    line.send(message.as_bytes()).await;
    assert!(line.say(".").await.starts_with("250"));
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let relayed = String::from_utf8_lossy(&sink.received()[0].data).into_owned();
    let delivered = host.inbox("bob@here.example").await.remove(0);
    for data in [relayed, delivered] {
        assert!(!data.to_lowercase().contains("bcc:") && !data.contains("boss@far.example"), "{data}");
        let signed = "DKIM-Signature: d=here.example\r\nFrom: ann@here.example\r\nDate: today\r\n\
                      Message-ID: <1@here.example>\r\nTo: zoe@far.example\r\n\r\nhello\r\n";
        assert!(data.ends_with(signed), "{data}");
    }
}

#[tokio::test]
async fn who_is_disabled_meanwhile_submits_nothing_more() {
    for last in ["MAIL FROM:<ann@here.example>", "RCPT TO:<bob@here.example>", "."] {
        let host = MailHost::open().await;
        let mut line = Line::to(host.submission).await;
        line.reply().await;
        let before =
            ["EHLO client.example", "AUTH PLAIN AGFubkBoZXJlLmV4YW1wbGUAc2VjcmV0", "MAIL FROM:<ann@here.example>"];
        for command in before.into_iter().chain(["RCPT TO:<bob@here.example>", "DATA", "From: ann@here.example\r\n"]) {
            if command == last {
                break;
            }
            if command.starts_with("From") {
                line.send(command.as_bytes()).await;
            } else {
                assert!(line.say(command).await.starts_with(['2', '3']), "{command}");
            }
        }
        host.disable_everybody();
        assert!(line.say(last).await.starts_with("421 4.7.0"), "{last}");
        assert!(line.read().await.is_none());
        assert!(host.inbox("bob@here.example").await.is_empty());
    }
}
