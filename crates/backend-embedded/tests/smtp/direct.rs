//! Delivery to the recipients' own servers.

use std::net::SocketAddr;
use std::time::Duration;

use mailapi_backend::{Queue, QueueFilter};
use mailapi_backend_embedded::delivery_agent::DeliveryAgent;
use mailapi_model::{Outcome, Page};
use mailapi_testkit::{Reaction, SmtpSink, StrictServer};
use tokio::net::TcpListener;

use crate::mail_host::{MailHost, mail};

pub(crate) fn agent_to_port(host: &MailHost, address: SocketAddr) -> DeliveryAgent {
    host.agent(|settings| {
        settings.port = address.port();
        settings.allow_loopback = true;
    })
}

/// Returns the result of mail to `zoe@far.example` with the given DNS records.
async fn outcome(arrange: impl FnOnce(&MailHost)) -> (Outcome, String) {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    arrange(&host);
    host.send(&["zoe@far.example"], &mail("Hi")).await;
    agent_to_port(&host, sink.address()).deliver_due_once().await.unwrap();
    let event = host.events().await.remove(0);
    assert_eq!(sink.received().len(), usize::from(event.outcome == Outcome::Sent));
    assert_eq!(event.response.starts_with("250 "), event.outcome == Outcome::Sent, "only a server has a code");
    assert!(event.outcome == Outcome::Sent || !event.response.starts_with(char::is_numeric), "{}", event.response);
    (event.outcome, event.dsn.unwrap().to_string())
}

fn bounced(code: &str) -> (Outcome, String) {
    (Outcome::Bounced, code.to_owned())
}

#[tokio::test]
async fn a_domain_that_does_not_exist_or_takes_no_mail_is_final() {
    assert_eq!(outcome(|_| {}).await, bounced("5.1.2"));
    assert_eq!(outcome(|host| host.dns.set_mx("far.example", &["."])).await, bounced("5.1.10"));
    assert_eq!(outcome(|host| host.dns.set_mx("far.example", &["gone.example"])).await, bounced("5.1.2"));
    assert_eq!(outcome(|host| host.dns.set_txt("far.example", &["v=spf1 -all"])).await, bounced("5.4.4"));
}

#[tokio::test]
async fn a_dns_that_does_not_answer_is_not() {
    let deferred = (Outcome::Deferred, "4.4.3".to_owned());
    assert_eq!(outcome(|host| host.dns.silence("far.example")).await, deferred);
    let silent_host = |host: &MailHost| {
        host.dns.set_mx("far.example", &["mx.far.example", "gone.example"]);
        host.dns.silence("mx.far.example");
    };
    assert_eq!(outcome(silent_host).await, deferred);
}

#[tokio::test]
async fn mail_that_would_come_back_to_ourselves_is_given_back() {
    let ours = |host: &MailHost| {
        host.dns.set_mx("far.example", &["MX.here.example", "backup.far.example"]);
        host.dns.set_addresses("backup.far.example", &["127.0.0.1"]);
    };
    assert_eq!(outcome(ours).await, bounced("5.4.6"));
    let host = MailHost::open().await;
    host.dns.set_mx("far.example", &["mx.far.example"]);
    host.dns.set_addresses("mx.far.example", &["127.0.0.1", "::1", "0.0.0.0"]);
    host.send(&["zoe@far.example"], &mail("Hi")).await;
    host.agent(|_| {}).deliver_due_once().await.unwrap();
    assert_eq!(host.events().await[0].dsn.unwrap().to_string(), "5.4.6");
}

#[tokio::test]
async fn servers_are_tried_in_order_until_one_takes_it() {
    let in_order = |host: &MailHost| {
        host.dns.set_mx("far.example", &["mx1.far.example", "mx2.far.example"]);
        // 127.0.0.2 is a loopback address too, and has no listener.
        host.dns.set_addresses("mx1.far.example", &["127.0.0.2"]);
        host.dns.set_addresses("mx2.far.example", &["127.0.0.1"]);
    };
    assert_eq!(outcome(in_order).await.0, Outcome::Sent);
    assert_eq!(outcome(|host| host.dns.set_addresses("far.example", &["127.0.0.1"])).await.0, Outcome::Sent);
}

#[tokio::test]
async fn an_address_in_utf_8_needs_a_server_that_announces_it() {
    let (host, server) = (MailHost::open().await, StrictServer::start(|_| Reaction::Yes).await);
    host.dns.set_addresses("far.example", &["127.0.0.1"]);
    let agent = agent_to_port(&host, server.address());
    let codes = async |message: &str| {
        host.send(&["zoe@far.example"], message).await;
        agent.deliver_due_once().await.unwrap();
        // The notice to the sender has events too.
        let mut events = host.events().await.into_iter().rev();
        let event = events.find(|event| event.recipient.as_str() == "zoe@far.example").unwrap();
        (event.outcome, event.dsn.unwrap().to_string())
    };
    let copied = mail("Hi").replace("Subject", "Cc: jürgen@far.example\r\nSubject");
    assert_eq!(codes(&copied).await, bounced("5.6.7"));
    assert_eq!(codes(&mail("=?utf-8?q?Gr=C3=BC=C3=9Fe?=")).await.0, Outcome::Sent);
    assert_eq!(codes(&mail("Hi").replace("Hello", "Grüße")).await.0, Outcome::Sent, "a body needs 8BITMIME alone");
    assert_eq!(server.record().taken.len(), 2);
}

#[tokio::test]
async fn a_server_that_is_down_is_tried_again() {
    let host = MailHost::open().await;
    // The port was just released, and nothing else uses this loopback address.
    let free = TcpListener::bind("127.0.0.9:0").await.unwrap().local_addr().unwrap();
    host.dns.set_mx("far.example", &["mx.far.example"]);
    host.dns.set_addresses("mx.far.example", &["127.0.0.9"]);
    host.send(&["zoe@far.example", "joe@far.example"], &mail("Hi")).await;
    agent_to_port(&host, free).deliver_due_once().await.unwrap();
    let events = host.events().await;
    assert_eq!(events.len(), 2);
    assert_eq!((events[0].outcome, events[0].dsn.unwrap().to_string().as_str()), (Outcome::Deferred, "4.4.1"));
    let relay = format!("mx.far.example[127.0.0.9]:{}", free.port());
    assert_eq!(events[0].relay.as_deref(), Some(relay.as_str()));
    // A code would look like the answer of a server.
    assert!(events[0].response.starts_with(&format!("cannot connect to {relay}: ")), "{}", events[0].response);
    let queue = Queue::list(&host.message_store, &QueueFilter::default(), Page::default()).await.unwrap();
    let shown = queue.items[0].recipients[0].last_reply.as_deref();
    assert_eq!((queue.items[0].recipients[0].attempts, shown), (Some(1), Some(events[0].response.as_str())));
}

#[tokio::test]
async fn a_destination_gets_so_many_messages_a_minute() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    for domain in ["far.example", "away.example"] {
        host.dns.set_addresses(domain, &["127.0.0.1"]);
    }
    for _ in 0..10 {
        host.send(&["zoe@far.example", "joe@away.example"], &mail("Hi")).await;
    }
    let agent = host.agent(|settings| {
        settings.port = sink.address().port();
        settings.allow_loopback = true;
        settings.messages_per_minute_per_destination = 18;
    });
    let received = || {
        let to = |name: &str| sink.received().iter().filter(|mail| mail.recipients == [name]).count();
        (to("zoe@far.example"), to("joe@away.example"))
    };
    for (seconds, expected) in [(0, 3), (9, 3), (1, 6), (10, 9), (10, 10)] {
        host.clock.advance(Duration::from_secs(seconds));
        agent.deliver_due_once().await.unwrap();
        assert_eq!(received(), (expected, expected));
    }
    // The wait does not count as an attempt.
    assert!(host.events().await.iter().all(|event| event.outcome == Outcome::Sent));
}

#[tokio::test]
async fn one_busy_destination_does_not_keep_the_others_waiting() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    for domain in ["far.example", "away.example"] {
        host.dns.set_addresses(domain, &["127.0.0.1"]);
    }
    for _ in 0..20 {
        host.send(&["zoe@far.example"], &mail("Hi")).await;
    }
    host.send(&["joe@away.example"], &mail("Hi")).await;
    let agent = host.agent(|settings| {
        settings.port = sink.address().port();
        settings.allow_loopback = true;
        settings.max_claimed = 4;
        settings.max_connections_per_destination = 1;
        settings.max_messages_per_connection = 1;
    });
    agent.deliver_due_once().await.unwrap();
    let recipients = || sink.received().into_iter().flat_map(|message| message.recipients);
    assert!(recipients().any(|recipient| recipient == "joe@away.example"));
    // Deferred recipients come later, and the deferral does not count as an attempt.
    for _ in 0..20 {
        host.wait(1);
        agent.deliver_due_once().await.unwrap();
    }
    assert_eq!(recipients().count(), 21);
    assert!(host.events().await.iter().all(|event| event.outcome == Outcome::Sent));
}
