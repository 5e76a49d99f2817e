//! Stories of the statistics over the real store and the real message store.

mod counts;
mod inbound;
mod rights;

use mailapi_model::{Draft, DraftFields, DraftLimits, EmailAddress, Grants, Permission, Timestamp};
use mailapi_service::Caller;
use mailapi_service::mail::SendRequest;
use mailapi_service::stats::{DeliveryQuery, DeliveryStats, GroupBy, PeriodQuery, SentCounts};
use mailapi_testkit::TestApp;

/// Sends a short text as the operator, and waits for its outcome.
async fn send(app: &TestApp, from: &str, to: &[&str]) {
    let fields = DraftFields {
        from: from.into(),
        to: to.iter().map(ToString::to_string).collect(),
        text: Some("A short text.".into()),
        ..DraftFields::default()
    };
    let request = SendRequest { draft: Draft::parse(fields, &DraftLimits::default()).unwrap(), idempotency: None };
    app.service.send(&Caller::operator(), request).await.unwrap();
    app.settle().await;
    while app.service.roll_up_once().await.unwrap().more {}
}

/// The owner of a mailbox, with these permissions.
fn owner(email: &str, delegated: &[(Permission, &str)]) -> Caller {
    let delegated = delegated.iter().map(|(permission, domain)| (*permission, domain.parse().unwrap())).collect();
    Caller::without_token(Grants::of_mailbox(address(email), false, delegated))
}

fn address(text: &str) -> EmailAddress {
    text.parse().unwrap()
}

fn moment(text: &str) -> Timestamp {
    Timestamp::parse_date_or_time(text).unwrap()
}

fn between(start: &str, end: &str) -> PeriodQuery {
    PeriodQuery { start: Some(moment(start)), end: Some(moment(end)) }
}

fn from_sender(sender: &str) -> DeliveryQuery {
    DeliveryQuery { sender: Some(sender.parse().unwrap()), ..DeliveryQuery::default() }
}

fn grouped(group_by: GroupBy) -> DeliveryQuery {
    DeliveryQuery { group_by, ..DeliveryQuery::default() }
}

/// The buckets with sent or rejected mail, and the number of all buckets.
fn busy(stats: &DeliveryStats) -> (Vec<(String, SentCounts)>, usize) {
    let busy = stats.breakdown.iter().filter(|entry| entry.counts != SentCounts::default());
    (busy.map(|entry| (entry.bucket.to_string(), entry.counts)).collect(), stats.breakdown.len())
}

const fn delivered(count: u64) -> SentCounts {
    SentCounts { sent: count, delivered: count, bounced: 0, deferred: 0, rejected: 0 }
}
