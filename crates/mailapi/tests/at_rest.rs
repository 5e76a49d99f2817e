//! The background loops of an idle server wait without spinning.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod external_host;
mod support;

use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use external_host::{Engine, ExternalHost};
use mailapi_testkit::{PostgresDatabase, PostgresServer};
use serde_json::{Value, json};
use support::{Dialogue, REPORT_ROUNDS, Server, WorkDir, rests};

const PASSWORD: &str = "correct horse battery";
const QUIET: [(&str, &str); 2] = [
    REPORT_ROUNDS,
    // This loop depends only on the clock.
    ("MAILAPI_ADVANCED__SENDING__RECOVERY_INTERVAL", "1h"),
];

/// A server with its built-in mail server, and the mailboxes ann and bob of example.org.
struct EmbeddedHost {
    work_dir: WorkDir,
    server: Server,
    postgres: Option<(Arc<PostgresServer>, PostgresDatabase)>,
}

impl EmbeddedHost {
    async fn open(engine: Engine) -> Self {
        let work_dir = WorkDir::new();
        let postgres = matches!(engine, Engine::Postgres).then(|| {
            let server = Arc::new(PostgresServer::start());
            let database = server.empty_database();
            (server, database)
        });
        let server = Server::start(command(&work_dir, postgres.as_ref(), &["serve", "--log-format", "json"]));
        let mut host = Self { work_dir, server, postgres };
        host.server.drain();
        host.post("/domains", json!({ "domain": "example.org" })).await;
        for name in ["ann", "bob"] {
            host.post("/users", json!({ "email": format!("{name}@example.org"), "password": PASSWORD })).await;
        }
        host
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
        let output = command(&self.work_dir, self.postgres.as_ref(), arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn say(&self, listener: &str, greeting: &str) -> Dialogue {
        Dialogue::begin(self.server.running[listener].as_str().unwrap(), greeting)
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

    /// Opens a session that waits for changes, and drops the connection.
    fn look_and_leave(&self) {
        let mut imap = self.say("imap", "* OK ");
        imap.say(&format!("a LOGIN bob@example.org \"{PASSWORD}\""), "a OK ");
        imap.say("b SELECT INBOX", "b OK ");
        imap.say("c IDLE", "+ ");
    }
}

fn command(
    work_dir: &WorkDir,
    postgres: Option<&(Arc<PostgresServer>, PostgresDatabase)>,
    arguments: &[&str],
) -> Command {
    let mut command = work_dir.command(arguments);
    // The relay is unreachable, so outgoing mail stays in the queue.
    command.envs(QUIET).env("MAILAPI_MAIL__EMBEDDED__RELAY", "127.0.0.1:9");
    if let Some((_, database)) = postgres {
        command.env("MAILAPI_DATABASE__URL", database.url());
    }
    command
}

/// The built-in mail server, on either database engine.
async fn built_in_rests(engine: Engine) {
    let host = EmbeddedHost::open(engine).await;
    host.rests("the start").await;
    host.run(&["token", "list"]);
    host.run(&["domain", "add", "example.net"]);
    host.rests("commands beside it").await;
    let to = |to: &str| json!({ "from": "ann@example.org", "to": [to], "subject": "Hi", "body": { "text": "Hi" } });
    host.post("/mail/send", to("bob@example.org")).await;
    host.post("/mail/send", to("zoe@far.example")).await;
    host.rests("messages by the API").await;
    host.deliver();
    host.rests("a message by SMTP").await;
    host.submit();
    host.rests("a message by submission").await;
    host.look_and_leave();
    host.rests("a closed IMAP connection").await;
    let Some((server, database)) = &host.postgres else { return };
    database.sql("UPDATE domains SET active = active; UPDATE tokens SET is_active = is_active");
    host.rests("a notified change").await;
    server.stop();
    host.rests("the loss of PostgreSQL").await;
    server.start_again();
    host.post("/mail/send", to("bob@example.org")).await;
    host.rests("the return of PostgreSQL").await;
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
    let mut host = ExternalHost::open_with(engine, &QUIET).await;
    let health = host.health_address();
    let rest = async |host: &ExternalHost, after: &str| rests(&health, after, || host.rounds()).await;
    rest(&host, "the start").await;
    assert!(host.command(&["token", "list"]).output().unwrap().status.success());
    rest(&host, "a command beside it").await;
    host.send(&["bob@example.org", "zoe@far.example"]).await;
    rest(&host, "a message by the API").await;
    assert_eq!(host.get("/mailbox/bob@example.org/search?q=works").await.status, 200);
    rest(&host, "a search").await;
    host.dovecot.kill().await;
    host.get("/mailbox/bob@example.org/messages").await;
    rest(&host, "the loss of Dovecot").await;
    host.dovecot.resume().await;
    host.postfix.kill();
    host.try_send(&["bob@example.org"]).await;
    rest(&host, "the loss of Postfix").await;
    host.postfix.restart().await;
    rest(&host, "the return of Postfix").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_in_front_of_postfix_rests_on_sqlite() {
    external_rests(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_in_front_of_postfix_rests_on_postgres() {
    external_rests(Engine::Postgres).await;
}
