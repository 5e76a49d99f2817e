//! Notifications of changes by other nodes, on a dedicated connection.
//!
//! Triggers on the tables that nodes cache notify [`CHANNEL`] with the name of the node that made the change.
//! Each node ignores its own name.

use std::task::{Context, Poll};

use futures_util::future::poll_fn;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Client, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresSettings;
use super::connections::Target;
use super::failure::connecting;
use crate::{ForeignChanges, StoreError};

/// The channel that the triggers notify.
const CHANNEL: &str = "mailapi_changes";
/// The channel that is notified of numbered events.
const EVENTS_CHANNEL: &str = "mailapi_events";

/// Counts the changes of other nodes until it is stopped.
#[derive(Debug)]
pub(super) struct Listener {
    changes: ForeignChanges,
    events: ForeignChanges,
    task: AbortHandle,
}

/// How to reach the server, and the name of this node.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) target: Target,
    pub(super) tls: MakeRustlsConnect,
    pub(super) node: String,
}

impl Listener {
    /// Listens before it returns, so that no later change is missed. A broken connection is replaced.
    pub(super) async fn start(line: Line, settings: &PostgresSettings) -> Result<Self, StoreError> {
        let retry = settings.listen_retry;
        let (count, changes) = watch::channel(0);
        let changes = ForeignChanges::counted_by(changes);
        let (event_count, events) = watch::channel(0);
        let events = ForeignChanges::counted_by(events);
        let mut ear = Ear::open(&line).await.map_err(|error| connecting(&error))?;
        let task = tokio::spawn(async move {
            loop {
                let began = Instant::now();
                let lost = ear.hear(&line.node, &count, &event_count).await;
                let why = lost.as_ref().map_or_else(StoreError::closed, connecting);
                tracing::warn!(
                    error = %why,
                    "PostgreSQL LISTEN connection lost; cached entries may be stale until it reconnects"
                );
                if began.elapsed() < retry {
                    // Without a pause, a server that closes each connection at once would be retried in a tight loop.
                    tokio::time::sleep(retry).await;
                }
                ear = loop {
                    match Ear::open(&line).await {
                        Ok(ear) => break ear,
                        Err(_) => tokio::time::sleep(retry).await,
                    }
                };
                // Notifications may have been missed, so count one change.
                count.send_modify(|count| *count += 1);
                event_count.send_modify(|count| *count += 1);
                tracing::info!("PostgreSQL LISTEN connection restored");
            }
        });
        Ok(Self { changes, events, task: task.abort_handle() })
    }

    pub(super) fn changes(&self) -> ForeignChanges {
        self.changes.clone()
    }

    pub(super) fn events(&self) -> ForeignChanges {
        self.events.clone()
    }

    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

type NextMessage = dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send;

/// A connection that only listens.
struct Ear {
    /// Dropping it would end the connection.
    _client: Client,
    next: Box<NextMessage>,
}

impl Ear {
    async fn open(line: &Line) -> Result<Self, Error> {
        let (client, mut connection) = line.target.now().connect(line.tls.clone()).await?;
        let mut next: Box<NextMessage> = Box::new(move |context: &mut Context<'_>| connection.poll_message(context));
        {
            let listen = format!("LISTEN {CHANNEL}; LISTEN {EVENTS_CHANNEL}");
            let mut listening = Box::pin(client.batch_execute(&listen));
            // The connection makes progress only while it is polled. Notifications before LISTEN completes
            // are not counted: nothing is cached yet, and a reconnect counts as a change.
            poll_fn(|context| match listening.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(done),
                Poll::Pending => {
                    while let Poll::Ready(Some(message)) = next(context) {
                        message?;
                    }
                    listening.as_mut().poll(context)
                }
            })
            .await?;
        }
        Ok(Self { _client: client, next })
    }

    /// Counts changes until the connection is lost; returns its error.
    async fn hear(&mut self, node: &str, count: &watch::Sender<u64>, events: &watch::Sender<u64>) -> Option<Error> {
        loop {
            match poll_fn(|context| (self.next)(context)).await {
                Some(Ok(AsyncMessage::Notification(change))) if change.payload() != node => {
                    let counted = if change.channel() == EVENTS_CHANNEL { events } else { count };
                    counted.send_modify(|count| *count += 1);
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Some(error),
                None => return None,
            }
        }
    }
}
