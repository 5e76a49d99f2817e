//! Deletions by the operator with postsuper(1), as Postfix 3.7 logs them.

use std::time::Duration;

use super::support::{OURS, Reader, TestLog, line, outcomes};

pub(super) fn received(id: &str) -> String {
    let begun = line(1, "api/smtpd", &format!("{id}: client=unknown[127.0.0.1]"));
    begun + &line(1, "cleanup", &format!("{id}: message-id=<{OURS}@example.org>"))
}

pub(super) fn queued(id: &str, addresses: u32) -> String {
    line(1, "qmgr", &format!("{id}: from=<ann@example.org>, size=1, nrcpt={addresses} (queue active)"))
}

pub(super) fn to(id: &str, address: &str, outcome: &str) -> String {
    let text = "relay=mx[192.0.2.9]:25, delay=1, delays=1/0/0/0, dsn=4.2.0";
    line(2, "smtp", &format!("{id}: to=<{address}>, {text}, status={outcome}"))
}

pub(super) fn postsuper(second: u32, text: &str) -> String {
    line(second, "postsuper", text)
}

/// A scene where a deferred message is logged at least every 100 seconds.
pub(super) fn log() -> TestLog {
    let mut log = TestLog::new();
    log.settings.retry_time = Duration::from_secs(100);
    log.settings.save_every_bytes = 1;
    log
}

/// Reads these lines, with a restart before each.
pub(super) fn read(log: &TestLog, lines: &[String]) -> Reader {
    let mut reader = Reader::new(log);
    for line in lines {
        reader.restart(log);
        log.append(line);
        reader.read_all();
    }
    reader
}

pub(super) fn discarded(reader: &Reader) -> Vec<(String, String)> {
    reader.discarded.iter().map(|one| (one.queue_id.0.clone(), one.response.clone())).collect()
}

pub(super) fn deleted(id: &str) -> Vec<(String, String)> {
    vec![(id.to_owned(), "deleted from the queue by the operator".to_owned())]
}

#[test]
fn a_message_on_hold_that_is_deleted_is_reported_whole() {
    let hold = "A00001: hold: header Subject: x from unknown[127.0.0.1]; from=<ann@example.org> to=<bob@example.net>";
    let lines = [
        received("A00001"),
        line(1, "cleanup", hold),
        postsuper(9, "A00001: removed"),
        postsuper(9, "Deleted: 1 message"),
    ];
    let reader = read(&log(), &lines);
    assert_eq!((outcomes(&reader.events), discarded(&reader)), (vec![], deleted("A00001")));
}

#[test]
fn a_message_that_is_deleted_amid_its_first_try_is_reported_too() {
    let lines = [
        received("A00001"),
        queued("A00001", 3),
        to("A00001", "bob@example.net", "deferred (later)"),
        to("A00001", "eve@example.net", "sent (250 Ok)"),
        postsuper(9, "A00001: removed"),
    ];
    let reader = read(&log(), &lines);
    assert_eq!(outcomes(&reader.events).last().unwrap(), "A00001 bob@example.net bounced ours");
    assert_eq!(discarded(&reader), deleted("A00001"));
}

#[test]
fn a_part_that_is_deleted_says_nothing_of_the_rest() {
    let whole = [
        received("A00001"),
        queued("A00001", 1),
        to("A00001", "eve@example.net", "sent (250 Ok)"),
        postsuper(9, "A00001: removed"),
    ];
    // A content filter has the other half.
    let filtered = [received("A00001"), queued("A00001", 2), received("A00002"), postsuper(9, "A00001: removed")];
    // A copy from outside, and an unknown message.
    let copy = [
        received("A00001"),
        line(1, "smtpd", "A00002: client=mx.example.net[192.0.2.9]"),
        line(1, "cleanup", &format!("A00002: message-id=<{OURS}@example.org>")),
        postsuper(9, "A00002: removed"),
        postsuper(9, "A00009: removed"),
    ];
    for lines in [&whole[..], &filtered, &copy] {
        assert_eq!(discarded(&read(&log(), lines)), [], "{lines:?}");
    }
}

#[test]
fn what_was_requeued_is_deleted_under_its_first_name() {
    let lines = [
        received("A00001"),
        queued("A00001", 1),
        postsuper(3, "A00001: requeued"),
        line(3, "pickup", "A00002: uid=102 from=<ann@example.org> orig_id=A00001")
            + &line(3, "cleanup", &format!("A00002: message-id=<{OURS}@example.org>"))
            + &postsuper(9, "A00002: removed"),
    ];
    assert_eq!(discarded(&read(&log(), &lines)), deleted("A00001"));
}

pub(super) fn deferred(id: &str) -> [String; 3] {
    [received(id), queued(id, 1), to(id, "bob@example.net", "deferred (later)")]
}

#[test]
fn a_message_silent_after_a_full_deletion_is_gone() {
    let mut lines = deferred("A00001").to_vec();
    lines.push(postsuper(9, "Deleted: 1 message"));
    lines.push(line(108, "qmgr", "B00001: from=<x@example.org>, size=1, nrcpt=1 (queue active)"));
    let before = read(&log(), &lines);
    assert_eq!(outcomes(&before.events), ["A00001 bob@example.net deferred ours"]);
    lines.push(line(110, "smtpd", "connect from unknown[192.0.2.1]"));
    let reader = read(&log(), &lines);
    let expected = ["A00001 bob@example.net deferred ours", "A00001 bob@example.net bounced ours"];
    assert_eq!((outcomes(&reader.events), discarded(&reader)), (expected.map(str::to_owned).to_vec(), vec![]));
    assert_eq!(reader.events[1].response, "deleted from the queue by the operator");
}

#[test]
fn silence_alone_deletes_nothing() {
    let later = |second| line(second, "smtpd", "connect from unknown[192.0.2.1]");
    let begun = deferred("A00001").concat();
    let all = postsuper(9, "Deleted: 1 message");
    let crash = line(20, "master", "daemon started -- version 3.7.11, configuration /etc/postfix");
    let stories = [
        // Nothing was deleted, or a message with its own line, or nothing in Postfix's queue.
        vec![begun.clone(), later(300)],
        vec![begun.clone(), postsuper(9, "B00001: removed"), all.clone(), later(300)],
        vec![begun.clone(), postsuper(9, "Deleted: 0 messages"), later(300)],
        // The message is retried later, or was put on hold.
        vec![begun.clone(), all.clone(), queued("A00001", 1).replace("08:00:01", "08:01:00"), later(300)],
        vec![begun.clone(), postsuper(8, "A00001: placed on hold"), all.clone(), later(300)],
        vec![begun.clone(), postsuper(8, "Placed on hold: 1 message"), all.clone(), later(300)],
        // The message is in its first attempt.
        vec![received("A00001"), queued("A00001", 1), all.clone(), later(300)],
        // Postfix was stopped meanwhile, or a gap may hide the line.
        vec![begun.clone(), all.clone(), crash, later(110)],
        vec![
            begun,
            "Nov 21 08:00:05 mx rsyslogd: imuxsock[pid 7]: 12 messages lost due to rate-limiting\n".to_owned(),
            all,
            later(300),
        ],
    ];
    for lines in stories {
        let reader = read(&log(), &lines);
        let is_open = outcomes(&reader.events).iter().all(|event| event.ends_with("deferred ours"));
        assert!(is_open && reader.discarded.is_empty(), "{lines:?}: {:?}", outcomes(&reader.events));
    }
}
