//! The same log in every supported form. A log in any other form proves nothing.

use std::time::Duration;

use mailapi_model::Clock as _;

use super::support::{OURS, Reader, SAMPLE, TestLog, attempt, events_of, line};
use crate::log_follower::LookupResult;
use crate::log_follower::follow::{Hints, LogOutcome};

/// Rewrites the sample: `form` builds each line from its time of day, its tag without a colon, and its text.
fn written(form: impl Fn(&str, &str, &str) -> String) -> String {
    let lines = SAMPLE.lines().map(|line| {
        let (time, rest) = (&line["Nov 21 ".len().."Nov 21 07:45:29".len()], &line["Nov 21 07:45:29 mx ".len()..]);
        let (tag, text) = rest.split_once(": ").unwrap_or((rest, ""));
        form(time, tag, text) + "\n"
    });
    lines.collect()
}

/// Splits a tag into program and process.
fn parts(tag: &str) -> (&str, &str) {
    tag.strip_suffix(']').and_then(|tag| tag.split_once('[')).unwrap_or((tag, "-"))
}

#[test]
fn every_form_of_a_log_means_the_same() {
    let forms: [fn(&str, &str, &str) -> String; 8] = [
        |time, tag, text| format!("2026-11-21T{time}+00:00 mx {tag}: {text}"),
        |time, tag, text| {
            let (name, process) = parts(tag);
            format!("<22>1 2026-11-21T{time}.000000+00:00 mx {name} {process} - -  {text}")
        },
        |time, tag, text| {
            let (name, process) = parts(tag);
            format!("<22>1 2026-11-21T{time}Z mx {name} {process} - [meta sequenceId=\"7\"] \u{feff}{text}")
        },
        |time, tag, text| {
            let (name, process) = parts(tag);
            format!("1 2026-11-21T{time}Z mx {name} {process} - - {text}")
        },
        |time, tag, text| format!("Nov 21 {time} mx mail.info {tag}: {text}"),
        |time, tag, text| format!("Nov 21 {time} {tag}: {text}"),
        |time, tag, text| format!("2026-11-21T{time}.000000000Z stdout F Nov 21 {time} mx {tag}: {text}"),
        |time, tag, text| format!("2026-11-21T{time}.000000000Z Nov 21 {time} mx {tag}: {text}"),
    ];
    for (number, form) in forms.into_iter().enumerate() {
        assert_eq!(events_of(&written(form)), events_of(SAMPLE), "form {number}");
    }
}

/// Appends lines that cannot be parsed: rsyslog truncated the names at their slash.
fn not_understood(log: &TestLog) {
    log.append(&format!("<22>1 2026-11-21T19:59:59Z mx postfix 7 - - A00001: message-id=<{OURS}@example.org>\n"));
    log.append(
        "<22>1 2026-11-21T19:59:59Z mx postfix 8 - - A00001: from=<ann@example.org>, size=1, nrcpt=1 (queue active)\n",
    );
}

fn look(reader: &mut Reader, ended: mailapi_model::Timestamp, alive: Option<mailapi_model::Timestamp>) -> LookupResult {
    match reader.follow.find(&attempt(), Hints { ended: Some(ended), alive }).unwrap() {
        LogOutcome::Decided(found) => found,
        LogOutcome::Interrupted(entered) => panic!("interrupted: {entered:?}"),
    }
}

#[test]
fn a_log_that_is_not_understood_proves_nothing() {
    let mut log = TestLog::new();
    log.settings.settle_time = Duration::from_secs(10);
    for text in ["", "Nov 21 19:59:59 mx mta/smtpd[7]: connect from unknown[192.0.2.1]\n"] {
        log.append(text);
        not_understood(&log);
        let mut reader = Reader::new(&log);
        reader.read_all();
        let ended = log.clock.now();
        log.clock.advance(Duration::from_secs(3600));
        assert_eq!(look(&mut reader, ended, None), LookupResult::Silent);
        let alive = Some(log.clock.now());
        for _ in 0..5 {
            log.clock.advance(Duration::from_secs(3600));
            assert!(!matches!(look(&mut reader, ended, alive), LookupResult::NotTaken | LookupResult::Taken(_)));
        }
    }
}

#[test]
fn a_log_that_is_no_longer_that_of_the_server_proves_nothing() {
    let mut log = TestLog::new();
    log.settings.settle_time = Duration::from_secs(10);
    log.append(&line(1, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&log);
    reader.read_all();
    let ended = log.clock.now();
    log.clock.advance(Duration::from_secs(60));
    assert_eq!(look(&mut reader, ended, None), LookupResult::Silent);
    // Postfix responds, and would have logged the message.
    let alive = Some(log.clock.now());
    not_understood(&log);
    log.clock.advance(Duration::from_secs(60));
    assert_eq!(look(&mut reader, ended, alive), LookupResult::Silent);
    log.append(&line(2, "smtpd", "connect from unknown[127.0.0.1]"));
    assert_eq!(look(&mut reader, ended, alive), LookupResult::NotTaken);
}

#[test]
fn a_server_that_accepts_mail_and_whose_log_is_mute_is_reported() {
    for understood_before in [false, true] {
        let log = TestLog::new();
        if understood_before {
            log.append(&line(1, "qmgr", "A0B1C2: removed"));
        }
        not_understood(&log);
        let mut reader = Reader::new(&log);
        reader.read_all();
        log.clock.advance(Duration::from_secs(60));
        reader.follow.submitted_ids().note(
            &mailapi_model::QueueId("A00001".to_owned()),
            OURS.parse().unwrap(),
            log.clock.now(),
        );
        reader.read_all();
        assert_eq!(reader.follow.unheard(), None);
        log.clock.advance(Duration::from_secs(30));
        reader.read_all();
        let reason = reader.follow.unheard().expect("a reason");
        assert_eq!(reason.contains("no line since"), understood_before, "{reason}");
        log.append(&line(2, "smtpd", "connect from unknown[127.0.0.1]"));
        reader.read_all();
        assert_eq!(reader.follow.unheard(), None);
        // A line that arrived before the reply was read also counts.
        reader.follow.submitted_ids().note(
            &mailapi_model::QueueId("A00002".to_owned()),
            OURS.parse().unwrap(),
            log.clock.now(),
        );
        log.clock.advance(Duration::from_secs(3600));
        assert_eq!(reader.follow.unheard(), None);
    }
}
