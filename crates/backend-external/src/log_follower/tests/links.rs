//! Assigns lines to messages, and to their recipients.

use super::support::{OURS, Reader, TestLog, line, outcomes};
use crate::bounces::{BounceKey, ReturnAddress};

fn reported(lines: &[String]) -> Vec<String> {
    let log = TestLog::new();
    log.append(&lines.concat());
    let mut reader = Reader::new(&log);
    outcomes(&reader.read_all().events)
}

fn begin(id: &str, client: &str, tag: &str) -> [String; 3] {
    [
        line(1, tag, &format!("{id}: client={client}")),
        line(1, "cleanup", &format!("{id}: message-id=<{OURS}@example.org>")),
        line(1, "qmgr", &format!("{id}: from=<ann@example.org>, size=1, nrcpt=1 (queue active)")),
    ]
}

fn to(daemon: &str, id: &str, address: &str, outcome: &str) -> String {
    let text =
        format!("{id}: to={address}, relay=x[127.0.0.1]:25, delay=1, delays=1/0/0/0, dsn=2.0.0, status={outcome}");
    line(2, daemon, &text)
}

#[test]
fn a_queue_id_that_comes_again_is_another_message() {
    // Without `removed`: the operator deleted the whole queue.
    let mut lines = begin("A00001", "unknown[127.0.0.1]", "api/smtpd").to_vec();
    lines.push(line(3, "smtpd", "A00001: client=mx.example.net[192.0.2.1]"));
    lines.push(line(3, "cleanup", "A00001: message-id=<x@example.net>"));
    lines.push(to("lmtp", "A00001", "<bob@example.org>", "sent (250 Saved)"));
    // A notice of Postfix itself has no line of a listener.
    let mut notice = begin("A00002", "unknown[127.0.0.1]", "api/smtpd").to_vec();
    notice.push(line(3, "cleanup", "A00002: message-id=<2026.A00002@mx.example.org>"));
    notice.push(line(3, "qmgr", "A00002: from=<>, size=1, nrcpt=1 (queue active)"));
    notice.push(to("lmtp", "A00002", "<ann@example.org>", "sent (250 Saved)"));
    assert_eq!(reported(&lines), ["A00001 bob@example.org sent other"]);
    assert_eq!(reported(&notice), ["A00002 ann@example.org sent other"]);
}

#[test]
fn two_instances_may_use_the_same_id() {
    let mut lines = begin("A00001", "unknown[127.0.0.1]", "api/smtpd").to_vec();
    lines.push("Nov 21 08:00:02 mx postfix-in/qmgr[3]: A00001: removed\n".to_owned());
    lines.push(to("lmtp", "A00001", "<bob@example.org>", "sent (250 Saved)"));
    assert_eq!(reported(&lines), ["A00001 bob@example.org sent ours"]);
}

#[test]
fn reinjected_mail_counts_and_handing_to_the_filter_does_not() {
    for client in ["localhost[127.0.0.1]", "filter.example.org[192.0.2.8]"] {
        let mut lines = begin("A00001", "unknown[127.0.0.1]", "api/smtpd").to_vec();
        lines.extend(begin("A00002", client, "smtpd"));
        lines.push(to(
            "smtp",
            "A00001",
            "<eve@example.com>, orig_to=<team@example.org>",
            "sent (250 2.0.0 Ok: queued as A00002)",
        ));
        lines.push(line(3, "qmgr", "A00001: removed"));
        lines.push(to("lmtp", "A00002", "<eve@example.com>", "bounced (no)"));
        assert_eq!(reported(&lines), ["A00002 team@example.org bounced ours"], "{client}");
    }
}

#[test]
fn a_copy_that_a_mailing_list_sends_back_is_not_ours() {
    let mut lines = begin("A00001", "unknown[127.0.0.1]", "api/smtpd").to_vec();
    lines.extend(begin("A00002", "list.example.net[192.0.2.8]", "smtpd"));
    lines.push(to("lmtp", "A00002", "<bob@example.org>", "bounced (full)"));
    lines.push(to("smtp", "A00001", "<bob@example.org>", "sent (250 2.0.0 Ok: queued as A00009)"));
    assert_eq!(reported(&lines), ["A00002 bob@example.org bounced other", "A00001 bob@example.org sent ours"]);
}

#[test]
fn a_forward_is_credited_to_the_recipient_that_the_sender_named() {
    let mut lines = begin("A00001", "unknown[127.0.0.1]", "api/smtpd").to_vec();
    lines.push(line(2, "cleanup", &format!("A00002: message-id=<{OURS}@example.org>")));
    lines.push(line(2, "qmgr", "A00002: from=<ann@example.org>, size=1, nrcpt=1 (queue active)"));
    lines.push(to("local", "A00001", "<bob@example.org>", "sent (forwarded as A00002)"));
    lines.push(line(2, "qmgr", "A00001: removed"));
    lines.push(to("smtp", "A00002", "<bob@home.example>, orig_to=<bob@example.org>", "deferred (later)"));
    lines.push(line(9, "qmgr", "A00002: from=<ann@example.org>, status=expired, returned to sender"));
    assert_eq!(reported(&lines), ["A00002 bob@example.org deferred ours", "A00002 bob@example.org expired ours"]);
}

#[test]
fn a_message_that_was_put_back_into_the_queue_stays_ours() {
    let mut lines = begin("A00001", "unknown[127.0.0.1]", "api/smtpd").to_vec();
    lines.push(to("smtp", "A00001", "<bob@example.net>", "deferred (later)"));
    lines.push(line(3, "postsuper", "A00001: requeued"));
    lines.push(line(3, "pickup", "A00002: uid=102 from=<ann@example.org> orig_id=A00001"));
    lines.push(line(3, "cleanup", &format!("A00002: message-id=<{OURS}@example.org>")));
    lines.push(line(3, "qmgr", "A00002: from=<ann@example.org>, size=1, nrcpt=1 (queue active)"));
    lines.push(to("smtp", "A00002", "<bob@example.net>", "sent (250 Ok)"));
    assert_eq!(reported(&lines), ["A00001 bob@example.net deferred ours", "A00002 bob@example.net sent ours"]);
}

#[test]
fn what_the_operator_deletes_has_failed() {
    let mut lines = begin("A00001", "unknown[127.0.0.1]", "api/smtpd").to_vec();
    lines.push(to("smtp", "A00001", "<bob@example.net>", "deferred (later)"));
    lines.push(to("smtp", "A00001", "<eve@example.net>", "sent (250 Ok)"));
    lines.push(line(3, "postsuper", "A00001: removed"));
    let expected = [
        "A00001 bob@example.net deferred ours",
        "A00001 eve@example.net sent ours",
        "A00001 bob@example.net bounced ours",
    ];
    assert_eq!(reported(&lines), expected);
}

/// The line of a header check that discards a message.
fn discard(id: &str, sender: &str) -> String {
    let said = "discard: header Subject: x from unknown[127.0.0.1]";
    line(
        1,
        "cleanup",
        &format!("{id}: {said}; from=<{sender}> to=<bob@example.net> proto=ESMTP helo=<api>: no adverts"),
    )
}

#[test]
fn a_discarded_copy_does_not_affect_the_message() {
    let returns = ReturnAddress::new("bounces@example.org".parse().unwrap(), '+', &BounceKey::new([1; 32])).unwrap();
    let sender = returns.of(OURS.parse().unwrap());
    let [filter_client, id_line, _] = begin("A00002", "localhost[127.0.0.1]", "smtpd");
    let pickup = line(1, "pickup", "A00002: uid=102 from=<ann@example.org>");
    let first = begin("A00001", "unknown[127.0.0.1]", "api/smtpd").concat();
    let removed = first.clone() + &line(1, "qmgr", "A00001: removed");
    let copies = [
        // A content filter returns it, and a header before the Message-ID may trigger the rule.
        first.clone() + &filter_client + &id_line,
        first.clone() + &filter_client,
        // A member of an alias receives it from `local`.
        first + &id_line,
        // A content filter passes it to sendmail(1) without waiting.
        removed + &pickup + &id_line,
    ];
    for copy in copies {
        let log = TestLog::new();
        let mut reader = Reader::new(&log);
        reader.follow.submitted_ids().recognise(returns.clone());
        log.append(&copy);
        reader.read_all();
        reader.restart(&log);
        reader.follow.submitted_ids().recognise(returns.clone());
        log.append(&discard("A00002", sender.as_str()));
        assert_eq!(reader.read_all().discarded, [], "{copy}");
    }
}

#[test]
fn a_discard_is_reported_for_the_known_message() {
    let returns = ReturnAddress::new("bounces@example.org".parse().unwrap(), '+', &BounceKey::new([1; 32])).unwrap();
    let log = TestLog::new();
    let mut reader = Reader::new(&log);
    reader.follow.submitted_ids().recognise(returns.clone());
    // No line identifies this one.
    log.append(&line(1, "api/smtpd", "A00001: client=unknown[127.0.0.1]"));
    log.append(&discard("A00001", "ann@example.org"));
    assert_eq!(reader.read_all().discarded, []);
    // The session refused a recipient in an earlier transaction, and another one in this one.
    let refused = |id: &str, sender: &str, to: &str| {
        let said = format!("{id}: reject: RCPT from unknown[127.0.0.1]: 550 5.1.1 <{to}>: unknown");
        line(1, "api/smtpd", &format!("{said}; from=<{sender}> to=<{to}> proto=ESMTP helo=<api>"))
    };
    let earlier = refused("NOQUEUE", "eve@example.org", "earlier@example.net");
    let now = refused("A00002", "ann@example.org", "no@example.net");
    let [client, message_id, _] = begin("A00002", "unknown[127.0.0.1]", "api/smtpd");
    log.append(&[earlier, client, now, message_id].concat());
    log.append(&discard("A00002", "ann@example.org"));
    log.append(&discard("A00003", returns.of(OURS.parse().unwrap()).as_str()));
    reader.read_all();
    let ids = |one: &mailapi_backend::Discarded| (one.queue_id.0.clone(), one.message_id.to_string());
    let expected = ["A00002", "A00003"].map(|id| (id.to_owned(), OURS.to_owned()));
    assert_eq!(reader.discarded.iter().map(ids).collect::<Vec<_>>(), expected);
    assert_eq!(reader.discarded[0].refused, ["no@example.net".parse().unwrap()]);
    assert!(reader.discarded.iter().all(|one| one.response.ends_with("from unknown[127.0.0.1]: no adverts")));
    assert_eq!((reader.follow.open_messages(), reader.reported()), (0, Vec::new()));
}

#[test]
fn messages_without_a_word_are_forgotten_in_time() {
    let mut log = TestLog::new();
    log.settings.save_every_bytes = 1;
    log.settings.max_open_messages = 2;
    for id in ["A00001", "A00002", "A00003", "A00004"] {
        log.append(&begin(id, "unknown[127.0.0.1]", "api/smtpd").concat());
    }
    let mut reader = Reader::new(&log);
    reader.read_all();
    assert_eq!((reader.follow.open_messages(), reader.follow.status().forgotten_messages), (2, 2));
    log.append("Dec 20 08:00:00 mx postfix/qmgr[1]: A00009: from=<ann@example.org>, size=1, nrcpt=1 (queue active)\n");
    log.clock.advance(std::time::Duration::from_secs(29 * 24 * 3600));
    reader.read_all();
    assert_eq!(reader.follow.open_messages(), 1);
}

#[test]
fn without_its_message_id_line_the_return_address_identifies() {
    let key = |byte| BounceKey::new([byte; BounceKey::BYTES]);
    let addresses = |key| ReturnAddress::new("bounces@example.org".parse().unwrap(), '+', &key).unwrap();
    let log = TestLog::new();
    let mut reader = Reader::new(&log);
    reader.follow.submitted_ids().recognise(addresses(key(1)));
    for (id, returns) in [("A00001", addresses(key(2))), ("A00002", addresses(key(1)))] {
        let sender = returns.of(OURS.parse().unwrap());
        log.append(&line(1, "qmgr", &format!("{id}: from=<{sender}>, size=1, nrcpt=1 (queue active)")));
        log.append(&to("lmtp", id, "<bob@example.org>", "sent (250 Saved)"));
    }
    // Anyone can write an identifier into a reverse-path.
    let expected = ["A00001 bob@example.org sent other", "A00002 bob@example.org sent ours"];
    assert_eq!(outcomes(&reader.read_all().events), expected);
}

#[test]
fn without_its_message_id_line_the_reply_identifies() {
    let log = TestLog::new();
    let mut reader = Reader::new(&log);
    let noted = |id: &str| mailapi_model::QueueId(id.to_owned());
    let now = "2026-11-21T08:00:00Z".parse().unwrap();
    for id in ["A00001", "A00002"] {
        reader.follow.submitted_ids().note(&noted(id), OURS.parse().unwrap(), now);
    }
    log.append(&line(1, "qmgr", "A00001: from=<ann@example.org>, size=1, nrcpt=1 (queue active)"));
    log.append(&to("lmtp", "A00001", "<bob@example.org>", "sent (250 Saved)"));
    // Long after the reply, the same id belongs to another message.
    log.append(&line(7200, "qmgr", "A00002: from=<ann@example.org>, size=1, nrcpt=1 (queue active)"));
    log.append(&to("lmtp", "A00002", "<bob@example.org>", "sent (250 Saved)"));
    let expected = ["A00001 bob@example.org sent ours", "A00002 bob@example.org sent other"];
    assert_eq!(outcomes(&reader.read_all().events), expected);
}
