//! A log in a temporary directory, and a reader that stores what it reads, as the database would.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::tz::TimeZone;
use mailapi_backend::{Attempt, Discarded};
use mailapi_model::{DeliveryEvent, FeedCursor, InboundEvent, ReceivedMail, Timestamp};
use mailapi_testkit::FakeClock;
use tempfile::TempDir;

use crate::log_follower::follow::Follow;
use crate::log_follower::{Gap, LogBatch, LogSettings, LogSource};

/// The sample: a real log of every case.
pub(super) const SAMPLE: &str = include_str!("sample.log");
/// The identifier of the submitted message.
pub(super) const OURS: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

pub(super) struct TestLog {
    pub(super) dir: TempDir,
    pub(super) clock: Arc<FakeClock>,
    pub(super) settings: LogSettings,
}

impl TestLog {
    /// Creates an empty directory, in the evening of the day on which the sample was written.
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = LogSettings {
            time_zone: TimeZone::UTC,
            settle_time: std::time::Duration::ZERO,
            machine_state: dir.path().join("stat"),
            ..LogSettings::new(LogSource::file(dir.path().join("mail.log")), dir.path().join("state"))
        };
        Self { dir, clock: Arc::new(FakeClock::at("2026-11-21T20:00:00Z")), settings }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Appends as a syslog daemon does: to the file that currently has this name.
    pub(super) fn append(&self, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path("mail.log")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        // The modification time follows the clock of the lines.
        if let Some(at) = written_at(text) {
            file.set_modified(at).unwrap();
        }
    }

    pub(super) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Rotates as logrotate does with `create`: increments each number.
    pub(super) fn rotate(&self) {
        self.shift();
        self.rename("mail.log", "mail.log.1");
        self.append("");
    }

    /// Rotates as logrotate does with `copytruncate`.
    pub(super) fn copy_and_cut(&self) {
        self.shift();
        let log = OpenOptions::new().write(true).open(self.path("mail.log")).unwrap();
        fs::copy(self.path("mail.log"), self.path("mail.log.1")).unwrap();
        let copy = OpenOptions::new().append(true).open(self.path("mail.log.1")).unwrap();
        copy.set_modified(log.metadata().unwrap().modified().unwrap()).unwrap();
        log.set_len(0).unwrap();
    }

    fn shift(&self) {
        for number in (1..30).rev() {
            for suffix in ["", ".gz"] {
                let from = format!("mail.log.{number}{suffix}");
                if self.path(&from).exists() {
                    self.rename(&from, &format!("mail.log.{}{suffix}", number + 1));
                }
            }
        }
    }

    pub(super) fn compress(&self, name: &str) {
        let text = fs::read(self.path(name)).unwrap();
        let file = fs::File::create(self.path(&format!("{name}.gz"))).unwrap();
        let mut encoder = GzEncoder::new(file, Compression::fast());
        encoder.write_all(&text).unwrap();
        // Like gzip, keep the modification time.
        let changed = fs::metadata(self.path(name)).unwrap().modified().unwrap();
        encoder.finish().unwrap().set_modified(changed).unwrap();
        fs::remove_file(self.path(name)).unwrap();
    }

    pub(super) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    pub(super) fn follow(&self) -> Follow {
        Follow::new(self.settings.clone(), self.clock.clone()).unwrap()
    }
}

/// Stores events and cursor together, as the database does.
pub(super) struct Reader {
    pub(super) follow: Follow,
    pub(super) cursor: FeedCursor,
    pub(super) events: Vec<DeliveryEvent>,
    pub(super) inbound: Vec<InboundEvent>,
    pub(super) discarded: Vec<Discarded>,
    pub(super) received: Vec<ReceivedMail>,
}

impl Reader {
    pub(super) fn new(log: &TestLog) -> Self {
        let (events, inbound, discarded, received) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { follow: log.follow(), cursor: FeedCursor::default(), events, inbound, discarded, received }
    }

    /// Starts a new process with the same database.
    pub(super) fn restart(&mut self, log: &TestLog) {
        self.follow = log.follow();
    }

    /// Reads one batch and stores it.
    pub(super) fn step(&mut self, max: usize) -> LogBatch {
        let batch = self.follow.read(&self.cursor, max).unwrap();
        self.events.extend(batch.events.clone());
        self.inbound.extend(batch.inbound.clone());
        self.discarded.extend(batch.discarded.clone());
        self.received.extend(batch.received.clone());
        self.cursor = batch.cursor.clone();
        self.follow.forget_until(&self.cursor).unwrap();
        batch
    }

    /// Reads everything that is available.
    pub(super) fn read_all(&mut self) -> &mut Self {
        while self.step(500).more {}
        self
    }

    pub(super) fn gaps(&self) -> Vec<Gap> {
        self.follow.status().gaps
    }

    pub(super) fn reported(&self) -> Vec<String> {
        self.events.iter().map(shown).collect()
    }
}

/// Returns the events from reading this text at once.
pub(super) fn events_of(text: &str) -> Vec<String> {
    let log = TestLog::new();
    log.append(text);
    Reader::new(&log).read_all().reported()
}

/// Formats an event on one line.
pub(super) fn shown(event: &DeliveryEvent) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    format!(
        "{} {} {} {}->{} {} {} {} {}s {}",
        event.at,
        event.queue_id,
        or_dash(event.message_id.map(|id| id.to_string())),
        or_dash(event.sender.as_ref().map(|sender| sender.as_str().to_owned())),
        event.recipient.as_str(),
        event.outcome.as_str(),
        or_dash(event.dsn.map(|dsn| dsn.to_string())),
        or_dash(event.relay.clone()),
        event.delay.as_secs_f64(),
        event.response.chars().take(100).collect::<String>(),
    )
}

/// Returns the submission of the message at the time of the first lines.
pub(super) fn attempt() -> Attempt {
    let (message_id, sender) = (OURS.parse().unwrap(), "ann@example.org".parse().unwrap());
    Attempt { message_id, sender, since: "2026-11-21T08:00:00Z".parse().unwrap(), by_this_node: true }
}

/// Formats outcomes: `queue id recipient outcome ours|other`.
pub(super) fn outcomes(events: &[DeliveryEvent]) -> Vec<String> {
    let ours = |event: &DeliveryEvent| if event.message_id.is_some() { "ours" } else { "other" };
    let line = |event: &DeliveryEvent| {
        format!("{} {} {} {}", event.queue_id, event.recipient.as_str(), event.outcome.as_str(), ours(event))
    };
    events.iter().map(line).collect()
}

/// Returns the time of the last line of a text, if it is from the day of the sample.
fn written_at(text: &str) -> Option<SystemTime> {
    let (_, line) = text.rsplit_once("Nov 21 ")?;
    let at: Timestamp = format!("2026-11-21T{}Z", line.get(..8)?).parse().ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_millis(at.as_millis().try_into().ok()?))
}

/// Returns a line of a daemon at this second after 08:00.
pub(super) fn line(second: u32, tag: &str, text: &str) -> String {
    let (hour, minute, second) = (8 + second / 3600, second / 60 % 60, second % 60);
    format!("Nov 21 {hour:02}:{minute:02}:{second:02} mx postfix/{tag}[7]: {text}\n")
}

/// Returns all lines of message number `n`.
pub(super) fn message(n: u32) -> String {
    let id = format!("4jW{n:06}z1");
    [
        line(n, "api/smtpd", &format!("{id}: client=unknown[127.0.0.1]")),
        line(n, "cleanup", &format!("{id}: message-id=<00000000-0000-4000-8000-{n:012}@example.org>")),
        line(n, "qmgr", &format!("{id}: from=<ann@example.org>, size=300, nrcpt=2 (queue active)")),
        line(n, "smtp", &format!("{id}: to=<a{n}@example.net>, relay=mx[192.0.2.1]:25, delay=1, delays=1/0/0/0, dsn=4.2.0, status=deferred (450 4.2.0 later)")),
        line(n, "lmtp", &format!("{id}: to=<b{n}@example.com>, orig_to=<c{n}@example.org>, relay=mx[/run/lmtp], delay=1, delays=1/0/0/0, dsn=2.0.0, status=sent (250 2.0.0 Saved)")),
        line(n, "qmgr", &format!("{id}: from=<ann@example.org>, status=expired, returned to sender")),
        line(n, "qmgr", &format!("{id}: removed")),
    ]
    .concat()
}
