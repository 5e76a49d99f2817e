//! An installation with an external user database: the real binary in front of its Dovecot.

mod support;

use std::time::Duration;

use mailapi_testkit::{Answer, Dovecot, ForeignSchema, ForeignUsers, SmtpSink};
use serde_json::{Value, json};
use support::{Server, WorkDir};

/// Longer than one synchronization takes.
const SOON: Duration = Duration::from_secs(60);
/// Password of the users in that database.
const PASSWORD: &str = "Hello world!";

struct Installation {
    work_dir: WorkDir,
    dovecot: Dovecot,
    sink: SmtpSink,
    users: ForeignUsers,
    client: reqwest::Client,
}

impl Installation {
    async fn open(users: ForeignUsers) -> Self {
        let dovecot = Dovecot::start_with("").await;
        for name in ["ann", "bob"] {
            let address = format!("{name}@example.org");
            dovecot.put_mailbox(&address, None);
            let hash = ForeignSchema::HELLO_WORLD;
            let id = name.len() + usize::from(name == "bob");
            users.sql(&format!("INSERT INTO virtual_users VALUES ({id}, '{address}', '{hash}')")).await;
        }
        let (work_dir, sink) = (WorkDir::new(), SmtpSink::start().await);
        Self { work_dir, dovecot, sink, users, client: reqwest::Client::new() }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let schema = ForeignSchema::VIRTUAL_USERS;
        let mut command = self.work_dir.command(arguments);
        command
            .env("MAILAPI_MAIL__BACKEND", "external")
            .env("MAILAPI_MAIL__EXTERNAL__IMAP__PORT", self.dovecot.imap().port().to_string())
            .env("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_USER", Dovecot::MASTER_USER)
            .env("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", Dovecot::MASTER_PASSWORD)
            .env("MAILAPI_MAIL__EXTERNAL__SMTP__PORT", self.sink.address().port().to_string())
            .env("MAILAPI_MAIL__EXTERNAL__USERS__URL", self.users.url())
            .env("MAILAPI_MAIL__EXTERNAL__USERS__PASSWORD_QUERY", schema.password)
            .env("MAILAPI_MAIL__EXTERNAL__USERS__MAILBOX_QUERY", schema.mailboxes);
        command
    }

    fn doctor(&self) -> String {
        String::from_utf8(self.command(&["doctor"]).output().unwrap().stdout).unwrap()
    }
}

struct Api<'a> {
    server: &'a Server,
    client: &'a reqwest::Client,
    token: String,
}

impl Api<'_> {
    async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        let request = self.client.request(method.parse().unwrap(), self.server.api(path)).json(&body);
        Answer::of(request.header("X-MAILAPI-TOKEN", &self.token)).await
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.client.get(self.server.api(path)).header("X-MAILAPI-TOKEN", &self.token);
        Answer::of(request).await.expect(200)
    }
}

async fn an_evening_with(users: ForeignUsers) {
    let installation = Installation::open(users).await;
    assert!(installation.command(&["migrate"]).output().unwrap().status.success());
    // No account is copied before the first start, and the doctor still checks a mailbox.
    let report = installation.doctor();
    for part in ["user database: both queries work", "master login: works"] {
        assert!(report.contains(part), "{part}\n{report}");
    }
    let mut server = Server::start(installation.command(&["serve", "--log-format", "json"]));
    server.drain();
    let admin = Api { server: &server, client: &installation.client, token: server.token() };

    // Users log in with the password from that database, and can read and send.
    let ann = json!({ "email": "ann@example.org", "password": PASSWORD });
    let wrong = json!({ "email": "ann@example.org", "password": "hello world" });
    assert_eq!(admin.ask("POST", "/auth/login", wrong).await.error(), (401, "INVALID_CREDENTIALS".to_owned()));
    let session = admin.ask("POST", "/auth/login", ann).await.expect(200);
    let token = session["token"].as_str().unwrap().to_owned();
    let ann = Api { server: &server, client: &installation.client, token };
    installation.dovecot.deliver("ann@example.org", b"Subject: Old mail\r\n\r\nIt was there before.\r\n").await;
    assert_eq!(ann.get("/mailbox/ann@example.org/messages").await["messages"][0]["subject"], "Old mail");
    let message = json!({ "from": "ann@example.org", "to": ["eve@elsewhere.example"], "body": { "text": "Hello" } });
    assert_eq!(ann.ask("POST", "/mail/send", message).await.status, 202);
    assert_eq!(installation.sink.received().len(), 1);

    // Changes in the user database become visible here.
    let end = tokio::time::Instant::now() + SOON;
    while admin.get("/users").await["total"] != 2 {
        assert!(tokio::time::Instant::now() < end, "the mailboxes of the user database were not copied");
        tokio::task::yield_now().await;
    }
    let new = json!({ "email": "new@example.org", "password": "correct horse battery" });
    for (method, path, body) in [
        ("POST", "/users", new),
        ("PUT", "/users/bob@example.org", json!({ "name": "Bob" })),
        ("POST", "/users/bob@example.org/disable", json!({})),
        ("POST", "/users/bob@example.org/reset-password", json!({})),
        ("DELETE", "/users/bob@example.org", json!({})),
    ] {
        let refused = admin.ask(method, path, body).await;
        assert_eq!(refused.error(), (422, "VALIDATION_ERROR".to_owned()), "{method} {path}");
        assert!(refused.text().contains("user database"), "{}", refused.text());
    }
    let grant = json!({ "email": "bob@example.org", "permission": "view_stats", "domain": "example.org" });
    assert_eq!(admin.ask("POST", "/permissions", grant).await.status, 201);
    let new_token = json!({ "name": "script", "email": "bob@example.org" });
    assert_eq!(admin.ask("POST", "/tokens", new_token).await.status, 201);

    installation.users.sql("DROP TABLE virtual_users").await;
    let report = installation.doctor();
    assert!(report.contains("WRONG  user database: "), "{report}");
    server.stop("TERM");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_installation_is_adopted_with_users_in_sqlite() {
    an_evening_with(ForeignUsers::on_sqlite(&ForeignSchema::VIRTUAL_USERS).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_installation_is_adopted_with_users_in_postgresql() {
    an_evening_with(ForeignUsers::on_postgres(&ForeignSchema::VIRTUAL_USERS).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_scheme_is_named_by_the_doctor_and_in_the_log() {
    let installation = Installation::open(ForeignUsers::on_sqlite(&ForeignSchema::VIRTUAL_USERS).await).await;
    installation.users.sql("UPDATE virtual_users SET password = '{PLAIN}hidden' WHERE email LIKE 'bob@%'").await;
    assert!(installation.command(&["migrate"]).output().unwrap().status.success());
    let report = installation.doctor();
    assert!(report.contains("WRONG  user database: ") && report.contains("{PLAIN} of bob@example.org"), "{report}");

    let mut server = Server::start(installation.command(&["serve", "--log-format", "json"]));
    let bob = json!({ "email": "bob@example.org", "password": "hidden" });
    let refused = Answer::of(installation.client.post(server.api("/auth/login")).json(&bob)).await;
    assert_eq!(refused.error(), (401, "INVALID_CREDENTIALS".to_owned()));
    let line = server.read_until("unsupported password hash scheme; login refused");
    assert_eq!((&line["mailbox"], &line["scheme"]), (&json!("bob@example.org"), &json!("{PLAIN}")));
    assert!(!format!("{report}{line}").contains("hidden"), "{line}");
    server.stop("TERM");
}
