//! `GET /health`: checks all services that mailapi depends on.

use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::DeliveryFeed;
use mailapi_model::Timestamp;
use mailapi_store::StoreError;
use tokio::sync::Mutex;

use crate::Service;

/// The results of the last checks.
#[derive(Debug, Clone)]
pub struct Health {
    /// The account database.
    pub database: Check,
    /// Submission of mail.
    pub smtp: Check,
    /// Access to mailboxes.
    pub imap: Check,
    /// Reading of the mail server's log, if it has one.
    pub log: Option<Check>,
    /// Whether no part of that log was lost recently. Lost lines do not come back, but operation continues.
    pub log_is_whole: bool,
    /// Whether the log's clock agrees with the local one, judged by its lines. If not, log times are corrected.
    pub log_clock_agrees: bool,
    /// Access to the mailbox for bounces, if there is one. Mail works without it; bounces are read later.
    pub bounces: Option<Check>,
    /// Whether all messages of that mailbox were readable recently. Unreadable ones were skipped.
    pub bounces_are_whole: bool,
    /// Access to the external user database, if there is one.
    pub users: Option<Check>,
}

/// The result of a check; an error is a short text without internal details.
pub type Check = Result<(), &'static str>;

impl Health {
    /// Whether all checks that mail and callers depend on are successful: all but the mailbox for bounces.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        let further = [self.log, self.users];
        self.database.is_ok()
            && self.smtp.is_ok()
            && self.imap.is_ok()
            && further.into_iter().flatten().all(|check| check.is_ok())
    }

    /// Returns the names of the failed checks without which a send or a login fails now. Neither needs access to
    /// mailboxes or to the log.
    #[must_use]
    pub fn not_ready(&self) -> Vec<&'static str> {
        let needed = [("database", Some(self.database)), ("smtp", Some(self.smtp)), ("users", self.users)];
        let failed =
            |(name, check): (&'static str, Option<Check>)| check.is_some_and(|check| check.is_err()).then_some(name);
        needed.into_iter().filter_map(failed).collect()
    }
}

/// Time for which results are reused: monitors look less often, and a failure shows within seconds.
const REUSED_FOR: Duration = Duration::from_secs(3);

/// The last results, returned for a while to keep requests cheap.
#[derive(Default)]
pub(crate) struct LastChecks(Mutex<Option<(Timestamp, Arc<Health>)>>);

impl Service {
    /// Checks all services, or returns the last results if they are recent. Failures are part of the result.
    pub async fn health(&self) -> Arc<Health> {
        // The lock is held during the checks, so that parallel requests share one run.
        let mut last = self.0.last_checks.0.lock().await;
        let now = self.0.clock.now();
        if let Some((at, health)) = last.as_ref()
            && now.since(*at) < REUSED_FOR
        {
            return health.clone();
        }
        let limit = self.0.settings.health_timeout;
        let backend = &self.0.backend;
        let (database, smtp, imap, log, log_is_whole, bounces, bounces_are_whole, users) = tokio::join!(
            self.database_check(),
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

    async fn database_check(&self) -> Check {
        let mut reason = None;
        let pinged = async {
            let pinged = self.0.store.ping().await;
            reason = match &pinged {
                Err(StoreError::Moved(_)) => Some("moved"),
                Err(StoreError::DiskFull) => Some("disk_full"),
                _ => None,
            };
            pinged.map_err(|error| error.to_string())
        };
        let check = answered("database", self.0.settings.health_timeout, pinged).await;
        check.map_err(|word| reason.unwrap_or(word))
    }

    async fn directory_check(&self) -> Option<Check> {
        let directory = self.0.store.directory()?;
        let asked = async {
            directory.ping().await.map_err(|error| error.to_string())?;
            // Logins may work even if the list of all mailboxes cannot be read.
            match self.is_directory_sync_failed() {
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
