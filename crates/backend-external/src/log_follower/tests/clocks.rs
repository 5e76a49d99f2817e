//! A log whose clock or time zone differs from ours.

use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{Clock as _, QueueId};
use mailapi_testkit::FakeClock;

use super::support::{OURS, Reader, Scene, attempt, line};
use crate::log_follower::follow::{Signs, Verdict};
use crate::log_follower::{FollowerStatus, Trace};

/// Read this many seconds after a log that begins at 08:00 by its own clock.
fn scene(now: &str) -> Scene {
    Scene { clock: Arc::new(FakeClock::at(now)), ..Scene::new() }
}

/// One second later, with a new line; `second` is by the log's clock, after 08:00.
fn hear(scene: &Scene, reader: &mut Reader, second: u32, tag: &str, text: &str) {
    reader.read_all();
    scene.clock.advance(Duration::from_secs(1));
    scene.append(&line(second, tag, text));
    reader.read_all();
}

#[test]
fn a_dead_server_is_not_alive_because_its_clock_is_ahead() {
    let mut scene = scene("2026-11-21T06:00:05Z");
    scene.settings.settle_time = Duration::from_secs(10);
    // Postfix was killed after this line, whose time is two hours ahead.
    scene.append(&line(0, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    let ended = Some(scene.clock.now());
    for _ in 0..5 {
        scene.clock.advance(Duration::from_secs(600));
        reader.read_all();
        let verdict = reader.follow.find(&attempt(), Signs { ended, alive: None }).unwrap();
        assert_eq!(verdict, Verdict::Told(Trace::Silent));
    }
    // After its restart it logs again, however late that is by its clock.
    scene.append(&line(1, "qmgr", "A0B1C3: removed"));
    assert_eq!(reader.follow.find(&attempt(), Signs { ended, alive: None }).unwrap(), Verdict::Told(Trace::NotTaken));
}

#[test]
fn times_of_another_zone_are_corrected_and_reported() {
    for (now, hours) in [("2026-11-21T06:00:00Z", 2), ("2026-11-20T07:00:00Z", 25)] {
        let scene = scene(now);
        let mut reader = Reader::new(&scene);
        scene.append("");
        for second in 1..=3 {
            hear(&scene, &mut reader, second, "qmgr", "A0B1C2: removed");
        }
        assert_eq!(reader.follow.snapshot().clock_ahead, hours * 3600);
        let delivery = "A00001: to=<bob@example.net>, relay=none, delay=1, delays=1/0/0/0, dsn=2.0.0, status=sent (ok)";
        hear(&scene, &mut reader, 4, "smtp", delivery);
        assert_eq!(reader.events[0].at, scene.clock.now());
        // The difference is saved, which the doctor needs too.
        scene.clock.advance(scene.settings.save_interval);
        reader.read_all();
        let saved = FollowerStatus::saved(&scene.settings).unwrap().unwrap();
        assert_eq!(saved.clock_ahead, hours * 3600);
        reader.restart(&scene);
        assert_eq!(reader.follow.snapshot().clock_ahead, hours * 3600);
    }
}

#[test]
fn a_clock_that_is_behind_shows_in_our_own_messages() {
    let scene = scene("2026-11-21T13:00:00Z");
    let mut reader = Reader::new(&scene);
    scene.append("");
    for second in 1..=9 {
        hear(&scene, &mut reader, second, "qmgr", "A0B1C2: removed");
    }
    // The log may equally be copied here every five hours.
    assert_eq!(reader.follow.snapshot().clock_ahead, 0);
    let handed = reader.follow.handed();
    for second in 10..13 {
        let id = format!("A000{second}");
        hear(&scene, &mut reader, second, "cleanup", &format!("{id}: message-id=<{OURS}@example.org>"));
        handed.note(&QueueId(id.clone()), OURS.parse().unwrap(), scene.clock.now());
        scene.append(&line(second, "qmgr", &format!("{id}: from=<ann@example.org>, size=1, nrcpt=1 (queue active)")));
        reader.read_all();
    }
    assert_eq!(reader.follow.snapshot().clock_ahead, -5 * 3600);
}

#[test]
fn a_line_that_is_read_again_does_not_prove_that_the_log_is_written() {
    let scene = scene("2026-11-21T08:00:05Z");
    scene.append(&line(0, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    // The database is unavailable, so only the search for the message reads this line, each time anew.
    scene.append(&line(4, "qmgr", "A0B1C3: removed"));
    scene.clock.advance(Duration::from_secs(1));
    let ended = Some(scene.clock.now());
    let look = |reader: &mut Reader, alive| reader.follow.find(&attempt(), Signs { ended, alive }).unwrap();
    assert_eq!(look(&mut reader, None), Verdict::Told(Trace::Silent));
    scene.clock.advance(Duration::from_secs(1));
    let alive = Some(scene.clock.now());
    scene.clock.advance(Duration::from_secs(60));
    for _ in 0..3 {
        assert_eq!(look(&mut reader, alive), Verdict::Told(Trace::Silent));
    }
    reader.restart(&scene);
    for _ in 0..3 {
        assert_eq!(look(&mut reader, alive), Verdict::Told(Trace::Silent));
    }
    scene.append(&line(66, "api/smtpd", "connect from unknown[127.0.0.1]"));
    assert_eq!(look(&mut reader, alive), Verdict::Told(Trace::NotTaken));
}

#[test]
fn a_line_of_our_own_message_is_heard_at_a_first_reading() {
    let scene = scene("2026-11-21T08:00:05Z");
    scene.append(&line(0, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&scene);
    let handed = reader.follow.handed();
    handed.note(&QueueId("A00001".to_owned()), OURS.parse().unwrap(), scene.clock.now());
    scene.append(&line(5, "qmgr", "A00001: from=<ann@example.org>, size=1, nrcpt=1 (queue active)"));
    reader.read_all();
    scene.clock.advance(Duration::from_secs(60));
    assert_eq!(reader.follow.unheard(), None);
}
