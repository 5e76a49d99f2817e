//! A private Postfix, a remote server, and the parts connected to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::{Accepted, Attempt, DeliveryFeed, Discarded, Recorded, Submission, SubmitError};
use mailapi_backend_external::log_follower::{LogFollower, LogSettings, LogSource};
use mailapi_backend_external::smtp_pool::{SmtpPool, SmtpSettings};
use mailapi_backend_external::submission::SmtpSubmission;
use mailapi_model::{DeliveryEvent, Envelope, FeedCursor, MessageId, Timestamp};
use mailapi_testkit::{Postfix, PostfixSettings, RealClock, SeededEntropy, SmtpSink};
use mailapi_tls::{Trust, client_config};
use tempfile::TempDir;

/// Time limit for Postfix in a test.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct MailHost {
    pub(crate) postfix: Postfix,
    pub(crate) sink: SmtpSink,
    pub(crate) submission: SmtpSubmission,
    pub(crate) follower: Arc<LogFollower>,
    pub(crate) cursor: FeedCursor,
    pub(crate) events: Vec<DeliveryEvent>,
    pub(crate) discarded: Vec<Discarded>,
    /// The longest time for which Postfix logs nothing about a queued message.
    pub(crate) retry_time: Duration,
    state: TempDir,
    entropy: SeededEntropy,
}

impl MailHost {
    pub(crate) async fn open(change: impl FnOnce(&mut PostfixSettings)) -> Self {
        let sink = SmtpSink::start().await;
        let mut settings = PostfixSettings::new(&["ann@example.org", "bob@example.org"], sink.address());
        change(&mut settings);
        let postfix = Postfix::start(&settings).await;
        let state = tempfile::tempdir().expect("a temporary directory");
        let retry_time = Duration::from_hours(2);
        let follower = follower(&postfix, &state, retry_time);
        let submission = SmtpSubmission::new(pool(&postfix), Some(follower.clone()));
        let (cursor, events, discarded) = (FeedCursor::default(), Vec::new(), Vec::new());
        let entropy = SeededEntropy::default();
        Self { postfix, sink, submission, follower, cursor, events, discarded, retry_time, state, entropy }
    }

    /// Starts another process with the same database and state directory.
    pub(crate) fn restart_follower(&mut self) {
        self.follower = follower(&self.postfix, &self.state, self.retry_time);
        self.submission = SmtpSubmission::new(pool(&self.postfix), Some(self.follower.clone()));
    }

    pub(crate) async fn send(&self, recipients: &[&str]) -> (MessageId, Result<Accepted, SubmitError>) {
        send(&self.submission, MessageId::random(Timestamp::from_millis(0), &self.entropy), recipients).await
    }

    /// Reads what the log contains now.
    pub(crate) async fn read(&mut self) {
        loop {
            let batch = self.follower.read_after(&self.cursor, 100).await.expect("the log can be read");
            self.events.extend(batch.events);
            self.discarded.extend(batch.discarded);
            self.cursor = batch.cursor;
            self.follower.forget_until(&self.cursor).await.expect("the state can be saved");
            if !batch.more {
                return;
            }
        }
    }

    /// Follows the log until the events are enough.
    pub(crate) async fn read_until(&mut self, enough: impl Fn(&[DeliveryEvent]) -> bool) {
        let reading = async {
            self.read().await;
            while !enough(&self.events) {
                self.follower.changed().await;
                self.read().await;
            }
        };
        if tokio::time::timeout(PATIENCE, reading).await.is_err() {
            let log = self.postfix_log();
            panic!("after {PATIENCE:?} only these events were read: {:?}\nPostfix logged:\n{log}", self.events);
        }
    }

    /// Returns what Postfix logged, for the text of a failure.
    pub(crate) fn postfix_log(&self) -> String {
        std::fs::read_to_string(self.postfix.log()).unwrap_or_default()
    }
}

/// Returns the submission of a message that [`send`] sent, for look-ups.
pub(crate) fn attempt(message_id: MessageId) -> Attempt {
    let sender = "ann@example.org".parse().expect("an address");
    Attempt { message_id, sender, since: Timestamp::from_millis(0), by_this_node: true }
}

/// Sends a message under this identifier.
pub(crate) async fn send(
    submission: &SmtpSubmission,
    message_id: MessageId,
    recipients: &[&str],
) -> (MessageId, Result<Accepted, SubmitError>) {
    let envelope = Envelope {
        message_id,
        sender: "ann@example.org".parse().ok(),
        recipients: recipients.iter().map(|recipient| recipient.parse().expect("an address")).collect(),
    };
    let text = format!("Message-ID: <{message_id}@example.org>\r\nFrom: ann@example.org\r\n\r\nhello\r\n");
    (message_id, submission.submit(envelope, text.into(), &Recorded).await)
}

fn pool(postfix: &Postfix) -> SmtpPool {
    let (address, trust) = (postfix.api(), client_config(&Trust::System).expect("authorities"));
    SmtpPool::new(SmtpSettings::new(address.ip().to_string(), address.port()), trust)
}

fn follower(postfix: &Postfix, state: &TempDir, retry_time: Duration) -> Arc<LogFollower> {
    let settings = LogSettings {
        // Only the system's notifications wake it.
        poll_interval: Duration::from_secs(3600),
        settle_time: Duration::ZERO,
        retry_time,
        postqueue: ["postqueue", "-c", &postfix.config_dir().display().to_string(), "-j"].map(str::to_owned).to_vec(),
        save_every_bytes: 2000,
        ..LogSettings::new(LogSource::file(postfix.log()), state.path())
    };
    Arc::new(LogFollower::new(settings, Arc::new(RealClock)).expect("a directory for its state"))
}

/// Returns the outcomes for each recipient of a message, in order.
pub(crate) fn outcomes(events: &[DeliveryEvent], message_id: MessageId) -> BTreeMap<String, Vec<&'static str>> {
    let mut outcomes = BTreeMap::<String, Vec<_>>::new();
    for event in events.iter().filter(|event| event.message_id == Some(message_id)) {
        outcomes.entry(event.recipient.as_str().to_owned()).or_default().push(event.outcome.as_str());
    }
    outcomes
}
