//! Messages that leave the queue while a delivery agent has their file open, which delivers all the same.

use std::sync::Arc;
use std::time::Duration;

use mailapi_testkit::FakeClock;

use super::deletions::{deferred, deleted, discarded, log, postsuper, queued, read, received, to};
use super::support::{OURS, Reader, TestLog, line, outcomes};

pub(super) const SENT: &str = "sent (250 Ok)";

/// A scene shortly after the lines.
pub(super) fn soon() -> TestLog {
    TestLog { clock: Arc::new(FakeClock::at("2026-11-21T08:00:30Z")), ..log() }
}

/// A line of an attempt that ends after the deletion.
pub(super) fn late(id: &str, address: &str, outcome: &str) -> String {
    to(id, address, outcome).replace("08:00:02", "08:00:20")
}

/// The agent that should have tried all of its recipients finds no file. The queue manager then logs nothing.
pub(super) fn unopened(id: &str) -> String {
    line(20, "smtp", &format!("warning: open active {id}: No such file or directory"))
}

/// Another message begins.
pub(super) fn begun(id: &str) -> String {
    line(25, "smtpd", &format!("{id}: client=mx[192.0.2.9]"))
}

pub(super) fn gone(id: &str) -> String {
    let warning = format!("remove {id} from active: No such file or directory");
    line(21, "qmgr", &format!("warning: qmgr_active_done_3_generic: {warning}"))
}

pub(super) fn requeued(id: &str, new: &str) -> String {
    postsuper(9, &format!("{id}: requeued"))
        + &line(10, "pickup", &format!("{new}: uid=102 from=<ann@example.org> orig_id={id}"))
        + &line(10, "cleanup", &format!("{new}: message-id=<{OURS}@example.org>"))
}

/// Held and deleted as in a single command, during an attempt.
pub(super) fn deleted_in_attempt(id: &str, addresses: u32) -> Vec<String> {
    let postsuper = ["placed on hold", "removed"].map(|done| postsuper(9, &format!("{id}: {done}")));
    [vec![received(id), queued(id, addresses)], postsuper.to_vec()].concat()
}

pub(super) fn events(reader: &Reader) -> Vec<String> {
    outcomes(&reader.events)
}

#[test]
fn a_delivery_after_the_deletion_is_no_bounce() {
    let stories = [
        (1, vec![late("A00001", "bob@example.net", SENT)], vec!["A00001 bob@example.net sent ours"]),
        (
            1,
            vec![late("A00001", "bob@example.net", "bounced (550 unknown)")],
            vec!["A00001 bob@example.net bounced ours"],
        ),
        (
            1,
            vec![late("A00001", "bob@example.net", "deferred (later)")],
            vec!["A00001 bob@example.net deferred ours", "A00001 bob@example.net bounced ours"],
        ),
        (
            2,
            vec![late("A00001", "bob@example.net", SENT), late("A00001", "eve@example.net", SENT)],
            vec!["A00001 bob@example.net sent ours", "A00001 eve@example.net sent ours"],
        ),
        (
            2,
            vec![late("A00001", "bob@example.net", "deferred (later)"), late("A00001", "eve@example.net", SENT)],
            vec![
                "A00001 bob@example.net deferred ours",
                "A00001 eve@example.net sent ours",
                "A00001 bob@example.net bounced ours",
            ],
        ),
    ];
    for (addresses, after, expected) in stories {
        let reader = read(&soon(), &[deleted_in_attempt("A00001", addresses), after].concat());
        assert_eq!((events(&reader), discarded(&reader)), (expected.iter().map(ToString::to_string).collect(), vec![]));
        assert_eq!(reader.follow.open_messages(), 0);
    }
}

#[test]
fn one_of_two_recipients_waits_for_the_end_of_the_attempt() {
    let mut lines = vec![received("A00001"), queued("A00001", 2), to("A00001", "eve@example.net", SENT)];
    lines.push(postsuper(9, "A00001: removed"));
    let before = read(&soon(), &lines);
    assert_eq!((events(&before).len(), discarded(&before)), (1, vec![]));
    let sent = [lines.clone(), vec![late("A00001", "bob@example.net", SENT)]].concat();
    let reader = read(&soon(), &sent);
    assert_eq!((events(&reader).len(), discarded(&reader)), (2, vec![]));
    for end in [gone("A00001"), unopened("A00001")] {
        let reader = read(&soon(), &[lines.clone(), vec![end]].concat());
        assert_eq!((events(&reader).len(), discarded(&reader)), (1, deleted("A00001")));
    }
}

#[test]
fn an_alias_may_have_several_lines_for_one_address() {
    let member =
        line(5, "local", "A00001: to=<x@example.org>, orig_to=<team@example.org>, relay=local, status=sent (ok)");
    let lines = [deleted_in_attempt("A00001", 2), vec![member.clone(), member]].concat();
    let reader = read(&soon(), &lines);
    assert_eq!(discarded(&reader), []);
    let reader = read(&soon(), &[lines, vec![late("A00001", "bob@example.net", SENT), gone("A00001")]].concat());
    assert_eq!(events(&reader).last().unwrap(), "A00001 bob@example.net sent ours");
}

#[test]
fn a_deferred_message_is_concluded_at_once() {
    let lines = [deferred("A00001").to_vec(), vec![postsuper(9, "A00001: removed")]].concat();
    let expected = ["A00001 bob@example.net deferred ours", "A00001 bob@example.net bounced ours"];
    assert_eq!(events(&read(&soon(), &lines)), expected);
}

#[test]
fn no_attempt_lasts_longer_than_the_watchdog_allows() {
    let lines = deleted_in_attempt("A00001", 1);
    let hours = 5 * 3600;
    let other = |second| line(second, "smtpd", "connect from unknown[192.0.2.1]");
    let reader = read(&soon(), &[lines.clone(), vec![other(hours + 8)]].concat());
    assert_eq!(discarded(&reader), []);
    let reader = read(&soon(), &[lines, vec![other(hours + 9), other(hours + 10)]].concat());
    assert_eq!(discarded(&reader), deleted("A00001"));
    assert_eq!(reader.discarded[0].at, "2026-11-21T13:00:09Z".parse().unwrap());
}

#[test]
fn a_silent_log_ends_the_attempt_by_our_clock_once() {
    for saves_always in [true, false] {
        let mut log = soon();
        log.settings.save_every_bytes = if saves_always { 1 } else { 1 << 20 };
        log.settings.save_interval = Duration::from_hours(100);
        let mut reader = read(&log, &deleted_in_attempt("A00001", 1));
        assert_eq!(discarded(&reader), []);
        log.clock.advance(Duration::from_hours(5));
        let before = reader.cursor.clone();
        reader.read_all();
        assert_eq!(discarded(&reader), deleted("A00001"));
        // The reader stores what comes with another cursor only.
        assert_ne!(reader.cursor, before);
        for second in [30, 40, 6 * 3600] {
            reader.restart(&log);
            reader.read_all();
            log.append(&line(second, "qmgr", "B00001: removed"));
            reader.read_all();
        }
        assert_eq!((discarded(&reader), events(&reader)), (deleted("A00001"), vec![]));
    }
}

#[test]
fn a_batch_that_was_not_stored_is_reported_again() {
    let log = soon();
    let mut reader = read(&log, &deleted_in_attempt("A00001", 1));
    log.clock.advance(Duration::from_hours(5));
    for _ in 0..2 {
        let lost = reader.follow.read(&reader.cursor, 9).unwrap();
        assert_eq!(lost.discarded.len(), 1);
    }
    reader.restart(&log);
    reader.read_all();
    assert_eq!(discarded(&reader), deleted("A00001"));
}

#[test]
fn a_stop_ends_the_attempts_and_a_crash_does_not() {
    let stop = line(20, "master", "terminating on signal 15");
    let start = line(21, "master", "daemon started -- version 3.7.11, configuration /etc/postfix");
    let lines = deleted_in_attempt("A00001", 1);
    // Which of the agents had sent the message is unknown.
    let reader = read(&soon(), &[lines.clone(), vec![stop, start.clone()]].concat());
    assert_eq!((discarded(&reader), reader.follow.open_messages()), (vec![], 0));
    let reader = read(&soon(), &[lines, vec![start, late("A00001", "bob@example.net", SENT)]].concat());
    assert_eq!((events(&reader).len(), discarded(&reader)), (1, vec![]));
}

#[test]
fn another_message_with_the_queue_id_ends_the_attempt() {
    let lines = [deleted_in_attempt("A00001", 1), vec![line(20, "smtpd", "A00001: client=mx[192.0.2.9]")]].concat();
    let reader = read(&soon(), &lines);
    assert_eq!((discarded(&reader), reader.follow.open_messages()), (deleted("A00001"), 1));
}

#[test]
fn a_full_deletion_waits_for_the_attempt_too() {
    let all = postsuper(9, "Deleted: 1 message");
    let later = |second| line(second, "smtpd", "connect from unknown[192.0.2.1]");
    let second = vec![queued("A00001", 1).replace("08:00:01", "08:00:04")];
    let tried = [deferred("A00001").to_vec(), second, vec![all.clone()]].concat();
    // Silent for longer than `retry_time`, and then delivered.
    let after = line(300, "smtp", "A00001: to=<bob@example.net>, relay=mx, delay=1, dsn=2.0.0, status=sent (ok)");
    let reader = read(&soon(), &[tried.clone(), vec![later(200), after]].concat());
    assert_eq!(events(&reader), ["A00001 bob@example.net deferred ours", "A00001 bob@example.net sent ours"]);
    // Deferred again: its silence begins with that line.
    let again = [tried.clone(), vec![late("A00001", "bob@example.net", "deferred (later)"), later(112)]].concat();
    assert_eq!(events(&read(&soon(), &again)).len(), 2);
    let reader = read(&soon(), &[again, vec![later(121)]].concat());
    assert_eq!(events(&reader)[2..], ["A00001 bob@example.net bounced ours"]);
    // Silent for longer than any attempt.
    let reader = read(&soon(), &[tried, vec![later(200), later(5 * 3600 + 5)]].concat());
    assert_eq!(events(&reader)[1..], ["A00001 bob@example.net bounced ours"]);
    // The queue manager finds no file.
    let first = vec![received("A00001"), queued("A00001", 2), all, late("A00001", "bob@example.net", SENT)];
    let reader = read(&soon(), &[first, vec![gone("A00001")]].concat());
    assert_eq!((events(&reader).len(), discarded(&reader)), (1, deleted("A00001")));
}

#[test]
fn a_requeued_message_keeps_the_lines_of_its_former_id() {
    let begun = vec![received("A00001"), queued("A00001", 1), requeued("A00001", "A00002")];
    let sent = late("A00001", "bob@example.net", SENT);
    let reader = read(&soon(), &[begun.clone(), vec![sent.clone(), gone("A00001")]].concat());
    assert_eq!(events(&reader), ["A00001 bob@example.net sent ours"]);
    assert_eq!(reader.follow.open_messages(), 1);
    // The continuation is deleted while the former attempt continues.
    let mut lines = [begun, vec![postsuper(11, "A00002: removed")]].concat();
    assert_eq!(discarded(&read(&soon(), &lines)), []);
    lines.push(sent);
    let reader = read(&soon(), &lines);
    assert_eq!(events(&reader), ["A00001 bob@example.net sent ours"]);
    // The report covers only recipients without a final status.
    assert_eq!((discarded(&reader), reader.follow.open_messages()), (deleted("A00001"), 0));
}

#[test]
fn a_new_file_with_the_inode_ends_the_attempt() {
    // One agent should have tried both recipients, and its line does not say so.
    let lines = [deleted_in_attempt("A00001", 2), vec![unopened("A00001")]].concat();
    let others = [
        // Another file, another instance, and a message that began before.
        begun("B00002"),
        begun("B00001").replace("postfix/", "postfix-out/"),
        line(25, "qmgr", "B00001: removed"),
    ];
    for other in others {
        let reader = read(&soon(), &[lines.clone(), vec![other.clone()]].concat());
        assert_eq!(discarded(&reader), [], "{other}");
    }
    let local = line(25, "cleanup", "B00001: message-id=<x@example.org>");
    for other in [begun("B00001"), begun("C00001"), local] {
        let reader = read(&soon(), &[lines.clone(), vec![other]].concat());
        assert_eq!((discarded(&reader), reader.follow.open_messages()), (deleted("A00001"), 1));
    }
    // The same with long queue ids.
    let long = lines.iter().map(|line| line.replace("A00001", "4jXsKf6thLz1SRkq")).collect::<Vec<_>>();
    let reader = read(&soon(), &[long.clone(), vec![begun("4jXsPc19dNz1SRkr")]].concat());
    assert_eq!(discarded(&reader), []);
    let reader = read(&soon(), &[long, vec![begun("4jXsPc19dNz1SRkq")]].concat());
    assert_eq!(discarded(&reader), deleted("4jXsKf6thLz1SRkq"));
}

#[test]
fn a_file_may_be_replaced_before_the_deletion_is_logged() {
    let mut lines = vec![received("A00001"), queued("A00001", 2), begun("B00001").replace("08:00:25", "08:00:08")];
    lines.push(postsuper(9, "A00001: removed"));
    assert_eq!(discarded(&read(&soon(), &lines)), deleted("A00001"));
}

#[test]
fn a_queue_that_may_have_been_copied_has_other_inodes() {
    let stop = line(3, "master", "terminating on signal 15");
    let announced = line(3, "postfix-script", "stopping the Postfix mail system");
    // Whether the queue may have been copied before the start.
    for (stopped, machine_started, expected) in
        [(stop.as_str(), "", true), (&announced, "", true), ("", "btime 1795248003\n", true), ("", "", false)]
    {
        let scene = || {
            let log = soon();
            std::fs::write(log.path("stat"), machine_started).unwrap();
            log
        };
        let start = line(4, "master", "daemon started -- version 3.7.11, configuration /etc/postfix");
        let again = queued("A00001", 1).replace("08:00:01", "08:00:05");
        let mut lines = vec![received("A00001"), stopped.to_owned(), start, again];
        lines.extend([postsuper(9, "A00001: removed"), begun("B00001")]);
        let reader = read(&scene(), &lines);
        assert_eq!(reader.follow.open_messages(), if expected { 2 } else { 1 }, "{stopped} {machine_started}");
        lines.push(late("A00001", "bob@example.net", SENT));
        let whose = if expected { "ours" } else { "other" };
        assert_eq!(events(&read(&scene(), &lines)), [format!("A00001 bob@example.net sent {whose}")]);
    }
}

#[test]
fn a_former_file_without_an_agent_closes_a_requeued_message() {
    let lines = vec![received("A00001"), queued("A00001", 2), requeued("A00001", "A00002"), unopened("A00001")];
    let before = read(&soon(), &[lines.clone(), vec![postsuper(11, "A00002: removed")]].concat());
    assert_eq!(discarded(&before), []);
    for closed_first in [true, false] {
        let mut ends = vec![begun("B00001"), postsuper(26, "A00002: removed")];
        if !closed_first {
            ends.reverse();
        }
        let reader = read(&soon(), &[lines.clone(), ends].concat());
        assert_eq!((discarded(&reader), reader.follow.open_messages()), (deleted("A00001"), 1));
    }
}

#[test]
fn a_requeued_message_has_the_recipients_that_were_picked_up() {
    // The former attempt logs a delivery, and then pickup(8) reads the recipient before it is marked as done.
    let mut lines = vec![received("A00001"), queued("A00001", 2), to("A00001", "bob@example.net", SENT)];
    lines.extend([requeued("A00001", "A00002"), gone("A00001"), queued("A00002", 2), postsuper(12, "A00002: removed")]);
    lines.push(late("A00002", "bob@example.net", SENT));
    let before = read(&soon(), &lines);
    assert_eq!((events(&before).len(), discarded(&before)), (2, vec![]));
    lines.push(late("A00002", "eve@example.net", SENT));
    let reader = read(&soon(), &lines);
    assert_eq!((events(&reader).len(), discarded(&reader), reader.follow.open_messages()), (3, vec![], 0));
}

#[test]
fn agents_that_began_later_end_the_attempt() {
    let mut log = soon();
    log.settings.settle_time = Duration::from_secs(10);
    // The machine started at 08:00:00.
    std::fs::write(log.path("stat"), "btime 1795248000\n").unwrap();
    let run = |id: u32, name: &str, started: u32| {
        std::fs::create_dir_all(log.path(&id.to_string())).unwrap();
        let zeros = "0 ".repeat(18);
        std::fs::write(log.path(&format!("{id}/stat")), format!("{id} ({name}) S {zeros}{started}00 7\n")).unwrap();
    };
    run(1, "init", 0);
    run(9, "smtp", 5);
    // The follower knows the queue manager from a line since its start.
    let lines = [deleted_in_attempt("A00001", 1), vec![line(12, "qmgr", "C00009: removed")]].concat();
    let mut reader = read(&log, &lines);
    let mut later = |seconds: u64| {
        log.clock.advance(Duration::from_secs(seconds));
        reader.read_all();
        discarded(&reader)
    };
    // The queue manager of this log is not visible.
    assert_eq!((later(60), later(60)), (vec![], vec![]));
    run(7, "qmgr", 0);
    // An agent is older than the deletion.
    assert_eq!((later(60), later(60)), (vec![], vec![]));
    run(9, "smtp", 100);
    // Its lines have not arrived yet.
    assert_eq!((later(60), later(9)), (vec![], vec![]));
    assert_eq!(later(1), deleted("A00001"));
    assert_eq!(reader.discarded[0].at, "2026-11-21T08:05:30Z".parse().unwrap());
    for _ in 0..2 {
        reader.restart(&log);
        log.clock.advance(Duration::from_secs(60));
        reader.read_all();
        assert_eq!((discarded(&reader), reader.follow.open_messages()), (deleted("A00001"), 0));
    }
}
