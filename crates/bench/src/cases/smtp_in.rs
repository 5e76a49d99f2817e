//! Mail from outside: messages accepted per second by the SMTP listener, and the delay until the API shows them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::http::Request;
use crate::client::smtp::{Connection, Mail};
use crate::floor::disk::{DiskFloor, Rows};
use crate::load::{Client, Clients, Load};
use crate::mail::{Author, PROBED, RECEIVER};
use crate::mail_site::{MailSite, api, database, template_of_one_message};
use crate::measure::{compare, figures};
use crate::outcome::{Failure, Outcome, same};
use crate::report::{Goal, Row, Unit};
use crate::scale::Scale;
use crate::server::Product;
use crate::settled::Settled;

/// Number of different messages, submitted in turn.
pub(super) const MESSAGES: usize = 256;
pub(super) const SENDER: &str = "somebody@outside.example";

/// A client that submits the same messages in turn over its own connection.
pub(super) struct SmtpClient {
    connection: Connection,
    mails: Arc<[Mail]>,
}

impl SmtpClient {
    /// Opens `count` connections.
    pub(super) async fn connect(count: usize, address: SocketAddr, mails: Arc<[Mail]>) -> Outcome<Vec<Self>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(Self { connection: Connection::open(address).await?, mails: Arc::clone(&mails) });
        }
        Ok(clients)
    }
}

impl Client for SmtpClient {
    async fn operate(&mut self, number: usize) -> Outcome {
        self.connection.send(&self.mails[number % self.mails.len()]).await
    }
}

pub(super) async fn measure(product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for &concurrency in scale.concurrency {
        rows.extend(at(concurrency, product, scale).await?);
    }
    Ok(rows)
}

async fn at(concurrency: usize, product: &Product, scale: &Scale) -> Outcome<Vec<Row>> {
    let template = template_of_one_message(product).await?;
    let mut floor = DiskFloor::open(&database(template.path()), Rows::Inbound, concurrency)?;
    let site = MailSite::with_people(product).await?;
    let mut load = Settled::new(&site.server, clients(concurrency, &site).await?);
    let comparison = compare(&scale.plan, &mut load, &mut floor).await?;
    floor.check()?;

    let window = scale.plan.window * u32::try_from(scale.plan.rounds)?;
    let (sample, visible) = tokio::try_join!(load.run(window), probe(&site, window))?;
    let meanwhile = figures(&[sample]).rate;
    same("messages in the receiver's INBOX", site.inbox_total(RECEIVER).await?, load.begun() as u64)?;
    same("probes in their INBOX", site.inbox_total(PROBED).await?, visible.len() as u64)?;
    let caught_up = load.caught_up(&format!("SMTP in at {concurrency}"));
    site.stop().await?;

    let rate = (concurrency == 16).then_some(5_000.0);
    let case = "SMTP in, beside the disk floor".to_owned();
    let figure = format!("from 250 to visible in the API, p99, while {meanwhile:.0}/s come in at {concurrency}");
    Ok(vec![
        Row::Compared { case, concurrency, comparison, goal: Goal { rate, ..Goal::default() } },
        Row::at_most(&figure, Unit::Seconds, p99(visible).as_secs_f64(), 0.05),
        caught_up,
    ])
}

async fn clients(count: usize, site: &MailSite) -> Outcome<Clients<SmtpClient>> {
    let author = Author::new();
    let mail = |number| Mail::new(SENDER, RECEIVER, &author.outside_message(number, RECEIVER));
    let mails = (0..MESSAGES).map(mail).collect();
    Ok(Clients::new(SmtpClient::connect(count, smtp(site)?, mails).await?, site.server.process()))
}

pub(super) fn smtp(site: &MailSite) -> Outcome<SocketAddr> {
    site.server.smtp.ok_or_else(|| Failure::new("the server has no SMTP listener"))
}

/// Submits messages one by one and polls the API for each. Returns the times from the SMTP reply to its visibility.
async fn probe(site: &MailSite, window: Duration) -> Outcome<Vec<Duration>> {
    let mail = Mail::new(SENDER, PROBED, &Author::new().outside_message(0, PROBED));
    let request = Request::get(&api(&format!("/mailbox/{PROBED}/messages?limit=1")), &site.server.admin);
    let (mut smtp, mut http) = (Connection::open(smtp(site)?).await?, site.connect().await?);
    let (end, mut seen) = (Instant::now() + window, Vec::new());
    while Instant::now() < end {
        smtp.send(&mail).await?;
        let taken = Instant::now();
        while http.json(&request, 200).await?["total"].as_u64() <= Some(seen.len() as u64) {}
        seen.push(taken.elapsed());
    }
    Ok(seen)
}

fn p99(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations.get(durations.len() * 99 / 100).copied().unwrap_or_default()
}
