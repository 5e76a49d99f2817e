//! A mail server of the operator's own: a private Postfix and Dovecot with what `mailapi config` prints for them, and
//! the real binary in front of them.

mod external_office;
mod support;

use std::time::Duration;

use external_office::Office;
use serde_json::json;

/// Longer than any of these stories needs, shorter than a person would wait.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_message_to_a_good_a_bouncing_a_deferring_and_a_local_recipient() {
    let office = Office::open().await;
    office.sink.refuse("bounce@elsewhere.example", &["550 5.1.1 No such user"]);
    office.sink.refuse("later@elsewhere.example", &["450 4.2.0 Come again later"]);
    let to = ["good@elsewhere.example", "bounce@elsewhere.example", "later@elsewhere.example", "bob@example.org"];
    let id = office.send(&to).await;
    let seen = office.watch(&id, "partial", SOON).await;

    let of = |email: &str| {
        let recipients = seen["recipients"].as_array().unwrap();
        recipients.iter().find(|recipient| recipient["email"] == email).unwrap().clone()
    };
    assert_eq!(of("good@elsewhere.example")["status"], "sent");
    assert_eq!(of("bounce@elsewhere.example")["status"], "bounced");
    assert_eq!(of("bounce@elsewhere.example")["dsn_code"], "5.1.1");
    assert_eq!(of("later@elsewhere.example")["status"], "sent");
    assert_eq!(of("bob@example.org")["status"], "sent");
    let inbox = office.get("/mailbox/bob@example.org/messages").await.expect(200);
    assert_eq!((&inbox["total"], &inbox["messages"][0]["subject"]), (&json!(1), &json!("Hello")));
    // The sender is told by mail, too, of what bounced.
    let notices = office.get("/mailbox/ann@example.org/messages").await.expect(200);
    assert_eq!(notices["total"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_postfix_a_send_fails_and_is_recorded_and_reading_goes_on() {
    let mut office = Office::open().await;
    office.postfix.kill();
    let refused = office.try_send(&["bob@example.org"]).await;
    assert_eq!(refused.error(), (500, "SEND_FAILED".to_owned()));
    let sent = office.get("/mail/sent").await.expect(200);
    assert_eq!((&sent["total"], &sent["messages"][0]["status"]), (&json!(1), &json!("failed")));
    assert_eq!(office.get("/mailbox/bob@example.org/messages").await.status, 200);

    office.postfix.restart().await;
    let id = office.send_when_it_works(&["bob@example.org"], SOON).await;
    office.watch(&id, "sent", SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_dovecot_reading_fails_quickly_and_sending_goes_on() {
    let mut office = Office::open().await;
    office.dovecot.stop();
    let reading = tokio::time::timeout(Duration::from_secs(5), office.get("/mailbox/bob@example.org/messages")).await;
    assert_eq!(reading.expect("an answer at once").error(), (500, "IMAP_ERROR".to_owned()));
    let id = office.send(&["good@elsewhere.example"]).await;
    office.watch(&id, "sent", SOON).await;
    // What is for a mailbox here waits for Dovecot.
    let id = office.send(&["bob@example.org"]).await;
    office.dovecot.resume().await;
    office.watch(&id, "sent", SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_names_a_log_that_is_missing() {
    let mut office = Office::open().await;
    let health = office.health().await;
    assert_eq!(health["checks"], json!({ "database": "ok", "smtp": "ok", "imap": "ok", "log": "ok" }));
    office.log = office.place.path().join("nowhere/mail.log");
    office.restart_mailapi();
    office.until(SOON, async || office.health().await["checks"]["log"] == "unavailable").await;
    assert_eq!(office.health().await["status"], "degraded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purging_and_removing_a_mailbox_go_through_doveadm() {
    let office = Office::open().await;
    for _ in 0..3 {
        let id = office.send(&["bob@example.org"]).await;
        office.watch(&id, "sent", SOON).await;
    }
    let purged = office.request("DELETE", "/users/bob@example.org/purge").await.expect(200);
    assert_eq!(purged["messages_removed"], 3, "{purged}");
    assert_eq!(office.get("/mailbox/bob@example.org/messages").await.expect(200)["total"], 0);
    assert_eq!(office.request("DELETE", "/users/bob@example.org").await.status, 200);
    assert_eq!(office.get("/mailbox/bob@example.org/messages").await.status, 404);
}

/// Whatever is killed while mail is being sent: who was told 202 finds the message delivered once, and its status
/// right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_random_lose_nothing_and_double_nothing() {
    const SENDS: usize = 150;
    const KILL_EVERY: usize = 25;
    let mut office = Office::open().await;
    let mut taken = Vec::new();
    for number in 0..SENDS {
        match (number % KILL_EVERY, number / KILL_EVERY % 3) {
            (12, 0) => office.kill_mailapi(),
            (12, 1) => {
                office.postfix.kill();
                office.postfix.restart().await;
            }
            (12, _) => {
                office.dovecot.kill();
                office.resume_dovecot().await;
            }
            _ => {}
        }
        let answer = office.try_send(&[&format!("r{number}@elsewhere.example"), "bob@example.org"]).await;
        if answer.status == 202 {
            taken.push((number, answer.json()["message_id"].as_str().unwrap().to_owned()));
        }
    }
    assert!(taken.len() > SENDS / 2, "only {} of {SENDS} were taken", taken.len());
    for (_, id) in &taken {
        office.watch(id, "sent", Duration::from_secs(60)).await;
    }
    let received = office.sink.received();
    for (number, _) in taken {
        let address = format!("r{number}@elsewhere.example");
        let copies = received.iter().filter(|mail| mail.recipients.iter().any(|to| to.contains(&address))).count();
        assert_eq!(copies, 1, "{address}");
    }
}
