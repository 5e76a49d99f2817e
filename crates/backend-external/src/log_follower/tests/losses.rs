//! Deletions after lines were lost: a missing line may have reported a delivery.

use super::attempts::{SENT, begun, deleted_in_attempt, events, gone, late, requeued, soon};
use super::deletions::{deferred, deleted, discarded, postsuper, queued, read, received, to};
use super::support::{Reader, line};

const HOURS: u32 = 5 * 3600;

fn dropped(second: u32) -> String {
    format!("Nov 21 08:00:{second:02} mx rsyslogd: imuxsock[pid 7]: 12 messages lost due to rate-limiting\n")
}

fn other(second: u32) -> String {
    line(second, "smtpd", "connect from unknown[192.0.2.1]")
}

#[test]
fn a_gap_during_the_attempt_leaves_the_message_open() {
    for lost in [dropped(5), dropped(20)] {
        let mut lines = deleted_in_attempt("A00001", 1);
        lines.insert(if lost == dropped(5) { 2 } else { lines.len() }, lost);
        for end in [other(HOURS + 10), gone("A00001"), begun("B00001")] {
            let reader = read(&soon(), &[lines.clone(), vec![end]].concat());
            assert_eq!((discarded(&reader), events(&reader)), (vec![], vec![]));
        }
        // A later line counts again.
        lines.push(late("A00001", "bob@example.net", "deferred (later)"));
        let expected = ["A00001 bob@example.net deferred ours", "A00001 bob@example.net bounced ours"];
        assert_eq!(events(&read(&soon(), &lines)), expected);
    }
}

#[test]
fn the_first_line_after_a_gap_ends_no_attempt_as_proved() {
    let log = soon();
    let mut reader = Reader::new(&log);
    log.append(&deleted_in_attempt("A00001", 1).concat());
    reader.read_all();
    // The file is cut, and nothing has a copy.
    std::fs::write(log.path("mail.log"), other(HOURS + 10)).unwrap();
    reader.read_all();
    assert_eq!((discarded(&reader), reader.gaps().len(), reader.follow.open_messages()), (vec![], 1, 0));
}

#[test]
fn a_gap_leaves_open_what_has_no_later_line() {
    let waiting = |id: &str| to(id, "bob@example.net", "deferred (later)");
    let first = vec![received("A00001"), queued("A00001", 2), waiting("A00001")];
    let eve = to("A00001", "eve@example.net", "deferred (later)");
    let removed = postsuper(9, "A00001: removed");
    let is_bounced = |lines: &[String], to: &str| {
        let reader = read(&soon(), lines);
        assert_eq!(discarded(&reader), []);
        events(&reader).contains(&format!("A00001 {to} bounced ours"))
    };
    let lines = [first.clone(), vec![dropped(4), eve.clone(), removed.clone()]].concat();
    assert!(!is_bounced(&lines, "bob@example.net") && is_bounced(&lines, "eve@example.net"));
    let lines = [first.clone(), vec![dropped(4), eve.clone(), waiting("A00001"), removed]].concat();
    assert!(is_bounced(&lines, "bob@example.net") && is_bounced(&lines, "eve@example.net"));
    // Postfix expires the recipients that it tried again, and no others.
    let expired = line(9, "qmgr", "A00001: from=<ann@example.org>, status=expired, returned to sender");
    let reader = read(&soon(), &[first, vec![dropped(4), eve, expired]].concat());
    assert_eq!(events(&reader)[2..], ["A00001 eve@example.net expired ours"]);
}

#[test]
fn an_agent_that_ends_without_a_line_may_have_delivered() {
    let died = |program: &str| {
        line(8, "master", &format!("warning: process /usr/lib/postfix/sbin/{program} pid 9 killed by signal 9"))
    };
    let lines = |end: String| {
        let mut lines = deleted_in_attempt("A00001", 1);
        lines.insert(2, end);
        lines.push(begun("B00001"));
        lines
    };
    let master = "warning: process /usr/lib/postfix/sbin/lmtp pid 9 exit status 1";
    for end in [died("smtp"), line(8, "master", master), line(8, "postfix-script", "stopping the Postfix mail system")]
    {
        assert_eq!(discarded(&read(&soon(), &lines(end))), []);
    }
    for end in [died("smtpd"), died("qmgr"), died("smtp").replace("postfix/", "postfix-out/")] {
        assert_eq!(discarded(&read(&soon(), &lines(end))), deleted("A00001"));
    }
    // A deferred message is in no agent's hands.
    let lines = [deferred("A00001").to_vec(), vec![died("smtp"), postsuper(9, "A00001: removed")]].concat();
    assert_eq!(events(&read(&soon(), &lines)).len(), 2);
}

#[test]
fn a_doubt_about_the_former_id_is_one_about_the_message() {
    let died = line(11, "master", "warning: process /usr/lib/postfix/sbin/smtp pid 9 killed by signal 9");
    let mut lines = vec![received("A00001"), queued("A00001", 1), requeued("A00001", "A00002"), died];
    lines.extend([begun("B00001"), postsuper(26, "A00002: removed")]);
    assert_eq!(discarded(&read(&soon(), &lines)), []);
    // The continuation was tried since.
    lines.insert(
        4,
        queued("A00002", 1).replace("08:00:01", "08:00:25") + &late("A00002", "bob@example.net", "deferred (x)"),
    );
    assert_eq!(events(&read(&soon(), &lines)).last().unwrap(), "A00002 bob@example.net bounced ours");
}

#[test]
fn a_crash_during_the_attempt_leaves_the_message_open() {
    let start = |second| line(second, "master", "daemon started -- version 3.7.11, configuration /etc/postfix");
    for second in [20, HOURS + 10] {
        let lines = [deleted_in_attempt("A00001", 1), vec![start(second), other(HOURS + 11)]].concat();
        let reader = read(&soon(), &lines);
        assert_eq!((discarded(&reader), reader.follow.open_messages()), (vec![], 0));
    }
    let lines = [deleted_in_attempt("A00001", 1), vec![start(20), late("A00001", "bob@example.net", SENT)]].concat();
    assert_eq!(events(&read(&soon(), &lines)), ["A00001 bob@example.net sent ours"]);
}
