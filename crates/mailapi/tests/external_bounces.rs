//! Delayed bounces: another server accepts a message and later reports a failure. The real binary runs between a
//! real Postfix and Dovecot.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod external_host;
mod support;

use std::time::Duration;

use external_host::{Engine, ExternalHost};
use serde_json::{Value, json};

/// Longer than the test needs, shorter than a person would wait.
const SOON: Duration = Duration::from_secs(60);

const MAILBOX: &str = "bounces@example.org";

/// Returns the failure notice of the recipients' server.
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
        ("MAILAPI_ADVANCED__EXTERNAL_BOUNCES__POLL_INTERVAL", "100ms"),
    ];
    let host = ExternalHost::open_with(Engine::Sqlite, &settings).await;
    // The mailbox does not exist yet; health and doctor report this.
    host.until(SOON, async || host.health().await["checks"]["bounces"] == "unavailable").await;
    assert_eq!(host.health().await["status"], "ok", "mail goes in and out without it");
    let (code, report) = host.doctor();
    assert!(code == Some(1) && report.contains("WRONG  bounces: "), "{report}");
    let user = json!({ "email": MAILBOX, "password": "correct horse battery" });
    assert_eq!(host.post("/users", user).await.status, 201);
    host.until(SOON, async || host.health().await["checks"]["bounces"] == "ok").await;
    let (_, report) = host.doctor();
    assert!(report.contains("ok     bounces: "), "{report}");

    let to = ["good@elsewhere.example", "full@elsewhere.example", "bob@example.org"];
    let id = host.send(&to).await;
    let sent = host.watch(&id, "sent", SOON).await;
    let received = host.sink.received();
    let return_address = received[0].sender.trim_matches(['<', '>']).to_owned();
    assert!(return_address.starts_with("bounces+") && return_address.ends_with("@example.org"), "{return_address}");

    // Notices with another return address, another recipient or no failure are ignored.
    let forged = [
        (format!("bounces+{}@example.org", "0".repeat(48)), "full@elsewhere.example", "failed"),
        (return_address.clone(), "eve@elsewhere.example", "failed"),
        (return_address.clone(), "good@elsewhere.example", "delayed"),
    ];
    for (address, recipient, action) in &forged {
        host.postfix.deliver("", address, &[notice(address, recipient, action).as_bytes()]).await;
    }
    let true_one = notice(&return_address, "full@elsewhere.example", "failed");
    host.postfix.deliver("", &return_address, &[true_one.as_bytes()]).await;
    let seen = host.watch(&id, "partial", SOON).await;
    let full = recipient(&seen, "full@elsewhere.example");
    assert_eq!((&full["status"], &full["dsn_code"]), (&json!("bounced"), &json!("5.2.2")));
    assert_eq!(full["delivered_at"], recipient(&sent, "full@elsewhere.example")["delivered_at"]);
    assert!(full["bounced_at"].is_string() && full["smtp_response"] == "552 5.2.2 Mailbox full", "{full}");
    assert_eq!(recipient(&seen, "good@elsewhere.example")["status"], "sent");

    // The log shows the author, not the address for bounces.
    let log = host.get(&format!("/mail/delivery-log?message_id={id}")).await.expect(200);
    assert_eq!(log["total"], 4, "{log}");
    assert!(log["entries"].as_array().unwrap().iter().all(|entry| entry["sender"] == "ann@example.org"), "{log}");
    // No message was marked as read, and the author's own mailbox is empty.
    let folders = host.get(&format!("/mailbox/{MAILBOX}/folders")).await.expect(200);
    assert_eq!((&folders["folders"][0]["messages"], &folders["folders"][0]["unread"]), (&json!(4), &json!(4)));
    assert_eq!(host.get("/mailbox/ann@example.org/messages").await.expect(200)["total"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_our_own_mail_server_gives_up_counts_once() {
    let settings = [
        ("MAILAPI_MAIL__EXTERNAL__BOUNCES__MAILBOX", MAILBOX),
        ("MAILAPI_ADVANCED__EXTERNAL_BOUNCES__POLL_INTERVAL", "100ms"),
    ];
    let host = ExternalHost::open_with(Engine::Postgres, &settings).await;
    let user = json!({ "email": MAILBOX, "password": "correct horse battery" });
    assert_eq!(host.post("/users", user).await.status, 201);
    host.sink.refuse("gone@elsewhere.example", &["550 5.1.1 No such user"]);
    let id = host.send(&["gone@elsewhere.example"]).await;
    host.watch(&id, "bounced", SOON).await;
    // Postfix also reports the failure by mail.
    let has_come = async || host.get(&format!("/mailbox/{MAILBOX}/messages")).await.json()["total"] == 1;
    host.until(SOON, has_come).await;
    assert_eq!(host.get("/mail/delivery-log/sync").await.status, 200);
    let seen = host.watch(&id, "bounced", SOON).await;
    assert_eq!(recipient(&seen, "gone@elsewhere.example")["dsn_code"], "5.1.1");
}

/// Returns the failure notice of a server for a member of one of its aliases.
fn notice_of_member(return_address: &str, recipient: &str, member: &str) -> String {
    let final_recipient = format!("Final-Recipient: rfc822; {member}\r\n");
    let original = format!("Original-Recipient: rfc822; {recipient}\r\n{final_recipient}");
    notice(return_address, member, "failed").replace(&final_recipient, &original)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alias_has_not_bounced_because_one_of_its_members_has() {
    let settings = [
        ("MAILAPI_MAIL__EXTERNAL__BOUNCES__MAILBOX", MAILBOX),
        ("MAILAPI_ADVANCED__EXTERNAL_BOUNCES__POLL_INTERVAL", "100ms"),
    ];
    let host = ExternalHost::open_on(Engine::Sqlite, &settings, |postfix| {
        let team = "inline:{ {team@example.org = one@elsewhere.example two@elsewhere.example} }";
        postfix.parameters.push(("virtual_alias_maps".to_owned(), team.to_owned()));
        // One member per transaction, so that a test can reject one of them after DATA.
        postfix.parameters.push(("smtp_destination_recipient_limit".to_owned(), "1".to_owned()));
    });
    let host = host.await;
    let user = json!({ "email": MAILBOX, "password": "correct horse battery" });
    assert_eq!(host.post("/users", user).await.status, 201);
    let notices = async || {
        let listed = host.get(&format!("/mailbox/{MAILBOX}/messages")).await.json();
        listed["total"].as_u64()
    };

    host.sink.refuse_data(&["554 5.7.1 Not this one"]);
    let id = host.send(&["team@example.org"]).await;
    // Postfix reports the failed member in its log and by mail.
    host.until(SOON, async || notices().await == Some(1)).await;
    host.watch(&id, "sent", SOON).await;
    let has_both = async || {
        let seen = host.get(&format!("/mail/{id}/status")).await.json();
        seen["recipients"][0]["partly_bounced_at"].is_string()
    };
    host.until(SOON, has_both).await;
    assert_eq!(host.get("/mail/delivery-log/sync").await.status, 200);
    let seen = host.watch(&id, "sent", SOON).await;
    let team = recipient(&seen, "team@example.org");
    assert_eq!((&team["status"], &team["bounced_at"]), (&json!("sent"), &Value::Null));
    assert!(team["partly_bounced_response"].as_str().unwrap().contains("Not this one"), "{team}");
    let log = host.get(&format!("/mail/delivery-log?message_id={id}")).await.expect(200);
    let mut tried: Vec<_> =
        log["entries"].as_array().unwrap().iter().map(|entry| entry["final_recipient"].as_str().unwrap()).collect();
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried, ["one@elsewhere.example", "two@elsewhere.example"]);
    assert!(log["entries"].as_array().unwrap().iter().all(|entry| entry["recipient"] == "team@example.org"), "{log}");

    // The other member's server reports a failure later. It received no ORCPT, so it has no original recipient.
    let return_address = host.sink.received()[0].sender.trim_matches(['<', '>']).to_owned();
    let reached = host.sink.received()[0].recipients[0].trim_matches(['<', '>']).to_owned();
    host.postfix.deliver("", &return_address, &[notice(&return_address, &reached, "failed").as_bytes()]).await;
    let says_full = async || {
        let seen = host.get(&format!("/mail/{id}/status")).await.json();
        seen["recipients"][0]["partly_bounced_response"] == "552 5.2.2 Mailbox full"
    };
    host.until(SOON, says_full).await;

    // Both members fail at once.
    host.sink.refuse_data(&["554 5.7.1 Nor this one", "554 5.7.1 Nor this one"]);
    let id = host.send(&["team@example.org"]).await;
    let seen = host.watch(&id, "bounced", SOON).await;
    assert_eq!(recipient(&seen, "team@example.org")["partly_bounced_at"], Value::Null);

    // An alias of another server, whose members are unknown here.
    let id = host.send(&["staff@elsewhere.example"]).await;
    host.watch(&id, "sent", SOON).await;
    let received = host.sink.received();
    let return_address = received.last().unwrap().sender.trim_matches(['<', '>']).to_owned();
    let notice = notice_of_member(&return_address, "staff@elsewhere.example", "eve@inside.elsewhere.example");
    host.postfix.deliver("", &return_address, &[notice.as_bytes()]).await;
    let is_reported = async || {
        let seen = host.get(&format!("/mail/{id}/status")).await.json();
        seen["recipients"][0]["partly_bounced_at"].is_string()
    };
    host.until(SOON, is_reported).await;
    host.watch(&id, "sent", SOON).await;
}
