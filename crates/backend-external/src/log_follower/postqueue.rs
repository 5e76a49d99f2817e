//! Lists Postfix's queue with `postqueue -j` (postqueue(1)): one JSON object per complete message in any of the
//! queues. A message that is being received, or that a crash cut off, is not listed.

use std::sync::Arc;
use std::time::Duration;

use mailapi_model::Timestamp;
use serde::Deserialize;
use tokio::io::AsyncBufRead;
use tokio::time::Instant;

use super::settings::LogSettings;
use crate::command::{for_each_line, run};

/// Lists the queue.
pub(super) struct Postqueue {
    command: Vec<String>,
    timeout: Duration,
    max_bytes: u64,
    newest: tokio::sync::Mutex<Option<Arc<Listing>>>,
}

/// The content of the queue.
pub(super) struct Listing {
    /// When the listing began. Messages that were in the queue then, and remained there, are listed.
    pub(super) begun: Instant,
    pub(super) messages: Vec<Queued>,
}

/// A message in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Queued {
    pub(super) queue_id: String,
    /// The reverse-path as received; empty for the null one.
    pub(super) sender: String,
    #[serde(rename = "arrival_time", deserialize_with = "seconds")]
    pub(super) arrived: Timestamp,
}

fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    u32::deserialize(deserializer).map(|seconds| Timestamp::from_seconds(seconds.into()))
}

impl Postqueue {
    /// Creates a lister; `None` if no command is configured.
    pub(super) fn new(settings: &LogSettings) -> Option<Self> {
        let command = settings.postqueue.clone();
        (!command.is_empty()).then(|| Self {
            command,
            timeout: settings.postqueue_timeout,
            max_bytes: settings.postqueue_bytes,
            newest: tokio::sync::Mutex::new(None),
        })
    }

    /// Returns a listing that began after `moment`. Concurrent callers share one.
    pub(super) async fn begun_after(&self, moment: Instant) -> Result<Arc<Listing>, String> {
        // The lock is held while listing, so that waiting callers find the new listing.
        let mut newest = self.newest.lock().await;
        if let Some(listing) = newest.as_ref().filter(|listing| listing.begun > moment) {
            return Ok(listing.clone());
        }
        let begun = Instant::now();
        let messages = self.list().await.map_err(|reason| format!("{}: {reason}", self.command.join(" ")))?;
        let listing = Arc::new(Listing { begun, messages });
        *newest = Some(listing.clone());
        Ok(listing)
    }

    async fn list(&self) -> Result<Vec<Queued>, String> {
        let listed = run(&self.command, self.timeout, |output| read(output, self.max_bytes)).await?;
        Ok(listed.output)
    }
}

async fn read(listing: impl AsyncBufRead + Unpin, max_bytes: u64) -> Result<Vec<Queued>, String> {
    let mut messages = Vec::new();
    for_each_line(listing, max_bytes, |line| {
        let message =
            serde_json::from_slice(line).map_err(|error| format!("message {}: {error}", messages.len() + 1))?;
        messages.push(message);
        Ok(())
    })
    .await?;
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use proptest::prelude::*;

    use super::*;

    const LISTED: &str = concat!(
        r#"{"queue_name": "deferred", "queue_id": "4jWk1z2", "arrival_time": 1795000000, "message_size": 326, "#,
        r#""forced_expire": false, "sender": "ann@example.org", "recipients": [{"address": "bob@example.net", "#,
        r#""delay_reason": "host mx[192.0.2.1] said: 450 4.2.0 \"later\""}]}"#,
        "\n",
    );

    fn settings(command: &[&str]) -> LogSettings {
        let source = super::super::settings::LogSource::file("mail.log");
        let postqueue = command.iter().map(ToString::to_string).collect();
        LogSettings { postqueue, ..LogSettings::new(source, "") }
    }

    async fn listed(settings: &LogSettings) -> Result<usize, String> {
        let queue = Postqueue::new(settings).unwrap();
        queue.begun_after(Instant::now()).await.map(|listing| listing.messages.len())
    }

    /// Reads bytes that are already available, without waiting.
    fn read_now(bytes: &[u8], max_bytes: u64) -> Result<Vec<Queued>, String> {
        read(bytes, max_bytes).now_or_never().unwrap()
    }

    #[test]
    fn a_listing_that_is_not_whole_is_none() {
        assert!(read_now(&LISTED.as_bytes()[..LISTED.len() - 3], 1000).is_err());
        assert!(read_now(b"Mail queue is empty\n", 1000).is_err());
        assert!(read_now(LISTED.repeat(3).as_bytes(), LISTED.len() as u64).is_err());
    }

    #[test]
    fn every_message_is_there() {
        let messages = read_now(LISTED.repeat(3).as_bytes(), 10_000).unwrap();
        assert_eq!(messages.len(), 3);
        let (queue_id, sender) = ("4jWk1z2".to_owned(), "ann@example.org".to_owned());
        assert_eq!(messages[0], Queued { queue_id, sender, arrived: Timestamp::from_seconds(1_795_000_000) });
        assert_eq!(read_now(b"", 1000).unwrap(), []);
    }

    #[tokio::test]
    async fn a_command_that_fails_says_why_and_lists_nothing() {
        assert!(Postqueue::new(&settings(&[])).is_none());
        assert!(listed(&settings(&["/nowhere/postqueue"])).await.is_err());
        let error = listed(&settings(&["sh", "-c", "echo no such queue >&2; exit 69"])).await.unwrap_err();
        assert!(error.contains("69") && error.contains("no such queue"), "{error}");
        let error = listed(&settings(&["sh", "-c", "while :; do echo {; done"])).await.unwrap_err();
        assert!(error.contains("message 1"), "{error}");
        let patient = LogSettings { postqueue_timeout: Duration::from_millis(50), ..settings(&["sleep", "3600"]) };
        assert!(listed(&patient).await.unwrap_err().contains("not done within"));
    }

    #[tokio::test]
    async fn a_command_that_closes_its_output_and_runs_on_is_killed() {
        let stays = settings(&["sh", "-c", "exec >&- 2>&-; exec sleep 3600"]);
        let patient = LogSettings { postqueue_timeout: Duration::from_millis(50), ..stays };
        assert!(listed(&patient).await.unwrap_err().contains("not done within"));
    }

    #[tokio::test]
    async fn a_command_with_long_error_output_is_read_to_the_end() {
        let wordy = "i=0; while [ $i -lt 3000 ]; do echo a warning of fifty bytes or thereabouts, again >&2; \
                     i=$((i+1)); done";
        assert_eq!(listed(&settings(&["sh", "-c", wordy])).await, Ok(0));
        let error = listed(&settings(&["sh", "-c", &format!("{wordy}; exit 1")])).await.unwrap_err();
        assert!(error.len() < 1000 && error.contains("a warning"), "{error}");
    }

    #[tokio::test]
    async fn a_listing_is_shared_by_all_who_asked_before_it_began() {
        let queue = Postqueue::new(&settings(&["printf", "%s", LISTED])).unwrap();
        let asked = Instant::now();
        let first = queue.begun_after(asked).await.unwrap();
        assert_eq!(first.messages.len(), 1);
        assert!(Arc::ptr_eq(&first, &queue.begun_after(asked).await.unwrap()));
        assert!(!Arc::ptr_eq(&first, &queue.begun_after(first.begun).await.unwrap()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..60), cut in 0..LISTED.len(), limit in 0..300_u64,
        ) {
            let _ = read_now(&bytes, limit);
            let _ = read_now(&LISTED.as_bytes()[cut..], limit);
            let _ = read_now(&[&LISTED.as_bytes()[..cut], &bytes].concat(), 1000);
        }
    }
}
