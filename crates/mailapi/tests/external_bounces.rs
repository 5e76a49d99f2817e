//! A server further on that takes a message and gives it up later: the real binary between a real Postfix and Dovecot.

#[expect(dead_code, reason = "other stories use the rest of it")]
mod external_office;
mod support;

use std::time::Duration;

use external_office::{Engine, Office};
use serde_json::{Value, json};

/// Longer than this story needs, shorter than a person would wait.
const SOON: Duration = Duration::from_secs(20);

const MAILBOX: &str = "bounces@example.org";

/// What the server of these recipients writes when it gives them up.
fn notice(return_address: &str, recipient: &str, action: &str) -> String {
    format!(
        "From: MAILER-DAEMON@mx.elsewhere.example\r\nTo: <{return_address}>\r\nSubject: Undelivered\r\n\
         MIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=x\r\n\r\n\
         --x\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n\
         --x\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.elsewhere.example\r\n\r\n\
         Final-Recipient: rfc822; {recipient}\r\nAction: {action}\r\nStatus: 5.2.2\r\n\
         Diagnostic-Code: smtp; 552 5.2.2 Mailbox full\r\n--x--\r\n"
    )
}

fn recipient<'a>(status: &'a Value, email: &str) -> &'a Value {
    status["recipients"].as_array().unwrap().iter().find(|recipient| recipient["email"] == email).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_server_gives_up_later_has_bounced() {
    let settings = [
        ("MAILAPI_MAIL__EXTERNAL__BOUNCES__MAILBOX", MAILBOX),
        ("MAILAPI_MAIL__EXTERNAL__BOUNCES__LIMITS__POLL_INTERVAL", "100ms"),
        ("MAILAPI_MAIL__EXTERNAL__IMAP__POOL__UNKNOWN_MAILBOX_PAUSE", "0s"),
    ];
    let office = Office::open_with(Engine::Sqlite, &settings).await;
    // There is no such mailbox yet, and monitors and the operator are told.
    office.until(SOON, async || office.health().await["checks"]["bounces"] == "unavailable").await;
    assert_eq!(office.health().await["status"], "ok", "mail goes in and out without it");
    let (code, report) = office.doctor();
    assert!(code == Some(1) && report.contains("WRONG  bounces: "), "{report}");
    let user = json!({ "email": MAILBOX, "password": "correct horse battery" });
    assert_eq!(office.post("/users", user).await.status, 201);
    office.until(SOON, async || office.health().await["checks"]["bounces"] == "ok").await;
    let (_, report) = office.doctor();
    assert!(report.contains("ok     bounces: "), "{report}");

    let to = ["good@elsewhere.example", "full@elsewhere.example", "bob@example.org"];
    let id = office.send(&to).await;
    let sent = office.watch(&id, "sent", SOON).await;
    let received = office.sink.received();
    let return_address = received[0].sender.trim_matches(['<', '>']).to_owned();
    assert!(return_address.starts_with("bounces+") && return_address.ends_with("@example.org"), "{return_address}");

    // Nobody believes what was not sent to the address, or not of the message's recipients, or is no failure.
    let forged = [
        (format!("bounces+{}@example.org", "0".repeat(48)), "full@elsewhere.example", "failed"),
        (return_address.clone(), "eve@elsewhere.example", "failed"),
        (return_address.clone(), "good@elsewhere.example", "delayed"),
    ];
    for (address, recipient, action) in &forged {
        office.postfix.deliver("", address, &[notice(address, recipient, action).as_bytes()]).await;
    }
    let true_one = notice(&return_address, "full@elsewhere.example", "failed");
    office.postfix.deliver("", &return_address, &[true_one.as_bytes()]).await;
    let seen = office.watch(&id, "partial", SOON).await;
    let full = recipient(&seen, "full@elsewhere.example");
    assert_eq!((&full["status"], &full["dsn_code"]), (&json!("bounced"), &json!("5.2.2")));
    assert_eq!(full["delivered_at"], recipient(&sent, "full@elsewhere.example")["delivered_at"]);
    assert!(full["bounced_at"].is_string() && full["smtp_response"] == "552 5.2.2 Mailbox full", "{full}");
    assert_eq!(recipient(&seen, "good@elsewhere.example")["status"], "sent");

    // The log names the author, not the address that bounces go to.
    let log = office.get(&format!("/mail/delivery-log?message_id={id}")).await.expect(200);
    assert_eq!(log["total"], 4, "{log}");
    assert!(log["entries"].as_array().unwrap().iter().all(|entry| entry["sender"] == "ann@example.org"), "{log}");
    // Nothing was marked as read, and the author's own mailbox has nothing.
    let folders = office.get(&format!("/mailbox/{MAILBOX}/folders")).await.expect(200);
    assert_eq!((&folders["folders"][0]["messages"], &folders["folders"][0]["unread"]), (&json!(4), &json!(4)));
    assert_eq!(office.get("/mailbox/ann@example.org/messages").await.expect(200)["total"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_our_own_mail_server_gives_up_counts_once() {
    let settings = [
        ("MAILAPI_MAIL__EXTERNAL__BOUNCES__MAILBOX", MAILBOX),
        ("MAILAPI_MAIL__EXTERNAL__BOUNCES__LIMITS__POLL_INTERVAL", "100ms"),
        ("MAILAPI_MAIL__EXTERNAL__IMAP__POOL__UNKNOWN_MAILBOX_PAUSE", "0s"),
    ];
    let office = Office::open_with(Engine::Postgres, &settings).await;
    let user = json!({ "email": MAILBOX, "password": "correct horse battery" });
    assert_eq!(office.post("/users", user).await.status, 201);
    office.sink.refuse("gone@elsewhere.example", &["550 5.1.1 No such user"]);
    let id = office.send(&["gone@elsewhere.example"]).await;
    office.watch(&id, "bounced", SOON).await;
    // Postfix tells it by mail, too.
    let has_come = async || office.get(&format!("/mailbox/{MAILBOX}/messages")).await.json()["total"] == 1;
    office.until(SOON, has_come).await;
    assert_eq!(office.get("/mail/delivery-log/sync").await.status, 200);
    let seen = office.watch(&id, "bounced", SOON).await;
    assert_eq!(recipient(&seen, "gone@elsewhere.example")["dsn_code"], "5.1.1");
}
