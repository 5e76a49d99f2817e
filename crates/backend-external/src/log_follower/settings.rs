//! How Postfix's log is followed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;

/// The settings of a [`super::LogFollower`]. [`LogSettings::new`] gives the defaults named at each field.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Where the lines come from.
    pub source: LogSource,
    /// The first part of the tags of Postfix's lines, as `syslog_name` in main.cf sets it. Names that go on with a
    /// hyphen are other instances of the same installation. Default: `postfix`.
    pub syslog_name: String,
    /// The zone of times that are written without one. Default: that of the system.
    pub time_zone: TimeZone,
    /// The directory for what has to outlive a restart: messages in the queue, and the index of Message-IDs. It
    /// belongs to one follower alone.
    pub state_dir: PathBuf,
    /// How long to wait at most until the log is looked at again, should the system not tell of a change. Default: 1 s.
    pub poll_interval: Duration,
    /// After the log was looked at because it changed, how long until it is looked at for that reason again: what is
    /// written meanwhile is read, and stored, in one go. A status is known so much later at most. Default: 10 ms.
    pub gather_time: Duration,
    /// The most lines of one batch. Default: 20,000.
    pub max_batch_lines: u64,
    /// After how many octets of log the state is saved anew; as many are read again after a restart. Default: 4 MiB.
    pub save_every_octets: u64,
    /// The state is also saved after this time, however little was read. Default: 1 minute.
    pub save_interval: Duration,
    /// How much of the log is read again to rebuild a state that was lost. Default: 256 MiB.
    pub rebuild_octets: u64,
    /// How much unread log [`super::LogFollower::find`] looks through; with more it cannot tell. Default: 16 MiB.
    pub find_octets: u64,
    /// For how long the mail server may still be about to log a message after its connection was lost; until then
    /// [`super::LogFollower::find`] does not say that a message never arrived. Default: 10 s.
    pub settle_time: Duration,
    /// How long a message may be received; a Message-ID that was logged longer ago and never entered the queue was
    /// not taken. Default: 10 minutes.
    pub reception_time: Duration,
    /// How long the mail server leaves a message in its queue without a word of it: longer than Postfix's
    /// `maximal_backoff_time`, 4,000 s. Default: 2 hours.
    pub retry_time: Duration,
    /// The command that lists the queue of the Postfix whose log it is, as `postqueue -j` does; empty for none. With
    /// it, what a crash of Postfix interrupted is decided by two listings instead of after `retry_time`. Default: none.
    pub postqueue: Vec<String>,
    /// How long that command may take. Default: 10 s.
    pub postqueue_timeout: Duration,
    /// How many octets it may print; a longer listing tells nothing. Default: 64 MiB.
    pub postqueue_octets: u64,
    /// Difference between the log's clock and ours above which log times are corrected. Times are logged in whole
    /// seconds, and processes wait to be scheduled. Default: 5 s.
    pub clock_tolerance: Duration,
    /// Where the kernel says when the machine started, as proc_stat(5) has it. Default: `/proc/stat`.
    pub machine_state: PathBuf,
    /// How long it is remembered under which queue id a message was taken, and that the log had a gap. Default: 7 days.
    pub index_lifetime: Duration,
    /// After how many octets a new file of the index is begun. Default: 16 MiB.
    pub index_file_octets: u64,
    /// How many files of the index are kept; the oldest goes first. Default: 16.
    pub max_index_files: usize,
    /// Whether this process hands messages over to the mail server, so that whatever was begun before it started by its
    /// own node has ended. Otherwise a handing-over may go on for `reception_time`. Default: yes.
    pub hands_over_here: bool,
    /// How many gaps are remembered; of more, the oldest become one that covers them. Default: 100.
    pub max_gaps: usize,
    /// What a line may be long; the rest is dropped. Default: 64 KiB.
    pub max_line_octets: usize,
    /// Bounds of what is remembered of messages in the queue.
    pub tracked: TrackingLimits,
}

/// Bounds of what is remembered of messages in the queue.
#[derive(Debug, Clone)]
pub struct TrackingLimits {
    /// The most messages. Default: 500,000.
    pub max_open_messages: usize,
    /// After which time without a line a message is forgotten; longer than Postfix's `maximal_queue_lifetime`, between
    /// two tries nothing is logged. Default: 14 days.
    pub silent_message_lifetime: Duration,
    /// The most refused recipients that are remembered for one transaction. Default: 1,000.
    pub max_refused_recipients: usize,
    /// The most messages that this process handed over and the log has not mentioned yet. Default: 10,000.
    pub max_unconfirmed_messages: usize,
}

/// Where the lines come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogSource {
    /// A file that syslog or Postfix's own logger appends to.
    File(FileSettings),
    /// systemd's journal, by way of `journalctl`.
    Journal(JournalSettings),
}

/// A log file and its rotated predecessors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// The file that is written now.
    pub path: PathBuf,
    /// Where rotated files go, when they go elsewhere (`olddir` of logrotate). Default: where the file is.
    pub rotated_dir: Option<PathBuf>,
    /// How many octets at the beginning identify a file whatever its name. Default: 1024.
    pub head_octets: usize,
    /// How many octets one read asks for. Default: 256 KiB.
    pub read_octets: usize,
}

/// How the journal is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalSettings {
    /// The program. Default: `journalctl`, looked up in the path.
    pub program: PathBuf,
    /// Arguments in front of ours, such as `--directory=…`. Default: none.
    pub arguments: Vec<String>,
    /// The most octets of one record. Default: 1 MiB.
    pub max_record_octets: usize,
}

impl LogSettings {
    /// The default settings for this source, with this directory for what has to outlive a restart.
    pub fn new(source: LogSource, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            source,
            syslog_name: "postfix".to_owned(),
            time_zone: TimeZone::system(),
            state_dir: state_dir.into(),
            poll_interval: Duration::from_secs(1),
            gather_time: Duration::from_millis(10),
            max_batch_lines: 20_000,
            save_every_octets: 4 << 20,
            save_interval: Duration::from_mins(1),
            rebuild_octets: 256 << 20,
            find_octets: 16 << 20,
            settle_time: Duration::from_secs(10),
            reception_time: Duration::from_mins(10),
            retry_time: Duration::from_hours(2),
            postqueue: Vec::new(),
            postqueue_timeout: Duration::from_secs(10),
            postqueue_octets: 64 << 20,
            clock_tolerance: Duration::from_secs(5),
            machine_state: PathBuf::from("/proc/stat"),
            index_lifetime: Duration::from_hours(7 * 24),
            index_file_octets: 16 << 20,
            max_index_files: 16,
            hands_over_here: true,
            max_gaps: 100,
            max_line_octets: 64 << 10,
            tracked: TrackingLimits::default(),
        }
    }
}

impl LogSource {
    /// The file at this path, with the default settings.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(FileSettings { path: path.into(), rotated_dir: None, head_octets: 1024, read_octets: 256 << 10 })
    }

    /// The journal, with the default settings; its files are in this directory when systemd keeps them elsewhere, as
    /// those are that came from another machine.
    #[must_use]
    pub fn journal(directory: Option<&Path>) -> Self {
        Self::Journal(JournalSettings {
            program: PathBuf::from("journalctl"),
            arguments: directory.map(|path| format!("--directory={}", path.display())).into_iter().collect(),
            max_record_octets: 1 << 20,
        })
    }
}

impl Default for TrackingLimits {
    fn default() -> Self {
        Self {
            max_open_messages: 500_000,
            silent_message_lifetime: Duration::from_hours(14 * 24),
            max_refused_recipients: 1000,
            max_unconfirmed_messages: 10_000,
        }
    }
}
