//! The background loops of an idle server wait.

#[expect(dead_code, reason = "other stories use the rest of it")]
mod external_office;
mod support;

use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use external_office::{Engine, Office};
use mailapi_testkit::{PostgresDatabase, PostgresServer};
use serde_json::{Value, json};
use support::{Dialogue, Place, REPORT_ROUNDS, Server, rests};

const PASSWORD: &str = "correct horse battery";
const QUIET: [(&str, &str); 3] = [
    REPORT_ROUNDS,
    // These loops depend only on the clock.
    ("MAILAPI_STATS__ROLL_UP_PAUSE", "1h"),
    ("MAILAPI_HOUSEKEEPING__RECOVERY_INTERVAL", "1h"),
];

/// A server with the built-in mail server, and the mailboxes ann and bob of example.org.
struct House {
    place: Place,
    server: Server,
    postgres: Option<(Arc<PostgresServer>, PostgresDatabase)>,
}

impl House {
    async fn open(engine: Engine) -> Self {
        let place = Place::new();
        let postgres = matches!(engine, Engine::Postgres).then(|| {
            let server = Arc::new(PostgresServer::start());
            let database = server.empty_database();
            (server, database)
        });
        let server = Server::start(command(&place, postgres.as_ref(), &["serve", "--log-format", "json"]));
        let mut house = Self { place, server, postgres };
        house.server.drain();
        house.post("/domains", json!({ "domain": "example.org" })).await;
        for name in ["ann", "bob"] {
            house.post("/users", json!({ "email": format!("{name}@example.org"), "password": PASSWORD })).await;
        }
        house
    }

    async fn post(&self, path: &str, body: Value) {
        let request = reqwest::Client::new().post(self.server.api(path)).header("X-MAILAPI-TOKEN", self.server.token());
        let answer = request.json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
    }

    async fn rests(&self, after: &str) {
        let health = self.server.api("").replace("/api/v1", "/health");
        rests(&health, after, || self.server.rounds()).await;
    }

    fn run(&self, arguments: &[&str]) {
        let output = command(&self.place, self.postgres.as_ref(), arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn say(&self, door: &str, greeting: &str) -> Dialogue {
        Dialogue::begin(self.server.running[door].as_str().unwrap(), greeting)
    }

    fn deliver(&self) {
        let mut smtp = self.say("smtp", "220 ");
        smtp.say("EHLO mx.example.net", "250 ");
        smtp.say("MAIL FROM:<eve@example.net>", "250 ");
        smtp.say("RCPT TO:<bob@example.org>", "250 ");
        smtp.say("DATA", "354 ");
        smtp.say("Subject: from outside\r\n\r\nHi\r\n.", "250 ");
    }

    fn submit(&self) {
        let plain = STANDARD.encode(format!("\0ann@example.org\0{PASSWORD}"));
        let mut submission = self.say("submission", "220 ");
        submission.say("EHLO client.example.org", "250 ");
        submission.say(&format!("AUTH PLAIN {plain}"), "235 ");
        submission.say("MAIL FROM:<ann@example.org>", "250 ");
        submission.say("RCPT TO:<bob@example.org>", "250 ");
        submission.say("DATA", "354 ");
        submission.say("From: ann@example.org\r\nTo: bob@example.org\r\nSubject: Hi\r\n\r\nHi\r\n.", "250 ");
    }

    /// A session that waits for changes and is cut off.
    fn look_and_leave(&self) {
        let mut imap = self.say("imap", "* OK ");
        imap.say(&format!("a LOGIN bob@example.org \"{PASSWORD}\""), "a OK ");
        imap.say("b SELECT INBOX", "b OK ");
        imap.say("c IDLE", "+ ");
    }
}

fn command(place: &Place, postgres: Option<&(Arc<PostgresServer>, PostgresDatabase)>, arguments: &[&str]) -> Command {
    let mut command = place.command(arguments);
    // The relay is unreachable, so outgoing mail stays in the queue.
    command.envs(QUIET).env("MAILAPI_MAIL__EMBEDDED__RELAY", "127.0.0.1:9");
    if let Some((_, database)) = postgres {
        command.env("MAILAPI_DATABASE__URL", database.url());
    }
    command
}

/// The built-in mail server, on either database engine.
async fn built_in_rests(engine: Engine) {
    let house = House::open(engine).await;
    house.rests("the start").await;
    house.run(&["token", "list"]);
    house.run(&["domain", "add", "example.net"]);
    house.rests("commands beside it").await;
    let to = |to: &str| json!({ "from": "ann@example.org", "to": [to], "subject": "Hi", "body": { "text": "Hi" } });
    house.post("/mail/send", to("bob@example.org")).await;
    house.post("/mail/send", to("zoe@far.example")).await;
    house.rests("messages by the API").await;
    house.deliver();
    house.rests("a message by SMTP").await;
    house.submit();
    house.rests("a message by submission").await;
    house.look_and_leave();
    house.rests("a closed IMAP connection").await;
    let Some((server, database)) = &house.postgres else { return };
    database.sql("UPDATE domains SET active = active; UPDATE tokens SET is_active = is_active");
    house.rests("a notified change").await;
    server.stop();
    house.rests("the loss of PostgreSQL").await;
    server.start_again();
    house.post("/mail/send", to("bob@example.org")).await;
    house.rests("the return of PostgreSQL").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_built_in_server_rests_on_sqlite() {
    built_in_rests(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_built_in_server_rests_on_postgres() {
    built_in_rests(Engine::Postgres).await;
}

/// Postfix and Dovecot, on either database engine.
async fn external_rests(engine: Engine) {
    let mut office = Office::open_with(engine, &QUIET).await;
    let health = office.health_address();
    let rest = async |office: &Office, after: &str| rests(&health, after, || office.rounds()).await;
    rest(&office, "the start").await;
    assert!(office.command(&["token", "list"]).output().unwrap().status.success());
    rest(&office, "a command beside it").await;
    office.send(&["bob@example.org", "zoe@far.example"]).await;
    rest(&office, "a message by the API").await;
    assert_eq!(office.get("/mailbox/bob@example.org/search?q=works").await.status, 200);
    rest(&office, "a search").await;
    office.dovecot.kill().await;
    office.get("/mailbox/bob@example.org/messages").await;
    rest(&office, "the loss of Dovecot").await;
    office.dovecot.resume().await;
    office.postfix.kill();
    office.try_send(&["bob@example.org"]).await;
    rest(&office, "the loss of Postfix").await;
    office.postfix.restart().await;
    rest(&office, "the return of Postfix").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_in_front_of_postfix_rests_on_sqlite() {
    external_rests(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_in_front_of_postfix_rests_on_postgres() {
    external_rests(Engine::Postgres).await;
}
