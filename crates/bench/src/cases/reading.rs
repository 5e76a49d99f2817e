//! Reading from a server with one full INBOX. Each case first verifies the responses.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{beside_http_floor, http_clients};
use crate::client::http::Request;
use crate::mail::{self, ATTACHMENT_BYTES, Author, PLANTED, READER, WRITER};
use crate::mail_site::{MailSite, api};
use crate::measure::compare;
use crate::outcome::{Failure, Outcome, same};
use crate::random::Random;
use crate::report::{Goal, Row};
use crate::scale::Scale;
use crate::server::Product;

/// Maximum number of entries per page.
const PAGE: usize = 200;
/// Number of messages whose status is requested in turn.
const STATUSES: usize = 1_000;
const SEED: u64 = 5;

/// The server, and data about its mail.
pub(super) struct Reading {
    pub(super) site: MailSite,
    /// A user token of the INBOX's owner.
    reader: String,
    /// A user token of the sender of all messages.
    pub(super) writer: String,
    /// UIDs with the numbers of the generated messages, shuffled.
    messages: Vec<(u64, usize)>,
}

impl Reading {
    pub(super) async fn new(product: &Product, scale: &Scale) -> Outcome<Self> {
        let site = MailSite::with_people(product).await?;
        site.fill(scale).await?;
        let (reader, writer) = (site.user_token(READER).await?, site.user_token(WRITER).await?);
        let messages = messages_in_no_order(&site, scale, SEED).await?;
        Ok(Self { site, reader, writer, messages })
    }

    /// Restarts the server.
    pub(super) async fn restart(self, product: &Product) -> Outcome<Self> {
        Ok(Self { site: self.site.restart(product).await?, ..self })
    }

    pub(super) async fn token(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        let request = Request::get(&api("/tokens/me"), &self.reader);
        let me = self.site.connect().await?.json(&request, 200).await?;
        same("the token's mailbox", me["email"].as_str(), Some(READER))?;
        self.measure("token check", &beside_floor(0.6), scale, vec![request]).await
    }

    pub(super) async fn status(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        let mut requests = Vec::new();
        for sent in items(&self.site, "/mail/sent", scale.messages.min(STATUSES)).await? {
            same("the status of a message", sent["status"].as_str(), Some("sent"))?;
            let id = sent["message_id"].as_str().unwrap_or_default();
            requests.push(Request::get(&api(&format!("/mail/{id}/status")), &self.writer));
        }
        let status = self.site.connect().await?.json(&requests[0], 200).await?;
        same("a recipient's status", status["recipients"][0]["status"].as_str(), Some("sent"))?;
        self.measure("status", &beside_floor(0.5), scale, requests).await
    }

    pub(super) async fn sent(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        let request = self.sent_request();
        let sent = self.site.connect().await?.json(&request, 200).await?;
        same("sent messages", sent["total"].as_u64(), Some(scale.messages as u64))?;
        self.measure("sent list of 50", &beside_floor(0.3), scale, vec![request]).await
    }

    /// A request for the first page of the writer's sent mail.
    pub(super) fn sent_request(&self) -> Request {
        Request::get(&api("/mail/sent"), &self.writer)
    }

    pub(super) async fn list(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        let request = self.mailbox("/messages");
        let list = self.site.connect().await?.json(&request, 200).await?;
        same("messages in the list", list["total"].as_u64(), Some(scale.messages as u64))?;
        same("messages on the page", list["messages"].as_array().map(Vec::len), Some(50.min(scale.messages)))?;
        self.measure("list of 50", &at_16(10_000.0, 0.5), scale, vec![request]).await
    }

    /// Compares the page with the API's list, not with a floor.
    pub(super) async fn console_list(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        let page = Request::page(&format!("/console/mail/{READER}"), &self.reader);
        let mut connection = self.site.connect().await?;
        let (_, html) = connection.exchange(&page).await?;
        let (html, shown) = (String::from_utf8_lossy(html), 50.min(scale.messages));
        same("messages on the page", html.matches("<td class=\"when\">").count(), shown)?;
        let case = format!("console: page of 50 ({} bytes), beside the API's list", html.len());
        let (pages, lists): (Arc<[Request]>, Arc<[Request]>) =
            (vec![page].into(), vec![self.mailbox("/messages")].into());
        let (server, goal) = (&self.site.server, Goal { ratio: Some(0.5), ..Goal::default() });
        let mut rows = Vec::new();
        for &concurrency in scale.concurrency {
            let mut ours = http_clients(concurrency, server.http, server.process(), &pages, 200).await?;
            let mut others = http_clients(concurrency, server.http, server.process(), &lists, 200).await?;
            let comparison = compare(&scale.plan, &mut ours, &mut others).await?;
            rows.push(Row::Compared { case: case.clone(), concurrency, comparison, goal });
        }
        Ok(rows)
    }

    pub(super) async fn read(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        let (mut connection, author) = (self.site.connect().await?, Author::new());
        for (uid, number) in self.messages.iter().take(20) {
            let message = connection.json(&self.mailbox(&format!("/messages/{uid}")), 200).await?;
            let text = author.inbox_message(*number, scale)["body"]["text"].clone();
            same("the text that was read", unwrapped(&message["body"]["text"]), unwrapped(&text))?;
        }
        let requests = self.messages.iter().map(|(uid, _)| self.mailbox(&format!("/messages/{uid}"))).collect();
        self.measure("read one", &at_16(15_000.0, 0.4), scale, requests).await
    }

    pub(super) async fn attachment(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        let mut connection = self.site.connect().await?;
        let with: Vec<_> = self.messages.iter().filter(|(_, number)| mail::has_attachment(*number, scale)).collect();
        let mut requests = Vec::new();
        for (uid, number) in with {
            let message = connection.json(&self.mailbox(&format!("/messages/{uid}")), 200).await?;
            let index = message["attachments"][0]["index"].as_u64().ok_or_else(|| Failure::new("no attachment"))?;
            let request = self.mailbox(&format!("/messages/{uid}/attachment/{index}"));
            let (_, bytes) = connection.exchange(&request).await?;
            same("bytes of an attachment", bytes.len(), ATTACHMENT_BYTES)?;
            same("an attachment", STANDARD.encode(bytes), STANDARD.encode(mail::attachment(*number)))?;
            requests.push(request);
        }
        self.measure("attachment", &at_16(8_000.0, 0.4), scale, requests).await
    }

    pub(super) async fn search(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        let request = self.mailbox(&format!("/search?q={PLANTED}"));
        let hits = self.site.connect().await?.json(&request, 200).await?;
        let planted = (0..scale.messages).filter(|number| mail::is_planted(*number, scale)).count();
        same("hits", hits["total"].as_u64(), Some(planted as u64))?;
        let snippet = hits["messages"][0]["snippet"].as_str().unwrap_or_default();
        same("the excerpt contains the text", snippet.contains(PLANTED), true)?;
        let goals = [(16, Goal { rate: Some(2_000.0), ..Goal::default() })];
        self.measure(&format!("search, {planted} hits"), &goals, scale, vec![request]).await
    }

    pub(super) async fn stats(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        let request = Request::get(&api("/stats/delivery"), &self.site.server.admin);
        let stats = self.site.connect().await?.json(&request, 200).await?;
        let (counted, sent) = (stats["summary"]["delivered"].as_u64(), scale.messages as u64);
        same("recipients that were counted", counted, Some(sent))?;
        let limit = std::time::Duration::from_millis(5);
        let goals = [(1, Goal { p50: Some(limit), ..Goal::default() })];
        self.measure("statistics of 7 days", &goals, scale, vec![request]).await
    }

    fn mailbox(&self, path: &str) -> Request {
        Request::get(&api(&format!("/mailbox/{READER}{path}")), &self.reader)
    }

    async fn measure(
        &self,
        name: &str,
        goals: &[(usize, Goal)],
        scale: &Scale,
        requests: Vec<Request>,
    ) -> Outcome<Vec<Row>> {
        beside_http_floor(name, goals, scale, &self.site.server, requests).await
    }
}

fn beside_floor(ratio: f64) -> [(usize, Goal); 2] {
    let goal = Goal { ratio: Some(ratio), ..Goal::default() };
    [(1, goal), (16, goal)]
}

fn at_16(rate: f64, ratio: f64) -> [(usize, Goal); 2] {
    let goal = Goal { ratio: Some(ratio), ..Goal::default() };
    [(1, goal), (16, Goal { rate: Some(rate), ..goal })]
}

/// The UIDs of the reader's messages with the numbers of the generated messages, shuffled.
pub(super) async fn messages_in_no_order(site: &MailSite, scale: &Scale, seed: u64) -> Outcome<Vec<(u64, usize)>> {
    let mut messages = Vec::new();
    let first = mail::subject(0);
    let stem = first.trim_end_matches('0');
    for summary in items(site, &format!("/mailbox/{READER}/messages"), scale.messages).await? {
        let number = summary["subject"].as_str().and_then(|subject| subject.strip_prefix(stem)?.parse().ok());
        messages.push(summary["uid"].as_u64().zip(number).ok_or_else(|| Failure::new("a summary without a UID"))?);
    }
    same("messages that were listed", messages.len(), scale.messages)?;
    Random::new(seed).shuffle(&mut messages);
    Ok(messages)
}

/// Reads the newest entries of a list, page by page, as the admin.
async fn items(site: &MailSite, path: &str, count: usize) -> Outcome<Vec<Value>> {
    let mut items: Vec<Value> = Vec::new();
    while items.len() < count {
        let page = site.get(&format!("{path}?limit={PAGE}&offset={}", items.len())).await?;
        match page["messages"].as_array() {
            Some(page) if !page.is_empty() => items.extend(page.iter().cloned()),
            _ => return Err(Failure::new(format!("{path} ended after {} of {count}", items.len()))),
        }
    }
    Ok(items)
}

/// A text as its words, since line ends may change in transit.
pub(super) fn unwrapped(text: &Value) -> String {
    text.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
