//! The product with Postfix and Dovecot as its mail server, compared with raw clients of the same servers.

mod ingesting;
mod reading;
mod sending;

use std::sync::Arc;

use super::reading::messages_in_no_order;
use super::rest::after;
use super::{HttpClient, http_clients};
use crate::client::http::Request;
use crate::load::Clients;
use crate::mail::READER;
use crate::mail_site::{MailHost, MailSite, api};
use crate::outcome::Outcome;
use crate::report::Row;
use crate::scale::Scale;
use crate::server::{Product, Server};

const SEED: u64 = 9;

/// The mail servers, the product that uses them, and data about the mail.
pub(super) struct External {
    product: Product,
    host: MailHost,
    site: MailSite,
    /// A user token of the INBOX's owner.
    reader: String,
    /// UIDs with the numbers of the generated messages, shuffled.
    messages: Vec<(u64, usize)>,
}

impl External {
    pub(super) async fn open(product: &Product, scale: &Scale) -> Outcome<Self> {
        let host = MailHost::open(scale).await?;
        let site = MailSite::with_people(&host.in_front(product)).await?;
        let reader = site.user_token(READER).await?;
        // This also fills Dovecot's caches for such requests.
        let messages = messages_in_no_order(&site, scale, SEED).await?;
        Ok(Self { product: product.clone(), host, site, reader, messages })
    }

    /// Stops the product; fails if it logged errors.
    pub(super) async fn close(self) -> Outcome {
        self.site.stop().await.map(drop)
    }

    /// Measures the processor time at rest after each of the two servers stopped and returned.
    pub(super) async fn rest(&mut self) -> Outcome<Vec<Row>> {
        let mut rows = vec![after("a start in front of Postfix and Dovecot", &self.site.server).await?];
        self.host.dovecot.kill().await;
        rows.push(after("the loss of Dovecot", &self.site.server).await?);
        self.host.dovecot.resume().await;
        self.host.postfix.kill();
        rows.push(after("the loss of Postfix", &self.site.server).await?);
        self.host.postfix.restart().await;
        rows.push(after("their return", &self.site.server).await?);
        Ok(rows)
    }

    pub(super) async fn list(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        reading::list(self, scale).await
    }

    pub(super) async fn list_again(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        reading::list_again(self, scale).await
    }

    pub(super) async fn read(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        reading::read(self, scale).await
    }

    pub(super) async fn attachment(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        reading::attachment(self, scale).await
    }

    pub(super) async fn search(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        reading::search(self, scale).await
    }

    pub(super) async fn send(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        sending::measure(self, scale).await
    }

    pub(super) async fn status(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        sending::status(self, scale).await
    }

    pub(super) async fn ingest(&self, scale: &Scale) -> Outcome<Vec<Row>> {
        ingesting::measure(self, scale).await
    }

    fn request(&self, path: &str) -> Request {
        Request::get(&api(&format!("/mailbox/{READER}{path}")), &self.reader)
    }
}

/// Persistent connections to the API of one server.
async fn clients(
    count: usize,
    server: &Server,
    requests: &Arc<[Request]>,
    status: u16,
) -> Outcome<Clients<HttpClient>> {
    http_clients(count, server.http, server.process(), requests, status).await
}
