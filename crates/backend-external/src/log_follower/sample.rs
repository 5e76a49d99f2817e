//! Samples the end of a log, so that an operator can check that it is the right one.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use mailapi_model::Timestamp;

use super::journal_source;
use super::line::Line;
use super::settings::{JournalSettings, LogSettings, LogSource};
use super::timestamp::TimeReader;

/// How many entries of a journal are read.
const NEWEST_ENTRIES: u32 = 1000;

/// The composition of the end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogSample {
    /// Number of lines read, or of entries of the mail facility.
    pub lines: u64,
    /// How many of them were parsed as lines of Postfix.
    pub understood: u64,
}

impl LogSample {
    /// Reads as much of a file as a search for one message does, and the newest entries of a journal.
    ///
    /// # Errors
    /// If the log cannot be read, or the file is not a regular file.
    pub fn of(settings: &LogSettings, now: Timestamp) -> io::Result<Self> {
        let file = match &settings.source {
            LogSource::File(file) => file,
            LogSource::Journal(journal) => return Self::of_journal(journal, &settings.syslog_name),
        };
        // Opening a FIFO would block until it has a writer.
        if !std::fs::metadata(&file.path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut opened = File::open(&file.path)?;
        let length = opened.metadata()?.len();
        let begin = length.saturating_sub(settings.find_bytes);
        opened.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        opened.take(settings.find_bytes).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut times = TimeReader::new(settings.time_zone.clone());
        let mut sample = Self::default();
        // The first line is incomplete if reading starts within the file.
        for line in text.lines().skip(usize::from(begin > 0)) {
            sample.lines += 1;
            let is_understood = Line::of_file(line, &settings.syslog_name, &mut times, now, None).is_some();
            sample.understood += u64::from(is_understood);
        }
        Ok(sample)
    }

    fn of_journal(settings: &JournalSettings, syslog_name: &str) -> io::Result<Self> {
        let mut sample = Self::default();
        journal_source::newest(settings, NEWEST_ENTRIES, |at, tag, message| {
            sample.lines += 1;
            sample.understood += u64::from(Line::of_tag(at, tag, message, syslog_name).is_some());
        })?;
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &str, syslog_name: &str) -> LogSample {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mail.log");
        std::fs::write(&path, text).unwrap();
        let settings = LogSettings {
            syslog_name: syslog_name.to_owned(),
            find_bytes: 200,
            ..LogSettings::new(LogSource::file(path), dir.path())
        };
        LogSample::of(&settings, Timestamp::from_seconds(1_795_000_000)).unwrap()
    }

    #[test]
    fn lines_of_postfix_are_recognised_at_the_end_of_a_file() {
        assert_eq!(sample("", "postfix"), LogSample::default());
        let text = "Nov 21 07:45:38 mx postfix/qmgr[1]: a\n".repeat(9) + "Nov 21 07:45:39 mx sshd[1]: a\n";
        assert_eq!(sample(&text, "postfix"), LogSample { lines: 5, understood: 4 });
        assert_eq!(sample(&text, "mta"), LogSample { lines: 5, understood: 0 });
    }

    #[test]
    fn what_is_no_file_is_an_error_and_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for path in [fifo, dir.path().to_owned(), dir.path().join("missing")] {
            let settings = LogSettings::new(LogSource::file(path), dir.path());
            LogSample::of(&settings, Timestamp::from_millis(0)).unwrap_err();
        }
    }
}
