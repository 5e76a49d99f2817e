//! Changes of the queue by the operator, beside a delivery agent.

use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{Queue, QueueChange, QueueError, Rounds};
use mailapi_backend_embedded::net::Shutdown;
use mailapi_model::{Clock, Outcome, QueueId, QueueState};
use mailapi_testkit::SmtpSink;

use crate::interrupted::stops_after;
use crate::mail_host::{MailHost, mail, relay_at};

const PATIENCE: Duration = Duration::from_secs(60);

/// Queues a message and returns its queue id.
async fn queued(host: &MailHost, recipients: &[&str]) -> QueueId {
    host.message_store.accept(host.outgoing(recipients, &mail("Hi"))).await.unwrap().queue_id
}

async fn change(host: &MailHost, id: &QueueId, change: QueueChange) -> Result<(), QueueError> {
    host.message_store.change(id, change).await
}

async fn states(host: &MailHost, id: &QueueId) -> Vec<QueueState> {
    host.message_store.get(id).await.unwrap().recipients.iter().map(|one| one.state).collect()
}

#[tokio::test]
async fn a_message_in_an_attempt_is_not_cancelled() {
    for last in ["EHLO", "MAIL", "RCPT", "DATA", "Subject", "."] {
        let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
        let (slow, stopped) = stops_after(last).await;
        let id = queued(&host, &["zoe@far.example", "joe@far.example"]).await;
        let agent = host.agent(|settings| settings.relay = relay_at(slow));
        tokio::select! {
            _ = agent.deliver_due_once() => panic!("the remote server must not reply"),
            reached = stopped => reached.unwrap(),
        }
        assert_eq!(states(&host, &id).await, [QueueState::Active; 2]);
        assert_eq!(change(&host, &id, QueueChange::Cancel).await, Err(QueueError::Busy), "{last}");
        // The result is unknown even after the lease.
        host.wait(61);
        assert_eq!(change(&host, &id, QueueChange::Cancel).await, Err(QueueError::Busy), "{last}");
        assert_eq!(change(&host, &id, QueueChange::Hold).await, Ok(()));
        assert!(host.events().await.is_empty(), "{last}");
        // The next delivery agent, after a restart: the message is still on hold.
        host.message_store.end_leases().await.unwrap();
        assert_eq!(host.agent_to(&sink).deliver_due_once().await.unwrap(), 0);
        assert_eq!(change(&host, &id, QueueChange::Cancel).await, Ok(()), "{last}");
        let outcomes: Vec<_> = host.events().await.iter().map(|event| event.outcome).collect();
        assert_eq!(outcomes, [Outcome::Bounced; 2], "{last}");
        assert_eq!(host.agent_to(&sink).deliver_due_once().await.unwrap(), 0);
        assert!(sink.received().is_empty(), "{last}");
        assert!(host.inbox("ann@here.example").await.is_empty(), "no notice is sent");
    }
}

#[tokio::test]
async fn a_hold_during_an_attempt_lasts_beyond_it() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["450 4.2.0 Greylisted"]);
    let id = queued(&host, &["zoe@far.example"]).await;
    let claimed = host.message_store.claim_due(9, Duration::from_secs(3600)).await.unwrap();
    assert_eq!(change(&host, &id, QueueChange::Hold).await, Ok(()));
    let names = claimed.iter().map(|message| (message.key, 0)).collect();
    host.message_store.put_off(names, host.clock.now()).await.unwrap();
    assert_eq!(states(&host, &id).await, [QueueState::Held]);
    assert_eq!(host.message_store.next_due_at().await.unwrap(), None);
    assert_eq!(change(&host, &id, QueueChange::Release).await, Ok(()));
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(states(&host, &id).await, [QueueState::Deferred]);
}

#[tokio::test]
async fn a_message_on_hold_expires_only_after_its_release() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["450 4.2.0 Greylisted"; 2]);
    let id = queued(&host, &["zoe@far.example"]).await;
    let agent = host.agent_to(&sink);
    agent.deliver_due_once().await.unwrap();
    change(&host, &id, QueueChange::Hold).await.unwrap();
    host.wait(6 * 24 * 60);
    assert_eq!(agent.deliver_due_once().await.unwrap(), 0);
    assert_eq!(change(&host, &id, QueueChange::Retry).await, Err(QueueError::Held));
    assert_eq!(agent.deliver_due_once().await.unwrap(), 0);
    change(&host, &id, QueueChange::Release).await.unwrap();
    assert_eq!(agent.deliver_due_once().await.unwrap(), 1);
    let outcomes: Vec<_> = host.events().await.iter().map(|event| event.outcome).take(2).collect();
    assert_eq!(outcomes, [Outcome::Deferred, Outcome::Expired]);
}

#[tokio::test]
async fn a_retry_is_due_at_once_and_sent_once() {
    let (host, sink) = (MailHost::open().await, SmtpSink::start().await);
    sink.refuse("zoe@far.example", &["450 4.2.0 Greylisted"]);
    let id = queued(&host, &["zoe@far.example"]).await;
    let agent = host.agent_to(&sink);
    agent.deliver_due_once().await.unwrap();
    assert_eq!(agent.deliver_due_once().await.unwrap(), 0);
    for _ in 0..2 {
        change(&host, &id, QueueChange::Retry).await.unwrap();
    }
    assert_eq!(agent.deliver_due_once().await.unwrap(), 1);
    assert_eq!(sink.received().len(), 1);
    assert_eq!(change(&host, &id, QueueChange::Retry).await, Err(QueueError::NotFound));
}

#[tokio::test]
async fn a_hold_stops_what_waits_for_a_connection() {
    let host = Arc::new(MailHost::open().await);
    let (slow, stopped) = stops_after("EHLO").await;
    let first = queued(&host, &["zoe@far.example"]).await;
    let agent = host.agent(|settings| {
        settings.relay = relay_at(slow);
        settings.max_connections = 1;
        settings.grace = Duration::ZERO;
    });
    let (stop, shutdown) = Shutdown::channel();
    let running = tokio::spawn(async move { agent.run(shutdown, Rounds::of("courier")).await });
    tokio::time::timeout(PATIENCE, stopped).await.unwrap().unwrap();
    let second = queued(&host, &["joe@far.example"]).await;
    let cancelled = async {
        while states(&host, &second).await != [QueueState::Active] {
            tokio::task::yield_now().await;
        }
        assert_eq!(change(&host, &second, QueueChange::Cancel).await, Err(QueueError::Busy));
        change(&host, &second, QueueChange::Hold).await.unwrap();
        while change(&host, &second, QueueChange::Cancel).await == Err(QueueError::Busy) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, cancelled).await.unwrap();
    assert_eq!(host.message_store.get(&second).await, Err(QueueError::NotFound));
    assert_eq!(states(&host, &first).await, [QueueState::Active]);
    let bounced: Vec<_> = host.events().await.into_iter().map(|event| event.queue_id).collect();
    assert_eq!(bounced, [second]);
    stop.send_replace(true);
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_release_wakes_the_delivery_agent() {
    let (host, sink) = (Arc::new(MailHost::open().await), SmtpSink::start().await);
    let id = queued(&host, &["zoe@far.example"]).await;
    change(&host, &id, QueueChange::Hold).await.unwrap();
    let agent = host.agent_to(&sink);
    let (stop, shutdown) = Shutdown::channel();
    let running = tokio::spawn(async move { agent.run(shutdown, Rounds::of("courier")).await });
    change(&host, &id, QueueChange::Release).await.unwrap();
    let sent = async {
        while host.events().await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, sent).await.unwrap();
    stop.send_replace(true);
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    assert_eq!(sink.received().len(), 1);
}
