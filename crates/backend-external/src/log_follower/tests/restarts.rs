//! A follower that is stopped and restarted anywhere reports the same as without a stop.

use proptest::prelude::*;

use super::support::{Reader, SAMPLE, TestLog, events_of, message};

#[test]
fn killed_after_every_line_it_reports_the_same() {
    for saves_always in [true, false] {
        let mut log = TestLog::new();
        log.settings.save_every_bytes = if saves_always { 1 } else { 5000 };
        log.settings.max_batch_lines = 1;
        let mut reader = Reader::new(&log);
        for line in SAMPLE.lines() {
            log.append(&format!("{line}\n"));
            while reader.step(1).more && !reader.cursor.0.is_empty() {
                reader.restart(&log);
            }
            reader.restart(&log);
        }
        assert_eq!(reader.reported(), events_of(SAMPLE));
        assert_eq!(reader.gaps(), []);
    }
}

#[test]
fn what_the_database_could_not_store_is_reported_again() {
    let log = TestLog::new();
    log.append(SAMPLE);
    let mut reader = Reader::new(&log);
    while {
        let lost = reader.follow.read(&reader.cursor, 7).unwrap();
        let again = reader.follow.read(&reader.cursor, 3).unwrap();
        assert!(lost.events.starts_with(&again.events));
        reader.step(5).more
    } {}
    assert_eq!(reader.reported(), events_of(SAMPLE));
}

#[test]
fn a_line_with_many_events_is_split_also_across_restarts() {
    let line = super::support::line;
    let mut text = line(0, "qmgr", "A00001: from=<ann@example.org>, size=1, nrcpt=9 (queue active)");
    for n in 0..9 {
        let to = format!(
            "A00001: to=<r{n}@example.net>, relay=none, delay=1, delays=1/0/0/0, dsn=4.4.1, status=deferred (no)"
        );
        text += &line(1, "smtp", &to);
    }
    text += &line(2, "qmgr", "A00001: from=<ann@example.org>, status=expired, returned to sender");
    text += &line(2, "qmgr", "A00001: removed");
    let log = TestLog::new();
    log.append(&text);
    let mut reader = Reader::new(&log);
    while reader.step(2).more {
        reader.restart(&log);
    }
    assert_eq!(reader.reported(), events_of(&text));
    assert_eq!(reader.events.len(), 18);
}

#[test]
fn without_its_saved_state_it_rebuilds_it_from_the_log() {
    let log = TestLog::new();
    let text: String = (0..50).map(message).collect();
    let (before, after) = text.split_at(text.len() / 2);
    log.append(before);
    let mut reader = Reader::new(&log);
    reader.read_all();
    for damage in [&b"mailapi log state 1\nat\tfile 1 2"[..], b"\xff"] {
        std::fs::write(log.path("state/state"), damage).unwrap();
        reader.restart(&log);
        reader.read_all();
    }
    log.append(after);
    reader.read_all();
    assert_eq!(reader.reported(), events_of(&text));
    assert_eq!(reader.gaps(), []);
}

#[test]
fn a_database_from_a_backup_hears_again_what_it_has_forgotten() {
    let mut log = TestLog::new();
    log.settings.save_every_bytes = 1;
    log.append(&message(1));
    let mut reader = Reader::new(&log);
    reader.read_all();
    let (cursor, events) = (reader.cursor.clone(), reader.events.clone());
    log.append(&message(2));
    reader.read_all();
    reader.restart(&log);
    (reader.cursor, reader.events) = (cursor, events);
    reader.read_all();
    assert_eq!(reader.reported(), events_of(&(message(1) + &message(2))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_log_that_was_damaged_anywhere_is_followed_to_its_end(
        wounds in proptest::collection::vec(
            (any::<proptest::sample::Index>(), 0_usize..30, proptest::collection::vec(any::<u8>(), 0..6)), 1..40,
        ),
    ) {
        let log = TestLog::new();
        let mut bytes = SAMPLE.as_bytes().to_vec();
        for (at, length, put) in wounds {
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..(at + length).min(bytes.len()), put);
        }
        bytes.push(b'\n');
        std::fs::write(log.path("mail.log"), &bytes).unwrap();
        let mut reader = Reader::new(&log);
        reader.read_all();
        let reported = reader.reported();
        reader.restart(&log);
        reader.read_all();
        prop_assert_eq!(reader.reported(), reported);
    }

    #[test]
    fn a_log_read_in_two_steps_gives_the_same_events(cut in 0..SAMPLE.len(), restart: bool) {
        let log = TestLog::new();
        let bytes = SAMPLE.as_bytes();
        std::fs::write(log.path("mail.log"), &bytes[..cut]).unwrap();
        let mut reader = Reader::new(&log);
        reader.read_all();
        let mut file = std::fs::OpenOptions::new().append(true).open(log.path("mail.log")).unwrap();
        std::io::Write::write_all(&mut file, &bytes[cut..]).unwrap();
        if restart {
            reader.restart(&log);
        }
        reader.read_all();
        prop_assert_eq!(reader.reported(), events_of(SAMPLE));
    }
}
