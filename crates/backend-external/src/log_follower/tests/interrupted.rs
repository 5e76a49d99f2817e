//! The mail server restarted while it may have been receiving a message: results from the log and the queue.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::DeliveryFeed;
use mailapi_model::{Clock as _, FeedCursor};
use mailapi_testkit::FakeClock;

use super::support::{OURS, Reader, TestLog, attempt, line};
use crate::log_follower::follow::{Hints, LogOutcome};
use crate::log_follower::{GapKind, LogFollower, LookupResult};

const INCOMPLETE: &str = "part of the log is missing";

/// A scene half a minute after the first line.
fn log() -> TestLog {
    TestLog { clock: Arc::new(FakeClock::at("2026-11-21T08:00:30Z")), ..TestLog::new() }
}

fn started(second: u32) -> String {
    line(second, "master", "daemon started -- version 3.7.11, configuration /etc/postfix")
}

fn stopped(second: u32) -> String {
    line(second, "master", "terminating on signal 15")
}

/// The header line of the submitted message.
fn entered(second: u32) -> String {
    line(second, "cleanup", &format!("A00001: message-id=<{OURS}@example.org>"))
}

fn queued(second: u32, id: &str, sender: &str) -> String {
    line(second, "qmgr", &format!("{id}: from=<{sender}>, size=1, nrcpt=1 (queue active)"))
}

/// Looks up the message with a mail server that responds.
fn look(log: &TestLog, reader: &mut Reader) -> LogOutcome {
    let hints = Hints { ended: None, alive: Some(log.clock.now()) };
    reader.follow.find(&attempt(), hints).unwrap()
}

fn undecided(why: &'static str) -> LogOutcome {
    LogOutcome::Decided(LookupResult::Undecided(why))
}

fn is_interrupted(look: &LogOutcome, ids: &[&str]) -> bool {
    let LogOutcome::Interrupted(entered) = look else { return false };
    entered.iter().map(|accepted| accepted.queue_id.0.as_str()).eq(ids.iter().copied())
}

fn listed(queue_id: &str, sender: &str) -> String {
    format!(r#"{{"queue_name": "active", "queue_id": "{queue_id}", "arrival_time": 1795248060, "sender": "{sender}"}}"#)
        + "\n"
}

/// Creates a follower whose mail server lists the content of the file `queue`.
fn with_queue(log: &mut TestLog, queue: &str) -> LogFollower {
    fs::write(log.path("queue"), queue).unwrap();
    log.settings.postqueue = vec!["cat".to_owned(), log.path("queue").display().to_string()];
    LogFollower::new(log.settings.clone(), log.clock.clone()).unwrap()
}

async fn found(follower: &LogFollower) -> LookupResult {
    follower.find(&attempt()).await.unwrap()
}

async fn read(follower: &LogFollower) {
    follower.read_after(&FeedCursor::default(), 100).await.unwrap();
}

#[test]
fn after_a_crash_silence_counts_only_after_the_longest_pause() {
    let log = log();
    log.append(&(started(1) + &stopped(2) + &line(2, "qmgr", "A0B1C2: removed") + &started(3)));
    let mut reader = Reader::new(&log);
    reader.read_all();
    // An orderly stop loses nothing.
    assert_eq!(look(&log, &mut reader), LogOutcome::Decided(LookupResult::NotTaken));
    log.append(&started(9));
    // Before the line is read, after it, and after a restart of the follower.
    assert!(is_interrupted(&look(&log, &mut reader), &[]));
    reader.read_all();
    assert!(is_interrupted(&look(&log, &mut reader), &[]));
    reader.restart(&log);
    assert!(is_interrupted(&look(&log, &mut reader), &[]));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::MailServerCrashed]);
    log.clock.advance(log.settings.retry_time);
    assert_eq!(look(&log, &mut reader), LogOutcome::Decided(LookupResult::NotTaken));
}

#[test]
fn a_clean_stop_with_lost_last_lines_is_undecided_but_no_loss() {
    let log = log();
    let said = |second, text| line(second, "postfix-script", &format!("{text} the Postfix mail system"));
    // Its script also logs before the first start.
    log.append(&(said(1, "starting") + &started(1)));
    let mut reader = Reader::new(&log);
    reader.read_all();
    assert_eq!((look(&log, &mut reader), reader.gaps()), (LogOutcome::Decided(LookupResult::NotTaken), vec![]));
    log.append(&said(9, "stopping"));
    reader.read_all();
    reader.restart(&log);
    log.append(&(said(12, "starting") + &started(12)));
    reader.read_all();
    assert!(is_interrupted(&look(&log, &mut reader), &[]));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::MailServerStopped]);
    log.append(&started(20));
    reader.read_all();
    assert_eq!(reader.gaps().last().map(|gap| gap.kind), Some(GapKind::MailServerCrashed));
    let (now, day) = (mailapi_model::Clock::now(log.clock.as_ref()), Duration::from_hours(24));
    let losses = crate::log_follower::FollowerStatus { gaps: reader.gaps(), ..Default::default() }.losses(now, day);
    assert!(losses.is_some_and(|losses| losses.contains("crashed") && !losses.contains("stopped")));
}

#[test]
fn a_crash_at_another_time_does_not_matter() {
    let mut log = log();
    log.settings.settle_time = Duration::from_secs(10);
    log.append(&(started(100) + &started(110)));
    log.clock.advance(Duration::from_secs(150));
    let mut reader = Reader::new(&log);
    reader.read_all();
    let since = |second: &str| format!("2026-11-21T08:{second}Z").parse().unwrap();
    let mut asked = attempt();
    let mut look = |since, ended| {
        asked.since = since;
        reader
            .follow
            .find(&asked, Hints { ended, alive: Some(log.clock.now().minus(log.settings.settle_time)) })
            .unwrap()
    };
    assert!(is_interrupted(&look(since("01:20"), Some(since("01:31"))), &[]));
    assert!(is_interrupted(&look(since("01:55"), Some(since("01:56"))), &[]));
    assert_eq!(look(since("01:20"), Some(since("01:25"))), LogOutcome::Decided(LookupResult::NotTaken));
    assert_eq!(look(since("02:01"), Some(since("02:02"))), LogOutcome::Decided(LookupResult::NotTaken));
}

#[test]
fn of_more_crashes_than_are_remembered_the_oldest_still_count() {
    let mut log = log();
    log.settings.max_gaps = 2;
    log.append(&[1, 5, 9, 13, 17].map(started).concat());
    let mut reader = Reader::new(&log);
    reader.read_all();
    let second =
        |second: u32| -> mailapi_model::Timestamp { format!("2026-11-21T08:00:{second:02}Z").parse().unwrap() };
    let times: Vec<_> = reader.gaps().iter().map(|gap| (gap.from, gap.to)).collect();
    assert_eq!(times, [(second(1), second(13)), (second(13), second(17))]);
    let look = |reader: &mut Reader| {
        let hints = Hints { ended: Some(second(2)), alive: Some(log.clock.now()) };
        reader.follow.find(&attempt(), hints).unwrap()
    };
    assert!(is_interrupted(&look(&mut reader), &[]));
    // Gaps of several kinds merge into the worst one.
    log.append(&(line(18, "postfix-script", "stopping the Postfix mail system") + &started(20) + &started(22)));
    reader.read_all();
    assert_eq!(
        reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(),
        [GapKind::Incomplete, GapKind::MailServerCrashed]
    );
    assert_eq!(look(&mut reader), undecided(INCOMPLETE));
}

#[test]
fn lines_lost_in_a_machine_crash_lead_to_no_conclusion() {
    let log = log();
    // 2026-11-21T08:00:05Z.
    fs::write(log.path("stat"), "btime 1795248005\n").unwrap();
    log.append(&(started(1) + &entered(2) + &started(9)));
    let mut reader = Reader::new(&log);
    reader.read_all();
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::HostRestarted]);
    assert_eq!(look(&log, &mut reader), undecided(INCOMPLETE));
}

#[test]
fn a_header_that_came_before_a_restart_leaves_it_to_the_queue() {
    let log = log();
    log.append(&(started(1) + &entered(2) + &stopped(3)));
    let mut reader = Reader::new(&log);
    reader.read_all();
    log.clock.advance(Duration::from_secs(3600));
    assert_eq!(look(&log, &mut reader), undecided("the mail server is not running"));
    log.append(&line(3610, "master", "daemon started -- version 3.7.11, configuration /etc/postfix"));
    assert!(is_interrupted(&look(&log, &mut reader), &["A00001"]));
    reader.read_all();
    reader.restart(&log);
    assert!(is_interrupted(&look(&log, &mut reader), &["A00001"]));
    log.clock.advance(log.settings.reception_time);
    assert_eq!(look(&log, &mut reader), LogOutcome::Decided(LookupResult::NotTaken));
    log.append(&queued(3620, "A00001", "ann@example.org"));
    assert!(matches!(look(&log, &mut reader), LogOutcome::Decided(LookupResult::Taken(_))));
}

#[test]
fn a_message_in_the_queue_that_nothing_names_may_be_it() {
    let log = log();
    log.append(&(started(1) + &started(9)));
    let mut reader = Reader::new(&log);
    assert!(is_interrupted(&look(&log, &mut reader), &[]));
    // Its sender may have been rewritten before it was logged.
    log.append(&queued(10, "A00010", "srs0=x=example.org=ann@relay.example"));
    let open = undecided("a message in the queue whose first lines are missing may be this one");
    assert_eq!(look(&log, &mut reader), open);
    log.append(&line(11, "qmgr", "A00010: removed"));
    reader.read_all();
    reader.restart(&log);
    assert_eq!(look(&log, &mut reader), open);
}

#[tokio::test]
async fn what_is_not_in_the_queue_twice_was_never_queued() {
    let mut log = log();
    let other = line(1, "cleanup", "A00002: message-id=<other@example.org>") + &queued(1, "A00002", "bob@example.org");
    log.append(&(started(1) + &other + &entered(2) + &started(9)));
    let follower = with_queue(&mut log, &listed("A00002", "bob@example.org"));
    read(&follower).await;
    assert!(matches!(found(&follower).await, LookupResult::Undecided(_)));
    assert_eq!(found(&follower).await, LookupResult::NotTaken);
}

#[tokio::test]
async fn what_is_in_the_queue_was_taken() {
    let mut log = log();
    log.append(&(started(1) + &entered(2) + &started(9)));
    let follower = with_queue(&mut log, &listed("A00001", "ann@example.org"));
    read(&follower).await;
    assert!(matches!(found(&follower).await, LookupResult::Taken(accepted) if accepted.queue_id.0 == "A00001"));
}

#[tokio::test]
async fn what_left_the_queue_between_two_looks_is_known_by_its_lines() {
    let mut log = log();
    log.append(&(started(1) + &entered(2) + &started(9)));
    let follower = with_queue(&mut log, "");
    read(&follower).await;
    assert!(matches!(found(&follower).await, LookupResult::Undecided(_)));
    log.append(&(queued(9, "A00001", "ann@example.org") + &line(9, "qmgr", "A00001: removed")));
    assert!(matches!(found(&follower).await, LookupResult::Taken(accepted) if accepted.queue_id.0 == "A00001"));
}

#[tokio::test]
async fn a_queued_message_is_another_only_if_the_log_names_it() {
    let mut log = log();
    log.append(&(started(1) + &started(9)));
    let follower = with_queue(&mut log, &listed("A00007", "srs0=x=example.org=ann@relay.example"));
    read(&follower).await;
    for _ in 0..5 {
        assert!(matches!(found(&follower).await, LookupResult::Undecided(_)));
    }
    let named = line(10, "cleanup", "A00007: message-id=<other@example.org>");
    log.append(&(named + &queued(10, "A00007", "ann@example.org")));
    let follower = with_queue(&mut log, &listed("A00007", "ann@example.org"));
    read(&follower).await;
    assert!(matches!(found(&follower).await, LookupResult::Undecided(_)));
    assert_eq!(found(&follower).await, LookupResult::NotTaken);
}

#[tokio::test]
async fn a_queue_that_cannot_be_listed_proves_nothing() {
    let mut log = log();
    log.append(&(started(1) + &started(9)));
    let follower = with_queue(&mut log, "Mail queue is empty\n");
    read(&follower).await;
    for _ in 0..3 {
        let error = follower.find(&attempt()).await.unwrap_err().to_string();
        assert!(error.contains("queue"), "{error}");
    }
}
