//! Events that are counted, and the time of counting.

use std::time::Duration;

use mailapi_model::DomainName;
use mailapi_service::Caller;
use mailapi_service::stats::{
    DeliveryQuery, GroupBy, InboundCounts, InboundEvent, InboundOutcome, PeriodQuery, SentCounts, StatsError,
    delivery_rate,
};
use mailapi_testkit::TestApp;

use crate::{between, busy, delivered, grouped, moment, send};

const HOUR: Duration = Duration::from_secs(60 * 60);

async fn app() -> TestApp {
    let app = TestApp::start().await;
    app.mailbox("ann@one.example", None).await;
    app.mailbox("eve@two.example", None).await;
    app
}

#[tokio::test]
async fn a_period_that_cannot_be_shown_is_refused() {
    let app = app().await;
    let admin = Caller::operator();
    let reversed = DeliveryQuery { period: between("2026-11-20", "2026-11-19"), ..DeliveryQuery::default() };
    let endless = DeliveryQuery { period: between("1990-01-01", "2026-11-19"), ..DeliveryQuery::default() };
    let detailed = DeliveryQuery { period: between("2020-01-01", "2026-11-19"), ..grouped(GroupBy::Hour) };
    for (query, field) in [(reversed, "end_date"), (endless, "start_date"), (detailed, "group_by")] {
        match app.service.delivery_stats(&admin, query).await {
            Err(StatsError::Invalid(violations)) => assert_eq!(violations.all()[0].field, field),
            other => panic!("{field}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn every_recipient_counts_with_its_present_state() {
    let app = app().await;
    let admin = Caller::operator();
    let empty = app.service.delivery_stats(&admin, DeliveryQuery::default()).await.unwrap();
    assert_eq!(busy(&empty), (vec![], 8), "seven days back from a morning touch eight days");
    assert_eq!(
        (empty.period.start, empty.period.end),
        (moment("2026-11-13T10:15:30Z"), moment("2026-11-20T10:15:30Z"))
    );

    send(&app, "ann@one.example", &["eve@two.example", "nobody@two.example"]).await;
    app.clock.advance(24 * HOUR);
    send(&app, "ann@one.example", &["eve@two.example"]).await;
    let stats = app.service.delivery_stats(&admin, DeliveryQuery::default()).await.unwrap();
    let unknown = SentCounts { bounced: stats.summary.bounced, rejected: stats.summary.rejected, ..delivered(0) };
    assert_eq!(unknown.bounced + unknown.rejected, 1, "refused at submission, or given back");
    assert!((delivery_rate(&stats.summary) - 66.67).abs() < f64::EPSILON);
    let first = SentCounts { sent: 1 + unknown.bounced, delivered: 1, ..unknown };
    let days = vec![("2026-11-20".to_owned(), first), ("2026-11-21".to_owned(), delivered(1))];
    assert_eq!(busy(&stats), (days, 8));
}

#[tokio::test]
async fn counts_are_broken_down_by_hour_and_recipient_domain() {
    let app = app().await;
    let admin = Caller::operator();
    send(&app, "ann@one.example", &["ann@one.example", "eve@two.example"]).await;
    app.clock.advance(HOUR);
    send(&app, "ann@one.example", &["eve@two.example"]).await;

    let hourly = app.service.delivery_stats(&admin, grouped(GroupBy::Hour)).await.unwrap();
    let hours = [("2026-11-20T10:00:00Z", 2), ("2026-11-20T11:00:00Z", 1)];
    let expected = hours.map(|(hour, count)| (hour.to_owned(), delivered(count))).to_vec();
    assert_eq!(busy(&hourly), (expected, 7 * 24 + 1));
    assert_eq!(hourly.summary, delivered(3));
    let by_domain = app.service.delivery_stats(&admin, grouped(GroupBy::Domain)).await.unwrap();
    let expected = vec![("two.example".to_owned(), delivered(2)), ("one.example".to_owned(), delivered(1))];
    assert_eq!(busy(&by_domain), (expected, 2));
    assert_eq!(by_domain.summary, delivered(3));

    let earlier = DeliveryQuery { period: between("2026-11-20", "2026-11-20T11:00:00Z"), ..grouped(GroupBy::Domain) };
    assert_eq!(app.service.delivery_stats(&admin, earlier).await.unwrap().summary, delivered(2));
}

#[tokio::test]
async fn a_domain_shows_where_its_mail_goes_and_comes_from() {
    let app = app().await;
    let admin = Caller::operator();
    let two: DomainName = "two.example".parse().unwrap();
    send(&app, "eve@two.example", &["ann@one.example", "eve@two.example"]).await;
    send(&app, "eve@two.example", &["ann@one.example"]).await;
    send(&app, "ann@one.example", &["eve@two.example"]).await;
    let from_outside = |sender: &str, outcome| InboundEvent {
        at: moment("2026-11-20T09:00:00Z"),
        domain: two.clone(),
        sender_domain: Some(sender.parse().unwrap()),
        outcome,
    };
    let events = [
        from_outside("friend.example", InboundOutcome::Accepted),
        from_outside("evil.example", InboundOutcome::Rejected),
        from_outside("evil.example", InboundOutcome::Rejected),
        from_outside("odd.example", InboundOutcome::Spam),
        from_outside("friend.example", InboundOutcome::Accepted),
    ];
    app.service.record_inbound(&events).await.unwrap();
    assert_eq!(app.service.roll_up_once().await.unwrap().changes, 5);

    let stats = app.service.domain_stats(&admin, &two, PeriodQuery::default()).await.unwrap();
    let shown = |counts: &[mailapi_service::stats::DomainCount]| {
        counts.iter().map(|one| (one.domain.to_string(), one.count)).collect::<Vec<_>>()
    };
    assert_eq!(stats.outbound, delivered(3));
    assert_eq!(shown(&stats.top_recipients), [("one.example".to_owned(), 2), ("two.example".to_owned(), 1)]);
    assert_eq!(stats.inbound, InboundCounts { accepted: 3, rejected: 2, spam: 1 });
    assert_eq!(shown(&stats.top_senders), [("friend.example".to_owned(), 2), ("odd.example".to_owned(), 1)]);

    let before = app.service.domain_stats(&admin, &two, between("2026-11-01", "2026-11-19")).await.unwrap();
    assert_eq!((before.outbound, before.inbound), (delivered(0), InboundCounts::default()));
    assert!(before.top_recipients.is_empty() && before.top_senders.is_empty());
}
