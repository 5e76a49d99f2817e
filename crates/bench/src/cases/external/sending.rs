//! `POST /mail/send` into Postfix, compared with raw SMTP into the same Postfix; and the delay from Postfix' log
//! to the status in the API.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::smtp_in::SmtpClient;
use super::{External, clients};
use crate::client::http::Request;
use crate::client::smtp::Mail;
use crate::load::{Clients, Load};
use crate::mail::{Author, RECEIVER, WRITER};
use crate::mail_site::{MailSite, api};
use crate::measure::{compare, figures};
use crate::outcome::{Failure, Outcome, same};
use crate::report::{Goal, Row, Unit};
use crate::scale::Scale;

/// Number of different messages, sent in turn.
const MESSAGES: usize = 256;
/// Maximum time until Postfix has delivered accepted messages, and the product reports it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval of reading the log, which limits the precision of the delay.
const LOOK: Duration = Duration::from_micros(500);
/// Messages of others in flight while the delay of the status is measured.
const MEANWHILE: usize = 4;
/// Maximum delay from a line in the log to the status.
const MOST_DELAY: Duration = Duration::from_millis(250);

pub(super) async fn measure(external: &External, scale: &Scale) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for &concurrency in scale.concurrency {
        rows.push(at(concurrency, external, scale).await?);
    }
    Ok(rows)
}

async fn at(concurrency: usize, external: &External, scale: &Scale) -> Outcome<Row> {
    let site = &external.site;
    let (sent_before, removed_before) = (sent(site, "").await?, settled(external).await?);
    let requests = requests(&site.user_token(WRITER).await?);
    let mut ours = clients(concurrency, &site.server, &requests, 202).await?;
    let mut floor = smtp_clients(concurrency, external).await?;
    let comparison = compare(&scale.plan, &mut ours, &mut floor).await?;

    let (begun, raw) = (ours.begun(), floor.begun());
    let removed = settled(external).await?;
    // All messages of both sides went through this Postfix.
    same("messages that left Postfix' queue", removed - removed_before, begun + raw)?;
    site.server.settle().await?;
    same("messages in the list of sent mail", sent(site, "").await? - sent_before, begun as u64)?;
    same("messages recorded as delivered", sent(site, "&status=sent").await?, sent(site, "").await?)?;

    let goal = if concurrency == 16 { Goal { ratio: Some(0.9), ..Goal::default() } } else { Goal::default() };
    Ok(Row::Compared { case: "Postfix: send".to_owned(), concurrency, comparison, goal })
}

/// Measures the delay from a line in Postfix' log to the status in the API, while other mail is sent.
pub(super) async fn status(external: &External, scale: &Scale) -> Outcome<Vec<Row>> {
    let site = &external.site;
    let requests = requests(&site.user_token(WRITER).await?);
    let mut others = clients(MEANWHILE, &site.server, &requests, 202).await?;
    let window = scale.plan.window * u32::try_from(scale.plan.rounds)?;
    let (meanwhile, mut delays) = tokio::try_join!(others.run(window), probe(external, &requests[0], window))?;
    settled(external).await?;
    site.server.settle().await?;
    same("messages recorded as delivered", sent(site, "&status=sent").await?, sent(site, "").await?)?;
    delays.sort_unstable();
    let at = |part: usize| delays.get(delays.len() * part / 100).copied().unwrap_or_default().as_secs_f64();
    let case = format!(
        "Postfix: from the line in the log to the status in the API, p99 of {} messages (p50 {:.1} ms) while {:.0}/s are \
         sent",
        delays.len(),
        at(50) * 1e3,
        figures(&[meanwhile]).rate
    );
    Ok(vec![Row::at_most(&case, Unit::Seconds, at(99), MOST_DELAY.as_secs_f64())])
}

/// Sends messages one by one. Waits for each one's line in the log, then polls the API for its status.
async fn probe(external: &External, message: &Request, window: Duration) -> Outcome<Vec<Duration>> {
    let (mut connection, admin) = (external.site.connect().await?, &external.site.server.admin);
    let mut log = Tail::open(&external.host.postfix.log())?;
    let (end, mut delays) = (Instant::now() + window, Vec::new());
    while Instant::now() < end {
        let answer = connection.json(message, 202).await?;
        let (id, queue_id) = (text(&answer, "message_id")?, text(&answer, "queue_id")?);
        let line = format!(" {queue_id}: to=<");
        while !log.has(&line)? {
            tokio::time::sleep(LOOK).await;
        }
        let logged = Instant::now();
        let request = Request::get(&api(&format!("/mail/{id}/status")), admin);
        while connection.json(&request, 200).await?["status"] != "sent" {
            if logged.elapsed() > PATIENCE {
                return Err(Failure::new("a delivery in the log was never recorded"));
            }
        }
        delays.push(logged.elapsed());
    }
    Ok(delays)
}

/// The end of a growing file.
struct Tail {
    file: File,
    text: String,
}

impl Tail {
    fn open(path: &std::path::Path) -> Outcome<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, text: String::new() })
    }

    /// Whether a complete line with this text was written since the last match.
    fn has(&mut self, text: &str) -> Outcome<bool> {
        self.file.read_to_string(&mut self.text)?;
        let Some(end) = self.text.rfind('\n') else { return Ok(false) };
        let is_there = self.text[..end].contains(text);
        if is_there {
            self.text.drain(..=end);
        }
        Ok(is_there)
    }
}

fn text<'a>(answer: &'a Value, name: &str) -> Outcome<&'a str> {
    answer[name].as_str().ok_or_else(|| Failure::new(format!("an answer without {name}: {answer}")))
}

/// The requests sent through the API.
pub(super) fn requests(token: &str) -> Arc<[Request]> {
    let author = Author::new();
    let message = |number| Request::post(&api("/mail/send"), token, &author.ordinary_message(number));
    (0..MESSAGES).map(message).collect()
}

async fn smtp_clients(count: usize, external: &External) -> Outcome<Clients<SmtpClient>> {
    let author = Author::new();
    let mail = |number| Mail::new(WRITER, RECEIVER, &author.outside_message(number, RECEIVER));
    let mails = (0..MESSAGES).map(mail).collect();
    let clients = SmtpClient::connect(count, external.host.postfix.api(), mails).await?;
    Ok(Clients::new(clients, external.host.postfix_process()?))
}

/// The number of sent messages listed by the API.
pub(super) async fn sent(site: &MailSite, filter: &str) -> Outcome<u64> {
    Ok(site.get(&format!("/mail/sent?limit=1{filter}")).await?["total"].as_u64().unwrap_or_default())
}

/// Waits until Postfix is idle; returns the number of messages that have left its queue.
pub(super) async fn settled(external: &External) -> Outcome<usize> {
    const QUIET: Duration = Duration::from_millis(300);
    let give_up = Instant::now() + PATIENCE;
    let mut before = external.host.taken_and_removed()?;
    loop {
        tokio::time::sleep(QUIET).await;
        let now = external.host.taken_and_removed()?;
        if now == before && now.0 == now.1 {
            return Ok(now.1);
        }
        if Instant::now() > give_up {
            return Err(Failure::new(format!("Postfix took {} messages and delivered {}", now.0, now.1)));
        }
        before = now;
    }
}
