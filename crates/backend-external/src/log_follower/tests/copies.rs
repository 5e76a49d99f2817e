//! Copies of a submitted message: any recipient can resend it, with any header and to anyone.

use super::support::{OURS, Reader, TestLog, line, outcomes};

const OUTSIDE: &str = "mx.example.net[192.0.2.9]";

fn client(id: &str, client: &str, tag: &str) -> String {
    line(1, tag, &format!("{id}: client={client}"))
}

fn header(id: &str, message_id: &str) -> String {
    line(1, "cleanup", &format!("{id}: message-id=<{message_id}>"))
}

fn queued(id: &str, addresses: u32) -> String {
    line(1, "qmgr", &format!("{id}: from=<ann@example.org>, size=1, nrcpt={addresses} (queue active)"))
}

fn ours(id: &str, addresses: u32) -> String {
    [client(id, "unknown[127.0.0.1]", "api/smtpd"), header(id, &format!("{OURS}@example.org")), queued(id, addresses)]
        .concat()
}

fn copy(id: &str, from: &str) -> String {
    [client(id, from, "smtpd"), header(id, &format!("{OURS}@example.org")), queued(id, 1)].concat()
}

fn to(daemon: &str, id: &str, address: &str, outcome: &str) -> String {
    let text = format!("{id}: to=<{address}>, relay=mx[192.0.2.9]:25, delay=1, delays=1/0/0/0, dsn=2.0.0");
    line(2, daemon, &format!("{text}, status={outcome}"))
}

fn removed(id: &str) -> String {
    line(3, "qmgr", &format!("{id}: removed"))
}

fn read(lines: &[String]) -> Reader {
    let log = TestLog::new();
    log.append(&lines.concat());
    let mut reader = Reader::new(&log);
    reader.read_all();
    reader
}

fn reported(lines: &[String]) -> Vec<String> {
    outcomes(&read(lines).events)
}

#[test]
fn a_second_message_id_does_not_turn_a_copy_into_ours() {
    let (ours_id, other) = (format!("{OURS}@example.org"), "x@example.net".to_owned());
    for ids in [[&ours_id, &ours_id], [&other, &ours_id], [&ours_id, &other]] {
        let reader = read(&[
            ours("A00001", 1),
            client("A00002", OUTSIDE, "smtpd"),
            header("A00002", ids[0]),
            header("A00002", ids[1]),
            queued("A00002", 1),
            to("lmtp", "A00002", "bob@example.org", "bounced (full)"),
            to("smtp", "A00001", "bob@example.org", "sent (250 Ok)"),
        ]);
        let expected = ["A00002 bob@example.org bounced other", "A00001 bob@example.org sent ours"];
        assert_eq!(outcomes(&reader.events), expected, "{ids:?}");
    }
}

#[test]
fn a_copy_of_a_message_that_left_is_inbound_mail() {
    for from in [OUTSIDE, "localhost[127.0.0.1]"] {
        let log = TestLog::new();
        log.append(&[ours("A00001", 1), to("smtp", "A00001", "eve@example.net", "sent (250 Ok)")].concat());
        log.append(&removed("A00001"));
        let mut reader = Reader::new(&log);
        reader.read_all();
        // The index survives a restart of the process.
        reader.restart(&log);
        log.append(&[copy("A00002", from), to("lmtp", "A00002", "bob@example.org", "sent (250 Saved)")].concat());
        reader.read_all();
        let expected = ["A00001 eve@example.net sent ours", "A00002 bob@example.org sent other"];
        assert_eq!(outcomes(&reader.events), expected, "{from}");
        assert_eq!(reader.inbound.len(), 1, "{from}");
    }
}

#[test]
fn a_copy_that_passes_a_content_filter_stays_a_copy() {
    for tag in ["smtpd", "filtered/smtpd"] {
        let reader = read(&[
            ours("A00001", 2),
            copy("A00002", OUTSIDE),
            client("A00003", "localhost[127.0.0.1]", tag),
            header("A00003", &format!("{OURS}@example.org")),
            queued("A00003", 1),
            to("smtp", "A00002", "bob@example.org", "sent (250 2.0.0 Ok: queued as A00003)"),
            removed("A00002"),
            to("lmtp", "A00003", "bob@example.org", "sent (250 Saved)"),
            to("smtp", "A00001", "bob@example.org", "deferred (later)"),
        ]);
        let expected = [
            "A00002 bob@example.org sent other",
            "A00003 bob@example.org sent other",
            "A00001 bob@example.org deferred ours",
        ];
        assert_eq!(outcomes(&reader.events), expected, "{tag}");
        assert_eq!(reader.inbound.len(), 1, "{tag}");
    }
}

#[test]
fn mail_from_outside_with_a_uuid_of_its_own_is_counted() {
    let filtered = [
        copy("A00001", OUTSIDE),
        client("A00002", "localhost[127.0.0.1]", "smtpd"),
        header("A00002", &format!("{OURS}@example.org")),
        queued("A00002", 1),
        to("smtp", "A00001", "bob@example.org", "sent (250 2.0.0 Ok: queued as A00002)"),
        to("lmtp", "A00002", "bob@example.org", "sent (250 Saved)"),
    ];
    assert_eq!(read(&filtered).inbound.len(), 1);
    let direct = [copy("A00001", OUTSIDE), to("lmtp", "A00001", "bob@example.org", "sent (250 Saved)")];
    assert_eq!(read(&direct).inbound.len(), 1);
    let own = [ours("A00001", 1), to("lmtp", "A00001", "bob@example.org", "sent (250 Saved)")];
    assert_eq!(read(&own).inbound.len(), 0);
}

#[test]
fn what_is_put_in_again_is_counted_once_and_our_own_never() {
    let pipe = |id: &str| to("pipe", id, "bob@example.org", "sent (delivered via filter service)");
    let again = [
        line(2, "pickup", "A00002: uid=102 from=<ann@example.org>"),
        header("A00002", &format!("{OURS}@example.org")),
        queued("A00002", 1),
        to("lmtp", "A00002", "bob@example.org", "sent (250 Saved)"),
    ]
    .concat();
    for (first, expected) in [(copy("A00001", OUTSIDE), 1), (ours("A00001", 1), 0)] {
        let after = [first.clone(), pipe("A00001"), removed("A00001"), again.clone()];
        assert_eq!(read(&after).inbound.len(), expected, "{first}");
        let meanwhile = [first.clone(), again.clone(), pipe("A00001"), removed("A00001")];
        assert_eq!(read(&meanwhile).inbound.len(), expected, "{first}");
    }
    // A user resends a submitted message.
    let resent = [
        ours("A00001", 1),
        removed("A00001"),
        client("A00002", "ann.example.org[192.0.2.3], sasl_method=PLAIN, sasl_username=ann", "submission/smtpd"),
        header("A00002", &format!("{OURS}@example.org")),
        queued("A00002", 1),
        to("lmtp", "A00002", "bob@example.org", "sent (250 Saved)"),
    ];
    assert_eq!(
        (read(&resent).inbound.len(), reported(&resent)),
        (0, vec!["A00002 bob@example.org sent other".to_owned()])
    );
}

#[test]
fn a_server_that_names_a_copy_of_its_own_has_accepted() {
    for from in [OUTSIDE, "localhost[127.0.0.1]"] {
        let whose = if from == OUTSIDE { "other" } else { "ours" };
        let accepted = to("smtp", "A00001", "eve@example.net", "sent (250 2.0.0 Ok: queued as A00002)");
        let delivered = to("lmtp", "A00002", "bob@example.org", "sent (250 Saved)");
        let begun = [ours("A00001", 1), copy("A00002", from)].concat();
        let of_copy = format!("A00002 bob@example.org sent {whose}");
        let copy_first = [of_copy, "A00001 eve@example.net sent ours".to_owned()];
        // The copy leaves the queue before or after its sender receives the reply.
        let before = [begun.clone(), delivered.clone(), removed("A00002"), accepted.clone(), removed("A00001")];
        assert_eq!(reported(&before), copy_first, "{from}");
        let after = [begun, accepted, removed("A00001"), delivered, removed("A00002")];
        assert_eq!(reported(&after), copy_first, "{from}");
    }
}

#[test]
fn a_copy_is_ours_only_for_what_was_handed_over() {
    let accepted = to("smtp", "A00001", "eve@example.net", "sent (250 2.0.0 Ok: queued as A00002)");
    let lines = |order: [usize; 3]| {
        let steps = [
            accepted.clone(),
            to("lmtp", "A00002", "bob@example.org", "bounced (full)"),
            to("smtp", "A00002", "eve@example.net", "bounced (no)"),
        ];
        let mut lines = vec![ours("A00001", 2), copy("A00002", OUTSIDE)];
        lines.extend(order.map(|step| steps[step].clone()));
        lines.extend([removed("A00002"), removed("A00001")]);
        lines
    };
    // bob is a recipient of the copy, chosen by its sender.
    let first = reported(&lines([0, 1, 2]));
    assert_eq!(first, ["A00002 bob@example.org bounced other", "A00002 eve@example.net bounced ours"]);
    let last = reported(&lines([1, 2, 0]));
    assert_eq!(last[..2], ["A00002 bob@example.org bounced other", "A00002 eve@example.net bounced other"]);
    assert_eq!(last[2..], ["A00002 eve@example.net bounced ours"]);
}

#[test]
fn an_acceptance_that_waits_for_a_copy_outlives_a_restart() {
    let mut log = TestLog::new();
    log.settings.save_every_bytes = 1;
    let mut reader = Reader::new(&log);
    let lines = [
        ours("A00001", 1),
        copy("A00002", OUTSIDE),
        to("smtp", "A00001", "eve@example.net", "sent (250 2.0.0 Ok: queued as A00002)"),
        removed("A00001"),
        to("lmtp", "A00002", "bob@example.org", "sent (250 Saved)"),
        removed("A00002"),
    ];
    for line in &lines {
        log.append(line);
        reader.read_all();
        reader.restart(&log);
    }
    let expected = ["A00002 bob@example.org sent other", "A00001 eve@example.net sent ours"];
    assert_eq!(outcomes(&reader.events), expected);
}

#[test]
fn only_local_forwards() {
    let lines = [
        ours("A00001", 1),
        copy("A00002", OUTSIDE),
        to("smtp", "A00001", "eve@example.net", "sent (250 forwarded as A00002)"),
    ];
    assert_eq!(reported(&lines), ["A00001 eve@example.net sent ours"]);
}

/// A content filter returns the submitted message with a rewritten address.
fn filtered(id: &str) -> String {
    [client(id, "localhost[127.0.0.1]", "smtpd"), header(id, &format!("{OURS}@example.org"))].concat()
}

#[test]
fn what_a_filter_returned_and_cleanup_discarded_stays_open() {
    let discard = "A00002: discard: header Subject: x from localhost[127.0.0.1]; from=<ann@example.org> \
                   to=<bob@example.net> proto=ESMTP helo=<x>: no adverts";
    let lines = [
        ours("A00001", 1),
        filtered("A00002"),
        line(1, "cleanup", discard),
        to("smtp", "A00001", "bob@example.net", "sent (250 2.0.0 Ok: queued as A00002)"),
        removed("A00001"),
    ];
    assert_eq!(reported(&lines), [""; 0]);
}

#[test]
fn an_expired_rewritten_address_proves_no_delivery() {
    for end in [
        line(9, "qmgr", "A00002: from=<ann@example.org>, status=expired, returned to sender") + &removed("A00002"),
        line(9, "postsuper", "A00002: removed"),
    ] {
        let lines = [
            ours("A00001", 1),
            filtered("A00002"),
            queued("A00002", 1),
            to("smtp", "A00001", "bob@example.net", "sent (250 2.0.0 Ok: queued as A00002)"),
            removed("A00001"),
            to("smtp", "A00002", "robert@example.net", "deferred (later)"),
            end,
        ];
        let reported = reported(&lines);
        assert!(reported.iter().all(|event| !event.contains("bob@example.net sent")), "{reported:?}");
    }
}

#[test]
fn a_remote_acceptance_counts_if_its_copy_was_refused() {
    let refused = "A00002: milter-reject: END-OF-MESSAGE from mx.example.net[192.0.2.9]: 5.7.1 spam; \
                   from=<eve@example.net> to=<bob@example.org> proto=ESMTP helo=<x>";
    let lines = [
        ours("A00001", 1),
        client("A00002", OUTSIDE, "smtpd"),
        header("A00002", &format!("{OURS}@example.org")),
        to("smtp", "A00001", "eve@example.net", "sent (250 queued as A00002)"),
        line(3, "cleanup", refused),
        removed("A00001"),
    ];
    assert_eq!(reported(&lines), ["A00001 eve@example.net sent ours"]);
}

#[test]
fn requeued_mail_from_outside_is_counted_after_a_restart() {
    let stories = [
        vec![client("B00001", OUTSIDE, "smtpd"), header("B00001", "x@example.net")],
        // It has no Message-ID, and a content filter returned it.
        vec![client("B00001", "localhost[127.0.0.1]", "smtpd")],
    ];
    for mut lines in stories {
        let mut log = TestLog::new();
        log.settings.save_every_bytes = 1;
        let mut reader = Reader::new(&log);
        lines.extend([
            queued("B00001", 1),
            line(2, "postsuper", "B00001: requeued"),
            line(2, "pickup", "B00002: uid=102 from=<eve@example.net> orig_id=B00001"),
            queued("B00002", 1),
            to("lmtp", "B00002", "bob@example.org", "sent (250 Saved)"),
        ]);
        for line in lines {
            log.append(&line);
            reader.read_all();
            reader.restart(&log);
        }
        assert_eq!(reader.inbound.len(), 1);
    }
}
