//! Delay of the event stream: from the 202 of a send, and from the 250 to mail from outside.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::task::JoinHandle;

use super::delays::Moments;
use super::ordinary_sends;
use crate::client::events::EventStream;
use crate::client::http::{Connection as HttpConnection, Request};
use crate::client::smtp::{Connection as SmtpConnection, Mail};
use crate::load::{Client, Clients, Load};
use crate::mail::{Author, RECEIVER, subject};
use crate::mail_site::MailSite;
use crate::measure::figures;
use crate::outcome::{Failure, Outcome};
use crate::report::{Row, Unit};
use crate::scale::Scale;
use crate::server::Product;

/// Requests or connections at once.
const IN_FLIGHT: usize = 16;
const SENDER: &str = "somebody@outside.example";
/// Maximum of the 99th percentile in seconds.
const MOST: f64 = 0.05;

pub(super) async fn measure(product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let site = MailSite::with_people(product).await?;
    let rows = vec![after_sends(&site, scale).await?, after_mail(&site, scale).await?];
    site.stop().await?;
    Ok(rows)
}

async fn after_sends(site: &MailSite, scale: &Scale) -> Outcome<Row> {
    let (requests, answered) = (ordinary_sends(site).await?, Moments::default());
    let mut senders = Vec::with_capacity(IN_FLIGHT);
    for _ in 0..IN_FLIGHT {
        let (connection, requests, answered) = (site.connect().await?, Arc::clone(&requests), answered.clone());
        senders.push(Sender { connection, requests, answered });
    }
    let watched = Watched::begin(site, "message.accepted", "message_id").await?;
    let row = beside(site, scale, senders, watched, &answered).await?;
    Ok(row.named("the 202 of a send"))
}

async fn after_mail(site: &MailSite, scale: &Scale) -> Outcome<Row> {
    let address = site.server.smtp.ok_or_else(|| Failure::new("the server has no SMTP listener"))?;
    let (author, answered) = (Arc::new(Author::new()), Moments::default());
    let mut outsiders = Vec::with_capacity(IN_FLIGHT);
    for _ in 0..IN_FLIGHT {
        let (author, answered) = (Arc::clone(&author), answered.clone());
        outsiders.push(Outsider { connection: SmtpConnection::open(address).await?, author, answered });
    }
    let watched = Watched::begin(site, "message.received", "subject").await?;
    let row = beside(site, scale, outsiders, watched, &answered).await?;
    Ok(row.named("the 250 to mail from outside"))
}

/// The delays beside a load.
struct Delays {
    /// The load while they were measured.
    words: String,
    p99: f64,
}

impl Delays {
    fn named(self, answer: &str) -> Row {
        let Self { words, p99 } = self;
        let case = format!("event in the stream after {answer}, p99 {words}");
        Row::at_most(&case, Unit::Seconds, p99, MOST)
    }
}

/// Runs the clients, and waits until the stream has shown the events of all their messages.
async fn beside(
    site: &MailSite,
    scale: &Scale,
    clients: Vec<impl Client>,
    watched: Watched,
    answered: &Moments,
) -> Outcome<Delays> {
    let mut load = Clients::new(clients, site.server.process());
    let window = scale.plan.window * u32::try_from(scale.plan.rounds)?;
    let rate = figures(&[load.run(window).await?]).rate;
    let delays = watched.seen.delays_after(answered);
    let delays = tokio::select! {
        delays = delays => delays?,
        ended = watched.follow => return Err(ended?.err().unwrap_or_else(|| Failure::new("the stream ended"))),
    };
    let words = format!(
        "of {}, while {rate:.0}/s are sent at {IN_FLIGHT} (p50 {:.1} ms)",
        answered.count(),
        delays.quantile(0.5).as_secs_f64() * 1e3
    );
    Ok(Delays { words, p99: delays.quantile(0.99).as_secs_f64() })
}

/// A stream, and when it showed which event.
struct Watched {
    seen: Moments,
    follow: JoinHandle<Outcome>,
}

impl Watched {
    /// Follows the events of one type; `member` of their data is the key.
    async fn begin(site: &MailSite, event_type: &'static str, member: &'static str) -> Outcome<Self> {
        let (address, token, seen) = (site.server.http, site.server.admin.clone(), Moments::default());
        let mut stream = EventStream::open(address, &token, event_type, "now").await?;
        let moments = seen.clone();
        let follow = tokio::spawn(async move {
            loop {
                while let Some(event) = stream.next().await? {
                    moments.note(key(&event["data"][member])?, Instant::now());
                }
                // The server closes the stream of a client that is too slow, and this program is busy with its load.
                let cursor = stream.cursor().to_owned();
                stream = EventStream::open(address, &token, event_type, &cursor).await?;
            }
        });
        Ok(Self { seen, follow })
    }
}

fn key(value: &Value) -> Outcome<&str> {
    value.as_str().ok_or_else(|| Failure::new(format!("{value} is no key of an event")))
}

/// Sends through the API, and notes the time of each 202.
struct Sender {
    connection: HttpConnection,
    requests: Arc<[Request]>,
    answered: Moments,
}

impl Client for Sender {
    async fn operate(&mut self, number: usize) -> Outcome {
        let request = &self.requests[number % self.requests.len()];
        let (status, body) = self.connection.exchange(request).await?;
        let at = Instant::now();
        if status != 202 {
            return Err(Failure::new(format!("answered {status}: {}", String::from_utf8_lossy(body))));
        }
        let answer: Value = serde_json::from_slice(body)?;
        self.answered.note(key(&answer["message_id"])?, at);
        Ok(())
    }
}

/// Sends mail from outside, each with another subject, and notes the time of each 250.
struct Outsider {
    connection: SmtpConnection,
    author: Arc<Author>,
    answered: Moments,
}

impl Client for Outsider {
    async fn operate(&mut self, number: usize) -> Outcome {
        let mail = Mail::new(SENDER, RECEIVER, &self.author.outside_message(number, RECEIVER));
        self.connection.send(&mail).await?;
        self.answered.note(&subject(number), Instant::now());
        Ok(())
    }
}
