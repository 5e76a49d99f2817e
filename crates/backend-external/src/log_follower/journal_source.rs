//! Reads systemd's journal through `journalctl` in its export format (systemd's "Journal Export Formats"). A field is
//! a `NAME=value` line; or its name, a length of eight bytes and that many bytes. An empty line ends an entry.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use mailapi_model::Timestamp;

use super::FollowerError;
use super::place::Place;
use super::report::GapKind;
use super::settings::JournalSettings;
use super::source::{Next, Noticed, Record, Source};
use crate::own_session::spawn_in_own_session;

/// Selects the entries of the mail facility.
const MAIL_FACILITY: &str = "SYSLOG_FACILITY=2";
/// The identifier of journald, under which it reports dropped entries.
const JOURNALD: &str = "systemd-journald";

/// Reads the journal entries of the mail facility.
pub(super) struct JournalSource {
    settings: JournalSettings,
    /// The cursor of the newest entry that was returned.
    cursor: Option<String>,
    running: Option<Running>,
    entry: Entry,
    tag: String,
    gaps: Vec<Noticed>,
}

/// A running `journalctl`.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The cursor that reading continues after. `journalctl` returns its entry first, if it still exists.
    expects: Option<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already; the result is irrelevant.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The fields that are used.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry {
    cursor: String,
    micros: i64,
    source_micros: Option<i64>,
    identifier: String,
    pid: String,
    message: String,
}

impl JournalSource {
    /// Continues after the entry of this cursor; `None` reads from the beginning.
    pub(super) fn new(settings: JournalSettings, cursor: Option<String>) -> Self {
        let entry = Entry::default();
        Self { settings, cursor, running: None, entry, tag: String::new(), gaps: Vec::new() }
    }

    fn start(&self) -> Result<Running, FollowerError> {
        let mut command = journalctl(&self.settings);
        command.arg("--output=export");
        if let Some(cursor) = &self.cursor {
            command.arg(format!("--cursor={cursor}"));
        }
        command.args([MAIL_FACILITY, "+", &format!("SYSLOG_IDENTIFIER={JOURNALD}")]);
        let program = self.settings.program.display().to_string();
        let mut child = command.spawn().map_err(|error| FollowerError::of(&program, &error))?;
        let output = child.stdout.take().ok_or(FollowerError(program))?;
        Ok(Running { child, output: BufReader::new(output), expects: self.cursor.clone() })
    }

    /// Reads the next entry. Returns false at the current end.
    fn read(&mut self) -> Result<bool, FollowerError> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        loop {
            let entry = read_entry(&mut running.output, self.settings.max_record_bytes);
            let program = || self.settings.program.display().to_string();
            let Some(entry) = entry.map_err(|error| FollowerError::of(program(), &error))? else {
                let status = running.child.wait().map_err(|error| FollowerError::of(program(), &error))?;
                if !status.success() {
                    return Err(FollowerError(format!("{} ended with {status}", program())));
                }
                return Ok(false);
            };
            match running.expects.take() {
                Some(expected) if expected == entry.cursor => continue,
                // Journald removed the entry, and perhaps unread ones after it.
                Some(_) => {
                    let detail = "the journal no longer has the entry that was read last";
                    self.gaps.push((GapKind::JournalVacuumed, detail.to_owned()));
                }
                None => {}
            }
            self.cursor = Some(entry.cursor.clone());
            self.entry = entry;
            self.running = Some(running);
            return Ok(true);
        }
    }
}

impl Source for JournalSource {
    fn next(&mut self, _at: Option<Timestamp>) -> Result<Option<Next<'_>>, FollowerError> {
        if !self.read()? {
            return Ok(None);
        }
        let (entry, is_after_gap) = (&self.entry, !self.gaps.is_empty());
        if entry.identifier == JOURNALD {
            return Ok(Some(Next { record: Record::Dropped(&entry.message), is_after_gap }));
        }
        self.tag = entry.tag();
        let record = Record::Entry { at: entry.at(), tag: &self.tag, message: &entry.message };
        Ok(Some(Next { record, is_after_gap }))
    }

    fn place(&self, _at: Option<Timestamp>) -> Place {
        self.cursor.clone().map_or(Place::Beginning, Place::Journal)
    }

    /// Always 0: the journal does not report it.
    fn unread(&self) -> u64 {
        0
    }

    fn take_gaps(&mut self) -> Vec<Noticed> {
        std::mem::take(&mut self.gaps)
    }
}

/// Reads the time, tag and message of the newest entries of the mail facility.
pub(super) fn newest(
    settings: &JournalSettings,
    count: u32,
    mut each: impl FnMut(Timestamp, &str, &str),
) -> io::Result<()> {
    let mut command = journalctl(settings);
    command.args(["--output=export", &format!("--lines={count}"), MAIL_FACILITY]);
    command.stderr(Stdio::piped());
    let output = spawn_in_own_session(command)?.wait_with_output()?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!(
            "{} ended with {}: {}",
            settings.program.display(),
            output.status,
            reason.trim()
        )));
    }
    let mut entries = output.stdout.as_slice();
    while let Some(entry) = read_entry(&mut entries, settings.max_record_bytes)? {
        each(entry.at(), &entry.tag(), &entry.message);
    }
    Ok(())
}

/// Returns `journalctl` with the arguments common to all uses.
pub(super) fn journalctl(settings: &JournalSettings) -> Command {
    let mut command = Command::new(&settings.program);
    command.args(&settings.arguments).args(["--quiet", "--no-pager"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Reads the next entry; `None` at the end. A truncated entry is ignored.
fn read_entry(output: &mut impl BufRead, max: usize) -> io::Result<Option<Entry>> {
    let mut entry = Entry::default();
    let mut line = Vec::new();
    let mut is_empty = true;
    loop {
        line.clear();
        output.by_ref().take(max as u64).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return if line.len() + 1 < max { Ok(None) } else { Err(io::ErrorKind::InvalidData.into()) };
        }
        if line.is_empty() {
            match is_empty {
                true => continue,
                false => return Ok(Some(entry)),
            }
        }
        is_empty = false;
        match line.iter().position(|byte| *byte == b'=') {
            Some(at) => entry.set(&line[..at], &line[at + 1..]),
            None => {
                let value = read_value(output, max)?;
                entry.set(&line, &value);
            }
        }
    }
}

/// Reads a binary value: its length, its bytes, a line end.
fn read_value(output: &mut impl BufRead, max: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    output.read_exact(&mut length)?;
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut value = vec![0; length + 1];
    output.read_exact(&mut value)?;
    value.pop();
    Ok(value)
}

impl Entry {
    fn tag(&self) -> String {
        format!("{}[{}]", self.identifier, self.pid)
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.source_micros.unwrap_or(self.micros) / 1000)
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"__CURSOR" => self.cursor = text(),
            b"__REALTIME_TIMESTAMP" => self.micros = text().parse().unwrap_or(0),
            b"_SOURCE_REALTIME_TIMESTAMP" => self.source_micros = text().parse().ok(),
            b"SYSLOG_IDENTIFIER" => self.identifier = text(),
            b"SYSLOG_PID" => self.pid = text(),
            b"_PID" if self.pid.is_empty() => self.pid = text(),
            b"MESSAGE" => self.message = text(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_of_fields_are_read_and_a_cut_entry_does_not_count() {
        let mut export = b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1795000000123456\nSYSLOG_IDENTIFIER=postfix/smtp\n\
                           _PID=7\nMESSAGE\n"
            .to_vec();
        export.extend_from_slice(&8_u64.to_le_bytes());
        export.extend_from_slice(b"a\nb=\xffcde\n\n__CURSOR=s=1;i=3\nMESSAGE=cu");
        let mut output = export.as_slice();
        let entry = read_entry(&mut output, 1000).unwrap().unwrap();
        assert_eq!((entry.cursor.as_str(), entry.pid.as_str()), ("s=1;i=2", "7"));
        assert_eq!(entry.message, "a\nb=\u{fffd}cde");
        assert_eq!(read_entry(&mut output, 1000).unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            fields in proptest::collection::vec(
                (
                    proptest::sample::select(vec!["__CURSOR", "__REALTIME_TIMESTAMP", "_PID", "MESSAGE", "X", ""]),
                    prop_oneof![Just(None), (0_u64..40).prop_map(Some), any::<u64>().prop_map(Some)],
                    proptest::collection::vec(any::<u8>(), 0..40),
                ),
                0..8,
            ),
        ) {
            let _ = read_entry(&mut bytes.as_slice(), 64);
            let mut export = Vec::new();
            for (name, length, value) in fields {
                export.extend_from_slice(name.as_bytes());
                match length {
                    Some(length) => [&b"\n"[..], &length.to_le_bytes(), &value, b"\n"].iter().for_each(|part| export.extend_from_slice(part)),
                    None => [&b"="[..], &value, b"\n"].iter().for_each(|part| export.extend_from_slice(part)),
                }
            }
            let mut output = export.as_slice();
            while let Ok(Some(_)) = read_entry(&mut output, 64) {}
        }
    }
}
