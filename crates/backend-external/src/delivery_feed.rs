//! The log follower as a port, under a name that says whose log it is.

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{DeliveryFeed, FeedBatch, FeedError};
use mailapi_model::{DeliveryEvent, EmailAddress, FeedCursor};

use crate::bounces::ReturnAddress;
use crate::log_follower::LogFollower;

/// The log of one mail host. Hosts that share a database keep their places apart by their names.
pub(crate) struct HostLog {
    log: Arc<LogFollower>,
    name: String,
    /// The reverse-paths of messages, where they are not their authors.
    returns: Option<ReturnAddress>,
}

impl HostLog {
    pub(crate) fn new(log: Arc<LogFollower>, host: Option<&str>, returns: Option<ReturnAddress>) -> Self {
        let name = host.map_or_else(|| log.name().to_owned(), |host| format!("{}@{host}", log.name()));
        Self { log, name, returns }
    }

    /// A return address says nothing of who sent a message: its reader knows.
    fn without_return_address(&self, event: DeliveryEvent) -> DeliveryEvent {
        let is_return_address = |sender: &EmailAddress| {
            self.returns.as_ref().is_some_and(|returns| returns.message_id_of(sender) == event.message_id)
        };
        match &event.sender {
            Some(sender) if event.message_id.is_some() && is_return_address(sender) => {
                DeliveryEvent { sender: None, ..event }
            }
            _ => event,
        }
    }
}

#[async_trait]
impl DeliveryFeed for HostLog {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError> {
        let batch = self.log.read_after(cursor, max).await?;
        let events = batch.events.into_iter().map(|event| self.without_return_address(event)).collect();
        Ok(FeedBatch { events, ..batch })
    }

    async fn forget_until(&self, cursor: &FeedCursor) -> Result<(), FeedError> {
        self.log.forget_until(cursor).await
    }

    async fn stop(&self) -> Result<(), FeedError> {
        self.log.stop().await
    }

    async fn changed(&self) {
        self.log.changed().await;
    }

    async fn check(&self) -> Option<Result<(), String>> {
        Some(self.log.status().error.map_or(Ok(()), Err))
    }

    async fn clock_ahead(&self) -> i64 {
        self.log.status().clock_ahead
    }

    async fn losses(&self) -> Option<String> {
        self.log.losses()
    }
}

/// No log: another process follows it, on the host of the mail server.
pub(crate) struct FollowedElsewhere;

#[async_trait]
impl DeliveryFeed for FollowedElsewhere {
    fn name(&self) -> &str {
        "followed-elsewhere"
    }

    async fn read_after(&self, cursor: &FeedCursor, _: usize) -> Result<FeedBatch, FeedError> {
        Ok(FeedBatch { cursor: cursor.clone(), ..FeedBatch::default() })
    }

    async fn forget_until(&self, _: &FeedCursor) -> Result<(), FeedError> {
        Ok(())
    }

    async fn changed(&self) {
        std::future::pending().await
    }
}
