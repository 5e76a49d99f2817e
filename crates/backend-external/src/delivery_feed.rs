//! The log follower as a port, under a name that says whose log it is.

use std::sync::Arc;

use async_trait::async_trait;
use mailapi_backend::{DeliveryFeed, FeedBatch, FeedError};
use mailapi_model::FeedCursor;

use crate::log_follower::LogFollower;

/// The log of one mail host. Hosts that share a database keep their places apart by their names.
pub(crate) struct HostLog {
    log: Arc<LogFollower>,
    name: String,
}

impl HostLog {
    pub(crate) fn new(log: Arc<LogFollower>, host: Option<&str>) -> Self {
        let name = host.map_or_else(|| log.name().to_owned(), |host| format!("{}@{host}", log.name()));
        Self { log, name }
    }
}

#[async_trait]
impl DeliveryFeed for HostLog {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read_after(&self, cursor: &FeedCursor, max: usize) -> Result<FeedBatch, FeedError> {
        self.log.read_after(cursor, max).await
    }

    async fn forget_until(&self, cursor: &FeedCursor) -> Result<(), FeedError> {
        self.log.forget_until(cursor).await
    }

    async fn changed(&self) {
        self.log.changed().await;
    }

    async fn check(&self) -> Option<Result<(), String>> {
        Some(self.log.status().error.map_or(Ok(()), Err))
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
        Ok(FeedBatch { events: Vec::new(), cursor: cursor.clone(), lines_read: 0, more: false })
    }

    async fn forget_until(&self, _: &FeedCursor) -> Result<(), FeedError> {
        Ok(())
    }

    async fn changed(&self) {
        std::future::pending().await
    }
}
