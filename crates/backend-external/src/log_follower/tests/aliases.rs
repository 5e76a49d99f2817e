//! Recipients that expand to other addresses: what is reported for an address, and when for the recipient.

use super::support::{OURS, Reader, TestLog, line};
use mailapi_model::{DeliveryEvent, EmailAddress};

/// Formats recipient, tried address and outcome.
fn shown(event: &DeliveryEvent) -> String {
    let tried = event.final_recipient.as_ref().map_or("-", EmailAddress::as_str);
    format!("{} {tried} {}", event.recipient.as_str(), event.outcome.as_str())
}

fn reported(lines: &[String]) -> Vec<String> {
    let log = TestLog::new();
    log.append(&lines.concat());
    Reader::new(&log).read_all().events.iter().map(shown).collect()
}

/// Begins a submitted message to this number of addresses.
fn begin(id: &str, addresses: u32) -> Vec<String> {
    vec![
        line(1, "api/smtpd", &format!("{id}: client=unknown[127.0.0.1]")),
        line(1, "cleanup", &format!("{id}: message-id=<{OURS}@example.org>")),
        line(1, "qmgr", &format!("{id}: from=<ann@example.org>, size=1, nrcpt={addresses} (queue active)")),
    ]
}

/// An attempt for a member of the alias team.
fn member(id: &str, address: &str, outcome: &str) -> String {
    let text = "relay=x[127.0.0.1]:25, delay=1, delays=1/0/0/0, dsn=5.1.1";
    line(2, "smtp", &format!("{id}: to=<{address}>, orig_to=<team@example.org>, {text}, status={outcome}"))
}

fn removed(id: &str) -> String {
    line(3, "qmgr", &format!("{id}: removed"))
}

#[test]
fn a_member_that_bounced_is_no_bounce_of_the_alias() {
    let (bounced, sent) =
        (member("A1000", "a@x.example", "bounced (no)"), member("A1000", "b@x.example", "sent (250)"));
    let reported_after = |first: &String, second: &String| {
        let mut lines = begin("A1000", 2);
        lines.extend([first.clone(), second.clone(), removed("A1000")]);
        reported(&lines)
    };
    let mut expected = ["team@example.org a@x.example bounced", "team@example.org b@x.example sent"];
    assert_eq!(reported_after(&bounced, &sent), expected);
    expected.reverse();
    assert_eq!(reported_after(&sent, &bounced), expected);
}

#[test]
fn an_alias_has_bounced_when_all_members_have() {
    let mut lines = begin("A1000", 2);
    lines.push(member("A1000", "a@x.example", "bounced (no)"));
    lines.push(member("A1000", "b@x.example", "deferred (later)"));
    lines.push(line(9, "qmgr", "A1000: from=<ann@example.org>, status=expired, returned to sender"));
    let mut expected = vec![
        "team@example.org a@x.example bounced",
        "team@example.org b@x.example deferred",
        "team@example.org b@x.example expired",
    ];
    assert_eq!(reported(&lines), expected);
    lines.push(removed("A1000"));
    expected.push("team@example.org - expired");
    assert_eq!(reported(&lines), expected);
}

#[test]
fn what_the_operator_deletes_has_failed_for_the_alias_too() {
    let mut lines = begin("A1000", 1);
    lines.push(member("A1000", "a@x.example", "deferred (later)"));
    lines.push(line(9, "postsuper", "A1000: removed"));
    let expected =
        ["team@example.org a@x.example deferred", "team@example.org a@x.example bounced", "team@example.org - bounced"];
    assert_eq!(reported(&lines), expected);
}

#[test]
fn without_the_line_of_a_member_not_all_have_failed() {
    let mut lines = begin("A1000", 2);
    lines.extend([member("A1000", "a@x.example", "bounced (no)"), removed("A1000")]);
    assert_eq!(reported(&lines), ["team@example.org a@x.example bounced"]);
    // Remove the line with the number of addresses.
    let mut lines = begin("A1000", 1);
    lines.remove(2);
    lines.extend([member("A1000", "a@x.example", "bounced (no)"), removed("A1000")]);
    assert_eq!(reported(&lines), ["team@example.org a@x.example bounced"]);
}

#[test]
fn after_a_content_filter_alias_members_of_all_copies_count() {
    for (second, whole) in [("sent (250)", None), ("bounced (no)", Some("team@example.org - bounced"))] {
        let mut lines = begin("A1000", 2);
        for (id, address) in [("A2000", "a@x.example"), ("A3000", "b@x.example")] {
            lines.extend(begin(id, 1));
            lines.push(member("A1000", address, &format!("sent (250 2.0.0 Ok: queued as {id})")));
        }
        // The first message leaves before the second address is tried.
        lines.extend([member("A2000", "a@x.example", "bounced (no)"), removed("A2000"), removed("A1000")]);
        lines.extend([member("A3000", "b@x.example", second), removed("A3000")]);
        let outcome = second.split(' ').next().unwrap();
        let mut expected =
            vec!["team@example.org a@x.example bounced".to_owned(), format!("team@example.org b@x.example {outcome}")];
        expected.extend(whole.map(str::to_owned));
        assert_eq!(reported(&lines), expected);
    }
}

#[test]
fn what_was_put_back_into_the_queue_still_counts() {
    let mut lines = begin("A1000", 2);
    lines.push(member("A1000", "a@x.example", "bounced (no)"));
    lines.push(member("A1000", "b@x.example", "deferred (later)"));
    lines.push(line(3, "postsuper", "A1000: requeued"));
    lines.push(line(3, "pickup", "A2000: uid=102 from=<ann@example.org> orig_id=A1000"));
    lines.extend(begin("A2000", 1).into_iter().skip(1));
    lines.push(member("A2000", "b@x.example", "bounced (no)"));
    lines.push(removed("A2000"));
    assert_eq!(reported(&lines).last().unwrap(), "team@example.org - bounced");
    assert_eq!(reported(&lines).len(), 4);
}

#[test]
fn killed_after_every_line_it_knows_the_members() {
    let mut lines = begin("A1000", 3);
    lines.push(member("A1000", "a@x.example", "bounced (no)"));
    lines.push(member("A1000", "b@x.example", "deferred (later)"));
    lines.push(member("A1000", "c@x.example", "bounced (no\twhere)"));
    lines.push(member("A1000", "b@x.example", "bounced (never)"));
    lines.push(removed("A1000"));
    let mut log = TestLog::new();
    log.settings.save_every_bytes = 1;
    let mut reader = Reader::new(&log);
    for line in &lines {
        log.append(line);
        reader.read_all();
        reader.restart(&log);
    }
    let events: Vec<_> = reader.events.iter().map(shown).collect();
    assert_eq!(events, reported(&lines));
    assert_eq!(events.last().unwrap(), "team@example.org - bounced");
    assert_eq!(reader.events.last().unwrap().response, "never");
}
