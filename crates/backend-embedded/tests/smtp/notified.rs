//! Notices about mail from outside, whose sender may be forged.

use mailapi_backend::{BounceKey, Provisioning};
use mailapi_model::{Alias, Timestamp};
use mailapi_testkit::SmtpSink;

use crate::mail_host::{MailHost, address, mail};
use crate::socket::Line;

/// Opens a server with the alias team@here.example of tim@other.example.
async fn with_team() -> (MailHost, SmtpSink) {
    let key = BounceKey::new([7; BounceKey::BYTES]);
    let host = MailHost::open_with(|_, message_store| message_store.return_key = Some(key)).await;
    let (address, members) = (address("team@here.example"), vec![address("tim@other.example")]);
    let team = Alias { address, members, senders: Vec::new(), active: true, created_at: Timestamp::from_seconds(0) };
    host.message_store.put_alias(&team).await.unwrap();
    (host, SmtpSink::start().await)
}

/// Sends a message from outside; returns the reply to its end.
async fn arrives(host: &MailHost, client: [u8; 4], sender: &str, recipients: &[&str]) -> String {
    let mut line = Line::from(client, host.smtp).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    line.say(&format!("MAIL FROM:<{sender}>")).await;
    for recipient in recipients {
        assert!(line.say(&format!("RCPT TO:<{recipient}>")).await.starts_with("250"), "{recipient}");
    }
    line.say("DATA").await;
    line.send(format!("{}{}\r\n", mail("Hello"), "x".repeat(600)).as_bytes()).await;
    line.say(".").await
}

/// Delivers what is due; returns the number of notices that left so far.
async fn notices(host: &MailHost, sink: &SmtpSink) -> usize {
    host.agent_to(sink).deliver_due_once().await.unwrap();
    sink.received().iter().filter(|mail| mail.sender.is_empty()).count()
}

const CLIENT: [u8; 4] = [127, 0, 0, 1];
const FAILING: [&str; 2] = ["full@here.example", "bob@here.example"];

#[tokio::test]
async fn a_forged_sender_gets_few_notices_and_no_message_is_lost() {
    let (host, sink) = with_team().await;
    for n in 0..100 {
        let reply = arrives(&host, CLIENT, &format!("victim+{n}@far.example"), &FAILING).await;
        let expected = if n < 20 { "250" } else { "451 4.7.1" };
        assert!(reply.starts_with(expected), "{n}: {reply}");
    }
    assert_eq!((host.inbox("bob@here.example").await.len(), notices(&host, &sink).await), (20, 20));
    // A message without a failure needs no notice.
    assert!(arrives(&host, CLIENT, "victim@far.example", &["bob@here.example"]).await.starts_with("250"));
    assert!(arrives(&host, CLIENT, "joe@far.example", &FAILING).await.starts_with("250"), "another sender");
    host.wait(60);
    assert!(arrives(&host, CLIENT, "victim@far.example", &FAILING).await.starts_with("250"));
    assert_eq!(notices(&host, &sink).await, 22);
}

#[tokio::test]
async fn a_client_causes_few_notices_to_all_senders_together() {
    let (host, sink) = with_team().await;
    for n in 0..202 {
        let reply = arrives(&host, CLIENT, &format!("victim{n}@far.example"), &FAILING).await;
        assert_eq!(reply.starts_with("250"), n < 200, "{n}: {reply}");
    }
    assert!(arrives(&host, [127, 0, 0, 2], "zoe@far.example", &FAILING).await.starts_with("250"), "another client");
    assert_eq!(notices(&host, &sink).await, 201);
    let rows = |host: &MailHost| -> i64 {
        host.database().query_row("SELECT count(*) FROM drop_hourly", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(rows(&host), 204, "senders, clients, and all together");
    host.wait(60);
    for n in 0..100 {
        arrives(&host, CLIENT, &format!("later{n}@far.example"), &FAILING).await;
    }
    assert!(rows(&host) < 110, "rows of the hour before leave");
}

#[tokio::test]
async fn failures_of_forwarded_mail_cause_few_notices() {
    let (host, sink) = with_team().await;
    sink.refuse("tim@other.example", &["550 5.1.1 Unknown"; 30]);
    for _ in 0..25 {
        assert!(arrives(&host, CLIENT, "victim@far.example", &["team@here.example"]).await.starts_with("250"));
    }
    notices(&host, &sink).await;
    assert_eq!(notices(&host, &sink).await, 20);
    let bounced = host.events().await.iter().filter(|event| event.outcome.as_str() == "bounced").count();
    assert_eq!(bounced, 50, "the log has all: the member's and the alias's");
}

#[tokio::test]
async fn an_author_here_gets_every_notice() {
    let (host, sink) = with_team().await;
    sink.refuse("zoe@far.example", &["550 5.1.1 Unknown"; 30]);
    for _ in 0..25 {
        host.send(&["zoe@far.example"], &mail("Hi")).await;
    }
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    assert_eq!(host.inbox("ann@here.example").await.len(), 25);
}

#[tokio::test]
async fn few_bounces_of_forwarded_mail_go_back_to_one_sender() {
    let (host, sink) = with_team().await;
    assert!(arrives(&host, CLIENT, "zoe@far.example", &["team@here.example"]).await.starts_with("250"));
    host.agent_to(&sink).deliver_due_once().await.unwrap();
    let ours = sink.received().remove(0).sender;
    for n in 0..25 {
        let reply = arrives(&host, CLIENT, "", &[&ours]).await;
        let expected = if n < 20 { "250" } else { "451 4.7.1" };
        assert!(reply.starts_with(expected), "{n}: {reply}");
    }
    assert_eq!(notices(&host, &sink).await, 20);
}
