//! The sample, a real log of every case, and its events. `sample.events` was checked by hand, case by case.

use super::support::{Reader, SAMPLE, TestLog, events_of};
use mailapi_model::InboundOutcome;

#[test]
fn the_sample_means_what_was_checked_by_hand() {
    let events = events_of(SAMPLE).join("\n") + "\n";
    assert!(events == include_str!("sample.events"), "the events are now:\n{events}");
}

#[test]
fn refusals_on_arrival_and_local_deliveries_are_inbound_mail() {
    let log = TestLog::new();
    log.append(SAMPLE);
    let mut reader = Reader::new(&log);
    let inbound = &reader.read_all().inbound;
    let reported: Vec<String> =
        inbound.iter().map(|report| format!("{} {:?}", report.domain.as_str(), report.outcome)).collect();
    let rejected = ["example.org", "relay.example.net", "example.org", "example.org"];
    assert_eq!(reported, rejected.map(|domain| format!("{domain} Rejected")));
}

#[test]
fn inbound_mail_counts_at_delivery_with_its_spam_mark() {
    let log = TestLog::new();
    for (id, spam) in [("A00001", false), ("A00002", true)] {
        log.append(&super::support::line(1, "smtpd", &format!("{id}: client=mx.example.net[192.0.2.9]")));
        if spam {
            let report = "warning: header X-Spam-Flag: YES from mx.example.net[192.0.2.9]; from=<x@example.net> to=<bob@example.org>";
            log.append(&super::support::line(1, "cleanup", &format!("{id}: {report}")));
        }
        log.append(&super::support::line(1, "cleanup", &format!("{id}: message-id=<{id}@example.net>")));
        log.append(&super::support::line(
            1,
            "qmgr",
            &format!("{id}: from=<x@example.net>, size=1, nrcpt=1 (queue active)"),
        ));
        let to = format!(
            "{id}: to=<bob@example.org>, relay=mx[/run/lmtp], delay=1, delays=1/0/0/0, dsn=2.0.0, status=sent (250 Saved)"
        );
        log.append(&super::support::line(2, "lmtp", &to));
    }
    let mut reader = Reader::new(&log);
    let outcomes: Vec<_> = reader.read_all().inbound.iter().map(|report| report.outcome).collect();
    assert_eq!(outcomes, [InboundOutcome::Accepted, InboundOutcome::Spam]);
    assert_eq!(reader.inbound[0].sender_domain, "example.net".parse().ok());
}
