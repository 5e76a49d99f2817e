//! A log whose clock or time zone differs from this server's.

use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{Clock as _, QueueId};
use mailapi_testkit::FakeClock;

use super::support::{OURS, Reader, TestLog, attempt, line};
use crate::log_follower::follow::{Hints, LogOutcome};
use crate::log_follower::{FollowerStatus, LookupResult};

/// A scene at the time `now`, for a log that begins at 08:00 by its own clock.
fn log(now: &str) -> TestLog {
    TestLog { clock: Arc::new(FakeClock::at(now)), ..TestLog::new() }
}

/// Advances one second and appends a line; `second` is by the log's clock, after 08:00.
fn hear(log: &TestLog, reader: &mut Reader, second: u32, tag: &str, text: &str) {
    reader.read_all();
    log.clock.advance(Duration::from_secs(1));
    log.append(&line(second, tag, text));
    reader.read_all();
}

#[test]
fn a_dead_server_is_not_alive_because_its_clock_is_ahead() {
    let mut log = log("2026-11-21T06:00:05Z");
    log.settings.settle_time = Duration::from_secs(10);
    // Postfix was killed after this line, whose time is two hours in the future.
    log.append(&line(0, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&log);
    reader.read_all();
    let ended = Some(log.clock.now());
    for _ in 0..5 {
        log.clock.advance(Duration::from_secs(600));
        reader.read_all();
        let verdict = reader.follow.find(&attempt(), Hints { ended, alive: None }).unwrap();
        assert_eq!(verdict, LogOutcome::Decided(LookupResult::Silent));
    }
    // After its restart it logs again; the lines count despite their time.
    log.append(&line(1, "qmgr", "A0B1C3: removed"));
    assert_eq!(
        reader.follow.find(&attempt(), Hints { ended, alive: None }).unwrap(),
        LogOutcome::Decided(LookupResult::NotTaken)
    );
}

#[test]
fn times_of_another_zone_are_corrected_and_reported() {
    for (now, hours) in [("2026-11-21T06:00:00Z", 2), ("2026-11-20T07:00:00Z", 25)] {
        let log = log(now);
        let mut reader = Reader::new(&log);
        log.append("");
        for second in 1..=3 {
            hear(&log, &mut reader, second, "qmgr", "A0B1C2: removed");
        }
        assert_eq!(reader.follow.status().clock_ahead, hours * 3600);
        let delivery = "A00001: to=<bob@example.net>, relay=none, delay=1, delays=1/0/0/0, dsn=2.0.0, status=sent (ok)";
        hear(&log, &mut reader, 4, "smtp", delivery);
        assert_eq!(reader.events[0].at, log.clock.now());
        // The difference is saved, since the doctor command needs it too.
        log.clock.advance(log.settings.save_interval);
        reader.read_all();
        let saved = FollowerStatus::saved(&log.settings).unwrap().unwrap();
        assert_eq!(saved.clock_ahead, hours * 3600);
        reader.restart(&log);
        assert_eq!(reader.follow.status().clock_ahead, hours * 3600);
    }
}

#[test]
fn a_clock_that_is_behind_shows_in_our_own_messages() {
    let log = log("2026-11-21T13:00:00Z");
    let mut reader = Reader::new(&log);
    log.append("");
    for second in 1..=9 {
        hear(&log, &mut reader, second, "qmgr", "A0B1C2: removed");
    }
    // The log may also be a copy that arrives every five hours.
    assert_eq!(reader.follow.status().clock_ahead, 0);
    let submitted_ids = reader.follow.submitted_ids();
    for second in 10..13 {
        let id = format!("A000{second}");
        hear(&log, &mut reader, second, "cleanup", &format!("{id}: message-id=<{OURS}@example.org>"));
        submitted_ids.note(&QueueId(id.clone()), OURS.parse().unwrap(), log.clock.now());
        log.append(&line(second, "qmgr", &format!("{id}: from=<ann@example.org>, size=1, nrcpt=1 (queue active)")));
        reader.read_all();
    }
    assert_eq!(reader.follow.status().clock_ahead, -5 * 3600);
}

#[test]
fn a_line_read_again_does_not_prove_the_log_is_live() {
    let log = log("2026-11-21T08:00:05Z");
    log.append(&line(0, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&log);
    reader.read_all();
    // The database is unavailable, so only the look-up reads this line, each time again.
    log.append(&line(4, "qmgr", "A0B1C3: removed"));
    log.clock.advance(Duration::from_secs(1));
    let ended = Some(log.clock.now());
    let look = |reader: &mut Reader, alive| reader.follow.find(&attempt(), Hints { ended, alive }).unwrap();
    assert_eq!(look(&mut reader, None), LogOutcome::Decided(LookupResult::Silent));
    log.clock.advance(Duration::from_secs(1));
    let alive = Some(log.clock.now());
    log.clock.advance(Duration::from_secs(60));
    for _ in 0..3 {
        assert_eq!(look(&mut reader, alive), LogOutcome::Decided(LookupResult::Silent));
    }
    reader.restart(&log);
    for _ in 0..3 {
        assert_eq!(look(&mut reader, alive), LogOutcome::Decided(LookupResult::Silent));
    }
    log.append(&line(66, "api/smtpd", "connect from unknown[127.0.0.1]"));
    assert_eq!(look(&mut reader, alive), LogOutcome::Decided(LookupResult::NotTaken));
}

#[test]
fn a_line_of_our_own_message_is_heard_at_a_first_reading() {
    let log = log("2026-11-21T08:00:05Z");
    log.append(&line(0, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&log);
    let submitted_ids = reader.follow.submitted_ids();
    submitted_ids.note(&QueueId("A00001".to_owned()), OURS.parse().unwrap(), log.clock.now());
    log.append(&line(5, "qmgr", "A00001: from=<ann@example.org>, size=1, nrcpt=1 (queue active)"));
    reader.read_all();
    log.clock.advance(Duration::from_secs(60));
    assert_eq!(reader.follow.unheard(), None);
}
