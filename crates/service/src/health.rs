//! `GET /health`: whether everything that mailapi needs answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mailapi_backend::DeliveryFeed;
use mailapi_model::Timestamp;
use tokio::sync::Mutex;

use crate::Service;

/// What the parts said when they were last asked; a part that answers says `Ok`.
#[derive(Debug, Clone)]
pub struct Health {
    /// The account database.
    pub database: Check,
    /// Handing mail over.
    pub smtp: Check,
    /// Reading mailboxes.
    pub imap: Check,
    /// Reading the mail server's log, where it has one.
    pub log: Option<Check>,
    /// Whether nothing of that log was lost lately. What is lost does not come back, and everything goes on without it.
    pub log_is_whole: bool,
    /// Whether the log's clock agrees with ours, as far as its lines show. If not, log times are corrected.
    pub log_clock_agrees: bool,
    /// Reading the mailbox that bounces go to, where there is one. Mail goes in and out without it; what comes meanwhile
    /// is read later.
    pub bounces: Option<Check>,
    /// Whether all messages of that mailbox could be read lately. Those that could not were stepped over.
    pub bounces_are_whole: bool,
    /// The user database that is not ours, where there is one.
    pub users: Option<Check>,
}

/// One part's answer; an error is a short word for everybody's eyes.
pub type Check = Result<(), &'static str>;

impl Health {
    /// Whether all of them answer that mail and callers depend on: all but the mailbox of bounces.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        let further = [self.log, self.users];
        self.database.is_ok()
            && self.smtp.is_ok()
            && self.imap.is_ok()
            && further.into_iter().flatten().all(|check| check.is_ok())
    }
}

/// The newest result, given again for a while so that asking is cheap.
#[derive(Default)]
pub(crate) struct LastChecks(Mutex<Option<(Timestamp, Arc<Health>)>>);

impl Service {
    /// Asks every part, or gives the newest result again when it is fresh. Never fails: not to answer is an answer.
    pub async fn health(&self) -> Arc<Health> {
        let mut last = self.0.last_checks.0.lock().await;
        let now = self.0.clock.now();
        if let Some((at, health)) = last.as_ref()
            && now.since(*at) < self.0.settings.health_cache
        {
            return health.clone();
        }
        let limit = self.0.settings.health_timeout;
        let backend = &self.0.backend;
        let (database, smtp, imap, log, log_is_whole, bounces, bounces_are_whole, users) = tokio::join!(
            answered("database", limit, async { self.0.store.ping().await.map_err(|error| error.to_string()) }),
            answered("smtp", limit, backend.submission.check()),
            answered("imap", limit, backend.mailboxes.check()),
            self.feed_check("log", Some(&backend.delivery_feed)),
            is_whole(Some(&backend.delivery_feed)),
            self.feed_check("bounces", backend.bounce_feed.as_ref()),
            is_whole(backend.bounce_feed.as_ref()),
            self.directory_check(),
        );
        let log_clock_agrees = backend.delivery_feed.clock_ahead().await == 0;
        let health = Arc::new(Health {
            database,
            smtp,
            imap,
            log,
            log_is_whole,
            log_clock_agrees,
            bounces,
            bounces_are_whole,
            users,
        });
        *last = Some((now, health.clone()));
        health
    }

    async fn directory_check(&self) -> Option<Check> {
        let directory = self.0.store.directory()?;
        let asked = async {
            directory.ping().await.map_err(|error| error.to_string())?;
            // Log-ins may work even when listing all mailboxes fails.
            match self.0.directory_failed.load(Ordering::Relaxed) {
                true => Err("the last sync of all mailboxes failed".to_owned()),
                false => Ok(()),
            }
        };
        Some(answered("users", self.0.settings.health_timeout, asked).await)
    }

    async fn feed_check(&self, part: &str, feed: Option<&Arc<dyn DeliveryFeed>>) -> Option<Check> {
        let checked = feed?.check().await?;
        Some(answered(part, self.0.settings.health_timeout, async { checked }).await)
    }
}

async fn is_whole(feed: Option<&Arc<dyn DeliveryFeed>>) -> bool {
    match feed {
        Some(feed) => feed.losses().await.is_none(),
        None => true,
    }
}

async fn answered(part: &str, limit: Duration, question: impl Future<Output = Result<(), String>>) -> Check {
    match tokio::time::timeout(limit, question).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(part, error, "health check failed");
            Err("unavailable")
        }
        Err(_) => {
            tracing::warn!(part, "health check took too long");
            Err("timeout")
        }
    }
}
