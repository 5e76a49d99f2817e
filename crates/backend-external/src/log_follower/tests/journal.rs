//! The journal, played by a script that behaves as `journalctl` does: it gives out a prepared export from a cursor on.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::support::{Reader, Scene, events_of, message};
use crate::log_follower::{GapKind, JournalSettings, LogSource};

/// Gives out the entries from the one of `--cursor` on; when that is gone, from the first that is left.
const SCRIPT: &str = r#"#!/bin/sh
from=1
for argument in "$@"; do
  case "$argument" in
    --cursor=i=*) from="${argument#--cursor=i=}" ;;
  esac
done
for entry in $(ls "$JOURNAL" | sort -n); do
  if [ "$entry" -ge "$from" ]; then cat "$JOURNAL/$entry"; fi
done
"#;

struct Journal {
    scene: Scene,
    entries: u32,
}

impl Journal {
    fn new() -> Self {
        let mut scene = Scene::new();
        let (script, entries) = (scene.path("journalctl"), scene.path("entries"));
        fs::create_dir(&entries).unwrap();
        fs::write(&script, SCRIPT.replace("$JOURNAL", entries.to_str().unwrap())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let LogSource::Journal(settings) = LogSource::journal(None) else { unreachable!("it is the journal") };
        scene.settings.source = LogSource::Journal(JournalSettings { program: script, ..settings });
        scene.settings.save_every_octets = 500;
        Self { scene, entries: 0 }
    }

    /// Writes lines of a log file as entries.
    fn append(&mut self, text: &str) {
        for line in text.lines() {
            let (head, message) = line.split_once("]: ").unwrap();
            let (head, tag) = head.rsplit_once(' ').unwrap();
            let (identifier, pid) = tag.split_once('[').unwrap();
            let time = head.split(' ').nth(2).unwrap();
            let at: mailapi_model::Timestamp = format!("2026-11-21T{time}Z").parse().unwrap();
            self.entry(identifier, pid, at.as_millis() * 1000, message);
        }
    }

    fn entry(&mut self, identifier: &str, pid: &str, micros: i64, message: &str) {
        self.entries += 1;
        let export = format!(
            "__CURSOR=i={}\n__REALTIME_TIMESTAMP={micros}\nSYSLOG_IDENTIFIER={identifier}\nSYSLOG_PID={pid}\n\
             MESSAGE={message}\n\n",
            self.entries
        );
        fs::write(self.scene.path("entries").join(self.entries.to_string()), export).unwrap();
    }
}

#[test]
fn the_journal_tells_the_same_as_a_file_across_restarts() {
    let mut journal = Journal::new();
    let mut reader = Reader::new(&journal.scene);
    for number in 1..6 {
        journal.append(&message(number));
        while reader.step(2).more {}
        reader.restart(&journal.scene);
    }
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(1..6).map(message).collect::<String>()));
    assert_eq!(reader.gaps(), []);
}

#[test]
fn entries_that_were_discarded_unread_are_a_gap() {
    let mut journal = Journal::new();
    journal.append(&message(1));
    let mut reader = Reader::new(&journal.scene);
    reader.read_all();
    let read = journal.entries;
    journal.append(&message(2));
    for entry in 1..read + 2 {
        fs::remove_file(journal.scene.path("entries").join(entry.to_string())).unwrap();
    }
    reader.restart(&journal.scene);
    reader.read_all();
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::JournalVacuumed]);
    assert!(reader.told().iter().any(|event| event.contains("b2@") || event.contains("c2@")));
}

#[test]
fn what_journald_dropped_is_a_gap() {
    let mut journal = Journal::new();
    journal.append(&message(1));
    journal.entry("systemd-journald", "1", 0, "Suppressed 1234 messages from ssh.service");
    let mut reader = Reader::new(&journal.scene);
    assert_eq!(reader.read_all().gaps(), []);
    journal.entry("systemd-journald", "1", 0, "Suppressed 1234 messages from postfix@-.service");
    let kinds: Vec<_> = reader.read_all().gaps().iter().map(|gap| gap.kind).collect();
    assert_eq!(kinds, [GapKind::RateLimited]);
}

#[test]
fn a_journal_that_cannot_be_read_is_an_error() {
    let journal = Journal::new();
    fs::write(journal.scene.path("journalctl"), "#!/bin/sh\nexit 1\n").unwrap();
    let mut reader = Reader::new(&journal.scene);
    assert!(reader.follow.read(&reader.cursor, 5).is_err());
}
