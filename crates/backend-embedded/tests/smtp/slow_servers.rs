//! Servers that do not answer, and the mail of others.

use std::net::SocketAddr;
use std::time::Duration;

use mailapi_testkit::SmtpSink;
use tokio::net::TcpListener;

use crate::mail_host::{MailHost, address, mail};

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that takes connections and never says anything, at the port of `sink`.
async fn silent_server(sink: &SmtpSink) -> TcpListener {
    TcpListener::bind(SocketAddr::from(([127, 0, 0, 9], sink.address().port()))).await.unwrap()
}

/// A host that knows a healthy server, and this many domains whose server is silent.
async fn host_with(silent: usize) -> (MailHost, SmtpSink, TcpListener, Vec<String>) {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    let listener = silent_server(&sink).await;
    host.dns.set_addresses("healthy.example", &["127.0.0.1"]);
    let domains = (0..silent).map(|number| format!("silent{number}.example"));
    let recipients = domains.map(|domain| {
        host.dns.set_addresses(&domain, &["127.0.0.9"]);
        format!("zoe@{domain}")
    });
    let recipients = recipients.collect();
    (host, sink, listener, recipients)
}

/// Runs the queue until the healthy server has received `count` messages.
async fn until_received(host: &MailHost, sink: &SmtpSink, count: usize) {
    let agent = host.agent(|settings| {
        (settings.port, settings.allow_loopback) = (sink.address().port(), true);
        (settings.max_connections, settings.max_claimed) = (2, 8);
        settings.slow_after = Duration::from_millis(20);
    });
    let arrived = async {
        while sink.received().len() < count {
            tokio::task::yield_now().await;
        }
    };
    let delivering = async {
        loop {
            agent.deliver_due_once().await.unwrap();
        }
    };
    let first = async {
        tokio::select! { () = arrived => {}, () = delivering => {} }
    };
    tokio::time::timeout(PATIENCE, first).await.expect("the healthy server gets its mail in time");
}

#[tokio::test]
async fn servers_that_are_silent_keep_no_mail_of_others_waiting() {
    let (host, sink, _listener, recipients) = host_with(30).await;
    for recipient in &recipients {
        host.send(&[recipient], &mail("Never")).await;
    }
    let mut others = host.outgoing(&["joe@healthy.example"], &mail("Others"));
    others.sender = Some(address("bob@here.example"));
    host.message_store.accept(others).await.unwrap();
    until_received(&host, &sink, 1).await;
    assert_eq!(sink.received()[0].recipients, ["joe@healthy.example"]);
}

#[tokio::test]
async fn a_message_to_many_silent_servers_keeps_no_others_waiting() {
    let (host, sink, _listener, recipients) = host_with(30).await;
    let recipients: Vec<_> = recipients.iter().map(String::as_str).collect();
    host.send(&recipients, &mail("Never")).await;
    let mut others = host.outgoing(&["joe@healthy.example"], &mail("Others"));
    others.sender = None;
    host.message_store.accept(others).await.unwrap();
    until_received(&host, &sink, 1).await;
}

#[tokio::test]
async fn a_few_silent_servers_keep_no_mail_of_their_sender_waiting() {
    let (host, sink, _listener, recipients) = host_with(1).await;
    host.send(&[&recipients[0]], &mail("Never")).await;
    for _ in 0..5 {
        host.send(&["joe@healthy.example"], &mail("Hi")).await;
    }
    until_received(&host, &sink, 5).await;
}
