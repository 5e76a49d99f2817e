//! Servers that take few recipients, or few messages, at once.

use mailapi_model::Outcome;
use mailapi_testkit::SmtpSink;

use crate::mail_host::{MailHost, mail, relay_at};

fn recipients(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("r{number}@far.example")).collect()
}

/// Sends one message to these recipients over one connection at a time, in one run of the queue.
async fn send(host: &MailHost, sink: &SmtpSink, recipients: &[String]) {
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    host.send(&recipients, &mail("Hi")).await;
    let agent = host.agent(|settings| settings.relay = relay_at(sink.address()));
    agent.deliver_due_once().await.unwrap();
}

fn arrived(sink: &SmtpSink) -> Vec<String> {
    sink.received().into_iter().flat_map(|message| message.recipients).collect()
}

#[tokio::test]
async fn a_message_that_was_refused_leaves_the_surplus_for_later() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.limit_recipients(2, "452 4.5.3 Too many recipients");
    sink.refuse_data(&["451 4.3.0 Busy"]);
    send(&host, &sink, &recipients(3)).await;
    let outcomes: Vec<_> = host.reported().await.into_iter().map(|(_, outcome, code)| (outcome, code)).collect();
    let deferred = |code: &str| (Outcome::Deferred, code.to_owned());
    assert_eq!(outcomes, [deferred("4.3.0"), deferred("4.3.0"), deferred("4.5.3")]);
    assert!(sink.received().is_empty());
}

#[tokio::test]
async fn a_server_that_is_busy_is_not_asked_for_each_recipient() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.offer(&["PIPELINING", "LIMITS RCPTMAX=1"]);
    sink.refuse_data(&["451 4.3.0 Busy", "550 5.7.1 Not for this one"]);
    send(&host, &sink, &recipients(3)).await;
    let outcomes: Vec<_> = host.reported().await.into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!((outcomes, sink.recipients_named()), (vec![Outcome::Deferred; 3], 1));
    host.wait(5);
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let outcomes: Vec<_> = host.reported().await[3..6].iter().map(|(_, outcome, _)| *outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Bounced, Outcome::Sent, Outcome::Sent],
        "a permanent refusal is that of one recipient"
    );
}

#[tokio::test]
async fn a_full_mailbox_is_no_limit_of_recipients() {
    for reply in ["552 5.2.2 Mailbox full", "552 Mailbox full", "552 5.3.4 Too big for many recipients"] {
        let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
        sink.refuse("r1@far.example", &[reply]);
        send(&host, &sink, &recipients(3)).await;
        let outcomes: Vec<_> = host.reported().await.into_iter().map(|(_, outcome, _)| outcome).collect();
        assert_eq!(outcomes[..3], [Outcome::Sent, Outcome::Bounced, Outcome::Sent], "{reply}");
        assert_eq!(sink.received().len(), 1);
    }
}

#[tokio::test]
async fn recipients_that_were_too_many_follow_at_once() {
    for reply in [
        "552 5.5.3 Too many recipients",
        "452 4.5.3 Too many recipients",
        "552 too many recipients",
        "452 Try the others later",
        "550-5.5.3 Too many\r\n550 5.5.3 recipients",
    ] {
        let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
        sink.limit_recipients(2, reply);
        let recipients = recipients(7);
        send(&host, &sink, &recipients).await;
        assert_eq!(arrived(&sink), recipients, "{reply}");
        assert_eq!(sink.received().len(), 4, "{reply}");
        let sent = (Outcome::Sent, "2.0.0".to_owned());
        let expected: Vec<_> = recipients.iter().map(|name| (name.clone(), sent.0, sent.1.clone())).collect();
        assert_eq!(host.reported().await, expected, "{reply}");
        assert!(host.queue_is_empty().await);
        assert_eq!(sink.recipients_named(), 12, "the limit is learned from the first transaction: {reply}");
        assert_eq!(sink.connections(), 1, "{reply}");
    }
}

#[tokio::test]
async fn a_first_recipient_that_is_too_many_is_tried_later() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.limit_recipients(0, "552 5.5.3 Too many recipients");
    send(&host, &sink, &recipients(2)).await;
    let deferred = |name: &str| (name.to_owned(), Outcome::Deferred, "4.5.3".to_owned());
    assert_eq!(host.reported().await, [deferred("r0@far.example"), deferred("r1@far.example")]);
    assert_eq!(sink.recipients_named(), 2);
}

#[tokio::test]
async fn announced_limits_are_honoured() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.offer(&["PIPELINING", "LIMITS RCPTMAX=2 MAILMAX=2"]);
    sink.limit_recipients(2, "550 5.7.1 You were warned");
    let recipients = recipients(5);
    send(&host, &sink, &recipients).await;
    assert_eq!(arrived(&sink), recipients);
    assert_eq!((sink.recipients_named(), sink.received().len()), (5, 3));
    assert_eq!(sink.connections(), 2, "two messages on each connection");
}

#[tokio::test]
async fn a_limit_of_domains_splits_the_mail_of_a_relay() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.offer(&["PIPELINING", "LIMITS RCPTDOMAINMAX=1"]);
    let all = ["a@far.example", "b@far.example", "c@away.example"].map(str::to_owned);
    send(&host, &sink, &all).await;
    let received: Vec<_> = sink.received().into_iter().map(|message| message.recipients).collect();
    assert_eq!(received, [all[..2].to_vec(), all[2..].to_vec()]);
}

#[tokio::test]
async fn of_a_reply_with_two_codes_the_last_line_counts() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("r0@far.example", &["550-5.7.1 Moved\r\n551 5.1.6 elsewhere"]);
    sink.refuse("r1@far.example", &["550-5.7.1 Not now\r\n450 4.2.1 later"]);
    send(&host, &sink, &recipients(3)).await;
    let reported = host.reported().await;
    let outcome = |at: usize| (reported[at].1, reported[at].2.as_str());
    assert_eq!(outcome(0), (Outcome::Bounced, "5.1.6"));
    assert_eq!(outcome(1), (Outcome::Deferred, "4.2.1"));
    assert_eq!(outcome(2), (Outcome::Sent, "2.0.0"));
}
