//! Mail that mailboxes received: which deliveries count, and that each is reported once.

use super::support::{OURS, Reader, TestLog, line};

/// Returns the lines of a message from this client, with a delivery by this daemon.
fn delivery(id: &str, client: &str, daemon: &str, to: &str, rest: &str) -> String {
    [
        line(1, "smtpd", &format!("{id}: client={client}")),
        line(1, "cleanup", &format!("{id}: message-id=<{id}@example.net>")),
        line(1, "qmgr", &format!("{id}: from=<eve@example.net>, size=1, nrcpt=1 (queue active)")),
        line(2, daemon, &format!("{id}: to=<{to}>, {rest}")),
        line(2, "qmgr", &format!("{id}: removed")),
    ]
    .concat()
}

fn sent(relay: &str, response: &str) -> String {
    format!("relay={relay}, delay=1, delays=1/0/0/0, dsn=2.0.0, status=sent ({response})")
}

/// Formats what a reader got: queue id, mailbox and Message-ID. The recipient is in front of the mailbox if it is another.
fn shown(reader: &Reader) -> Vec<String> {
    let one = |mail: &mailapi_model::ReceivedMail| {
        let recipient = mail.recipient.as_ref().filter(|recipient| **recipient != mail.mailbox);
        let before = recipient.map_or(String::new(), |recipient| format!("{} -> ", recipient.as_str()));
        let id = mail.header_id.as_deref().unwrap_or("-");
        format!("{} {before}{} {id}", mail.queue_id, mail.mailbox.as_str())
    };
    reader.received.iter().map(one).collect()
}

fn received(lines: &str) -> Vec<String> {
    let log = TestLog::new();
    log.append(lines);
    shown(Reader::new(&log).read_all())
}

const OUTSIDE: &str = "mx.example.net[192.0.2.1]";
const SAVED: &str = "250 2.0.0 <bob@example.org> 9JCrBxpM Saved";

#[test]
fn what_reaches_no_mailbox_is_not_received() {
    let later = "relay=mx[/run/lmtp], delay=1, delays=1/0/0/0, dsn=4.2.0, status=deferred (450 4.2.0 later)";
    for (daemon, rest) in [
        ("smtp", sent("mx[192.0.2.9]:25", "250 2.0.0 Ok")),
        ("lmtp", later.to_owned()),
        (
            "lmtp",
            sent("127.0.0.1[127.0.0.1]:10024", "250 2.0.0 from MTA(smtp:[127.0.0.1]:10025): 250 Ok: queued as A9"),
        ),
        ("pipe", sent("spamassassin", "delivered via spamassassin service")),
        ("local", sent("local", "forwarded as A9")),
        ("local", sent("local", "delivered to file: /var/log/all")),
        ("discard", sent("none", "x")),
    ] {
        assert_eq!(received(&delivery("A1000", OUTSIDE, daemon, "bob@example.org", &rest)), [""; 0], "{daemon} {rest}");
    }
}

#[test]
fn each_delivery_to_a_mailbox_is_received() {
    for (daemon, rest) in [
        ("lmtp", sent("mx[/run/lmtp]", SAVED)),
        ("virtual", sent("virtual", "delivered to maildir")),
        ("local", sent("local", "delivered to mailbox")),
        ("local", sent("local", "delivered to command: /usr/lib/dovecot/deliver")),
        ("pipe", sent("dovecot", "delivered via dovecot service")),
    ] {
        let lines = delivery("A1000", OUTSIDE, daemon, "bob+x@example.org", &rest);
        assert_eq!(received(&lines), ["A1000 bob+x@example.org <A1000@example.net>"], "{daemon} {rest}");
    }
    // The recipient is the address before the alias.
    let of_alias = format!("orig_to=<Sales@example.org>, {}", sent("mx[/run/lmtp]", SAVED));
    let lines = delivery("A1000", OUTSIDE, "lmtp", "bob@example.org", &of_alias);
    assert_eq!(received(&lines), ["A1000 sales@example.org -> bob@example.org <A1000@example.net>"]);
    // From another user of this server, and from the API.
    let local = delivery("A1000", "mx[127.0.0.1], sasl_username=ann", "lmtp", "bob@example.org", &sent("mx", SAVED));
    assert_eq!(received(&local).len(), 1);
    let ours = local.replace("A1000@example.net", &format!("{OURS}@example.org"));
    assert_eq!(received(&ours), [format!("A1000 bob@example.org <{OURS}@example.org>")]);
}

#[test]
fn a_message_of_an_overlong_identifier_has_none() {
    let lines = delivery("A1000", OUTSIDE, "lmtp", "bob@example.org", &sent("mx", SAVED));
    let lines = lines.replace("<A1000@example.net>", &"x".repeat(1_000));
    assert_eq!(received(&lines), ["A1000 bob@example.org -"]);
}

#[test]
fn restarts_neither_lose_nor_repeat_received_mail() {
    let expected: Vec<_> = (1..20).map(|n| format!("A10{n:02} bob@example.org <A10{n:02}@example.net>")).collect();
    for (max, saves) in [(1, false), (1, true), (3, true), (500, false)] {
        let log = TestLog::new();
        let mut reader = Reader::new(&log);
        for n in 1..20 {
            let rest = sent("mx[/run/lmtp]", SAVED);
            log.append(&delivery(&format!("A10{n:02}"), OUTSIDE, "lmtp", "bob@example.org", &rest));
            let more = reader.step(max).more;
            // A batch that the reader could not store comes again.
            let unstored = reader.follow.read(&reader.cursor, max).unwrap();
            reader.restart(&log);
            assert_eq!(reader.follow.read(&reader.cursor, max).unwrap(), unstored);
            if saves && !more {
                reader.follow.stop().unwrap();
            }
        }
        reader.read_all();
        assert_eq!(shown(&reader), expected, "{max} {saves}");
    }
}
