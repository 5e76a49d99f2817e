//! Postfix's queue, listed with postqueue(1) and changed with postsuper(1).
//!
//! A message that Postfix is delivering is in the queue *active*, and its delivery agents have its file open. They
//! finish their work even if the file is moved or removed. So hold and cancel name the other queues: postsuper finds
//! the file there, or does nothing. Both programs and the queue manager move a file in one step, so exactly one of
//! them gets it.

mod listing;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mailapi_backend::{Queue, QueueChange, QueueEntry, QueueError, QueueFilter};
use mailapi_model::{Listed, Page, QueueId, QueueState};
use tokio::io::{AsyncBufRead, AsyncReadExt};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Mutex;

use crate::command::{Succeeded, run};
use crate::log_follower::{LogFollower, LogSettings, is_queue_id};
use listing::{Listed as ListedMessage, Matches};

/// How often a message is looked for that moves between Postfix's queues.
const LOOKS: usize = 3;
/// The largest accepted output of a command that changes one message.
const OUTPUT_BYTES: u64 = 64 << 10;

const NOT_LISTED: &str = "the mail server's queue is not accessible here: set mail.external.log.postqueue to the \
     command that lists it on Postfix's host, such as [\"postqueue\", \"-j\"]";
const NOT_CHANGED: &str = "the mail server's queue can be listed only: mail.external.log.postqueue must name the program \
     postqueue, such as [\"/usr/sbin/postqueue\", \"-j\"], so that mailapi can run postsuper beside it";
const ROOT_IS_NEEDED: &str =
    "allow mailapi's user to run postsuper(1) as root without a password, for example in sudoers";
const NOT_FLUSHED: &str = "mail.external.log.postqueue must end with \"-j\", so that \"-i\" can replace it";

/// Postfix's queue.
pub struct PostfixQueue {
    settings: Option<QueueSettings>,
    log: Option<Arc<LogFollower>>,
    /// Held during a command: a long listing takes memory and processor time.
    running: Mutex<()>,
}

impl Default for PostfixQueue {
    /// Returns a queue without commands.
    fn default() -> Self {
        Self::new(None, None)
    }
}

/// The commands of a [`PostfixQueue`].
#[derive(Debug, Clone)]
struct QueueSettings {
    postqueue: Vec<String>,
    postsuper: Vec<String>,
    timeout: Duration,
    max_bytes: u64,
}

/// An operation of postsuper(1), and the queues in which it looks for the message.
struct Operation {
    flag: &'static str,
    queues: &'static [&'static str],
}

const HOLD: Operation = Operation { flag: "-h", queues: &["incoming", "deferred"] };
const RELEASE: Operation = Operation { flag: "-H", queues: &["hold"] };
/// In the order in which a message moves, so that it does not pass by the search.
const DELETE: Operation = Operation { flag: "-d", queues: &["hold", "deferred", "incoming"] };

impl PostfixQueue {
    /// Creates the queue of the Postfix whose log is followed; without a log, or without a command that lists the
    /// queue, every operation is unsupported.
    #[must_use]
    pub fn new(settings: Option<&LogSettings>, log: Option<Arc<LogFollower>>) -> Self {
        let settings = settings.filter(|settings| !settings.postqueue.is_empty()).map(|settings| QueueSettings {
            postqueue: settings.postqueue.clone(),
            postsuper: settings.postsuper.clone(),
            timeout: settings.postqueue_timeout,
            max_bytes: settings.postqueue_bytes,
        });
        Self { settings, log, running: Mutex::default() }
    }

    fn settings(&self) -> Result<&QueueSettings, QueueError> {
        self.settings.as_ref().ok_or_else(|| QueueError::Unsupported(NOT_LISTED.to_owned()))
    }

    /// Checks that the queue can be changed, without changing it; `None` if no command is configured.
    pub async fn check_changes(&self) -> Option<Result<(), QueueError>> {
        /// A queue id that no message has: its inode number is 0.
        const NO_MESSAGE: &str = "000000";
        let settings = self.settings.as_ref().filter(|settings| !settings.postsuper.is_empty())?;
        Some(settings.apply(&RELEASE, &QueueId(NO_MESSAGE.to_owned())).await.map(drop))
    }

    /// Adds our identifiers.
    async fn identify(&self, entries: &mut [QueueEntry]) -> Result<(), QueueError> {
        let Some(log) = &self.log else { return Ok(()) };
        let names = entries.iter().map(|entry| (entry.queue_id.clone(), entry.sender.clone())).collect();
        let identifiers = log.identify(names).await.map_err(|error| QueueError::Unavailable(error.to_string()))?;
        for (entry, message_id) in entries.iter_mut().zip(identifiers) {
            entry.message_id = message_id;
        }
        Ok(())
    }
}

#[async_trait]
impl Queue for PostfixQueue {
    async fn list(&self, filter: &QueueFilter, page: Page) -> Result<Listed<QueueEntry>, QueueError> {
        let settings = self.settings()?;
        let _running = self.running.lock().await;
        let read = |output| listing::page_of(output, settings.max_bytes, filter, page);
        let Matches { total, mut entries } = settings.list(read).await?;
        self.identify(&mut entries).await?;
        Ok(Listed { total, items: entries })
    }

    async fn get(&self, id: &QueueId) -> Result<QueueEntry, QueueError> {
        let settings = self.settings()?;
        let _running = self.running.lock().await;
        let found = settings.find(id).await?;
        let mut entries = [found.into_entry(QueueEntry::SHOWN_RECIPIENTS, None)];
        self.identify(&mut entries).await?;
        let [entry] = entries;
        Ok(entry)
    }

    async fn change(&self, id: &QueueId, change: QueueChange) -> Result<(), QueueError> {
        let settings = self.settings()?;
        let _running = self.running.lock().await;
        match change {
            QueueChange::Retry => settings.retry(id).await,
            QueueChange::Hold => settings.hold(id).await,
            QueueChange::Release => settings.release(id).await,
            QueueChange::Cancel => settings.cancel(id).await,
        }
    }
}

impl QueueSettings {
    async fn retry(&self, id: &QueueId) -> Result<(), QueueError> {
        match self.find(id).await?.state() {
            QueueState::Held => Err(QueueError::Held),
            QueueState::Deferred => self.flush(id).await,
            QueueState::Queued | QueueState::Active | QueueState::Sent => Ok(()),
        }
    }

    async fn hold(&self, id: &QueueId) -> Result<(), QueueError> {
        for _ in 0..LOOKS {
            match self.find(id).await?.state() {
                QueueState::Held => return Ok(()),
                QueueState::Active => return Err(QueueError::Busy),
                _ if self.apply(&HOLD, id).await? => return Ok(()),
                _ => {}
            }
        }
        Err(QueueError::Busy)
    }

    async fn release(&self, id: &QueueId) -> Result<(), QueueError> {
        if self.find(id).await?.state() != QueueState::Held || !self.apply(&RELEASE, id).await? {
            return Ok(());
        }
        // It is released. Without this, Postfix tries it at its next queue run.
        self.flush(id).await.or_else(|error| {
            tracing::warn!(queue_id = %id, %error, "the message was released, but not made due at once");
            Ok(())
        })
    }

    async fn cancel(&self, id: &QueueId) -> Result<(), QueueError> {
        for _ in 0..LOOKS {
            if self.find(id).await?.state() == QueueState::Active {
                return Err(QueueError::Busy);
            }
            if self.apply(&DELETE, id).await? {
                return Ok(());
            }
        }
        Err(QueueError::Busy)
    }

    /// Returns a message of the queue. A listing can miss a message that moves between queues.
    async fn find(&self, id: &QueueId) -> Result<ListedMessage, QueueError> {
        // `ALL` and options are not queue ids.
        if !is_queue_id(&id.0) {
            return Err(QueueError::NotFound);
        }
        for _ in 0..LOOKS {
            if let Some(found) = self.list(|output| listing::find(output, self.max_bytes, id)).await? {
                return Ok(found);
            }
        }
        Err(QueueError::NotFound)
    }

    async fn list<T, F>(&self, read: impl FnOnce(tokio::io::BufReader<Receiver>) -> F) -> Result<T, QueueError>
    where
        F: Future<Output = Result<T, String>>,
    {
        Ok(self.run(&self.postqueue, read).await?.output)
    }

    /// Makes a deferred message due now.
    async fn flush(&self, id: &QueueId) -> Result<(), QueueError> {
        let Some((_, program)) = self.postqueue.split_last().filter(|(last, _)| *last == "-j") else {
            return Err(QueueError::Unsupported(NOT_FLUSHED.to_owned()));
        };
        let command = [program, &["-i".to_owned(), id.0.clone()]].concat();
        self.run(&command, ignored).await.map(drop)
    }

    /// Runs postsuper(1) for one message. Returns whether it found the message.
    async fn apply(&self, operation: &Operation, id: &QueueId) -> Result<bool, QueueError> {
        if self.postsuper.is_empty() {
            return Err(QueueError::Unsupported(NOT_CHANGED.to_owned()));
        }
        let arguments = [operation.flag, &id.0].into_iter().chain(operation.queues.iter().copied());
        let command: Vec<String> = self.postsuper.iter().cloned().chain(arguments.map(str::to_owned)).collect();
        let unable = |error| match error {
            QueueError::Unavailable(why) => QueueError::Unavailable(format!("{why}; {ROOT_IS_NEEDED}")),
            other => other,
        };
        Ok(changed(&self.run(&command, ignored).await.map_err(unable)?.errors))
    }

    async fn run<T, F>(
        &self,
        command: &[String],
        read: impl FnOnce(tokio::io::BufReader<Receiver>) -> F,
    ) -> Result<Succeeded<T>, QueueError>
    where
        F: Future<Output = Result<T, String>>,
    {
        let run = run(command, self.timeout, read).await;
        run.map_err(|reason| QueueError::Unavailable(format!("{}: {reason}", command.join(" "))))
    }
}

/// Reads an output that is not needed to its end, so that the command does not block.
async fn ignored(output: impl AsyncBufRead + Unpin) -> Result<(), String> {
    let mut limited = output.take(OUTPUT_BYTES);
    tokio::io::copy(&mut limited, &mut tokio::io::sink()).await.map(drop).map_err(|error| error.to_string())
}

/// Returns whether postsuper(1) reports that it changed a message: `postsuper: Placed on hold: 1 message`. Without a
/// message, it reports 0 or nothing, and succeeds.
fn changed(report: &str) -> bool {
    let of_line =
        |line: &str| line.strip_suffix(" message").and_then(|text| text.rsplit_once(": ")).map(|(_, n)| n == "1");
    report.lines().any(|line| of_line(line.trim()) == Some(true))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::log_follower::LogSource;

    const ID: &str = "4jXsKf6thLz1SRkq";

    /// Returns a queue whose commands are shell scripts: the listing is the file `queue`, and postsuper appends its
    /// arguments to the file `calls`.
    fn scripted(directory: &std::path::Path, queue: &str, postsuper: &str) -> PostfixQueue {
        let line = format!(
            r#"{{"queue_name": "{queue}", "queue_id": "{ID}", "arrival_time": 1, "message_size": 2, "sender": "",
            "recipients": [{{"address": "bob@example.net"}}]}}"#
        );
        fs::write(directory.join("queue"), line.replace('\n', "") + "\n").unwrap();
        let script = |text: String| ["sh".to_owned(), "-c".to_owned(), text, "sh".to_owned()].to_vec();
        let (listing, calls) = (directory.join("queue"), directory.join("calls"));
        let (listing, calls) = (listing.display(), calls.display());
        let mut postqueue = script(format!("echo \"$@\" >> {calls}; [ \"$1\" != -j ] || cat {listing}"));
        postqueue.push("-j".to_owned());
        let postsuper = script(format!("echo \"$@\" >> {calls}; {postsuper}"));
        let log = LogSettings { postqueue, postsuper, ..LogSettings::new(LogSource::file("mail.log"), directory) };
        PostfixQueue::new(Some(&log), None)
    }

    fn calls(directory: &std::path::Path) -> Vec<String> {
        let text = fs::read_to_string(directory.join("calls")).unwrap_or_default();
        text.lines().filter(|line| *line != "-j").map(str::to_owned).collect()
    }

    fn id() -> QueueId {
        QueueId(ID.to_owned())
    }

    #[tokio::test]
    async fn without_its_commands_the_queue_is_unsupported() {
        let settings = LogSettings::new(LogSource::file("mail.log"), "");
        for queue in [PostfixQueue::new(None, None), PostfixQueue::new(Some(&settings), None)] {
            let error = queue.list(&QueueFilter::default(), Page::default()).await.unwrap_err();
            assert_eq!(error, QueueError::Unsupported(NOT_LISTED.to_owned()));
            assert_eq!(queue.change(&id(), QueueChange::Cancel).await, Err(error));
        }
        let directory = tempfile::tempdir().unwrap();
        let mut queue = scripted(directory.path(), "deferred", "true");
        queue.settings.as_mut().unwrap().postsuper.clear();
        let error = queue.change(&id(), QueueChange::Hold).await.unwrap_err();
        assert_eq!(error, QueueError::Unsupported(NOT_CHANGED.to_owned()));
        assert!(queue.check_changes().await.is_none());
        queue.settings.as_mut().unwrap().postqueue.push("--".to_owned());
        let error = queue.change(&id(), QueueChange::Retry).await.unwrap_err();
        assert_eq!(error, QueueError::Unsupported(NOT_FLUSHED.to_owned()));
    }

    #[tokio::test]
    async fn only_an_id_of_the_listing_reaches_a_command() {
        let directory = tempfile::tempdir().unwrap();
        let queue = scripted(directory.path(), "deferred", "true");
        for id in ["ALL", "-", "-d", "", "4jXsKf6thLz1SRkr", "a;b", "../x"] {
            for change in [QueueChange::Retry, QueueChange::Hold, QueueChange::Release, QueueChange::Cancel] {
                assert_eq!(queue.change(&QueueId(id.to_owned()), change).await, Err(QueueError::NotFound), "{id}");
            }
        }
        assert_eq!(calls(directory.path()), [""; 0]);
    }

    #[tokio::test]
    async fn a_failing_command_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let refuses = "echo 'use of this command is reserved for the superuser' >&2; exit 1";
        let queue = scripted(directory.path(), "deferred", refuses);
        let error = queue.change(&id(), QueueChange::Cancel).await.unwrap_err();
        assert!(
            matches!(&error, QueueError::Unavailable(why) if why.contains("reserved for the superuser")),
            "{error}"
        );
        assert!(queue.check_changes().await.unwrap().is_err());
    }

    #[tokio::test]
    async fn a_message_in_delivery_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let queue = scripted(directory.path(), "active", "echo 'postsuper: Deleted: 1 message' >&2");
        for change in [QueueChange::Hold, QueueChange::Cancel] {
            assert_eq!(queue.change(&id(), change).await, Err(QueueError::Busy));
        }
        assert_eq!(queue.change(&id(), QueueChange::Retry).await, Ok(()));
        assert_eq!(queue.change(&id(), QueueChange::Release).await, Ok(()));
        assert_eq!(calls(directory.path()), [""; 0]);
    }

    #[tokio::test]
    async fn a_message_that_slips_away_is_not_cancelled() {
        let directory = tempfile::tempdir().unwrap();
        let slips = format!(
            "sed -i s/deferred/active/ {}; echo 'postsuper: Deleted: 0 messages' >&2",
            directory.path().join("queue").display()
        );
        let queue = scripted(directory.path(), "deferred", &slips);
        assert_eq!(queue.change(&id(), QueueChange::Cancel).await, Err(QueueError::Busy));
        assert_eq!(calls(directory.path()), [format!("-d {ID} hold deferred incoming")]);
    }

    #[tokio::test]
    async fn each_change_runs_its_command() {
        for (queue, change, expected) in [
            ("deferred", QueueChange::Retry, vec![format!("-i {ID}")]),
            ("hold", QueueChange::Hold, vec![]),
            ("deferred", QueueChange::Hold, vec![format!("-h {ID} incoming deferred")]),
            ("hold", QueueChange::Release, vec![format!("-H {ID} hold"), format!("-i {ID}")]),
            ("deferred", QueueChange::Release, vec![]),
            ("hold", QueueChange::Cancel, vec![format!("-d {ID} hold deferred incoming")]),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let scripted = scripted(directory.path(), queue, "echo 'postsuper: Done: 1 message' >&2");
            assert_eq!(scripted.change(&id(), change).await, Ok(()), "{queue} {change:?}");
            assert_eq!(calls(directory.path()), expected, "{queue} {change:?}");
        }
        let directory = tempfile::tempdir().unwrap();
        let held = scripted(directory.path(), "hold", "true");
        assert_eq!(held.change(&id(), QueueChange::Retry).await, Err(QueueError::Held));
    }

    #[test]
    fn the_report_of_postsuper_names_the_number() {
        for (report, expected) in [
            ("postsuper: 4jX: removed\npostsuper: Deleted: 1 message\n", true),
            ("postsuper: Placed on hold: 1 message", true),
            ("postsuper: Deleted: 0 messages", false),
            ("postsuper: Deleted: 11 messages", false),
            ("", false),
        ] {
            assert_eq!(changed(report), expected, "{report}");
        }
    }

    proptest! {
        #[test]
        fn no_report_makes_it_panic(report in "\\PC{0,40}( message)?") {
            let _ = changed(&report);
        }
    }
}
