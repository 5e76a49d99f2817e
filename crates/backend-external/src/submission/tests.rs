//! Tests of submission with a server that refuses mail or disconnects, and with a prepared log.

use std::any::Any;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use mailapi_backend::{Accepted, Attempt, Record, RecordError, Recorded, Submission, SubmitError};
use mailapi_model::{Blob, EmailAddress, Envelope, Timestamp};
use mailapi_testkit::{FakeClock, SmtpSink, turns_of_the_runtime};
use mailapi_tls::{Trust, client_config};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::SmtpSubmission;
use crate::log_follower::{LogFollower, LogSettings, LogSource};
use crate::smtp_pool::{SmtpPool, SmtpSettings};

const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

fn envelope(recipients: &[&str]) -> Envelope {
    Envelope {
        message_id: ID.parse().unwrap(),
        sender: "ann@example.org".parse().ok(),
        recipients: recipients.iter().map(|recipient| recipient.parse().unwrap()).collect(),
    }
}

fn attempt() -> Attempt {
    let sender = "ann@example.org".parse().unwrap();
    Attempt { message_id: ID.parse().unwrap(), sender, since: Timestamp::from_millis(0), by_this_node: true }
}

fn message() -> Blob {
    Blob::from(format!("Message-ID: <{ID}@example.org>\r\n\r\nhello\r\n"))
}

fn submission(sink: &SmtpSink, log: Option<&Path>, settle_time: Duration) -> SmtpSubmission {
    let address = sink.address();
    let settings = SmtpSettings::new(address.ip().to_string(), address.port());
    let pool = SmtpPool::new(settings, client_config(&Trust::System).unwrap());
    let log = log.map(|dir| {
        let source = LogSource::file(dir.join("mail.log"));
        let settings = LogSettings { settle_time, ..LogSettings::new(source, dir.join("state")) };
        Arc::new(LogFollower::new(settings, Arc::new(FakeClock::at("2026-11-21T20:00:00Z"))).unwrap())
    });
    SmtpSubmission::new(pool, log)
}

#[tokio::test]
async fn refused_recipients_keep_replies_and_the_others_get_mail() {
    let sink = SmtpSink::start().await;
    let submission = submission(&sink, None, Duration::ZERO);
    sink.refuse("nobody@example.net", &["550 5.1.1 User unknown"]);
    let accepted =
        submission.submit(envelope(&["nobody@example.net", "bob@example.net"]), message(), &Recorded).await.unwrap();
    assert_eq!(accepted.queue_id.0, "SINK1");
    assert_eq!(accepted.refused.len(), 1);
    assert_eq!(accepted.refused[0].reply.to_string(), "550 5.1.1 User unknown");
    assert_eq!(sink.received()[0].recipients, ["bob@example.net"]);
}

#[tokio::test]
async fn local_parts_leave_as_they_were_given() {
    let sink = SmtpSink::start().await;
    let (sender, forwarder) = ("Ann@example.org", "SRS0=AbCd=2K=a.test=Bob@example.net");
    let given = |text| EmailAddress::as_given(text).unwrap();
    let envelope = Envelope { sender: Some(given(sender)), recipients: vec![given(forwarder)], ..envelope(&[]) };
    submission(&sink, None, Duration::ZERO).submit(envelope, message(), &Recorded).await.unwrap();
    let received = &sink.received()[0];
    assert_eq!((received.sender.as_str(), &received.recipients[..]), (sender, &[forwarder.to_owned()][..]));
}

#[tokio::test]
async fn a_refusal_of_everything_is_reported_as_such() {
    let sink = SmtpSink::start().await;
    let submission = submission(&sink, None, Duration::ZERO);
    sink.refuse("nobody@example.net", &["550-5.1.1 User\r\n550 5.1.1 unknown"]);
    let error = submission.submit(envelope(&["nobody@example.net"]), message(), &Recorded).await.unwrap_err();
    let SubmitError::NoRecipients(refused) = &error else { panic!("{error}") };
    assert_eq!(refused[0].reply.text, "User unknown");
    sink.refuse_data(&["451 4.3.0 Try again later"]);
    let error = submission.submit(envelope(&["bob@example.net"]), message(), &Recorded).await.unwrap_err();
    assert!(error.is_transient());
    assert_eq!(error.reply().unwrap().to_string(), "451 4.3.0 Try again later");
    assert_eq!(sink.received(), []);
}

/// A record that is stored when the test says so.
struct AwaitedRecord {
    stored: Mutex<Option<oneshot::Receiver<()>>>,
    may_repeat: bool,
    submitted: Mutex<Vec<Accepted>>,
}

impl AwaitedRecord {
    /// Returns a record, and the means to store it. Dropping them fails it.
    fn new(may_repeat: bool) -> (oneshot::Sender<()>, Self) {
        let (store, stored) = oneshot::channel();
        (store, Self { stored: Mutex::new(Some(stored)), may_repeat, submitted: Mutex::default() })
    }

    /// Returns a record that cannot be stored.
    fn failing(may_repeat: bool) -> Self {
        Self::new(may_repeat).1
    }
}

#[async_trait]
impl Record for AwaitedRecord {
    fn may_repeat(&self) -> bool {
        self.may_repeat
    }

    async fn begin(&self) -> Result<(), RecordError> {
        let stored = self.stored.lock().unwrap().take().expect("a record is stored once");
        stored.await.map_err(|_| RecordError::Exists)
    }

    async fn submitted(&self, accepted: &Accepted) {
        self.submitted.lock().unwrap().push(accepted.clone());
    }

    fn enlist(&self) -> Option<Box<dyn Any + Send>> {
        None
    }
}

#[tokio::test]
async fn without_its_record_a_message_never_leaves() {
    let sink = SmtpSink::start().await;
    let submission = submission(&sink, None, Duration::ZERO);
    // On a new connection, and on an idle one.
    for sent_before in 0..2 {
        for may_repeat in [false, true] {
            let record = AwaitedRecord::failing(may_repeat);
            let error = submission.submit(envelope(&["bob@example.net"]), message(), &record).await.unwrap_err();
            assert_eq!(error, SubmitError::NotRecorded(RecordError::Exists));
            assert_eq!((sink.received().len(), record.submitted.lock().unwrap().len()), (sent_before, 0));
        }
        submission.submit(envelope(&["bob@example.net"]), message(), &Recorded).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_leaves_when_its_record_is_stored() {
    let sink = SmtpSink::start().await;
    let submission = submission(&sink, None, Duration::ZERO);
    for (sent_before, may_repeat) in [false, true].into_iter().enumerate() {
        sink.refuse("nobody@example.net", &["550 5.1.1 User unknown"]);
        for (recipient, is_known) in [("nobody@example.net", false), ("bob@example.net", true)] {
            let (store, record) = AwaitedRecord::new(may_repeat);
            let submitting = submission.submit(envelope(&[recipient]), message(), &record);
            let storing = async {
                // The client has sent everything that it may send without the record.
                turns_of_the_runtime().await;
                assert_eq!(sink.received().len(), sent_before);
                store.send(()).unwrap();
            };
            match tokio::join!(submitting, storing).0 {
                Ok(accepted) if is_known => assert_eq!(*record.submitted.lock().unwrap(), [accepted]),
                Err(SubmitError::NoRecipients(_)) if !is_known => assert_eq!(*record.submitted.lock().unwrap(), []),
                other => panic!("{recipient}: {other:?}"),
            }
        }
        assert_eq!(sink.received().len(), sent_before + 1);
    }
}

#[tokio::test]
async fn the_envelope_goes_ahead_unless_it_may_repeat() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings = SmtpSettings::new(address.ip().to_string(), address.port());
    let submission = SmtpSubmission::new(SmtpPool::new(settings, client_config(&Trust::System).unwrap()), None);
    for (may_repeat, connects) in [(true, false), (false, true)] {
        let (_store, record) = AwaitedRecord::new(may_repeat);
        let submitting = submission.submit(envelope(&["bob@example.net"]), message(), &record);
        tokio::select! {
            result = submitting => panic!("submitted without a record: {result:?}"),
            accepted = listener.accept(), if connects => drop(accepted.unwrap()),
            () = turns_of_the_runtime(), if !connects => assert!(listener.accept().now_or_never().is_none()),
        }
    }
}

#[tokio::test]
async fn a_lost_reply_is_looked_up_in_the_log_and_never_guessed() {
    let dir = tempfile::tempdir().unwrap();
    let sink = SmtpSink::start().await;
    std::fs::write(dir.path().join("mail.log"), "").unwrap();
    let careful = submission(&sink, Some(dir.path()), Duration::from_secs(3600));
    sink.hang_up_after_data(1);
    let error = careful.submit(envelope(&["bob@example.net"]), message(), &Recorded).await.unwrap_err();
    assert_eq!(error, SubmitError::OutcomeUnknown);
    assert_eq!(sink.received().len(), 1);
    // A log without a line proves nothing yet.
    assert!(matches!(careful.find(&attempt()).await, Err(SubmitError::Unavailable(_))));
    let line = |daemon: &str, text: &str| format!("Nov 21 08:00:00 mx postfix/{daemon}[7]: 4jWk1: {text}\n");
    let log = line("cleanup", &format!("message-id=<{ID}@example.org>"))
        + &line("qmgr", "from=<ann@example.org>, size=1, nrcpt=1 (queue active)");
    std::fs::write(dir.path().join("mail.log"), log).unwrap();
    assert_eq!(careful.find(&attempt()).await.unwrap().unwrap().queue_id.0, "4jWk1");
}

#[tokio::test]
async fn without_a_log_nothing_is_decided_and_with_one_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let sink = SmtpSink::start().await;
    assert!(matches!(submission(&sink, None, Duration::ZERO).find(&attempt()).await, Err(SubmitError::Unavailable(_))));
    // An empty log may belong to any server.
    std::fs::write(dir.path().join("mail.log"), "").unwrap();
    let mute = submission(&sink, Some(dir.path()), Duration::ZERO).find(&attempt()).await;
    assert!(matches!(mute, Err(SubmitError::Unavailable(_))), "{mute:?}");
    std::fs::write(dir.path().join("mail.log"), "Nov 21 08:00:00 mx postfix/qmgr[7]: 4jWk0: removed\n").unwrap();
    assert_eq!(submission(&sink, Some(dir.path()), Duration::ZERO).find(&attempt()).await, Ok(None));
}

#[tokio::test]
async fn one_of_several_hosts_never_says_that_a_message_was_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let sink = SmtpSink::start().await;
    std::fs::write(dir.path().join("mail.log"), "").unwrap();
    let one = submission(&sink, Some(dir.path()), Duration::ZERO).one_of_several(true);
    assert!(matches!(one.find(&attempt()).await, Err(SubmitError::Unavailable(_))));
    let line = |daemon: &str, text: &str| format!("Nov 21 08:00:00 mx postfix/{daemon}[7]: 4jWk1: {text}\n");
    let log = line("cleanup", &format!("message-id=<{ID}@example.org>"))
        + &line("qmgr", "from=<ann@example.org>, size=1, nrcpt=1 (queue active)");
    std::fs::write(dir.path().join("mail.log"), log).unwrap();
    assert_eq!(one.find(&attempt()).await.unwrap().unwrap().queue_id.0, "4jWk1");
}

#[tokio::test]
async fn a_dead_server_is_unavailable_and_has_nothing() {
    let sink = SmtpSink::start().await;
    let dead = submission(&sink, None, Duration::ZERO);
    drop(sink);
    // The listener closes when its task ends.
    tokio::task::yield_now().await;
    let error = dead.submit(envelope(&["bob@example.net"]), message(), &Recorded).await.unwrap_err();
    assert!(matches!(error, SubmitError::Unavailable(_)) && error.is_transient());
    assert!(dead.check().await.is_err());
}
