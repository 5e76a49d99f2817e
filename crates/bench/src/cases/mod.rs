//! The measured cases: one file for each group, and shared helpers.

mod big_attachment;
mod build;
mod bulk;
mod checked_mail;
mod delays;
mod event_stream;
mod external;
mod flood;
mod pruning;
mod reading;
mod rest;
mod sending;
mod smtp_in;
mod start;
mod webhooks;

use std::net::SocketAddr;
use std::sync::Arc;

use clap::{Subcommand, ValueEnum};

use crate::client::http::{Connection, Request};
use crate::floor;
use crate::floor::process::Floor;
use crate::load::{Client, Clients};
use crate::mail::{Author, WRITER};
use crate::mail_site::{MailSite, api};
use crate::measure::compare;
use crate::outcome::{Failure, Outcome, same};
use crate::process::Process;
use crate::report::{Goal, Row};
use crate::scale::Scale;
use crate::server::{Product, Server};
use external::External;
use reading::Reading;

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Subcommand)]
pub(crate) enum Case {
    /// GET /tokens/me
    Token,
    /// GET /mail/{message_id}/status
    Status,
    /// GET /mail/sent
    Sent,
    /// GET /mailbox/{email}/messages, 50 of them
    List,
    /// The console's page of 50 messages, beside GET /mailbox/{email}/messages
    ConsoleList,
    /// GET /mailbox/{email}/messages/{uid}
    Read,
    /// GET of an attachment of 100 KiB
    Attachment,
    /// GET /mailbox/{email}/search
    Search,
    /// GET /stats/delivery
    Stats,
    /// POST /mail/send to a mailbox of the same server
    Send,
    /// Mail from outside, until the API shows it
    SmtpIn,
    /// Mail from outside with SPF, DKIM, DMARC and a DNS list, beside the same without
    CheckedMail,
    /// Sends and mail from outside, until the event stream shows them
    EventStream,
    /// Sends, until a webhook's receiver has their events, also while another receiver hangs
    Webhooks,
    /// Peak memory with an attachment of 50 MB, up and down
    BigAttachment,
    /// Start on an existing database, and memory at rest
    Start,
    /// Processor time at rest, after everything that wakes the background loops
    Rest,
    /// Other requests during a flood of wrong passwords
    Flood,
    /// Sends while another mailbox copies, moves and expunges
    Bulk,
    /// Sends while a table is pruned from twice its maximum number of rows
    Pruning,
    /// In front of Dovecot: pages of 50 messages that were not shown before
    ExternalList,
    /// In front of Dovecot: the page of 50 messages that was just shown
    ExternalListAgain,
    /// In front of Dovecot: GET /mailbox/{email}/messages/{uid}
    ExternalRead,
    /// In front of Dovecot: GET of an attachment of 100 KiB
    ExternalAttachment,
    /// In front of Dovecot: GET /mailbox/{email}/search
    ExternalSearch,
    /// In front of Postfix: POST /mail/send
    ExternalSend,
    /// In front of Postfix: from a line in its log to the status in the API
    ExternalStatus,
    /// In front of Postfix and Dovecot: processor time at rest, after each was lost
    ExternalRest,
    /// In front of Postfix: a long log in one go
    LogIngest,
    /// Size of the binary and time of a clean build
    Build,
}

/// The state of the cases; expensive servers are created once and shared.
pub(crate) struct Bench {
    pub(crate) product: Product,
    pub(crate) scale: Scale,
    reading: Option<Reading>,
    external: Option<External>,
}

impl Bench {
    pub(crate) const fn new(product: Product, scale: Scale) -> Self {
        Self { product, scale, reading: None, external: None }
    }

    /// Measures a case.
    pub(crate) async fn run(&mut self, case: Case) -> Outcome<Vec<Row>> {
        let scale = self.scale;
        let rows = match case {
            Case::Token => self.reading().await?.token(&scale).await,
            Case::Status => self.reading().await?.status(&scale).await,
            Case::Sent => self.reading().await?.sent(&scale).await,
            Case::List => self.reading().await?.list(&scale).await,
            Case::ConsoleList => self.reading().await?.console_list(&scale).await,
            Case::Read => self.reading().await?.read(&scale).await,
            Case::Attachment => self.reading().await?.attachment(&scale).await,
            Case::Search => self.reading().await?.search(&scale).await,
            Case::Stats => self.reading().await?.stats(&scale).await,
            Case::Send => sending::measure(&self.product, &scale).await,
            Case::SmtpIn => smtp_in::measure(&self.product, &scale).await,
            Case::CheckedMail => checked_mail::measure(&self.product, &scale).await,
            Case::EventStream => event_stream::measure(&self.product, &scale).await,
            Case::Webhooks => webhooks::measure(&self.product, &scale).await,
            Case::BigAttachment => big_attachment::measure(&self.product, &scale).await,
            Case::Start => {
                let reading = self.take_reading().await?;
                let (reading, rows) = start::measure(&self.product, reading, &scale).await?;
                self.reading = Some(reading);
                Ok(rows)
            }
            Case::Rest => rest::measure(&self.product, &scale).await,
            Case::Flood => flood::measure(self.reading().await?, &scale).await,
            Case::Bulk => bulk::measure(&self.product, &scale).await,
            Case::Pruning => pruning::measure(&self.product, &scale).await,
            Case::ExternalList => self.external().await?.list(&scale).await,
            Case::ExternalListAgain => self.external().await?.list_again(&scale).await,
            Case::ExternalRead => self.external().await?.read(&scale).await,
            Case::ExternalAttachment => self.external().await?.attachment(&scale).await,
            Case::ExternalSearch => self.external().await?.search(&scale).await,
            Case::ExternalSend => self.external().await?.send(&scale).await,
            Case::ExternalStatus => self.external().await?.status(&scale).await,
            Case::ExternalRest => {
                self.external().await?;
                match &mut self.external {
                    Some(external) => external.rest().await,
                    None => Ok(Vec::new()),
                }
            }
            Case::LogIngest => self.external().await?.ingest(&scale).await,
            Case::Build => build::measure(&self.product),
        };
        rows.map_err(|failure| Failure::new(format!("{case:?}: {failure:?}")))
    }

    /// Stops the remaining servers; fails if they logged errors.
    pub(crate) async fn end(self) -> Outcome {
        if let Some(external) = self.external {
            external.close().await?;
        }
        match self.reading {
            Some(reading) => reading.site.stop().await.map(drop),
            None => Ok(()),
        }
    }

    async fn reading(&mut self) -> Outcome<&Reading> {
        let reading = self.take_reading().await?;
        Ok(self.reading.insert(reading))
    }

    /// The product with Postfix and Dovecot as its mail server.
    async fn external(&mut self) -> Outcome<&External> {
        let external = match self.external.take() {
            Some(external) => external,
            None => External::open(&self.product, &self.scale).await?,
        };
        Ok(self.external.insert(external))
    }

    async fn take_reading(&mut self) -> Outcome<Reading> {
        match self.reading.take() {
            Some(reading) => Ok(reading),
            None => Reading::new(&self.product, &self.scale).await,
        }
    }
}

/// A client that repeats the same requests in turn and expects the same status each time.
pub(crate) struct HttpClient {
    connection: Connection,
    requests: Arc<[Request]>,
    status: u16,
}

impl Client for HttpClient {
    async fn operate(&mut self, number: usize) -> Outcome {
        let request = &self.requests[number % self.requests.len()];
        let (status, body) = self.connection.exchange(request).await?;
        if status == self.status {
            return Ok(());
        }
        let body = String::from_utf8_lossy(body).into_owned();
        Err(Failure::new(format!("answered {status}, expected {}: {body}", self.status)))
    }
}

/// Sends of different messages of ordinary size.
async fn ordinary_sends(site: &MailSite) -> Outcome<Arc<[Request]>> {
    const MESSAGES: usize = 256;
    let (token, author) = (site.user_token(WRITER).await?, Author::new());
    let send = |number| Request::post(&api("/mail/send"), &token, &author.ordinary_message(number));
    Ok((0..MESSAGES).map(send).collect())
}

/// Persistent connections to a server.
pub(crate) async fn http_clients(
    count: usize,
    address: SocketAddr,
    server: Process,
    requests: &Arc<[Request]>,
    status: u16,
) -> Outcome<Clients<HttpClient>> {
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        let connection = Connection::open(address).await?;
        clients.push(HttpClient { connection, requests: Arc::clone(requests), status });
    }
    Ok(Clients::new(clients, server))
}

/// Measures requests to the product, compared with the HTTP floor with responses of the same length.
async fn beside_http_floor(
    name: &str,
    goals: &[(usize, Goal)],
    scale: &Scale,
    server: &Server,
    requests: Vec<Request>,
) -> Outcome<Vec<Row>> {
    let requests: Arc<[Request]> = requests.into();
    let bytes = mean_answer(server.http, &requests).await?;
    let mut rows = Vec::new();
    for &concurrency in scale.concurrency {
        let floor = Floor::start()?;
        let constant: Arc<[Request]> = vec![floor::http::request(bytes)].into();
        let mut ours = http_clients(concurrency, server.http, server.process(), &requests, 200).await?;
        let mut floors = http_clients(concurrency, floor.address, floor.process(), &constant, 200).await?;
        let comparison = compare(&scale.plan, &mut ours, &mut floors).await?;
        same("answers of the HTTP floor", answers_given(&floor).await?, floors.begun().to_string())?;
        let goal = goals.iter().find(|(at, _)| *at == concurrency).map(|(_, goal)| *goal).unwrap_or_default();
        let case = format!("{name} ({bytes} bytes)");
        rows.push(Row::Compared { case, concurrency, comparison, goal });
    }
    Ok(rows)
}

async fn answers_given(floor: &Floor) -> Outcome<String> {
    let mut connection = Connection::open(floor.address).await?;
    let (_, body) = connection.exchange(&floor::http::count_request()).await?;
    Ok(String::from_utf8_lossy(body).into_owned())
}

/// The mean length of the responses to some of the requests.
async fn mean_answer(address: SocketAddr, requests: &[Request]) -> Outcome<usize> {
    const ASKED: usize = 50;
    let mut connection = Connection::open(address).await?;
    let asked = &requests[..requests.len().min(ASKED)];
    let mut bytes = 0;
    for request in asked {
        bytes += connection.exchange(request).await?.1.len();
    }
    Ok(bytes / asked.len().max(1))
}
