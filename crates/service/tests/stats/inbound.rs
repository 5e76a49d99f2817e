//! Counts of mail from outside, as reported by the listeners.

use mailapi_backend::InboundLog;
use mailapi_model::DomainName;
use mailapi_service::Caller;
use mailapi_service::stats::{InboundCounts, InboundEvent, InboundOutcome, PeriodQuery};
use mailapi_testkit::TestApp;

use crate::moment;

#[tokio::test]
async fn only_mail_for_local_domains_is_counted() {
    let app = TestApp::start().await;
    app.domain("one.example").await;
    let tell = |domain: &str, outcome| {
        app.service.note(InboundEvent {
            at: moment("2026-11-20T09:00:00Z"),
            domain: domain.parse().unwrap(),
            sender_domain: None,
            outcome,
        });
    };
    // A relay attempt, and a foreign domain with a similar name.
    tell("elsewhere.example", InboundOutcome::Rejected);
    tell("sub.one.example", InboundOutcome::Rejected);
    tell("one.example", InboundOutcome::Rejected);
    tell("one.example", InboundOutcome::Accepted);
    assert_eq!(app.service.write_inbound_once().await.unwrap(), 2);
    assert_eq!(app.service.write_inbound_once().await.unwrap(), 0);

    app.service.roll_up_once().await.unwrap();
    // A domain created later starts without counts.
    app.domain("elsewhere.example").await;
    let admin = Caller::operator();
    for (name, expected) in [
        ("one.example", InboundCounts { accepted: 1, rejected: 1, spam: 0 }),
        ("elsewhere.example", InboundCounts::default()),
    ] {
        let name: DomainName = name.parse().unwrap();
        assert_eq!(app.service.domain_stats(&admin, &name, PeriodQuery::default()).await.unwrap().inbound, expected);
    }
}
