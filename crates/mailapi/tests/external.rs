//! An external mail server: a private Postfix and Dovecot with the configuration that `mailapi config` prints, and
//! the real binary in front of them.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod external_host;
mod support;

use std::time::Duration;

use external_host::{Engine, ExternalHost};
use serde_json::{Value, json};

/// Longer than any of these tests needs, shorter than a person would wait.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_message_reaches_every_kind_of_recipient() {
    each_recipient_to_its_end(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_on_postgresql() {
    each_recipient_to_its_end(Engine::Postgres).await;
}

async fn each_recipient_to_its_end(engine: Engine) {
    let host = ExternalHost::open(engine).await;
    host.sink.refuse("bounce@elsewhere.example", &["550 5.1.1 No such user"]);
    host.sink.refuse("later@elsewhere.example", &["450 4.2.0 Come again later"]);
    let to = ["good@elsewhere.example", "bounce@elsewhere.example", "later@elsewhere.example", "bob@example.org"];
    let id = host.send(&to).await;
    let seen = host.watch(&id, "partial", SOON).await;

    let of = |email: &str| {
        let recipients = seen["recipients"].as_array().unwrap();
        recipients.iter().find(|recipient| recipient["email"] == email).unwrap().clone()
    };
    assert_eq!(of("good@elsewhere.example")["status"], "sent");
    assert_eq!(of("bounce@elsewhere.example")["status"], "bounced");
    assert_eq!(of("bounce@elsewhere.example")["dsn_code"], "5.1.1");
    assert_eq!(of("later@elsewhere.example")["status"], "sent");
    assert_eq!(of("bob@example.org")["status"], "sent");
    let inbox = host.get("/mailbox/bob@example.org/messages").await.expect(200);
    assert_eq!((&inbox["total"], &inbox["messages"][0]["subject"]), (&json!(1), &json!("Hello")));
    // Postfix also reports the bounce to the sender by mail.
    let notices = host.get("/mailbox/ann@example.org/messages").await.expect(200);
    assert_eq!(notices["total"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_stored_is_not_transmitted() {
    let host = ExternalHost::open(Engine::Sqlite).await;
    let database = rusqlite::Connection::open(host.work_dir.path().join("db/mailapi.db")).unwrap();
    let stop = "CREATE TRIGGER stop BEFORE INSERT ON sent_messages BEGIN SELECT RAISE(FAIL, 'stopped'); END";
    database.execute_batch(stop).unwrap();
    let refused = host.try_send(&["good@elsewhere.example"]).await;
    assert!(refused.status >= 500, "{}", refused.text());
    database.execute_batch("DROP TRIGGER stop").unwrap();

    // The envelope of the failed message was sent already, and Postfix discarded it.
    let next = host.send(&["good@elsewhere.example"]).await;
    host.watch(&next, "sent", SOON).await;
    assert_eq!(host.sink.received().len(), 1);
    assert_eq!(host.get("/mail/sent").await.expect(200)["total"], 1);
    assert_eq!(host.health().await["status"], "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_postfix_sends_fail_on_record_and_reading_works() {
    let mut host = ExternalHost::open(Engine::Sqlite).await;
    host.postfix.kill();
    let refused = host.try_send(&["bob@example.org"]).await;
    assert_eq!(refused.error(), (500, "SEND_FAILED".to_owned()));
    let sent = host.get("/mail/sent").await.expect(200);
    assert_eq!((&sent["total"], &sent["messages"][0]["status"]), (&json!(1), &json!("failed")));
    assert_eq!(host.get("/mailbox/bob@example.org/messages").await.status, 200);

    host.postfix.restart().await;
    let id = host.send_when_it_works(&["bob@example.org"], SOON).await;
    host.watch(&id, "sent", SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_dovecot_reading_fails_quickly_and_sending_goes_on() {
    let mut host = ExternalHost::open(Engine::Sqlite).await;
    host.dovecot.stop();
    let reading = tokio::time::timeout(Duration::from_secs(5), host.get("/mailbox/bob@example.org/messages")).await;
    assert_eq!(reading.expect("an answer at once").error(), (500, "IMAP_ERROR".to_owned()));
    let id = host.send(&["good@elsewhere.example"]).await;
    host.watch(&id, "sent", SOON).await;
    // Mail for a local mailbox waits in the queue until Dovecot runs.
    let id = host.send(&["bob@example.org"]).await;
    host.dovecot.resume().await;
    host.watch(&id, "sent", SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_dovecot_users_are_listed_and_none_is_deleted() {
    let mut host = ExternalHost::open(Engine::Sqlite).await;
    let id = host.send(&["ann@example.org", "bob@example.org"]).await;
    host.watch(&id, "sent", SOON).await;
    assert_eq!(message_counts(&host).await, [("ann", 1), ("bob", 1)].map(counted));

    host.dovecot.break_mailbox("ann@example.org").await;
    // A list may show cached usage for a minute; the usage of a single account is current.
    assert_eq!(host.get("/users/ann@example.org").await.expect(200)["user"]["quota_known"], false);
    assert_eq!(message_counts(&host).await, [("ann", 0), ("bob", 1)].map(counted));
    assert_eq!(users_shown(&host), ["ann@example.org ?", "bob@example.org 1"]);
    assert_purge_and_delete_fail(&host, "ann@example.org").await;

    host.dovecot.stop();
    // A Dovecot process with an open connection may outlive the master for a while.
    host.restart_mailapi();
    let counts = tokio::time::timeout(SOON, message_counts(&host)).await;
    assert_eq!(counts.expect("an answer, and no wait for Dovecot"), [("ann", 0), ("bob", 0)].map(counted));
    assert_eq!(users_shown(&host), ["ann@example.org ?", "bob@example.org ?"]);
    assert_purge_and_delete_fail(&host, "bob@example.org").await;

    host.dovecot.resume().await;
    host.restart_mailapi();
    assert_eq!(message_counts(&host).await, [("ann", 0), ("bob", 1)].map(counted));
    // A mailbox without a home directory is different: it is empty.
    host.dovecot.mend_mailbox("ann@example.org");
    assert_eq!(host.request("DELETE", "/users/ann@example.org/purge").await.expect(200)["messages_removed"], 0);
    assert_eq!(host.request("DELETE", "/users/ann@example.org").await.status, 200);
}

async fn assert_purge_and_delete_fail(host: &ExternalHost, email: &str) {
    for path in [format!("/users/{email}/purge"), format!("/users/{email}")] {
        assert_eq!(host.request("DELETE", &path).await.error(), (500, "IMAP_ERROR".to_owned()), "{path}");
    }
    assert_eq!(host.get(&format!("/users/{email}")).await.status, 200);
}

async fn message_counts(host: &ExternalHost) -> Vec<(String, u64)> {
    let listed = host.get("/users").await.expect(200);
    let count = |user: &Value| {
        let name = user["email"].as_str().unwrap().split_once('@').unwrap().0;
        counted((name, user["message_count"].as_u64().unwrap()))
    };
    let mut counts: Vec<_> = listed["users"].as_array().unwrap().iter().map(count).collect();
    counts.sort();
    counts
}

fn counted((name, messages): (&str, u64)) -> (String, u64) {
    (name.to_owned(), messages)
}

/// Returns the addresses and their numbers of messages, as `mailapi user list` prints them.
fn users_shown(host: &ExternalHost) -> Vec<String> {
    let output = host.command(&["user", "list"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let shown = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        format!("{} {}", columns[0], columns[columns.len() - 3])
    };
    let mut shown: Vec<_> = text.lines().skip(1).map(shown).collect();
    shown.sort();
    shown
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_names_a_log_that_is_missing() {
    let mut host = ExternalHost::open(Engine::Sqlite).await;
    let health = host.health().await;
    assert_eq!(health["checks"], json!({ "database": "ok", "smtp": "ok", "imap": "ok", "log": "ok" }));
    host.log = host.work_dir.path().join("nowhere/mail.log");
    host.restart_mailapi();
    host.until(SOON, async || host.health().await["checks"]["log"] == "unavailable").await;
    assert_eq!(host.health().await["status"], "degraded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_finds_what_is_wrong_and_says_how_to_mend_it() {
    let mut host = ExternalHost::open(Engine::Sqlite).await;
    let (code, report) = host.doctor();
    assert_eq!(code, Some(0), "{report}");
    let parts =
        ["database", "SMTP", "relaying", "IMAP", "master login", "doveadm", "log", "queue ids", "queue changes"];
    for part in parts {
        assert!(report.contains(&format!("ok     {part}: ")), "{part}\n{report}");
    }
    assert!(report.contains("Postfix finds example.org") && report.contains("Postfix finds bob@"), "{report}");

    host.dovecot.stop();
    host.log = host.work_dir.path().join("nowhere/mail.log");
    let (code, report) = host.doctor();
    assert_eq!(code, Some(1), "{report}");
    for part in ["IMAP", "doveadm", "log"] {
        assert!(report.contains(&format!("WRONG  {part}: ")), "{part}\n{report}");
    }
    assert_eq!(report.matches("to fix it: ").count(), 3, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_names_a_port_that_does_not_relay() {
    let mut host = ExternalHost::open(Engine::Sqlite).await;
    // This port accepts mail from any client, but only for local mailboxes.
    host.submission = host.postfix.smtp();
    let (code, report) = host.doctor();
    assert_eq!(code, Some(1), "{report}");
    assert!(report.contains("ok     SMTP: ") && report.contains("WRONG  relaying: "), "{report}");
    assert!(report.contains("Relay access denied"), "{report}");
    assert_eq!(report.matches("to fix it: ").count(), 1, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_names_a_master_password_that_dovecot_refuses() {
    let mut host = ExternalHost::open(Engine::Sqlite).await;
    host.more.push(("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", "mistyped"));
    let (code, report) = host.doctor();
    assert_eq!(code, Some(1), "{report}");
    assert!(report.contains("WRONG  master login: ") && report.contains("compare master_user"), "{report}");
    assert_eq!(report.matches("to fix it: ").count(), 1, "{report}");
    assert!(!report.contains("mistyped"), "{report}");

    // Only without any user does the doctor have no mailbox for the check.
    for name in ["ann", "bob"] {
        assert_eq!(host.request("DELETE", &format!("/users/{name}@example.org")).await.status, 200);
    }
    let (code, report) = host.doctor();
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("-      master login: not checked, because there is no user"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_mailbox_costs_no_log_in() {
    let host = ExternalHost::open(Engine::Sqlite).await;
    let missing = host.get("/mailbox/nobody@example.org/folders").await;
    assert_eq!(missing.error(), (404, "MAILBOX_NOT_FOUND".to_owned()));
    assert_eq!(host.get("/mailbox/bob@example.org/folders").await.status, 200);
    let log = host.dovecot.log();
    assert!(log.contains("bob@example.org") && !log.contains("nobody@example.org"), "{log}");
    assert_eq!(host.request("DELETE", "/users/bob@example.org").await.status, 200);
    assert_eq!(host.get("/mailbox/bob@example.org/folders").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purging_and_removing_a_mailbox_go_through_doveadm() {
    let host = ExternalHost::open(Engine::Sqlite).await;
    for _ in 0..3 {
        let id = host.send(&["bob@example.org"]).await;
        host.watch(&id, "sent", SOON).await;
    }
    let purged = host.request("DELETE", "/users/bob@example.org/purge").await.expect(200);
    assert_eq!(purged["messages_removed"], 3, "{purged}");
    assert_eq!(host.get("/mailbox/bob@example.org/messages").await.expect(200)["total"], 0);
    assert_eq!(host.request("DELETE", "/users/bob@example.org").await.status, 200);
    assert_eq!(host.get("/mailbox/bob@example.org/messages").await.status, 404);
}
