//! Statistics: plots, each with its table.
//!
//! Counts of sent and received mail come from the statistics of a period. Delays, next hops and classes of bounces come
//! from the newest events, in a part of the log that has a limit. Attempts of webhooks come from this process's metrics.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use mailapi_http::HttpState;
use mailapi_model::{Page, Permission, Timestamp, Violations};
use mailapi_service::Service;
use mailapi_service::events::{EventQuery, EventType, StoredEvent, TypePattern, event_facts};
use mailapi_service::queue::QueueFilter;
use mailapi_service::stats::{Bucket, DeliveryQuery, GroupBy, PeriodQuery, SentCounts};
use mailapi_service::users::UserQuery;

use super::events::newest;
use crate::answer::{Answer, render};
use crate::failure::Failure;
use crate::fields::{Fields, Query};
use crate::frame::Frame;
use crate::plot::{Column, Plot, Point};
use crate::session::Session;
use crate::show::{self, Moment};

/// Positions of the log in which events are looked for.
const LOOKED_AT: u64 = 2000;
/// Maximum number of rows in a plot of names.
const MOST_ROWS: usize = 10;
/// Maximum number of domains whose mail from outside is counted: each takes several queries.
const MOST_DOMAINS: u32 = 10;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The periods to choose from: their name in the query, their name, their days, and their buckets.
const PERIODS: [(&str, &str, u32, GroupBy); 4] = [
    ("day", "24 hours", 1, GroupBy::Hour),
    ("week", "7 days", 7, GroupBy::Day),
    ("month", "30 days", 30, GroupBy::Day),
    ("quarter", "90 days", 90, GroupBy::Day),
];

#[derive(Template)]
#[template(path = "statistics.html")]
struct StatisticsPage {
    frame: Frame,
    filters: Fields,
    period: &'static str,
    periods: &'static [(&'static str, &'static str, u32, GroupBy)],
    figures: Vec<Figure>,
}

/// A plot with its table.
#[derive(Default)]
struct Figure {
    id: &'static str,
    title: &'static str,
    /// Where the figures come from.
    about: String,
    /// The class of the style and the name of each part.
    legend: &'static [(&'static str, &'static str)],
    plot: String,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Figure {
    fn drawn(self, plot: &Plot) -> Result<Self, Failure> {
        Ok(Self { plot: plot.render().map_err(Failure::template)?, ..self })
    }
}

/// `GET /stats/delivery`, `/stats/domain/{domain}`, `/events`, `/queue`, `/users` and the metrics.
pub(crate) async fn show(State(state): State<HttpState>, session: Session, Query(filters): Query) -> Answer {
    let service = state.service();
    let chosen = PERIODS.iter().find(|(name, ..)| *name == filters.text("period")).unwrap_or(&PERIODS[1]);
    let start = service.clock().now().minus(DAY * chosen.2);
    let mut violations = Violations::none();
    let sender = filters.parsed("sender", &mut violations);
    let period = PeriodQuery { start: Some(start), end: None };
    let wanted = violations.or(Some(DeliveryQuery { period, sender, group_by: chosen.3 }))?;
    let mut figures = vec![delivery(service, &session, wanted).await?];
    let events = attempts(service, &session, start).await?;
    figures.push(delays(&events, chosen.3)?);
    figures.extend(named_figures(&events)?);
    figures.extend(inbound(service, &session, period).await?);
    figures.extend(storage(service, &session).await?);
    if session.caller.grants.admin().is_ok() {
        figures.extend(queue(service, &session).await?);
        figures.push(webhooks(&service.scrape().await)?);
    }
    let frame = Frame::new(&session, "Statistics")
        .call("GET /stats/delivery", "Every caller: their own mailbox. view_stats adds a domain. Admins: all.")
        .call("GET /stats/domain/{domain}", "view_stats on the domain, and admins.")
        .call("GET /events", "Every caller: events of their own mailbox. view_stats adds a domain. Admins: all.")
        .call("GET /users", "manage_users on the domain, and admins.")
        .call("GET /queue", "Admins.");
    render(&StatisticsPage { frame, filters, period: chosen.0, periods: &PERIODS, figures })
}

async fn delivery(service: &Service, session: &Session, wanted: DeliveryQuery) -> Result<Figure, Failure> {
    let stats = service.delivery_stats(&session.caller, wanted).await?;
    let rows = stats.breakdown.iter().map(|entry| {
        let SentCounts { sent, delivered, bounced, deferred, rejected } = entry.counts;
        let counts = [sent, delivered, deferred, bounced, rejected].map(|count| count.to_string());
        std::iter::once(entry.bucket.to_string()).chain(counts).collect()
    });
    let rows = rows.collect();
    let columns: Vec<_> = stats.breakdown.iter().map(|entry| sent_column(short(&entry.bucket), entry.counts)).collect();
    let figure = Figure {
        id: "delivery",
        title: "Delivery",
        about: "Recipients by their present status, at the time (UTC) when the mail was sent.".to_owned(),
        legend: &SENT_PARTS,
        head: vec!["Time (UTC)", "Sent", "Delivered", "Deferred", "Bounced", "Rejected"],
        rows,
        ..Figure::default()
    };
    figure.drawn(&Plot::columns("Recipients by their present status; the table has the figures", &columns))
}

/// The parts of a column of sent mail.
pub(crate) const SENT_PARTS: [(&str, &str); 4] =
    [("sent", "delivered"), ("open", "on their way"), ("deferred", "deferred"), ("bounced", "bounced or rejected")];

/// A column of sent mail.
pub(crate) fn sent_column(label: String, counts: SentCounts) -> Column {
    let SentCounts { sent, delivered, bounced, deferred, rejected } = counts;
    let open = sent.saturating_sub(delivered + bounced + deferred);
    let counts = [delivered, open, deferred, bounced + rejected];
    Column {
        label,
        parts: SENT_PARTS.iter().zip(counts).map(|((class, name), count)| (*class, *name, count)).collect(),
    }
}

/// `11-20`, or `10:00`.
fn short(bucket: &Bucket) -> String {
    let text = bucket.to_string();
    let part = match bucket {
        Bucket::Day(_) => text.get("2026-".len()..),
        Bucket::Hour(_) => text.get("2026-11-20T".len().."2026-11-20T10:00".len()),
        Bucket::Domain(_) => None,
    };
    part.unwrap_or(&text).to_owned()
}

/// What an event says about a delivery attempt.
struct Attempt {
    event_type: EventType,
    at: Timestamp,
    facts: BTreeMap<String, String>,
}

impl Attempt {
    fn of(event: &StoredEvent) -> Self {
        Self { event_type: event.event_type, at: event.at, facts: event_facts(&event.body).into_iter().collect() }
    }

    fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The host that was asked; the domain of the recipient if no host was reached.
    fn next_hop(&self) -> String {
        match (self.fact("relay"), self.fact("recipient.email")) {
            (Some(relay), _) => relay.split('[').next().unwrap_or(relay).to_owned(),
            (None, Some(email)) => format!("no host of {}", email.rsplit('@').next().unwrap_or(email)),
            (None, None) => "unknown".to_owned(),
        }
    }
}

/// Delivery attempts since a time, among the newest events.
async fn attempts(service: &Service, session: &Session, start: Timestamp) -> Result<Vec<Attempt>, Failure> {
    let types = [EventType::MessageDelivered, EventType::MessageDeferred, EventType::MessageBounced];
    let wanted = EventQuery { types: types.map(TypePattern::One).into(), ..EventQuery::default() };
    let found = newest(service, session, wanted, None, LOOKED_AT).await?;
    Ok(found.events.iter().filter(|event| event.at >= start).map(Attempt::of).collect())
}

fn of_events() -> String {
    format!("From the newest {LOOKED_AT} positions of the log of events, within the period.")
}

fn delays(attempts: &[Attempt], group_by: GroupBy) -> Result<Figure, Failure> {
    let length = if group_by == GroupBy::Hour { "2026-11-20 10".len() } else { "2026-11-20".len() };
    let mut delays: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for attempt in attempts.iter().filter(|attempt| attempt.event_type == EventType::MessageDelivered) {
        if let Some(delay) = attempt.fact("delay_ms").and_then(|delay| delay.parse().ok()) {
            let begin = Moment(attempt.at).to_string()[..length].to_owned();
            delays.entry(begin).or_default().push(delay);
        }
    }
    delays.values_mut().for_each(|delays| delays.sort_unstable());
    let percentiles = |delays: &[u64]| [percentile(delays, 50), percentile(delays, 99)];
    let row = |(begin, delays): (&String, &Vec<u64>)| {
        let [half, most] = percentiles(delays).map(milliseconds);
        vec![begin.clone(), delays.len().to_string(), half, most]
    };
    let point = |(begin, delays): (&String, &Vec<u64>)| Point {
        label: begin.get("2026-".len()..).unwrap_or(begin).to_owned(),
        values: Some(percentiles(delays)),
    };
    let points: Vec<_> = delays.iter().map(point).collect();
    let figure = Figure {
        id: "delays",
        title: "Delay of deliveries",
        about: of_events(),
        legend: &[("fast", "half were faster (p50)"), ("slow", "99 of 100 were faster (p99)")],
        head: vec!["Time (UTC)", "Deliveries", "p50", "p99"],
        rows: delays.iter().map(row).collect(),
        ..Figure::default()
    };
    figure.drawn(&Plot::lines("Delay of deliveries on a logarithmic scale", &points, milliseconds))
}

/// The value that `percent` of the sorted values do not exceed (nearest rank); 0 without values.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

fn milliseconds(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        60_000..3_600_000 => format!("{} min", millis / 60_000),
        _ => format!("{} h", millis / 3_600_000),
    }
}

/// Deferrals by next hop, and bounces by class.
fn named_figures(attempts: &[Attempt]) -> Result<[Figure; 2], Failure> {
    let of = |wanted| attempts.iter().filter(move |attempt| attempt.event_type == wanted);
    let hops = counted(of(EventType::MessageDeferred).map(Attempt::next_hop));
    let class = |attempt: &Attempt| attempt.fact("bounce.class").unwrap_or("unknown").to_owned();
    let classes = counted(of(EventType::MessageBounced).map(class));
    let deferrals = Figure {
        id: "deferrals",
        title: "Deferrals by next hop",
        head: vec!["Next hop", "Deferrals"],
        ..Figure::default()
    };
    let bounces =
        Figure { id: "bounces", title: "Bounces by class", head: vec!["Class", "Bounces"], ..Figure::default() };
    Ok([ranked(deferrals, hops, "deferred", "deferrals")?, ranked(bounces, classes, "bounced", "bounces")?])
}

fn counted(names: impl Iterator<Item = String>) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_insert(0) += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts.truncate(MOST_ROWS);
    counts
}

fn ranked(
    figure: Figure,
    counts: Vec<(String, u64)>,
    class: &'static str,
    what: &'static str,
) -> Result<Figure, Failure> {
    let rows = counts.iter().map(|(name, count)| vec![name.clone(), count.to_string()]).collect();
    let columns: Vec<_> =
        counts.into_iter().map(|(label, count)| Column { label, parts: vec![(class, what, count)] }).collect();
    let plot = Plot::rows(format!("{}; the table has the figures", figure.title), &columns, |count| count.to_string());
    let about = if figure.about.is_empty() { of_events() } else { figure.about };
    Figure { rows, about, ..figure }.drawn(&plot)
}

/// Mail from outside, for the newest domains whose statistics the caller may see.
async fn inbound(service: &Service, session: &Session, period: PeriodQuery) -> Result<Option<Figure>, Failure> {
    const PARTS: [(&str, &str); 3] = [("sent", "accepted"), ("deferred", "spam"), ("bounced", "rejected")];
    let domains = service.domains_stats(&session.caller, period, Page::new(MOST_DOMAINS, 0)).await?.domains;
    if domains.total == 0 {
        return Ok(None);
    }
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for domain in &domains.items {
        let counts = service.domain_stats(&session.caller, &domain.domain, period).await?.inbound;
        let label = domain.domain.shown().to_owned();
        // Accepted mail includes spam.
        let parts = [counts.accepted.saturating_sub(counts.spam), counts.spam, counts.rejected];
        rows.push(std::iter::once(label.clone()).chain(parts.map(|count| count.to_string())).collect());
        let part = |(part, count): (&(&'static str, &'static str), u64)| (part.0, part.1, count);
        columns.push(Column { label, parts: PARTS.iter().zip(parts).map(part).collect() });
    }
    let figure = Figure {
        id: "inbound",
        title: "Mail from outside",
        about: format!("Recipients in the period, for the {} newest of {} domains.", rows.len(), domains.total),
        legend: &PARTS,
        head: vec!["Domain", "Accepted", "Spam", "Rejected"],
        rows,
        ..Figure::default()
    };
    figure.drawn(&Plot::rows("Mail from outside by domain", &columns, |count| count.to_string())).map(Some)
}

/// The largest of the mailboxes on one page of users.
async fn storage(service: &Service, session: &Session) -> Result<Option<Figure>, Failure> {
    if session.may_open(Permission::ManageUsers).is_err() {
        return Ok(None);
    }
    let users = service.list_users(&session.caller, UserQuery::default(), Page::new(Page::MAX_LIMIT, 0)).await?;
    let looked_at = users.items.len();
    let used = users.items.into_iter().filter_map(|user| Some((user.account.email, user.quota?.used_bytes)));
    let mut used: Vec<_> = used.collect();
    used.sort_by_key(|(_, bytes)| Reverse(*bytes));
    used.truncate(MOST_ROWS);
    let columns: Vec<_> = used
        .into_iter()
        .map(|(email, bytes)| Column { label: email.shown().to_owned(), parts: vec![("sent", "used", bytes)] })
        .collect();
    let rows = columns.iter().map(|column| vec![column.label.clone(), show::bytes(column.parts[0].2)]).collect();
    let figure = Figure {
        id: "storage",
        title: "Storage by mailbox",
        about: format!("The largest among the {looked_at} newest of {} mailboxes, now.", users.total),
        head: vec!["Mailbox", "Used"],
        rows,
        ..Figure::default()
    };
    figure.drawn(&Plot::rows("Storage by mailbox", &columns, show::bytes)).map(Some)
}

/// The age of the messages that wait longest; none if the mail server does not show its queue.
async fn queue(service: &Service, session: &Session) -> Result<Option<Figure>, Failure> {
    const HOUR: Duration = Duration::from_secs(3600);
    const AGES: [(&str, Duration); 5] = [
        ("under 5 minutes", Duration::from_secs(300)),
        ("under an hour", HOUR),
        ("under 6 hours", Duration::from_secs(6 * 3600)),
        ("under a day", DAY),
        ("a day or more", Duration::MAX),
    ];
    let page = Page::new(Page::MAX_LIMIT, 0);
    let Ok(listed) = service.list_queue(&session.caller, &QueueFilter::default(), page).await else { return Ok(None) };
    let now = service.clock().now();
    let mut counts = AGES.map(|(name, _)| (name.to_owned(), 0));
    for entry in &listed.items {
        let age = now.since(entry.queued_at);
        let place = AGES.iter().position(|(_, limit)| age < *limit).unwrap_or(AGES.len() - 1);
        counts[place].1 += 1;
    }
    let figure = Figure {
        id: "queue",
        title: "Age of the queue",
        about: format!("The {} messages that wait longest, of {} on this node, now.", listed.items.len(), listed.total),
        head: vec!["Age", "Messages"],
        ..Figure::default()
    };
    ranked(figure, counts.into(), "open", "messages").map(Some)
}

/// Attempts to send events to webhooks, by their result.
fn webhooks(metrics: &str) -> Result<Figure, Failure> {
    const NAME: &str = "mailapi_webhook_attempts_total{result=\"";
    let result = |line: &str| {
        let (result, count) = line.strip_prefix(NAME)?.split_once("\"} ")?;
        Some((result.to_owned(), count.parse::<u64>().ok()?))
    };
    let mut counts: Vec<_> = metrics.lines().filter_map(result).filter(|(_, count)| *count > 0).collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let columns: Vec<_> = counts
        .iter()
        .map(|(result, count)| Column {
            label: result.clone(),
            parts: vec![(if result == "delivered" { "sent" } else { "bounced" }, "attempts", *count)],
        })
        .collect();
    let figure = Figure {
        id: "webhooks",
        title: "Webhooks",
        about: "Attempts by their result, since the start of this process.".to_owned(),
        head: vec!["Result", "Attempts"],
        rows: counts.into_iter().map(|(result, count)| vec![result, count.to_string()]).collect(),
        ..Figure::default()
    };
    figure.drawn(&Plot::rows("Attempts to send events to webhooks", &columns, |count| count.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<u64> = (1..=100).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (50, 99));
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99), percentile(&[], 50)), (7, 7, 0));
    }

    #[test]
    fn attempts_of_webhooks_are_read_from_the_metrics() {
        let text = "mailapi_webhook_attempts_total{result=\"failed\"} 2\nmailapi_webhook_attempts_total{result=\"gone\"} 0\n\
                    mailapi_webhook_attempts_total{result=\"delivered\"} 7\n# EOF\n";
        let rows = webhooks(text).unwrap().rows;
        assert_eq!(rows, [["delivered", "7"], ["failed", "2"]]);
    }

    #[test]
    fn a_delay_has_the_unit_that_fits() {
        assert_eq!([7, 1234, 61_000, 7_300_000].map(milliseconds), ["7 ms", "1.2 s", "1 min", "2 h"]);
    }
}
