//! Temporary failures and expiry.

use mailapi_backend_embedded::accept::{Incoming, Relaying};
use mailapi_model::{Clock, Outcome};
use mailapi_smtp::Notify;
use mailapi_testkit::SmtpSink;
use std::time::Duration;

use crate::direct::agent_to_port;
use crate::mail_host::{MailHost, address, mail, relay_at};

fn event(recipient: &str, outcome: Outcome, code: &str) -> (String, Outcome, String) {
    (recipient.to_owned(), outcome, code.to_owned())
}

#[tokio::test]
async fn a_message_is_not_tried_again_before_its_time() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["450 4.2.0 Greylisted"]);
    host.send(&["zoe@far.example"], &mail("Hi")).await;
    let agent = host.agent_to(&sink);
    assert_eq!(agent.deliver_due_once().await.unwrap(), 1);
    host.wait(4);
    assert_eq!(agent.deliver_due_once().await.unwrap(), 0);
    assert_eq!(host.reported().await, [event("zoe@far.example", Outcome::Deferred, "4.2.0")]);
}

#[tokio::test]
async fn a_clock_that_is_set_back_lengthens_no_wait() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["450 4.2.0 Greylisted", "450 4.2.0 Greylisted"]);
    host.send(&["zoe@far.example"], &mail("Hi")).await;
    let agent = host.agent_to(&sink);
    assert_eq!(agent.deliver_due_once().await.unwrap(), 1);
    host.clock.set_back(Duration::from_secs(2 * 24 * 60 * 60));
    assert_eq!(agent.deliver_due_once().await.unwrap(), 1, "no wait is as long as two days");
    assert_eq!(agent.deliver_due_once().await.unwrap(), 0, "a wait of the right clock");
    host.wait(10);
    assert_eq!(agent.deliver_due_once().await.unwrap(), 1);
    assert_eq!(sink.received().len(), 1);
}

#[tokio::test]
async fn what_is_refused_for_now_is_sent_later_and_once() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["450 4.2.0 Greylisted"]);
    sink.refuse_data(&["451 4.3.0 Busy"]);
    host.send(&["zoe@far.example"], &mail("Hi")).await;
    let agent = host.agent_to(&sink);
    agent.deliver_due_once().await.unwrap();
    host.wait(5);
    agent.deliver_due_once().await.unwrap();
    host.wait(10);
    agent.deliver_due_once().await.unwrap();
    assert_eq!(
        host.reported().await,
        [
            event("zoe@far.example", Outcome::Deferred, "4.2.0"),
            event("zoe@far.example", Outcome::Deferred, "4.3.0"),
            event("zoe@far.example", Outcome::Sent, "2.0.0"),
        ]
    );
    let last = host.events().await.pop().unwrap();
    assert_eq!(last.delay, Duration::from_secs(15 * 60));
    assert_eq!(sink.received().len(), 1);
    assert!(host.inbox("ann@here.example").await.is_empty());
}

#[tokio::test]
async fn a_reply_without_enhanced_code_gets_the_undefined_one() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["550 go away"]);
    sink.refuse("joe@far.example", &["450 later"]);
    sink.refuse_data(&["250 taken"]);
    host.send(&["zoe@far.example", "joe@far.example", "eve@far.example"], &mail("Hi")).await;
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let expected = [
        event("zoe@far.example", Outcome::Bounced, "5.0.0"),
        event("joe@far.example", Outcome::Deferred, "4.0.0"),
        event("eve@far.example", Outcome::Sent, "2.0.0"),
    ];
    assert_eq!(host.reported().await[..3], expected, "a notice to ann follows");
    assert_eq!(host.events().await[0].response, "550 go away", "the reply is recorded verbatim");
}

#[tokio::test]
async fn an_unknown_outcome_is_tried_again_rather_than_lost() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.hang_up_after_data(1);
    host.send(&["zoe@far.example"], &mail("Hi")).await;
    let agent = host.agent_to(&sink);
    agent.deliver_due_once().await.unwrap();
    assert_eq!(host.reported().await, [event("zoe@far.example", Outcome::Deferred, "4.4.2")]);
    host.wait(5);
    agent.deliver_due_once().await.unwrap();
    assert_eq!(host.reported().await[1..], [event("zoe@far.example", Outcome::Sent, "2.0.0")]);
    assert_eq!(sink.received().len(), 2, "the sink accepted both copies");
}

#[tokio::test]
async fn a_message_that_is_too_old_is_given_back() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["450 4.2.1 Not today", "450 4.2.1 Not today either"]);
    host.send(&["zoe@far.example"], &mail("Hi")).await;
    let agent = host.agent_to(&sink);
    agent.deliver_due_once().await.unwrap();
    host.wait(5 * 24 * 60);
    agent.deliver_due_once().await.unwrap();
    assert_eq!(host.reported().await[1], event("zoe@far.example", Outcome::Expired, "5.4.7"));
    let responses: Vec<_> = host.events().await.into_iter().map(|event| event.response).collect();
    let given_up = "the message could not be delivered in time; last reply: 450 4.2.1 Not today either";
    assert_eq!(responses[..2], ["450 4.2.1 Not today", given_up], "the code of a reply is a server's");
    let inbox = host.inbox("ann@here.example").await;
    assert_eq!(inbox.len(), 1);
    let said = "Status: 5.4.7\r\nRemote-MTA: dns;127.0.0.1\r\nDiagnostic-Code: smtp;450 4.2.1 Not today either\r\n";
    assert!(inbox[0].contains(said), "{}", inbox[0]);
    assert!(host.queue_is_empty().await);
}

#[tokio::test]
async fn a_delay_is_reported_once_unless_notify_leaves_it_out() {
    let notify = |delay| Some(Notify { success: false, failure: true, delay });
    for (notify, notices) in [(None, 1), (notify(true), 1), (notify(false), 0), (Some(Notify::NEVER), 0)] {
        let inbox = inbox_after_a_day_of_delay(notify).await;
        assert_eq!(inbox.len(), notices, "{notify:?} {inbox:?}");
        for notice in inbox {
            assert!(notice.contains("Subject: Your message to zoe@far.example is delayed\r\n"), "{notice}");
            assert!(notice.contains("Action: delayed\r\nStatus: 4.2.1\r\n"), "{notice}");
            assert!(notice.contains("Will-Retry-Until: Wed, 25 Nov 2026 10:15:30 +0000\r\n"), "{notice}");
        }
    }
}

#[tokio::test]
async fn a_delay_is_reported_once_however_many_domains() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let recipients = ["zoe@far.example", "joe@away.example", "eve@elsewhere.example"];
    // Each delay occurs before another one is reported, and the recipient of the first notice leaves the
    // queue.
    for (recipient, refusals) in recipients.iter().zip([3, 5, 5]) {
        host.dns.set_addresses(address(recipient).domain_str(), &["127.0.0.1"]);
        sink.refuse(recipient, &["450 4.2.1 No"].repeat(refusals));
    }
    host.send(&recipients, &mail("Hi")).await;
    let agent = agent_to_port(&host, sink.address());
    for (minutes, notices) in [(0, 0), (5, 0), (4 * 60, 1), (4 * 60, 1), (4 * 60, 1)] {
        host.wait(minutes);
        agent.deliver_due_once().await.unwrap();
        let inbox = host.inbox("ann@here.example").await;
        assert_eq!(inbox.len(), notices, "{inbox:?}");
    }
    let reported = host.reported().await;
    let of = |outcome| reported.iter().filter(|(_, seen, _)| *seen == outcome).count();
    assert_eq!((of(Outcome::Deferred), of(Outcome::Sent)), (13, 1 + 1), "zoe's message, and the notice to ann");
}

#[tokio::test]
async fn a_delayed_bounce_causes_no_notice() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["450 4.2.1 No"; 4]);
    let null = Incoming::new(None, [address("zoe@far.example")], mail("Hi"), host.clock.now(), Relaying::Allowed);
    host.message_store.accept(null).await.unwrap();
    let agent = host.agent_to(&sink);
    for minutes in [0, 5, 4 * 60] {
        host.wait(minutes);
        agent.deliver_due_once().await.unwrap();
    }
    let deferred = || event("zoe@far.example", Outcome::Deferred, "4.2.1");
    assert_eq!(host.reported().await, [deferred(), deferred(), deferred()]);
    assert!(host.inbox("ann@here.example").await.is_empty());
}

/// Returns the notices to ann about a message that waits for most of a day.
async fn inbox_after_a_day_of_delay(notify: Option<Notify>) -> Vec<String> {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let mut outgoing = host.outgoing(&["zoe@far.example"], &mail("Hi"));
    outgoing.recipients[0].notify = notify;
    host.message_store.accept(outgoing).await.unwrap();
    sink.refuse("zoe@far.example", &["450 4.2.1 No"; 5]);
    let agent = host.agent_to(&sink);
    for minutes in [0, 5, 4 * 60, 4 * 60, 4 * 60] {
        host.wait(minutes);
        agent.deliver_due_once().await.unwrap();
    }
    host.inbox("ann@here.example").await
}

#[tokio::test]
async fn an_unrecorded_result_is_retried_and_nothing_is_sent_twice() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    host.send(&["zoe@far.example"], &mail("once")).await;
    let stop = "CREATE TRIGGER stop BEFORE DELETE ON drop_queue_recipients BEGIN SELECT RAISE(FAIL, 'stopped'); END";
    host.database().execute_batch(stop).unwrap();
    let agent = host.agent(|settings| {
        settings.relay = relay_at(sink.address());
        settings.first_record_pause = Duration::from_millis(1);
    });
    let delivering = tokio::spawn({
        let agent = agent.clone();
        async move { agent.deliver_due_once().await }
    });
    while sink.received().is_empty() {
        tokio::task::yield_now().await;
    }
    // The lease ends while the result is still unrecorded.
    host.wait(61);
    assert_eq!(agent.deliver_due_once().await.unwrap(), 0);
    assert!(host.reported().await.is_empty());
    host.database().execute_batch("DROP TRIGGER stop").unwrap();
    assert_eq!(delivering.await.unwrap().unwrap(), 1);
    assert_eq!(host.reported().await, [("zoe@far.example".to_owned(), Outcome::Sent, "2.0.0".to_owned())]);
    assert_eq!(sink.received().len(), 1);
    assert!(host.queue_is_empty().await);
}
