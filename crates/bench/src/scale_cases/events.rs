//! The log of events with up to ten million events.

use std::path::Path;

use mailapi_events::EventId;
use mailapi_model::Timestamp;
use rusqlite::functions::FunctionFlags;
use rusqlite::params;

use super::Size;
use super::bulk::{Bulk, uuid};
use super::grown::Grown;
use crate::client::http::Request;
use crate::mail::Author;
use crate::mail_site::{MailSite, api, database};
use crate::outcome::{Outcome, same};
use crate::random::Random;
use crate::server::{Product, Server};

/// Events of one message to one local recipient: accepted and delivered.
const EVENTS: i64 = 2;
/// Time between two events: ten million take twelve days, less than events are kept.
const APART_MILLIS: i64 = 100;
/// Number of timelines requested in turn.
const TIMELINES: usize = 500;
/// Events on a page.
const PAGE: usize = 100;
const SEED: u64 = 13;

pub(super) async fn measure(product: &Product, size: &Size) -> Outcome<Grown> {
    let mut grown = Grown::new("The log of events: the cost of reading as it grows", "events in the log", size);
    let (Some(&smallest), Some(&largest)) = (size.events.first(), size.events.last()) else { return Ok(grown) };
    let small = grow(first_message(product).await?, product, smallest).await?;
    let mut site = first_message(product).await?;
    for &events in size.events {
        site = grow(site, product, events).await?;
        for (name, requests) in operations(&site.server, events)? {
            grown.http(&size.plan, (name, None), events, &site.server, requests).await?;
        }
    }
    let operations_of_both = operations(&small.server, smallest)?.into_iter().zip(operations(&site.server, largest)?);
    for ((name, few), (_, many)) in operations_of_both {
        grown.in_turns(&size.plan, name, [(&small.server, few), (&site.server, many)]).await?;
    }
    small.stop().await?;
    site.stop().await?;
    Ok(grown)
}

/// A server with the message whose events all others are copies of.
async fn first_message(product: &Product) -> Outcome<MailSite> {
    let site = MailSite::with_people(product).await?;
    site.post("/mail/send", &Author::new().ordinary_message(0), 202).await?;
    Ok(site)
}

/// Restarts the server with a log of this length.
async fn grow(site: MailSite, product: &Product, events: usize) -> Outcome<MailSite> {
    site.server.settle().await?;
    let directory = site.stop().await?;
    copy(&database(directory.path()), i64::try_from(events)?)?;
    let site = MailSite::on(product, directory).await?;
    site.server.settle().await?;
    let newest = site.get("/events?after=now").await?;
    let number = newest["cursor"].as_str().and_then(|cursor| cursor.split('-').next()).map(str::to_owned);
    same("the number of the newest event", number, Some(events.to_string()))?;
    Ok(site)
}

/// Adds events up to this number, of messages with two events each, in one statement. As elsewhere, only keys and times
/// differ.
fn copy(file: &Path, last: i64) -> Outcome {
    let bulk = Bulk::open(file)?;
    let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_UTF8;
    bulk.connection.create_scalar_function("event_id_of", 2, flags, |context| {
        let (at, number) = (Timestamp::from_millis(context.get(0)?), context.get::<i64>(1)?);
        Ok(EventId::of_fact(at, &[&number.to_be_bytes()]).to_string())
    })?;
    bulk.connection.execute_batch(TEMPLATE)?;
    same("events of the first message", bulk.number("SELECT COUNT(*) FROM template")?, EVENTS)?;
    let newest = bulk.number("SELECT MAX(number) FROM events")?;
    bulk.connection.execute(COPY, params![newest + 1, last, EVENTS, APART_MILLIS])?;
    Ok(())
}

/// The events of the first message. A statement that reads the table it writes would keep all rows in memory first.
const TEMPLATE: &str = "CREATE TEMP TABLE template AS
    SELECT ROW_NUMBER() OVER (ORDER BY number) - 1 AS place, * FROM events WHERE message_id =
        (SELECT message_id FROM events WHERE type = 'message.accepted' ORDER BY number LIMIT 1)";

/// Events ?1 to ?2, in turn of each of the ?3 kinds, and ?4 milliseconds apart.
const COPY: &str = "
    WITH RECURSIVE numbers (number) AS (SELECT ?1 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?2),
    copies AS (
        SELECT numbers.number, type, domain, mailbox, subject_at, body, id AS former_id, message_id AS former_message,
            at - (?2 - numbers.number) * ?4 AS new_at, uuid_of(numbers.number / ?3) AS new_message,
            event_id_of(at - (?2 - numbers.number) * ?4, numbers.number) AS new_id
        FROM numbers CROSS JOIN template ON place = numbers.number % ?3
    )
    INSERT INTO events (number, id, type, at, domain, mailbox, message_id, subject_at, body)
    SELECT number, new_id, type, new_at, domain, mailbox, new_message, subject_at,
        replace(replace(body, former_id, new_id), former_message, new_message)
    FROM copies";

/// The names of the operations, and their requests to a log of this length.
fn operations(server: &Server, events: usize) -> Outcome<Vec<(&'static str, Vec<Request>)>> {
    let get = |path: &str| Request::get(&api(path), &server.admin);
    let page = |after: usize| vec![get(&format!("/events?after={after}&limit={PAGE}"))];
    let timeline = |number: i64| get(&format!("/mail/{}/timeline", uuid(number)));
    let (mut random, messages) = (Random::new(SEED), events / usize::try_from(EVENTS)?);
    // The copies begin after the first events of the server, which are fewer than a page.
    let mut number = || i64::try_from(PAGE + random.below(messages.saturating_sub(PAGE).max(1)));
    let timelines = (0..TIMELINES).map(|_| Ok(timeline(number()?))).collect::<Outcome<Vec<_>>>()?;
    Ok(vec![
        ("events at the start", page(0)),
        ("events in the middle", page(events / 2)),
        ("events at the end", page(events - PAGE)),
        ("timeline of a message", timelines),
    ])
}
