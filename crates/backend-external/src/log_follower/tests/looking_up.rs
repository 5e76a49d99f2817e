//! The look-up of a message after a crash or a lost connection.

use std::time::Duration;

use mailapi_backend::{Accepted, Attempt};
use mailapi_model::{Clock as _, QueueId};

use super::support::{OURS, Reader, TestLog, attempt, line, outcomes};
use crate::log_follower::LookupResult;
use crate::log_follower::follow::{Hints, LogOutcome};

/// Looks up the message with a mail server that responded a moment ago.
fn found(log: &TestLog, reader: &mut Reader) -> LookupResult {
    let hints = Hints { ended: None, alive: Some(log.clock.now().minus(log.settings.settle_time)) };
    match reader.follow.find(&attempt(), hints).unwrap() {
        LogOutcome::Decided(found) => found,
        LogOutcome::Interrupted(entered) => panic!("interrupted: {entered:?}"),
    }
}

fn begin(id: &str) -> String {
    let client = line(1, "api/smtpd", &format!("{id}: client=unknown[127.0.0.1]"));
    client + &line(1, "cleanup", &format!("{id}: message-id=<{OURS}@example.org>"))
}

fn queued(id: &str) -> String {
    line(1, "qmgr", &format!("{id}: from=<ann@example.org>, size=1, nrcpt=1 (queue active)"))
}

fn taken(found: &LookupResult) -> Option<&Accepted> {
    if let LookupResult::Taken(accepted) = found { Some(accepted) } else { None }
}

#[test]
fn a_message_is_reported_absent_only_when_certain() {
    let mut log = TestLog::new();
    log.settings.settle_time = Duration::from_secs(10);
    log.append(&line(1, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&log);
    assert!(matches!(found(&log, &mut reader), LookupResult::Undecided(_)));
    log.clock.advance(Duration::from_secs(10));
    assert_eq!(found(&log, &mut reader), LookupResult::NotTaken);
    log.remove("mail.log");
    assert!(reader.follow.find(&attempt(), Hints::default()).is_err());
}

#[test]
fn a_gap_leaves_it_open() {
    let log = TestLog::new();
    log.append(&line(1, "qmgr", "A00001: removed"));
    let mut reader = Reader::new(&log);
    reader.read_all();
    log.remove("mail.log");
    log.append(&line(5, "qmgr", "A00002: removed"));
    reader.restart(&log);
    reader.read_all();
    assert_eq!(found(&log, &mut reader), LookupResult::Undecided("part of the log is missing"));
    log.clock.advance(Duration::from_secs(8 * 24 * 3600));
    assert_eq!(found(&log, &mut reader), LookupResult::NotTaken);
}

#[test]
fn a_message_that_is_still_coming_or_on_hold_stays_open() {
    let mut log = TestLog::new();
    log.clock = std::sync::Arc::new(mailapi_testkit::FakeClock::at("2026-11-21T08:00:30Z"));
    log.append(&begin("A00001"));
    let mut reader = Reader::new(&log);
    assert_eq!(found(&log, &mut reader), LookupResult::Undecided("the message is being received"));
    log.clock.advance(Duration::from_secs(3600));
    assert_eq!(found(&log, &mut reader), LookupResult::NotTaken);
    log.append(&line(2, "cleanup", "A00001: milter-hold: END-OF-MESSAGE from x[192.0.2.1]: held; from=<> to=<a@b.c>"));
    assert_eq!(found(&log, &mut reader), LookupResult::Undecided("the message is on hold"));
    log.append(&line(
        3,
        "cleanup",
        "A00001: milter-reject: END-OF-MESSAGE from x[192.0.2.1]: 5.7.1 no; from=<> to=<a@b.c>",
    ));
    assert_eq!(found(&log, &mut reader), LookupResult::NotTaken);
}

#[test]
fn a_message_is_found_before_during_and_after_reading() {
    let log = TestLog::new();
    log.append(&begin("A00001"));
    let mut reader = Reader::new(&log);
    reader.read_all();
    // Only the unread end contains the line.
    log.append(&queued("A00001"));
    assert_eq!(taken(&found(&log, &mut reader)).unwrap().queue_id.0, "A00001");
    log.append(&line(2, "qmgr", "A00001: removed"));
    reader.read_all();
    reader.restart(&log);
    assert_eq!(taken(&found(&log, &mut reader)).unwrap().queue_id.0, "A00001");
}

#[test]
fn refused_recipients_are_reported_with_it() {
    let log = TestLog::new();
    let reject = |id: &str, to: &str| {
        let text = format!(
            "{id}: reject: RCPT from unknown[127.0.0.1]: 550 5.1.1 <{to}>: User unknown; from=<ann@example.org> \
             to=<{to}> proto=ESMTP helo=<api>"
        );
        line(1, "api/smtpd", &text)
    };
    log.append(&line(1, "api/smtpd", "connect from unknown[127.0.0.1]"));
    log.append(&reject("NOQUEUE", "first@example.org"));
    log.append(&line(1, "api/smtpd", "A00001: client=unknown[127.0.0.1]"));
    log.append(&reject("A00001", "second@example.org"));
    log.append(&line(1, "cleanup", &format!("A00001: message-id=<{OURS}@example.org>")));
    log.append(&queued("A00001"));
    let mut reader = Reader::new(&log);
    reader.read_all();
    let found = found(&log, &mut reader);
    let refused: Vec<_> = taken(&found).unwrap().refused.iter().map(|one| one.recipient.as_str()).collect();
    assert_eq!(refused, ["first@example.org", "second@example.org"]);
    assert_eq!(taken(&found).unwrap().refused[0].reply.code, 550);
}

#[test]
fn with_too_much_unread_it_does_not_guess() {
    let mut log = TestLog::new();
    log.settings.find_bytes = 100;
    log.append(&begin("A00001").repeat(3));
    let mut reader = Reader::new(&log);
    assert_eq!(found(&log, &mut reader), LookupResult::Undecided("the log has not been read to its end yet"));
}

#[test]
fn the_silence_of_a_dead_mail_server_says_nothing() {
    let mut log = TestLog::new();
    log.settings.settle_time = Duration::from_secs(10);
    log.append(&begin("A00001"));
    let mut reader = Reader::new(&log);
    reader.read_all();
    let ended = Some(log.clock.now());
    log.clock.advance(Duration::from_secs(3600));
    let mut look = |alive| reader.follow.find(&attempt(), Hints { ended, alive }).unwrap();
    assert_eq!(look(None), LogOutcome::Decided(LookupResult::Silent));
    assert_eq!(look(ended.map(|at| at.minus(Duration::from_secs(1)))), LogOutcome::Decided(LookupResult::Silent));
    // It responds, but may have been started only now.
    let answered = Some(log.clock.now());
    assert_eq!(
        look(answered),
        LogOutcome::Decided(LookupResult::Undecided("the mail server may not have logged the message yet"))
    );
    log.clock.advance(Duration::from_secs(10));
    assert_eq!(look(answered), LogOutcome::Decided(LookupResult::NotTaken));
    // Lines about other messages also prove that it is alive.
    log.append(&line(13 * 3600, "qmgr", "A0B1C2: removed"));
    assert_eq!(look(None), LogOutcome::Decided(LookupResult::NotTaken));
}

#[test]
fn submissions_begun_before_our_start_may_still_arrive() {
    // A follower separate from the API, and an API with a second one beside it.
    for (hands_over_here, by_this_node) in [(false, true), (true, false)] {
        let mut log = TestLog::new();
        log.clock = std::sync::Arc::new(mailapi_testkit::FakeClock::at("2026-11-21T08:00:30Z"));
        log.settings.hands_over_here = hands_over_here;
        log.append("");
        let mut reader = Reader::new(&log);
        let attempt = Attempt { by_this_node, ..attempt() };
        let mut found = || match reader.follow.find(&attempt, Hints::default()).unwrap() {
            LogOutcome::Decided(found) => found,
            LogOutcome::Interrupted(_) => panic!("nothing was interrupted"),
        };
        assert!(matches!(found(), LookupResult::Undecided(_)));
        log.clock.advance(log.settings.reception_time);
        assert_ne!(found(), LookupResult::Undecided("the mail server may not have logged the message yet"));
    }
}

#[test]
fn a_look_up_does_not_consume_the_servers_reply() {
    let log = TestLog::new();
    log.append(&line(1, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&log);
    reader.read_all();
    let submitted_ids = reader.follow.submitted_ids();
    submitted_ids.note(&QueueId("A00001".to_owned()), OURS.parse().unwrap(), log.clock.now());
    // The line with the Message-ID is lost.
    log.append(&queued("A00001"));
    assert_eq!(taken(&found(&log, &mut reader)).unwrap().queue_id.0, "A00001");
    log.append(&line(
        2,
        "smtp",
        "A00001: to=<bob@example.net>, relay=mx[192.0.2.1]:25, delay=1, delays=1/0/0/0, dsn=2.0.0, status=sent (250 ok)",
    ));
    reader.read_all();
    assert_eq!(outcomes(&reader.events), ["A00001 bob@example.net sent ours"]);
    // Once confirmed and saved, it is no longer needed.
    assert!(submitted_ids.get("A00001", log.clock.now()).is_some());
    log.clock.advance(log.settings.save_interval);
    log.append(&line(3, "qmgr", "A0B1C2: removed"));
    reader.read_all();
    assert!(submitted_ids.get("A00001", "2026-11-21T20:00:00Z".parse().unwrap()).is_none());
}
