//! The real binary on PostgreSQL: several nodes on one database, and a database that restarts.

mod support;

use std::process::Command;
use std::sync::Arc;

use mailapi_testkit::{PostgresDatabase, PostgresServer, SmtpSink};
use serde_json::{Value, json};
use support::{Answer, Server, WorkDir};

/// Maximum time until a server reconnects.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Number of rounds in which two requests collide.
const ROUNDS: usize = 50;

fn on(database: &PostgresDatabase, mut command: Command) -> Command {
    command.env("MAILAPI_DATABASE__URL", database.url());
    command
}

/// Adds a mail server that several nodes can be in front of.
fn in_front_of(mail_server: &SmtpSink, mut command: Command) -> Command {
    command.env("MAILAPI_MAIL__BACKEND", "external");
    command.env("MAILAPI_MAIL__EXTERNAL__SMTP__PORT", mail_server.address().port().to_string());
    command.env("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", "not used");
    command
}

/// A node in front of a mail server that others share.
fn shared_node(work_dir: &WorkDir, database: &PostgresDatabase, mail_server: &SmtpSink) -> Server {
    let command = on(database, work_dir.command(&["serve", "--log-format", "json"]));
    let mut server = Server::start(in_front_of(mail_server, command));
    server.drain();
    server
}

/// A node with the built-in mail server.
fn node(work_dir: &WorkDir, database: &PostgresDatabase) -> Server {
    let mut server = Server::start(on(database, work_dir.command(&["serve", "--log-format", "json"])));
    server.drain();
    server
}

async fn get(server: &Server, path: &str, token: &str) -> (u16, Value) {
    let request = reqwest::Client::new().get(server.api(path)).header("X-MAILAPI-TOKEN", token);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_on_one_database_share_tokens_and_revocations() {
    let database = PostgresServer::shared().empty_database();
    let (one, two, mail_server) = (WorkDir::new(), WorkDir::new(), SmtpSink::start().await);
    let (here, there) = (shared_node(&one, &database, &mail_server), shared_node(&two, &database, &mail_server));
    let admin = here.token();
    assert!(there.first_start.is_none(), "the other node made the first start");
    assert_eq!(get(&there, "/tokens/me", &admin).await.0, 200);

    let made = on(&database, two.command(&["token", "create", "--type", "admin", "--name", "second"]));
    let value =
        String::from_utf8(in_front_of(&mail_server, made).output().unwrap().stdout).unwrap().trim_end().to_owned();
    let (status, me) = get(&here, "/tokens/me", &value).await;
    assert_eq!((status, get(&there, "/tokens/me", &value).await.0), (200, 200), "both nodes cache it now");

    let id = me["id"].as_i64().unwrap();
    let revoke = reqwest::Client::new().delete(here.api(&format!("/tokens/{id}"))).header("X-MAILAPI-TOKEN", &admin);
    assert_eq!(revoke.send().await.unwrap().status().as_u16(), 200);
    assert_eq!(get(&here, "/tokens/me", &value).await.0, 401);
    // The other node receives a notification; only the network bounds the delay.
    while get(&there, "/tokens/me", &value).await.0 != 401 {
        tokio::task::yield_now().await;
    }
}

/// Runs a command beside the built-in mail server; returns its error.
fn complaint(work_dir: &WorkDir, database: &PostgresDatabase, arguments: &[&str]) -> String {
    Answer::of_command(on(database, work_dir.command(arguments)), "").complaint()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_built_in_server_is_refused_with_the_reason() {
    let database = PostgresServer::shared().empty_database();
    let (one, two) = (WorkDir::new(), WorkDir::new());
    let here = node(&one, &database);
    let place = format!(":{}", one.data().canonicalize().unwrap().display());
    for arguments in [&["serve"][..], &["domain", "add", "--init", "example.org"], &["adopt-mail"]] {
        let why = complaint(&two, &database, arguments);
        let start = "database.url: the mail of these accounts is in the data directory ";
        assert!(why.starts_with(start) && why.contains(&place), "{why}");
        assert!(why.contains("a server has been running on it since 20") && why.contains("\"external\""), "{why}");
    }
    // Commands on the right directory work, and so do servers without mail of their own.
    let added = on(&database, one.command(&["domain", "add", "example.org"])).output().unwrap();
    assert!(added.status.success(), "{added:?}");
    let mail_server = SmtpSink::start().await;
    let beside = shared_node(&two, &database, &mail_server);
    assert_eq!(get(&beside, "/domains", &here.token()).await.0, 200);
    drop(beside);

    here.kill();
    let again = node(&one, &database);
    assert_eq!(again.stop("TERM").0, Some(0), "the next start follows a kill at once");
    let why = complaint(&two, &database, &["serve"]);
    assert!(why.contains("no server is running on it") && why.contains("`mailapi adopt-mail`"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mail_can_move_and_another_directory_can_adopt_it() {
    let database = PostgresServer::shared().empty_database();
    let (one, two, three) = (WorkDir::new(), WorkDir::new(), WorkDir::new());
    assert_eq!(node(&one, &database).stop("TERM").0, Some(0));
    // The directory is moved.
    std::fs::rename(one.data(), two.data()).unwrap();
    assert_eq!(node(&two, &database).stop("TERM").0, Some(0));
    assert!(complaint(&one, &database, &["serve"]).contains("`mailapi adopt-mail`"));

    let adopted = on(&database, three.command(&["adopt-mail"])).output().unwrap();
    assert!(adopted.status.success(), "{adopted:?}");
    assert_eq!(node(&three, &database).stop("TERM").0, Some(0));
    assert!(complaint(&two, &database, &["serve"]).contains("`mailapi adopt-mail`"), "the former directory");
}

#[test]
fn a_second_start_says_nothing_of_tables_that_are_there() {
    let (database, work_dir) = (PostgresServer::shared().empty_database(), WorkDir::new());
    assert_eq!(node(&work_dir, &database).stop("TERM").0, Some(0));
    let server = node(&work_dir, &database);
    let said: Vec<_> = server.start.iter().filter_map(|event| event["message"].as_str()).collect();
    assert!(said.iter().all(|message| !message.contains("schema_migrations")), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_database_is_503_and_used_again_when_back() {
    let postgres = Arc::new(PostgresServer::start());
    let database = postgres.empty_database();
    let work_dir = WorkDir::new();
    let server = node(&work_dir, &database);
    let admin = server.token();
    assert_eq!(get(&server, "/domains", &admin).await.0, 200);

    postgres.stop();
    let (status, body) = get(&server, "/domains", &admin).await;
    assert_eq!((status, body["error"].as_str()), (503, Some("SERVICE_UNAVAILABLE")));
    let health = reqwest::get(server.api("/health").replace("/api/v1", "")).await.unwrap();
    assert_eq!(health.status().as_u16(), 503);
    let refused = on(&database, work_dir.command(&["domain", "list"])).output().unwrap();
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(complaint.starts_with("mailapi: database.url: the server cannot be used: "), "{complaint}");
    assert!(!complaint.contains(database.password()), "{complaint}");

    postgres.start_again();
    assert_eq!(get(&server, "/domains", &admin).await.0, 200);
    assert_eq!(server.stop("TERM").0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_at_two_nodes_at_once_has_one_answer() {
    let database = PostgresServer::shared().empty_database();
    let (one, two, mail_server) = (WorkDir::new(), WorkDir::new(), SmtpSink::start().await);
    let (here, there) = (shared_node(&one, &database, &mail_server), shared_node(&two, &database, &mail_server));
    let admin = here.token();
    let post = async |server: &Server, path: &str, key: &str, body: &Value| {
        let request = reqwest::Client::new().post(server.api(path)).header("X-MAILAPI-TOKEN", &admin);
        let response = request.header("Idempotency-Key", key).json(body).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    assert_eq!(post(&here, "/domains", "-", &json!({ "domain": "example.org" })).await.0, 201);
    let ann = json!({ "email": "ann@example.org", "password": "correct horse battery" });
    assert_eq!(post(&here, "/users", "-", &ann).await.0, 201);
    let message =
        json!({ "from": "ann@example.org", "to": ["zoe@far.example"], "subject": "Hi", "body": { "text": "Hi" } });
    for round in 0..ROUNDS {
        let key = format!("invoice {round}");
        let (here, there) =
            tokio::join!(post(&here, "/mail/send", &key, &message), post(&there, "/mail/send", &key, &message));
        assert_eq!((here.0, there.0), (202, 202), "{} {}", here.1, there.1);
        assert_eq!(here.1["message_id"], there.1["message_id"], "round {round}: sent twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_password_is_in_use_after_sighup() {
    let database = PostgresServer::shared().empty_database();
    database.sql("CREATE ROLE changing LOGIN SUPERUSER PASSWORD 'first'");
    let work_dir = WorkDir::new();
    let file = work_dir.path().join("password");
    std::fs::write(&file, "first\n").unwrap();
    let mut command = work_dir.command(&["serve", "--log-format", "json"]);
    let url = database.url_with("localhost", "none", "").replacen("mailapi:none@", "changing@", 1);
    command.env("MAILAPI_DATABASE__URL", url).env("MAILAPI_DATABASE__PASSWORD_FILE", &file);
    let mut server = Server::start(command);
    server.drain();
    let admin = server.token();
    assert_eq!(get(&server, "/domains", &admin).await.0, 200);

    database.sql("ALTER ROLE changing PASSWORD 'second'");
    std::fs::write(&file, "second\n").unwrap();
    server.signal("HUP");
    // With its connections closed, the server can answer only with the new password.
    let answered = async {
        loop {
            database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'changing'");
            if get(&server, "/domains", &admin).await.0 == 200 {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("the server connects with the new password");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_although_its_database_hangs() {
    const SLEEPING: &str =
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    const LOCK: &str = "DO $$ BEGIN LOCK TABLE mail_owner IN ACCESS EXCLUSIVE MODE; PERFORM pg_sleep(600);
        EXCEPTION WHEN query_canceled THEN NULL; END $$";
    let database = PostgresServer::shared().empty_database();
    let work_dir = WorkDir::new();
    let command = on(&database, work_dir.command(&["serve", "--log-format", "json"]));
    let server = Server::start(command);
    std::thread::scope(|scope| {
        // The server cannot release its lease while another session holds the table.
        scope.spawn(|| database.sql(LOCK));
        let looks = (0..1_000).map(|_| database.sql(SLEEPING));
        let holder = looks.into_iter().find(|pid| !pid.is_empty()).expect("the table is locked");
        let (code, log) = server.stop("TERM");
        assert_eq!(database.sql(SLEEPING), holder, "the table is still locked");
        database.sql(&format!("SELECT pg_cancel_backend({holder})"));
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("the lease of the mail was not released"), "{log}");
    });
}
