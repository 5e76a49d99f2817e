//! An interrupted delivery agent loses nothing; a running one needs no trigger.

use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{DeliveryFeed, Rounds};
use mailapi_backend_embedded::net::Shutdown;
use mailapi_model::Outcome;
use mailapi_testkit::SmtpSink;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::mail_host::{MailHost, mail, relay_at};

/// Sends the greeting and replies until it has read a line that starts with `last`; then it is silent.
pub(crate) async fn stops_after(last: &'static str) -> (std::net::SocketAddr, tokio::sync::oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (reached, stopped) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        writer.write_all(b"220 slow.example\r\n").await.unwrap();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.starts_with(last) {
                reached.send(()).unwrap();
                return std::future::pending::<()>().await;
            }
            let reply: &[u8] = if line == "DATA" { b"354 go\r\n" } else { b"250 ok\r\n" };
            if matches!(line.split(' ').next(), Some("EHLO" | "MAIL" | "RCPT" | "DATA")) {
                writer.write_all(reply).await.unwrap();
            }
        }
    });
    (address, stopped)
}

#[tokio::test]
async fn a_delivery_agent_cut_at_any_point_loses_nothing() {
    for last in ["EHLO", "MAIL", "RCPT", "DATA", "Subject", "."] {
        let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
        let (slow, stopped) = stops_after(last).await;
        host.send(&["zoe@far.example", "joe@far.example"], &mail("Hi")).await;
        let agent = host.agent(|settings| settings.relay = relay_at(slow));
        tokio::select! {
            _ = agent.deliver_due_once() => panic!("the remote server must not reply"),
            reached = stopped => reached.unwrap(),
        }
        assert!(host.events().await.is_empty(), "{last}: no event was recorded");
        // The next delivery agent, after a restart.
        host.message_store.end_leases().await.unwrap();
        host.agent_to(&sink).deliver_due_once().await.unwrap();
        let outcomes: Vec<_> = host.events().await.iter().map(|event| event.outcome).collect();
        assert_eq!(outcomes, [Outcome::Sent; 2], "{last}");
        assert_eq!(sink.received().len(), 1, "{last}");
        assert!(host.queue_is_empty().await);
    }
}

#[tokio::test]
async fn a_running_delivery_agent_delivers_and_stops_when_asked() {
    let (host, sink) = (Arc::new(MailHost::open().await), SmtpSink::start().await);
    host.send(&["zoe@far.example"], &mail("before")).await;
    let agent = host.agent_to(&sink);
    let (stop, shutdown) = Shutdown::channel();
    let running = tokio::spawn(async move { agent.run(shutdown, Rounds::of("courier")).await });
    let sent = |count| {
        let host = host.clone();
        async move {
            while host.events().await.len() < count {
                host.message_store.changed().await;
            }
        }
    };
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, sent(1)).await.unwrap();
    host.send(&["joe@far.example"], &mail("while it runs")).await;
    tokio::time::timeout(patience, sent(2)).await.unwrap();
    stop.send_replace(true);
    tokio::time::timeout(patience, running).await.unwrap().unwrap();
    assert_eq!(sink.received().len(), 2);
}
