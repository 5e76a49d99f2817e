//! A server with users and mail.

mod mail_host;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::client::http::{Connection, Request};
use crate::mail::{self, Author, DOMAIN, PROBED, READER, RECEIVER, WRITER};
use crate::outcome::{Outcome, same};
use crate::scale::Scale;
use crate::server::{Product, Server};
pub(crate) use mail_host::MailHost;

/// The password of all mailboxes.
pub(crate) const PASSWORD: &str = "correct horse battery";
/// Requests in flight while mail is added.
const FILLERS: usize = 16;

/// A server with users, in a temporary directory.
pub(crate) struct MailSite {
    pub(crate) server: Server,
    directory: TempDir,
}

impl MailSite {
    /// A server without users.
    pub(crate) async fn empty(product: &Product) -> Outcome<Self> {
        Self::on(product, tempfile::tempdir()?).await
    }

    /// A server with users and without mail.
    pub(crate) async fn with_people(product: &Product) -> Outcome<Self> {
        let site = Self::empty(product).await?;
        site.create_people().await?;
        Ok(site)
    }

    /// A server with users and higher limits for the size of messages.
    pub(crate) async fn for_big_mail(product: &Product) -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let server = product.start_for_big_mail(directory.path()).await?;
        let site = Self { server, directory };
        site.create_people().await?;
        Ok(site)
    }

    /// A server on existing data.
    pub(crate) async fn on(product: &Product, directory: TempDir) -> Outcome<Self> {
        let server = product.start(directory.path()).await?;
        Ok(Self { server, directory })
    }

    /// Restarts the server on the same data.
    pub(crate) async fn restart(self, product: &Product) -> Outcome<Self> {
        self.server.stop().await?;
        let server = product.start(self.directory.path()).await?;
        Ok(Self { server, directory: self.directory })
    }

    /// The directory of its data.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Stops the server; its data stays until the returned value is dropped.
    pub(crate) async fn stop(self) -> Outcome<TempDir> {
        self.server.stop().await?;
        Ok(self.directory)
    }

    /// Opens a connection to the API.
    pub(crate) async fn connect(&self) -> Outcome<Connection> {
        Connection::open(self.server.http).await
    }

    /// Returns the JSON of a `GET` below `/api/v1` as the admin.
    pub(crate) async fn get(&self, path: &str) -> Outcome<Value> {
        self.connect().await?.json(&Request::get(&api(path), &self.server.admin), 200).await
    }

    /// Creates a user token for a mailbox.
    pub(crate) async fn user_token(&self, email: &str) -> Outcome<String> {
        let body = json!({ "name": "bench", "token_type": "user", "email": email });
        let answer = self.post("/tokens", &body, 201).await?;
        Ok(answer["token"].as_str().unwrap_or_default().to_owned())
    }

    /// The number of messages in an INBOX.
    pub(crate) async fn inbox_total(&self, email: &str) -> Outcome<u64> {
        Ok(self.get(&format!("/mailbox/{email}/messages?limit=1")).await?["total"].as_u64().unwrap_or_default())
    }

    async fn create_people(&self) -> Outcome {
        self.post("/domains", &json!({ "domain": DOMAIN }), 201).await?;
        for email in [READER, WRITER, RECEIVER, PROBED] {
            self.post("/users", &json!({ "email": email, "password": PASSWORD }), 201).await?;
        }
        Ok(())
    }

    /// Returns the JSON of a `POST` below `/api/v1` as the admin.
    pub(crate) async fn post(&self, path: &str, body: &Value, status: u16) -> Outcome<Value> {
        self.connect().await?.json(&Request::post(&api(path), &self.server.admin, body), status).await
    }

    /// Sends all messages of the INBOX that is read, and waits until the server is idle.
    pub(crate) async fn fill(&self, scale: &Scale) -> Outcome {
        let token = self.user_token(WRITER).await?;
        let mut fillers = JoinSet::new();
        for first in 0..FILLERS {
            let (mut connection, token, scale) = (self.connect().await?, token.clone(), *scale);
            fillers.spawn(async move {
                let author = Author::new();
                for number in (first..scale.messages).step_by(FILLERS) {
                    let body = author.inbox_message(number, &scale);
                    connection.json(&Request::post(&api("/mail/send"), &token, &body), 202).await?;
                }
                Outcome::Ok(())
            });
        }
        while let Some(filled) = fillers.join_next().await {
            filled??;
        }
        self.server.settle().await?;
        same("messages in the INBOX", self.inbox_total(READER).await?, scale.messages as u64)
    }
}

/// A path below the API's root.
pub(crate) fn api(path: &str) -> String {
    format!("/api/v1{path}")
}

/// A login with a wrong password, with another mailbox and client address for each number. The addresses are
/// those of RFC 2544, appendix C.2.2.
pub(crate) fn wrong_password(number: usize) -> Request {
    const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
    const ADDRESSES: usize = 1 << 17;
    let client = FIRST + u32::try_from(number % ADDRESSES).unwrap_or_default();
    let guess = json!({ "email": format!("user{number}@bench.test"), "password": "wrong password" });
    Request::post(&api("/auth/login"), "", &guess).forwarded_for(client.into())
}

/// The database in a server's directory.
pub(crate) fn database(directory: &Path) -> PathBuf {
    directory.join("mailapi-data/mailapi.db")
}

/// The database of a stopped server that has sent one ordinary message: the template for the rows of the disk
/// floor.
pub(crate) async fn template_of_one_message(product: &Product) -> Outcome<TempDir> {
    let site = MailSite::with_people(product).await?;
    let message = Author::new().ordinary_message(1);
    site.post("/mail/send", &message, 202).await?;
    site.server.settle().await?;
    same("messages of the template", site.inbox_total(mail::RECEIVER).await?, 1)?;
    site.stop().await
}
