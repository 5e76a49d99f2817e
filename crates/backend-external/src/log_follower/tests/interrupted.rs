//! The mail server started anew while it may have been receiving a message: what the log tells, and the queue.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::DeliveryFeed;
use mailapi_model::{Clock as _, FeedCursor};
use mailapi_testkit::FakeClock;

use super::support::{OURS, Reader, Scene, attempt, line};
use crate::log_follower::follow::{Signs, Verdict};
use crate::log_follower::{GapKind, LogFollower, Trace};

const INCOMPLETE: &str = "a part of the log is missing";

/// Half a minute after the first line.
fn scene() -> Scene {
    Scene { clock: Arc::new(FakeClock::at("2026-11-21T08:00:30Z")), ..Scene::new() }
}

fn started(second: u32) -> String {
    line(second, "master", "daemon started -- version 3.7.11, configuration /etc/postfix")
}

fn stopped(second: u32) -> String {
    line(second, "master", "terminating on signal 15")
}

/// The header of the message of ours has come.
fn entered(second: u32) -> String {
    line(second, "cleanup", &format!("A00001: message-id=<{OURS}@example.org>"))
}

fn queued(second: u32, id: &str, sender: &str) -> String {
    line(second, "qmgr", &format!("{id}: from=<{sender}>, size=1, nrcpt=1 (queue active)"))
}

/// Of a mail server that answers.
fn look(scene: &Scene, reader: &mut Reader) -> Verdict {
    let signs = Signs { ended: None, alive: Some(scene.clock.now()) };
    reader.follow.find(&attempt(), signs).unwrap()
}

fn undecided(why: &'static str) -> Verdict {
    Verdict::Told(Trace::Undecided(why))
}

fn is_interrupted(look: &Verdict, ids: &[&str]) -> bool {
    let Verdict::Interrupted(entered) = look else { return false };
    entered.iter().map(|accepted| accepted.queue_id.0.as_str()).eq(ids.iter().copied())
}

fn listed(queue_id: &str, sender: &str) -> String {
    format!(r#"{{"queue_name": "active", "queue_id": "{queue_id}", "arrival_time": 1795248060, "sender": "{sender}"}}"#)
        + "\n"
}

/// A follower whose mail server lists what stands in the file `queue`.
fn with_queue(scene: &mut Scene, queue: &str) -> LogFollower {
    fs::write(scene.path("queue"), queue).unwrap();
    scene.settings.postqueue = vec!["cat".to_owned(), scene.path("queue").display().to_string()];
    LogFollower::new(scene.settings.clone(), scene.clock.clone()).unwrap()
}

async fn trace(follower: &LogFollower) -> Trace {
    follower.find(&attempt()).await.unwrap()
}

async fn read(follower: &LogFollower) {
    follower.read_after(&FeedCursor::default(), 100).await.unwrap();
}

#[test]
fn after_a_crash_silence_says_nothing_until_the_mail_server_must_have_spoken() {
    let scene = scene();
    scene.append(&(started(1) + &stopped(2) + &line(2, "qmgr", "A0B1C2: removed") + &started(3)));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    // A stop in peace loses nothing.
    assert_eq!(look(&scene, &mut reader), Verdict::Told(Trace::NotTaken));
    scene.append(&started(9));
    // Before the line was read, and after it, and after a restart of ours.
    assert!(is_interrupted(&look(&scene, &mut reader), &[]));
    reader.read_all();
    assert!(is_interrupted(&look(&scene, &mut reader), &[]));
    reader.restart(&scene);
    assert!(is_interrupted(&look(&scene, &mut reader), &[]));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::MailServerCrashed]);
    scene.clock.advance(scene.settings.retry_time);
    assert_eq!(look(&scene, &mut reader), Verdict::Told(Trace::NotTaken));
}

#[test]
fn an_orderly_stop_whose_last_words_died_with_the_logger_is_no_loss_but_silence_still_says_nothing() {
    let scene = scene();
    let said = |second, text| line(second, "postfix-script", &format!("{text} the Postfix mail system"));
    // Its script speaks before the first start.
    scene.append(&(said(1, "starting") + &started(1)));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    assert_eq!((look(&scene, &mut reader), reader.gaps()), (Verdict::Told(Trace::NotTaken), vec![]));
    scene.append(&said(9, "stopping"));
    reader.read_all();
    reader.restart(&scene);
    scene.append(&(said(12, "starting") + &started(12)));
    reader.read_all();
    assert!(is_interrupted(&look(&scene, &mut reader), &[]));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::MailServerStopped]);
    scene.append(&started(20));
    reader.read_all();
    assert_eq!(reader.gaps().last().map(|gap| gap.kind), Some(GapKind::MailServerCrashed));
    let (now, day) = (mailapi_model::Clock::now(scene.clock.as_ref()), Duration::from_hours(24));
    let losses = crate::log_follower::FollowerStatus { gaps: reader.gaps(), ..Default::default() }.losses(now, day);
    assert!(losses.is_some_and(|losses| losses.contains("crashed") && !losses.contains("stopped")));
}

#[test]
fn a_crash_at_another_time_does_not_matter() {
    let mut scene = scene();
    scene.settings.settle_time = Duration::from_secs(10);
    scene.append(&(started(100) + &started(110)));
    scene.clock.advance(Duration::from_secs(150));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    let since = |second: &str| format!("2026-11-21T08:{second}Z").parse().unwrap();
    let mut asked = attempt();
    let mut look = |since, ended| {
        asked.since = since;
        reader
            .follow
            .find(&asked, Signs { ended, alive: Some(scene.clock.now().minus(scene.settings.settle_time)) })
            .unwrap()
    };
    assert!(is_interrupted(&look(since("01:20"), Some(since("01:31"))), &[]));
    assert!(is_interrupted(&look(since("01:55"), Some(since("01:56"))), &[]));
    assert_eq!(look(since("01:20"), Some(since("01:25"))), Verdict::Told(Trace::NotTaken));
    assert_eq!(look(since("02:01"), Some(since("02:02"))), Verdict::Told(Trace::NotTaken));
}

#[test]
fn of_more_crashes_than_are_remembered_the_oldest_still_count() {
    let mut scene = scene();
    scene.settings.max_gaps = 2;
    scene.append(&[1, 5, 9, 13, 17].map(started).concat());
    let mut reader = Reader::new(&scene);
    reader.read_all();
    let second =
        |second: u32| -> mailapi_model::Timestamp { format!("2026-11-21T08:00:{second:02}Z").parse().unwrap() };
    let times: Vec<_> = reader.gaps().iter().map(|gap| (gap.from, gap.to)).collect();
    assert_eq!(times, [(second(1), second(13)), (second(13), second(17))]);
    let look = |reader: &mut Reader| {
        let signs = Signs { ended: Some(second(2)), alive: Some(scene.clock.now()) };
        reader.follow.find(&attempt(), signs).unwrap()
    };
    assert!(is_interrupted(&look(&mut reader), &[]));
    // Of several kinds, one counts as the worst.
    scene.append(&(line(18, "postfix-script", "stopping the Postfix mail system") + &started(20) + &started(22)));
    reader.read_all();
    assert_eq!(
        reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(),
        [GapKind::Incomplete, GapKind::MailServerCrashed]
    );
    assert_eq!(look(&mut reader), undecided(INCOMPLETE));
}

#[test]
fn what_a_machine_that_went_down_swallowed_is_not_concluded_from() {
    let scene = scene();
    // 2026-11-21T08:00:05Z.
    fs::write(scene.path("stat"), "btime 1795248005\n").unwrap();
    scene.append(&(started(1) + &entered(2) + &started(9)));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::HostRestarted]);
    assert_eq!(look(&scene, &mut reader), undecided(INCOMPLETE));
}

#[test]
fn a_header_that_came_before_a_restart_leaves_it_to_the_queue() {
    let scene = scene();
    scene.append(&(started(1) + &entered(2) + &stopped(3)));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    scene.clock.advance(Duration::from_secs(3600));
    assert_eq!(look(&scene, &mut reader), undecided("the mail server is not running"));
    scene.append(&line(3610, "master", "daemon started -- version 3.7.11, configuration /etc/postfix"));
    assert!(is_interrupted(&look(&scene, &mut reader), &["A00001"]));
    reader.read_all();
    reader.restart(&scene);
    assert!(is_interrupted(&look(&scene, &mut reader), &["A00001"]));
    scene.clock.advance(scene.settings.reception_time);
    assert_eq!(look(&scene, &mut reader), Verdict::Told(Trace::NotTaken));
    scene.append(&queued(3620, "A00001", "ann@example.org"));
    assert!(matches!(look(&scene, &mut reader), Verdict::Told(Trace::Taken(_))));
}

#[test]
fn a_message_in_the_queue_that_nothing_names_may_be_it() {
    let scene = scene();
    scene.append(&(started(1) + &started(9)));
    let mut reader = Reader::new(&scene);
    assert!(is_interrupted(&look(&scene, &mut reader), &[]));
    // Its sender may have been rewritten before it was logged.
    scene.append(&queued(10, "A00010", "srs0=x=example.org=ann@relay.example"));
    let open = undecided("a message in the queue whose beginning was not logged may be this one");
    assert_eq!(look(&scene, &mut reader), open);
    scene.append(&line(11, "qmgr", "A00010: removed"));
    reader.read_all();
    reader.restart(&scene);
    assert_eq!(look(&scene, &mut reader), open);
}

#[tokio::test]
async fn what_is_not_in_the_queue_twice_was_never_queued() {
    let mut scene = scene();
    let other = line(1, "cleanup", "A00002: message-id=<other@example.org>") + &queued(1, "A00002", "bob@example.org");
    scene.append(&(started(1) + &other + &entered(2) + &started(9)));
    let follower = with_queue(&mut scene, &listed("A00002", "bob@example.org"));
    read(&follower).await;
    assert!(matches!(trace(&follower).await, Trace::Undecided(_)));
    assert_eq!(trace(&follower).await, Trace::NotTaken);
}

#[tokio::test]
async fn what_is_in_the_queue_was_taken() {
    let mut scene = scene();
    scene.append(&(started(1) + &entered(2) + &started(9)));
    let follower = with_queue(&mut scene, &listed("A00001", "ann@example.org"));
    read(&follower).await;
    assert!(matches!(trace(&follower).await, Trace::Taken(accepted) if accepted.queue_id.0 == "A00001"));
}

#[tokio::test]
async fn what_left_the_queue_between_two_looks_is_known_by_its_lines() {
    let mut scene = scene();
    scene.append(&(started(1) + &entered(2) + &started(9)));
    let follower = with_queue(&mut scene, "");
    read(&follower).await;
    assert!(matches!(trace(&follower).await, Trace::Undecided(_)));
    scene.append(&(queued(9, "A00001", "ann@example.org") + &line(9, "qmgr", "A00001: removed")));
    assert!(matches!(trace(&follower).await, Trace::Taken(accepted) if accepted.queue_id.0 == "A00001"));
}

#[tokio::test]
async fn a_listed_message_is_another_one_only_if_the_log_says_so_whoever_its_sender_is() {
    let mut scene = scene();
    scene.append(&(started(1) + &started(9)));
    let follower = with_queue(&mut scene, &listed("A00007", "srs0=x=example.org=ann@relay.example"));
    read(&follower).await;
    for _ in 0..5 {
        assert!(matches!(trace(&follower).await, Trace::Undecided(_)));
    }
    let named = line(10, "cleanup", "A00007: message-id=<other@example.org>");
    scene.append(&(named + &queued(10, "A00007", "ann@example.org")));
    let follower = with_queue(&mut scene, &listed("A00007", "ann@example.org"));
    read(&follower).await;
    assert!(matches!(trace(&follower).await, Trace::Undecided(_)));
    assert_eq!(trace(&follower).await, Trace::NotTaken);
}

#[tokio::test]
async fn a_queue_that_cannot_be_listed_tells_nothing() {
    let mut scene = scene();
    scene.append(&(started(1) + &started(9)));
    let follower = with_queue(&mut scene, "Mail queue is empty\n");
    read(&follower).await;
    for _ in 0..3 {
        let error = follower.find(&attempt()).await.unwrap_err().to_string();
        assert!(error.contains("queue"), "{error}");
    }
}
