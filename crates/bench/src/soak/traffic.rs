//! The daily traffic of a mail server: each kind of client at its own pace.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::imap::MailProgram;
use crate::client::http::{Connection, Request};
use crate::client::smtp;
use crate::load::Client;
use crate::mail::{Author, PLANTED, READER, RECEIVER, WRITER};
use crate::mail_site::{MailSite, PASSWORD, api, wrong_password};
use crate::outcome::{Failure, Outcome, same};
use crate::scale::FULL;

/// The name of the count of messages to another server.
pub(super) const TO_ANOTHER_SERVER: &str = "sent to another server";
/// The sender of mail from outside, and recipient of outgoing mail.
const OUTSIDER: &str = "somebody@outside.example";
/// Keeps sessions shorter than an hour, after which the listeners end them.
const MESSAGES_PER_SMTP_CONNECTION: usize = 50;

/// The number of operations of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) what: &'static str,
    pub(super) times: usize,
}

/// All running clients.
pub(super) struct Traffic {
    running: JoinSet<Outcome<Count>>,
    end: Instant,
    /// Factor on the paces below.
    haste: f64,
}

impl Traffic {
    /// Starts all clients, which run until `end`.
    pub(super) async fn begin(site: &MailSite, haste: f64, end: Instant) -> Outcome<Self> {
        let mut traffic = Self { running: JoinSet::new(), end, haste };
        let (reader, writer) = (site.user_token(READER).await?, site.user_token(WRITER).await?);
        let server = &site.server;
        let http = async |token: &str| Outcome::Ok(Api { http: site.connect().await?, token: token.to_owned() });

        traffic.go(
            "sent to a mailbox here",
            150,
            Sender { api: http(&writer).await?, author: Author::new(), to: READER },
        );
        traffic.go(TO_ANOTHER_SERVER, 500, Sender { api: http(&writer).await?, author: Author::new(), to: OUTSIDER });
        traffic.go("lists read on, with attachments", 100, Browser { api: http(&reader).await? });
        traffic.go("searches", 500, Searcher { api: http(&reader).await? });
        traffic.go("sent lists and statuses", 200, Follower { api: http(&writer).await? });
        traffic.go("statistics", 500, Statistician { api: http(&server.admin).await? });
        traffic.go("logins and logouts", 2_000, Visitor { api: http("").await? });
        traffic.go("tokens made and revoked", 2_000, TokenMaker { api: http(&server.admin).await? });
        if let Some(address) = server.smtp {
            traffic.go("mailboxes emptied", 120_000, Purger { address: server.http, admin: server.admin.clone() });
            let submitter = Submitter { address, login: None, from: OUTSIDER };
            traffic.go("messages from outside", 300, MailIn { submitter, connection: None, author: Author::new() });
        }
        if let Some(address) = server.submission {
            let submitter = Submitter { address, login: Some(WRITER), from: WRITER };
            traffic.go(
                "messages from mail programs",
                2_000,
                MailIn { submitter, connection: None, author: Author::new() },
            );
        }
        if let Some(address) = server.imap {
            let (user, password) = (READER.to_owned(), PASSWORD.to_owned());
            traffic.go("IMAP sessions", 2_000, MailProgram { address, user, password });
        }
        Ok(traffic)
    }

    /// Waits for all clients and returns their counts; the first failure ends the run.
    pub(super) async fn ended(mut self) -> Outcome<Vec<Count>> {
        let mut counts = Vec::new();
        while let Some(count) = self.running.join_next().await {
            counts.push(count??);
        }
        counts.sort_by_key(|count| std::cmp::Reverse(count.times));
        Ok(counts)
    }

    fn go(&mut self, what: &'static str, pause_millis: u64, mut client: impl Client) {
        let (end, pause) = (self.end, Duration::from_millis(pause_millis).div_f64(self.haste));
        self.running.spawn(async move {
            let mut pace = tokio::time::interval(pause);
            // A slow server gets fewer operations instead of a burst of late ones.
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // The first tick is immediate; skip it, so that a mailbox is not emptied before mail arrives.
            pace.tick().await;
            let mut times = 0;
            while tokio::time::timeout_at(end, pace.tick()).await.is_ok() {
                client.operate(times).await.map_err(|failure| Failure::new(format!("{what}: {failure:?}")))?;
                times += 1;
            }
            Ok(Count { what, times })
        });
    }
}

/// A persistent connection with its token.
struct Api {
    http: Connection,
    token: String,
}

impl Api {
    async fn get(&mut self, path: &str) -> Outcome<Value> {
        self.http.json(&Request::get(&api(path), &self.token), 200).await
    }

    async fn post(&mut self, path: &str, body: &Value, status: u16) -> Outcome<Value> {
        self.http.json(&Request::post(&api(path), &self.token, body), status).await
    }

    async fn delete(&mut self, path: &str) -> Outcome<Value> {
        self.http.json(&Request::delete(&api(path), &self.token), 200).await
    }
}

struct Sender {
    api: Api,
    author: Author,
    to: &'static str,
}

impl Client for Sender {
    async fn operate(&mut self, number: usize) -> Outcome {
        let mut message = self.author.inbox_message(number, &FULL);
        message["to"] = json!([self.to]);
        self.api.post("/mail/send", &message, 202).await.map(drop)
    }
}

/// Lists a folder, reads a message, and downloads its attachment, if any.
struct Browser {
    api: Api,
}

impl Client for Browser {
    async fn operate(&mut self, number: usize) -> Outcome {
        let list = self.api.get(&format!("/mailbox/{READER}/messages")).await?;
        let page = list["messages"].as_array().ok_or_else(|| Failure::new("a list without messages"))?;
        let with = page.iter().find(|it| number.is_multiple_of(4) && it["has_attachments"] == true);
        let Some(summary) = with.or_else(|| page.get(number % page.len().max(1))) else { return Ok(()) };
        let (message, wanted) = (format!("/mailbox/{READER}/messages/{}", summary["uid"]), summary["subject"].clone());
        let (status, body) = self.api.http.exchange(&Request::get(&api(&message), &self.api.token)).await?;
        // The mailbox may have been emptied since the listing.
        if status == 404 {
            return Ok(());
        }
        same("the status of a message", status, 200)?;
        let read: Value = serde_json::from_slice(body)?;
        same("the subject of a message", &read["subject"], &wanted)?;
        let Some(index) = read["attachments"][0]["index"].as_u64() else { return Ok(()) };
        let request = Request::get(&api(&format!("{message}/attachment/{index}")), &self.api.token);
        match self.api.http.count_body(&request).await? {
            (200 | 404, _) => Ok(()),
            (status, _) => Err(Failure::new(format!("an attachment was answered {status}"))),
        }
    }
}

struct Searcher {
    api: Api,
}

impl Client for Searcher {
    async fn operate(&mut self, number: usize) -> Outcome {
        // A match, no match, and a text too short for the index.
        let text = [PLANTED, "nowhere to be found", "zq"][number % 3];
        let text = text.replace(' ', "%20");
        self.api.get(&format!("/mailbox/{READER}/search?q={text}&folder=*")).await.map(drop)
    }
}

/// Lists sent mail and reads a status.
struct Follower {
    api: Api,
}

impl Client for Follower {
    async fn operate(&mut self, number: usize) -> Outcome {
        let sent = self.api.get("/mail/sent").await?;
        let page = sent["messages"].as_array().ok_or_else(|| Failure::new("a sent list without messages"))?;
        let Some(message) = page.get(number % page.len().max(1)) else { return Ok(()) };
        let id = message["message_id"].as_str().unwrap_or_default();
        let status = self.api.get(&format!("/mail/{id}/status")).await?;
        same("the message of a status", status["message_id"].as_str(), Some(id))
    }
}

struct Statistician {
    api: Api,
}

impl Client for Statistician {
    async fn operate(&mut self, number: usize) -> Outcome {
        let path =
            ["/stats/delivery", "/stats/domains", "/stats/delivery?group_by=hour", "/users", "/mail/delivery-log"];
        self.api.get(path[number % path.len()]).await.map(drop)
    }
}

/// Logs in, queries its own account, and logs out; sometimes uses a wrong password.
struct Visitor {
    api: Api,
}

impl Client for Visitor {
    async fn operate(&mut self, number: usize) -> Outcome {
        if number % 10 == 9 {
            return self.api.http.json(&wrong_password(number), 401).await.map(drop);
        }
        self.api.token.clear();
        let session = self.api.post("/auth/login", &json!({ "email": READER, "password": PASSWORD }), 200).await?;
        session["token"].as_str().unwrap_or_default().clone_into(&mut self.api.token);
        self.api.get("/auth/me").await?;
        self.api.post("/auth/logout", &json!({}), 200).await.map(drop)
    }
}

struct TokenMaker {
    api: Api,
}

impl Client for TokenMaker {
    async fn operate(&mut self, _: usize) -> Outcome {
        let made = self.api.post("/tokens", &json!({ "name": "soak", "email": READER }), 201).await?;
        let (id, token) = (made["id"].clone(), made["token"].as_str().unwrap_or_default());
        self.api.http.json(&Request::get(&api("/tokens/me"), token), 200).await?;
        self.api.delete(&format!("/tokens/{id}")).await?;
        self.api.http.json(&Request::get(&api("/tokens/me"), token), 401).await.map(drop)
    }
}

/// Empties the mailboxes, so that they stay limited in size. Opens a connection each time, since the server would
/// close an idle one in between.
struct Purger {
    address: std::net::SocketAddr,
    admin: String,
}

impl Client for Purger {
    async fn operate(&mut self, _: usize) -> Outcome {
        let mut api = Api { http: Connection::open(self.address).await?, token: self.admin.clone() };
        for mailbox in [READER, RECEIVER] {
            api.delete(&format!("/users/{mailbox}/purge")).await?;
        }
        Ok(())
    }
}

/// A listener for submission, with the sender and its login.
struct Submitter {
    address: std::net::SocketAddr,
    login: Option<&'static str>,
    from: &'static str,
}

struct MailIn {
    submitter: Submitter,
    connection: Option<smtp::Connection>,
    author: Author,
}

impl Client for MailIn {
    async fn operate(&mut self, number: usize) -> Outcome {
        if number.is_multiple_of(MESSAGES_PER_SMTP_CONNECTION) {
            self.connection = None;
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.submitter.open().await?),
        };
        let message = self.author.outside_message(number, RECEIVER).replace(OUTSIDER, self.submitter.from);
        connection.send(&smtp::Mail::new(self.submitter.from, RECEIVER, &message)).await
    }
}

impl Submitter {
    async fn open(&self) -> Outcome<smtp::Connection> {
        let mut connection = smtp::Connection::open(self.address).await?;
        if let Some(user) = self.login {
            connection.log_in(user, PASSWORD).await?;
        }
        Ok(connection)
    }
}
