//! Reads a systemd journal with the real `journalctl`. `systemd-journal-remote` writes the entries, which works
//! without a running systemd.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{Reader, TestLog, events_of, line, message};
use crate::log_follower::waker::Waker;
use crate::log_follower::{GapKind, LogSample, LogSource};

const WRITER: &str = "/usr/lib/systemd/systemd-journal-remote";
/// The maximum delay of an entry from the writer to the reader.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

struct Journal {
    log: TestLog,
    directory: PathBuf,
    writer: Writer,
    files: u32,
    /// The number of entries written, and of those removed again.
    entries: usize,
    removed: usize,
}

/// A writer of one journal file.
struct Writer(Child);

impl Writer {
    fn start(file: &Path) -> Self {
        let mut command = Command::new(WRITER);
        command.arg("--output").arg(file).arg("-").stdin(Stdio::piped()).stderr(Stdio::null());
        Self(
            command
                .spawn()
                .unwrap_or_else(|error| panic!("{WRITER}: {error} (apt-get install systemd-journal-remote)")),
        )
    }

    fn write(&mut self, export: &str) {
        let input = self.0.stdin.as_mut().unwrap();
        input.write_all(export.as_bytes()).unwrap();
        input.flush().unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The writer finishes its file when its input ends.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Journal {
    fn new() -> Self {
        let mut log = TestLog::new();
        let directory = log.path("journal");
        std::fs::create_dir(&directory).unwrap();
        log.settings.source = LogSource::journal(Some(&directory));
        log.settings.save_every_bytes = 500;
        let writer = Writer::start(&directory.join("1.journal"));
        Self { log, directory, writer, files: 1, entries: 0, removed: 0 }
    }

    /// Continues in a new file, as journald does when one is full.
    fn rotate(&mut self) {
        self.files += 1;
        self.writer = Writer::start(&self.directory.join(format!("{}.journal", self.files)));
    }

    /// Removes all files but the newest, as journald does when the disk is full.
    fn vacuum(&mut self) {
        for file in (1..self.files).map(|number| self.directory.join(format!("{number}.journal"))) {
            if file.exists() {
                std::fs::remove_file(file).unwrap();
            }
        }
        self.removed = self.entries - self.readable();
    }

    /// Writes lines of a log file as entries of the mail facility, and waits until they are readable.
    fn append(&mut self, text: &str) {
        for line in text.lines() {
            let (head, message) = line.split_once("]: ").unwrap();
            let (head, tag) = head.rsplit_once(' ').unwrap();
            let (identifier, pid) = tag.split_once('[').unwrap();
            let time = head.split(' ').nth(2).unwrap();
            let at: mailapi_model::Timestamp = format!("2026-11-21T{time}Z").parse().unwrap();
            self.entry(2, identifier, pid, at.as_millis() * 1000, message);
        }
        self.wait();
    }

    fn entry(&mut self, facility: u32, identifier: &str, pid: &str, micros: i64, message: &str) {
        self.entries += 1;
        // Makes equal times distinct, as a clock does.
        let micros = micros + i64::try_from(self.entries).unwrap();
        self.writer.write(&format!(
            "__REALTIME_TIMESTAMP={micros}\n__MONOTONIC_TIMESTAMP={micros}\n\
             _BOOT_ID=0123456789abcdef0123456789abcdef\nSYSLOG_FACILITY={facility}\nSYSLOG_IDENTIFIER={identifier}\n\
             SYSLOG_PID={pid}\nMESSAGE={message}\n\n"
        ));
    }

    /// Waits until everything that was written is readable.
    #[expect(clippy::disallowed_methods, reason = "another process is waited for")]
    fn wait(&self) {
        let end = Instant::now() + PATIENCE;
        let wanted = self.entries - self.removed;
        while self.readable() < wanted {
            assert!(Instant::now() < end, "{} of {wanted} entries", self.readable());
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn readable(&self) -> usize {
        let mut command = Command::new("journalctl");
        command.arg("--directory").arg(&self.directory).args(["--quiet", "--no-pager", "--output=cat"]);
        let output = command.output().expect("journalctl is run");
        output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
    }
}

#[test]
fn entries_of_postfix_are_recognised() {
    let mut journal = Journal::new();
    let sample = |journal: &Journal| {
        let now = mailapi_model::Timestamp::from_seconds(1_795_000_000);
        LogSample::of(&journal.log.settings, now).unwrap()
    };
    assert_eq!(sample(&journal), LogSample::default());
    journal.entry(2, "dovecot", "7", 1_795_000_000_000_000, "imap-login: Login: user=<bob@example.org>");
    journal.entry(3, "postfix/smtp", "7", 1_795_000_000_000_000, "of another facility");
    journal.wait();
    assert_eq!(sample(&journal), LogSample { lines: 1, understood: 0 });
    journal.append("Nov 21 07:45:38 mx postfix/qmgr[1]: a\n");
    assert_eq!(sample(&journal), LogSample { lines: 2, understood: 1 });
    journal.log.settings.syslog_name = "mta".to_owned();
    assert_eq!(sample(&journal), LogSample { lines: 2, understood: 0 });
}

#[test]
fn everything_is_reported_once_across_restarts_and_rotations() {
    let mut journal = Journal::new();
    let mut reader = Reader::new(&journal.log);
    assert_eq!(reader.read_all().reported(), [""; 0], "an empty journal is no failure");
    for number in 1..9 {
        journal.append(&message(number));
        match number % 4 {
            0 => drop(reader.step(2)),
            1 => journal.rotate(),
            2 => reader.restart(&journal.log),
            // Read after the next message.
            _ => continue,
        }
        reader.read_all();
    }
    assert_eq!(reader.reported(), events_of(&(1..9).map(message).collect::<String>()));
    assert_eq!(reader.gaps(), []);
}

#[test]
fn other_programs_lines_are_skipped_whatever_they_hold() {
    let mut journal = Journal::new();
    let reply = "450 4.2.0 caf\u{e9} \u{1f4ec} = later";
    let text = message(1).replace("450 4.2.0 later", reply);
    for piece in text.split_inclusive('\n') {
        journal.entry(3, "cron", "9", 1_795_600_800_000_000, "to=<a1@example.net>, status=sent (no)");
        journal.append(piece);
    }
    let mut reader = Reader::new(&journal.log);
    assert_eq!(reader.read_all().reported(), events_of(&text));
    assert!(reader.reported().iter().any(|event| event.ends_with(reply)), "{:?}", reader.reported());
}

#[test]
fn what_was_discarded_unread_is_a_gap_and_what_was_read_is_none() {
    let mut journal = Journal::new();
    journal.append(&message(1));
    let mut reader = Reader::new(&journal.log);
    reader.read_all();
    journal.rotate();
    journal.append(&message(2));
    reader.read_all();
    journal.vacuum();
    journal.append(&message(3));
    reader.restart(&journal.log);
    reader.read_all();
    assert_eq!(reader.gaps(), [], "what was discarded had been read");
    assert_eq!(reader.reported(), events_of(&(1..4).map(message).collect::<String>()));

    journal.append(&message(4));
    journal.rotate();
    journal.append(&message(5));
    journal.vacuum();
    reader.restart(&journal.log);
    reader.read_all();
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::JournalVacuumed]);
    let kept = [1, 2, 3, 5].map(message).concat();
    assert_eq!(reader.reported(), events_of(&kept), "what is left is reported once");
}

#[test]
fn what_journald_dropped_is_a_gap() {
    let mut journal = Journal::new();
    journal.append(&message(1));
    let micros = 1_795_651_200_000_000;
    journal.entry(3, "systemd-journald", "1", micros, "Suppressed 17 messages from ssh.service");
    journal.wait();
    let mut reader = Reader::new(&journal.log);
    assert_eq!(reader.read_all().gaps(), []);
    journal.entry(3, "systemd-journald", "1", micros, "Suppressed 17 messages from postfix@-.service");
    journal.wait();
    let kinds: Vec<_> = reader.read_all().gaps().iter().map(|gap| gap.kind).collect();
    assert_eq!(kinds, [GapKind::RateLimited]);
}

#[test]
fn a_missing_journal_or_a_failing_program_is_an_error() {
    let mut journal = Journal::new();
    std::fs::rename(&journal.directory, journal.log.path("elsewhere")).unwrap();
    let mut reader = Reader::new(&journal.log);
    assert!(reader.follow.read(&reader.cursor, 5).is_err());
    for program in ["false", "/nowhere/journalctl"] {
        let LogSource::Journal(settings) = &mut journal.log.settings.source else { unreachable!("it is the journal") };
        settings.program = PathBuf::from(program);
        reader.restart(&journal.log);
        assert!(reader.follow.read(&reader.cursor, 5).is_err(), "{program}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_entry_wakes_the_follower() {
    let mut journal = Journal::new();
    journal.append(&message(1));
    journal.log.settings.poll_interval = Duration::from_hours(1);
    let waker = Waker::new(&journal.log.settings);
    // `journalctl --follow` does not report when it is ready, so append lines until one is noticed.
    let end = Instant::now() + PATIENCE;
    let mut second = 10;
    loop {
        journal.append(&line(second, "smtp", "connect to mx.example.net[192.0.2.1]:25: Connection refused"));
        if tokio::time::timeout(10 * LOOK_AGAIN, waker.changed()).await.is_ok() {
            return;
        }
        assert!(Instant::now() < end, "no reader was woken");
        second += 1;
    }
}
