//! Checks of the log follower: its losses, its clock, and its access to the mail server's queue.

use mailapi_backend_external::log_follower::{FollowerStatus, LogSettings, queue_length, rotation_disorder};
use mailapi_backend_external::queue::PostfixQueue;
use mailapi_model::Timestamp;

use super::finding::Finding;
use crate::config::Config;

const LOSSES: &str = "log losses";
const QUEUE: &str = "queue listing";
const QUEUE_CHANGES: &str = "queue changes";

/// Reports lost parts of the log; `None` if the log is not followed here.
pub(super) fn losses(config: &Config, now: Timestamp) -> Option<Finding> {
    let settings = settings(config)?;
    Some(match FollowerStatus::saved(&settings) {
        Err(error) => Finding::wrong(
            LOSSES,
            format!("the state of the log follower in {} cannot be read: {error}", settings.state_dir.display()),
            "run the doctor as root or as mailapi's user",
        ),
        Ok(None) => Finding::unknown(LOSSES, "unknown, because the log follower has saved no state yet"),
        Ok(Some(status)) => match status.losses(now, settings.index_lifetime) {
            None => Finding::fine(LOSSES, "none detected"),
            Some(losses) => Finding::noted(
                LOSSES,
                format!("{losses}. Messages sent then may stay `submitted`"),
                "keep rotated logs readable in the directory of the log, remove the rate limits of the logger, and let \
                 rsyslog or the journal write the log instead of Postfix",
            ),
        },
    })
}

/// Reports rotated files that cannot be read in order; `None` if they can.
pub(super) fn rotation(config: &Config) -> Option<Finding> {
    let reason = rotation_disorder(&settings(config)?)?;
    let mend = "rename the rotated files by date (mail.log-20261121), and set dateext in logrotate's configuration; mailapi \
                then reads what it missed";
    Some(Finding::wrong("log rotation", reason, mend))
}

/// Reports a log clock that differs from this machine's; `None` if they agree or the log is not followed here.
pub(super) fn clock(config: &Config) -> Option<Finding> {
    let ahead = FollowerStatus::saved(&settings(config)?).ok()??.clock_ahead;
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    (ahead != 0).then(|| {
        Finding::noted(
            "log clock",
            format!("{} seconds {direction} mailapi's clock; log times are corrected by this difference", ahead.abs()),
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
                "not configured: a message that a crash of Postfix interrupts stays `pending` for {} minutes; to \
                 decide it sooner, set mail.external.log.postqueue = [\"postqueue\", \"-j\"] on Postfix's host",
                settings.retry_time.as_secs() / 60
            ),
        ),
        Some(Ok(length)) => Finding::fine(QUEUE, format!("{length} messages are in the queue")),
        Some(Err(error)) => Finding::wrong(
            QUEUE,
            error,
            "check that Postfix runs, that mail.external.log.postqueue is a command of postqueue(1), and that \
             authorized_mailq_users of Postfix includes mailapi's user",
        ),
    })
}

/// Checks that the mail server's queue can be changed; `None` if its log is not followed here.
pub(super) async fn queue_changes(config: &Config) -> Option<Finding> {
    Some(match PostfixQueue::new(Some(&settings(config)?), None).check_changes().await {
        None => Finding::unknown(
            QUEUE_CHANGES,
            "not configured: to hold, release and cancel messages in Postfix's queue, set mail.external.log.postqueue = \
             [\"/usr/sbin/postqueue\", \"-j\"] on Postfix's host",
        ),
        Some(Ok(())) => Finding::fine(QUEUE_CHANGES, "messages can be held, released and cancelled"),
        // Mail flows without it, and not every operator wants it.
        Some(Err(error)) => Finding::noted(
            QUEUE_CHANGES,
            error,
            "allow mailapi's user to run postsuper by sudo: docs/queue.md has the lines for sudoers",
        ),
    })
}

fn settings(config: &Config) -> Option<LogSettings> {
    config.log_follower(&config.data_dir)
}
