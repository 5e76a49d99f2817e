//! Tracked messages survive a stop, even if their lines are rotated away.

use super::support::{OURS, Reader, TestLog, line, outcomes};
use crate::log_follower::GapKind;

/// Postfix has accepted the submitted message, and has not delivered it yet.
fn deferred() -> String {
    line(1, "api/smtpd", "A00001: client=unknown[127.0.0.1]")
        + &line(1, "cleanup", &format!("A00001: message-id=<{OURS}@example.org>"))
        + &line(1, "qmgr", "A00001: from=<ann@example.org>, size=1, nrcpt=1 (queue active)")
        + &tried(1, "dsn=4.2.0, status=deferred (450 4.2.0 later)")
}

fn tried(second: u32, end: &str) -> String {
    line(
        second,
        "smtp",
        &format!("A00001: to=<bob@example.net>, relay=mx[192.0.2.1]:25, delay=1, delays=1/0/0/0, {end}"),
    )
}

fn delivered() -> String {
    line(4, "qmgr", "A00001: from=<ann@example.org>, size=1, nrcpt=1 (queue active)")
        + &tried(4, "dsn=2.0.0, status=sent (250 ok)")
        + &line(4, "qmgr", "A00001: removed")
}

/// Rotates once, keeping one older file.
fn rotate(log: &TestLog, text: &str) {
    log.rotate();
    log.append(text);
    if log.path("mail.log.2").exists() {
        log.remove("mail.log.2");
    }
}

/// Settings under which the state is saved only after a rotation, or at a stop.
fn log() -> TestLog {
    let mut log = TestLog::new();
    log.settings.save_interval = std::time::Duration::from_hours(24);
    log.append(&line(0, "qmgr", "A0B1C2: removed"));
    log
}

#[test]
fn a_deferred_message_is_known_after_a_stop_and_two_rotations() {
    for stops_in_peace in [true, false] {
        let log = log();
        let mut reader = Reader::new(&log);
        reader.read_all();
        log.append(&deferred());
        reader.read_all();
        rotate(&log, &line(2, "qmgr", "A0B1C3: removed"));
        reader.read_all();
        rotate(&log, &line(3, "qmgr", "A0B1C4: removed"));
        reader.read_all();
        if stops_in_peace {
            reader.follow.stop().unwrap();
        }
        reader.restart(&log);
        log.append(&delivered());
        reader.read_all();
        let expected = ["A00001 bob@example.net deferred ours", "A00001 bob@example.net sent ours"];
        assert_eq!((outcomes(&reader.events), reader.gaps()), (expected.map(str::to_owned).to_vec(), vec![]));
    }
}

#[test]
fn a_stop_saves_what_the_reader_has_stored_and_no_more() {
    let log = log();
    let mut reader = Reader::new(&log);
    reader.read_all();
    log.append(&deferred());
    // The database is unavailable.
    reader.follow.read(&reader.cursor, 10).unwrap();
    reader.follow.stop().unwrap();
    reader.restart(&log);
    reader.read_all();
    reader.follow.stop().unwrap();
    let saved = std::fs::read_to_string(log.path("state/state")).unwrap();
    assert!(saved.contains(OURS), "{saved}");
    reader.restart(&log);
    log.append(&delivered());
    reader.read_all();
    assert_eq!(outcomes(&reader.events).len(), 2);
}

#[test]
fn a_state_that_is_too_old_is_kept_and_is_a_gap() {
    let log = log();
    let mut reader = Reader::new(&log);
    reader.read_all();
    log.append(&deferred());
    reader.read_all();
    reader.follow.stop().unwrap();
    let old = std::fs::read(log.path("state/state")).unwrap();
    rotate(&log, &line(2, "qmgr", "A0B1C3: removed"));
    reader.read_all();
    rotate(&log, &line(3, "qmgr", "A0B1C4: removed"));
    reader.read_all();
    std::fs::write(log.path("state/state"), old).unwrap();
    reader.restart(&log);
    log.append(&delivered());
    reader.read_all();
    assert_eq!(outcomes(&reader.events).last().unwrap(), "A00001 bob@example.net sent ours");
    let gaps = reader.gaps();
    assert_eq!(gaps.iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::StateLost]);
    let times = ["2026-11-21T08:00:01Z", "2026-11-21T08:00:02Z"].map(|at| at.parse().unwrap());
    assert_eq!([gaps[0].from, gaps[0].to], times);
}

#[test]
fn a_lost_state_is_a_gap_where_the_log_does_not_say_it_all() {
    for (is_whole, kinds) in [(true, vec![]), (false, vec![GapKind::StateLost])] {
        let log = log();
        let mut reader = Reader::new(&log);
        log.append(&deferred());
        reader.read_all();
        if !is_whole {
            rotate(&log, &line(2, "qmgr", "A0B1C3: removed"));
            reader.read_all();
            rotate(&log, &line(3, "qmgr", "A00001: from=<ann@example.org>, size=1, nrcpt=1 (queue active)"));
            reader.read_all();
        }
        log.remove("state/state");
        reader.restart(&log);
        reader.read_all();
        assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), kinds);
    }
}

#[test]
fn a_missing_file_before_the_cursor_is_a_gap() {
    let log = log();
    let mut reader = Reader::new(&log);
    log.append(&deferred());
    reader.read_all();
    reader.follow.stop().unwrap();
    let old = std::fs::read(log.path("state/state")).unwrap();
    for second in 2..5 {
        log.rotate();
        log.append(&line(second, "qmgr", "A0B1C3: removed"));
        reader.read_all();
    }
    // The state is an older one from a backup, and a file between it and the cursor was removed.
    log.remove("mail.log.2");
    std::fs::write(log.path("state/state"), old).unwrap();
    reader.restart(&log);
    reader.read_all();
    let gaps = reader.gaps();
    assert_eq!(gaps.iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::StateLost]);
    let times = ["2026-11-21T08:00:01Z", "2026-11-21T08:00:04Z"].map(|at| at.parse().unwrap());
    assert_eq!([gaps[0].from, gaps[0].to], times);
}

#[test]
fn a_gap_begins_with_the_last_line_before_it() {
    let log = log();
    let mut reader = Reader::new(&log);
    log.append(&line(1, "qmgr", "A0B1C2: removed"));
    reader.read_all();
    // The file is truncated without a copy, and the next line is written much later.
    std::fs::write(log.path("mail.log"), "").unwrap();
    log.append(&line(900, "qmgr", "A0B1C3: removed"));
    reader.read_all();
    let gaps = reader.gaps();
    assert_eq!(gaps.iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::Truncated]);
    assert_eq!(gaps[0].from, "2026-11-21T08:00:01Z".parse().unwrap());
}
