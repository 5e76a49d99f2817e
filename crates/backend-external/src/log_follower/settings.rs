//! Settings of the log follower.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;

/// The settings of a [`super::LogFollower`]. [`LogSettings::new`] returns the defaults that the fields list.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// The source of the lines.
    pub source: LogSource,
    /// The first part of Postfix's syslog tags, as set by `syslog_name` in main.cf. Names with a hyphen after it are
    /// other instances of the same installation. Default: `postfix`.
    pub syslog_name: String,
    /// The zone of times without an offset. Default: that of the system.
    pub time_zone: TimeZone,
    /// The directory for state that survives a restart: tracked messages and the index of Message-IDs. It must belong
    /// to a single follower.
    pub state_dir: PathBuf,
    /// How often the log is polled if the system reports no change. Default: 1 s.
    pub poll_interval: Duration,
    /// The minimum time between two reads caused by changes: lines written meanwhile are read and stored together. It
    /// delays a status by at most this time. Default: 10 ms.
    pub gather_time: Duration,
    /// The maximum number of lines per batch. Default: 20,000.
    pub max_batch_lines: u64,
    /// How many bytes of log are read between two saves, and at most read again after a restart. Default: 4 MiB.
    pub save_every_bytes: u64,
    /// The state is also saved after this time, however little was read. Default: 1 minute.
    pub save_interval: Duration,
    /// The maximum unread log for [`super::LogFollower::find`]; with more it is undecided. Default: 16 MiB.
    pub find_bytes: u64,
    /// How long after a lost connection the mail server may still log the message. Until then,
    /// [`super::LogFollower::find`] never returns that it was not accepted. Default: 10 s.
    pub settle_time: Duration,
    /// The maximum time to receive a message. A Message-ID that was logged longer ago without entering the queue was
    /// not accepted. Default: 10 minutes.
    pub reception_time: Duration,
    /// The longest time without a log line for a queued message. It must exceed Postfix's `maximal_backoff_time`,
    /// 4,000 s. Default: 2 hours.
    pub retry_time: Duration,
    /// The command that lists the queue of that Postfix, in the format of `postqueue -j`; empty for none. With it,
    /// two listings decide about a message that a crash interrupted, instead of waiting for `retry_time`. Default:
    /// none.
    pub postqueue: Vec<String>,
    /// The command that runs postsuper(1) as root, without its arguments; empty for none. With it, the operator can
    /// change the queue. Default: none.
    pub postsuper: Vec<String>,
    /// Time limit of both commands. Default: 10 s.
    pub postqueue_timeout: Duration,
    /// The maximum size of a listing in bytes. A longer listing is an error. Default: 64 MiB.
    pub postqueue_bytes: u64,
    /// The difference between the log's clock and this server's above which log times are corrected. Times are logged
    /// in whole seconds, and processes wait to be scheduled. Default: 5 s.
    pub clock_tolerance: Duration,
    /// The file in which the kernel reports the start of the machine (proc_stat(5)). Default: `/proc/stat`.
    pub machine_state: PathBuf,
    /// How long the index keeps queue ids, and how long gaps are remembered. Default: 7 days.
    pub index_lifetime: Duration,
    /// Whether this process submits messages to the mail server. Then any submission that its node began before this
    /// process started has ended. Otherwise a submission may last `reception_time`. Default: true.
    pub hands_over_here: bool,
    /// How many gaps are kept; beyond that, the oldest are merged. Default: 100.
    pub max_gaps: usize,
    /// The maximum length of a line; the rest is dropped. Default: 64 KiB.
    pub max_line_bytes: usize,
    /// The maximum number of tracked messages. Default: 500,000.
    pub max_open_messages: usize,
}

/// The source of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogSource {
    /// A file that syslog or Postfix's own logger appends to.
    File(FileSettings),
    /// systemd's journal, through `journalctl`.
    Journal(JournalSettings),
}

/// A log file and its rotated predecessors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// The current file.
    pub path: PathBuf,
    /// The directory of rotated files, if another one (`olddir` of logrotate). Default: that of the file.
    pub rotated_dir: Option<PathBuf>,
    /// How many bytes at the beginning identify a file regardless of its name. Default: 1024.
    pub head_bytes: usize,
    /// Bytes per read. Default: 256 KiB.
    pub read_bytes: usize,
}

/// Settings of the journal reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalSettings {
    /// The program. Default: `journalctl`, searched in the path.
    pub program: PathBuf,
    /// Arguments before the follower's own, such as `--directory=…`. Default: none.
    pub arguments: Vec<String>,
    /// The maximum size of a record in bytes. Default: 1 MiB.
    pub max_record_bytes: usize,
}

impl LogSettings {
    /// Returns the default settings for this source and state directory.
    pub fn new(source: LogSource, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            source,
            syslog_name: "postfix".to_owned(),
            time_zone: TimeZone::system(),
            state_dir: state_dir.into(),
            poll_interval: Duration::from_secs(1),
            gather_time: Duration::from_millis(10),
            max_batch_lines: 20_000,
            save_every_bytes: 4 << 20,
            save_interval: Duration::from_mins(1),
            find_bytes: 16 << 20,
            settle_time: Duration::from_secs(10),
            reception_time: Duration::from_mins(10),
            retry_time: Duration::from_hours(2),
            postqueue: Vec::new(),
            postsuper: Vec::new(),
            postqueue_timeout: Duration::from_secs(10),
            postqueue_bytes: 64 << 20,
            clock_tolerance: Duration::from_secs(5),
            machine_state: PathBuf::from("/proc/stat"),
            index_lifetime: Duration::from_hours(7 * 24),
            hands_over_here: true,
            max_gaps: 100,
            max_line_bytes: 64 << 10,
            max_open_messages: 500_000,
        }
    }
}

impl LogSource {
    /// Returns the file at this path, with the default settings.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(FileSettings { path: path.into(), rotated_dir: None, head_bytes: 1024, read_bytes: 256 << 10 })
    }

    /// Returns the journal, with the default settings. `directory` is for journal files outside systemd's own
    /// directory, such as those from another machine.
    #[must_use]
    pub fn journal(directory: Option<&Path>) -> Self {
        Self::Journal(JournalSettings {
            program: PathBuf::from("journalctl"),
            arguments: directory.map(|path| format!("--directory={}", path.display())).into_iter().collect(),
            max_record_bytes: 1 << 20,
        })
    }
}
