//! The log follower as a delivery feed, named after the host of the log.

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{Awaited, DeliveryFeed, FeedBatch, FeedError, LostPart, QueueSize};
use mailapi_model::{DeliveryEvent, EmailAddress, FeedCursor};

use crate::bounces::ReturnAddress;
use crate::log_follower::LogFollower;

/// The log of one mail host. Hosts that share a database store their cursors under different names.
pub(crate) struct HostLog {
    log: Arc<LogFollower>,
    name: String,
    /// Whether other hosts deliver messages of the same database.
    is_one_of_several: bool,
    /// The return addresses that messages use as reverse-path, if configured.
    returns: Option<ReturnAddress>,
}

impl HostLog {
    pub(crate) fn new(log: Arc<LogFollower>, host: Option<&str>, returns: Option<ReturnAddress>) -> Self {
        let name = host.map_or_else(|| log.name().to_owned(), |host| format!("{}@{host}", log.name()));
        Self { log, name, is_one_of_several: host.is_some(), returns }
    }

    /// Removes a sender that is only the message's return address: the reader of the feed stores the real one.
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

    async fn lost_parts(&self) -> Vec<LostPart> {
        self.log.lost_parts()
    }

    async fn are_awaited(&self, recipients: &[Awaited]) -> Result<Vec<bool>, FeedError> {
        if self.is_one_of_several {
            return Ok(vec![true; recipients.len()]);
        }
        self.log.are_awaited(recipients).await
    }

    async fn queue(&self, limit: usize) -> Result<Option<QueueSize>, FeedError> {
        self.log.queue(limit).await
    }
}

/// An empty feed, for when another process follows the log on the mail server's host.
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
