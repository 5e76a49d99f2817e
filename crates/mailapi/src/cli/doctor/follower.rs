//! Checks of the log follower: its losses, its clock, and its access to the mail server's queue.

use mailapi_backend_external::log_follower::{FollowerStatus, LogSettings, queue_length};
use mailapi_model::Timestamp;

use super::finding::Finding;
use crate::config::Config;

const LOSSES: &str = "log losses";
const QUEUE: &str = "queue listing";

/// Reports lost parts of the log; `None` if the log is not followed here.
pub(super) fn losses(config: &Config, now: Timestamp) -> Option<Finding> {
    let settings = settings(config)?;
    Some(match FollowerStatus::saved(&settings) {
        Err(error) => Finding::wrong(
            LOSSES,
            format!("what the follower keeps in {} cannot be read: {error}", settings.state_dir.display()),
            "run the doctor as root or as mailapi's user",
        ),
        Ok(None) => Finding::unknown(LOSSES, "the log has not been followed for long enough to know"),
        Ok(Some(status)) => match status.losses(now, settings.index_lifetime) {
            None => Finding::fine(LOSSES, "none that the follower knows of"),
            Some(losses) => Finding::noted(
                LOSSES,
                format!("{losses}. What was sent then may stay `submitted`"),
                "keep rotated logs beside the log and readable, lift the rate limits of the logger, and let a logger \
                 apart from Postfix (rsyslog, the journal) write the log",
            ),
        },
    })
}

/// Reports a log clock that differs from this machine's; `None` if they agree or the log is not followed here.
pub(super) fn clock(config: &Config) -> Option<Finding> {
    let ahead = FollowerStatus::saved(&settings(config)?).ok()??.clock_ahead;
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    (ahead != 0).then(|| {
        Finding::noted(
            "log clock",
            format!("it is {} seconds {direction} mailapi's; log times are corrected by this", ahead.abs()),
            "give both the same time zone (TZ), or let the logger write RFC 3339 times, and synchronize both clocks",
        )
    })
}

/// Checks that the mail server's queue can be listed; `None` if its log is not followed here.
pub(super) async fn queue(config: &Config) -> Option<Finding> {
    let settings = settings(config)?;
    Some(match queue_length(&settings).await {
        None => Finding::unknown(
            QUEUE,
            format!(
                "not used: what a crash of Postfix interrupts stays `pending` for {} minutes; on Postfix's host, \
                 mail.external.log.postqueue = [\"postqueue\", \"-j\"] decides it in a few minutes",
                settings.retry_time.as_secs() / 60
            ),
        ),
        Some(Ok(length)) => Finding::fine(QUEUE, format!("{length} messages are in the queue")),
        Some(Err(error)) => Finding::wrong(
            QUEUE,
            error,
            "compare mail.external.log.postqueue with postqueue(1); authorized_mailq_users of Postfix must let \
             mailapi's user ask, and Postfix must run",
        ),
    })
}

fn settings(config: &Config) -> Option<LogSettings> {
    config.log_follower(&config.data_dir)
}
