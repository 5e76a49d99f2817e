//! Encrypted connections, inbound and outbound.

use std::net::SocketAddr;

use mailapi_backend::Provisioning;
use mailapi_backend_embedded::delivery_agent::{Relay, RelayLogin, RelayTls};
use mailapi_backend_embedded::net::ServerTls;
use mailapi_model::{Outcome, Secret};
use mailapi_tls::Trust;

use crate::mail_host::{MailHost, mail};
use crate::socket::Line;

/// A certificate for `mx.here.example` and 127.0.0.1, and its key.
pub(crate) fn certificate() -> (String, String) {
    let names = ["mx.here.example".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

async fn host_with(certificate: &str, key: &str) -> MailHost {
    let tls = ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    MailHost::open_with(|listeners, _| listeners.tls = Some(tls)).await
}

#[tokio::test]
async fn a_relay_with_a_wrong_certificate_gets_no_password_or_mail() {
    let (pem, key) = certificate();
    let (other, _) = certificate();
    let (here, there) = (MailHost::open().await, host_with(&pem, &key).await);
    here.send(&["bob@here.example", "ann@team.example", "zoe@far.example"], &mail("Hi")).await;
    let agent = here.agent(|settings| {
        let relay = Relay::new("127.0.0.1", there.submission.port());
        let credentials =
            RelayLogin { username: "ann@here.example".to_owned(), password: Secret::new("secret".to_owned()).into() };
        let trust = Trust::Authorities(other.clone().into_bytes());
        settings.relay = Some(Relay { tls: RelayTls::Required, trust, credentials: Some(credentials), ..relay });
    });
    agent.deliver_due_once().await.unwrap();
    let events = here.events().await;
    let last = events.last().unwrap();
    assert_eq!((last.outcome, last.dsn.unwrap().to_string().as_str()), (Outcome::Deferred, "4.7.5"));
    assert!(!last.response.contains("secret"), "{}", last.response);
    assert!(there.queue_is_empty().await);
}

#[tokio::test]
async fn a_relay_is_logged_in_to_over_tls() {
    let (pem, key) = certificate();
    let (here, there) = (MailHost::open().await, host_with(&pem, &key).await);
    here.send(&["zoe@far.example"], &mail("Hi")).await;
    let agent = here.agent(|settings| {
        let relay = Relay::new("127.0.0.1", there.submission.port());
        let credentials =
            RelayLogin { username: "ann@here.example".to_owned(), password: Secret::new("secret".to_owned()).into() };
        let trust = Trust::Authorities(pem.clone().into_bytes());
        settings.relay = Some(Relay { tls: RelayTls::Required, trust, credentials: Some(credentials), ..relay });
    });
    agent.deliver_due_once().await.unwrap();
    assert_eq!(here.reported().await, [("zoe@far.example".to_owned(), Outcome::Sent, "2.0.0".to_owned())]);
    assert!(!there.queue_is_empty().await);
}

#[tokio::test]
async fn tls_that_is_offered_is_used_whatever_the_certificate_says() {
    let (pem, key) = certificate();
    let (here, there) = (MailHost::open().await, host_with(&pem, &key).await);
    // The domain is local on one server only: for the sender, bob is remote.
    here.dns.set_mx("far.example", &["mx.far.example"]);
    here.dns.set_addresses("mx.far.example", &["127.0.0.1"]);
    here.send(&["zoe@far.example"], &mail("Hi")).await;
    there.message_store.put_domain(&"far.example".parse().unwrap()).await.unwrap();
    there.message_store.put_mailbox(&"zoe@far.example".parse().unwrap(), None).await.unwrap();
    let agent = here.agent(|settings| {
        settings.port = there.smtp.port();
        settings.allow_loopback = true;
    });
    agent.deliver_due_once().await.unwrap();
    let inbox = there.inbox("zoe@far.example").await;
    assert!(inbox[0].contains("with ESMTPS id"), "{}", inbox[0]);
}

#[tokio::test]
async fn what_is_said_before_the_handshake_does_not_count() {
    let (pem, key) = certificate();
    let host = host_with(&pem, &key).await;
    let mut line = Line::to(host.submission).await;
    line.reply().await;
    line.say("EHLO client.example").await;
    assert!(line.say("AUTH PLAIN AGFubkBoZXJlLmV4YW1wbGUAc2VjcmV0").await.starts_with("235"));
    assert!(line.say("STARTTLS").await.starts_with("220"));
    assert!(line.start_tls().await);
    line.say("EHLO client.example").await;
    assert!(line.say("MAIL FROM:<ann@here.example>").await.starts_with("530"));
}

/// A connection that is encrypted from the beginning.
async fn encrypted(address: SocketAddr) -> Line {
    let mut line = Line::to(address).await;
    assert!(line.start_tls().await);
    line
}

#[tokio::test]
async fn what_does_not_begin_with_tls_is_closed() {
    let (pem, key) = certificate();
    let (with, without) = (host_with(&pem, &key).await, MailHost::open().await);
    for listener in [with.submissions, with.imaps] {
        let mut line = Line::to(listener).await;
        line.send(b"EHLO client.example\r\n").await;
        let mut answer = String::new();
        while let Some(read) = line.read().await {
            answer.push_str(&read);
        }
        assert!(!answer.contains("220") && !answer.contains("OK"), "{answer}");
    }
    for listener in [without.submissions, without.imaps] {
        assert!(!Line::to(listener).await.start_tls().await, "there is no certificate");
    }
}

#[tokio::test]
async fn submission_over_tls_from_the_beginning() {
    let (pem, key) = certificate();
    let host = host_with(&pem, &key).await;
    let mut line = encrypted(host.submissions).await;
    assert!(line.reply().await.starts_with("220 "));
    line.say("EHLO client.example").await;
    assert!(line.say("STARTTLS").await.starts_with("503 "), "TLS within TLS");
    assert!(line.say("AUTH PLAIN AGFubkBoZXJlLmV4YW1wbGUAc2VjcmV0").await.starts_with("235 "));
    line.say("MAIL FROM:<ann@here.example>").await;
    line.say("RCPT TO:<bob@here.example>").await;
    line.say("DATA").await;
    assert!(line.say("From: ann@here.example\r\n\r\nHi\r\n.").await.starts_with("250 "));
    assert!(host.inbox("bob@here.example").await[0].contains("with ESMTPSA id"));
}

#[tokio::test]
async fn imap_over_tls_from_the_beginning() {
    let (pem, key) = certificate();
    let host = host_with(&pem, &key).await;
    let mut line = encrypted(host.imaps).await;
    let greeting = line.read().await.unwrap();
    assert!(greeting.starts_with("* OK ") && !greeting.contains("STARTTLS"), "{greeting}");
    line.send(b"a LOGIN ann@here.example secret\r\n").await;
    assert!(line.read().await.unwrap().starts_with("a OK "));
}

#[tokio::test]
async fn both_listeners_share_the_limits_of_a_client() {
    let (pem, key) = certificate();
    let tls = ServerTls::from_pem(pem.as_bytes(), key.as_bytes()).unwrap();
    let host = MailHost::open_with(|listeners, _| {
        listeners.tls = Some(tls);
        listeners.submission_connections.max_connections_per_client = 2;
    })
    .await;
    let mut plain = Line::to(host.submission).await;
    assert!(plain.reply().await.starts_with("220 "));
    // A handshake that never ends counts as well.
    let _silent = Line::to(host.submissions).await;
    // The silent client was accepted before another one at the same listener.
    assert!(!Line::to(host.submissions).await.start_tls().await);
    assert!(Line::to(host.submission).await.reply().await.starts_with("421 "));
    assert!(Line::from([127, 0, 0, 2], host.submissions).await.start_tls().await, "another client is let in");
}

#[tokio::test]
async fn starttls_is_offered_as_soon_as_there_is_a_certificate() {
    let (pem, key) = certificate();
    let tls = ServerTls::empty();
    let shared = tls.clone();
    let host = MailHost::open_with(|listeners, _| listeners.tls = Some(shared)).await;
    let mut before = Line::to(host.smtp).await;
    before.reply().await;
    before.say("EHLO client.example").await;
    assert!(before.say("STARTTLS").await.starts_with("502 "));
    tls.replace(pem.as_bytes(), key.as_bytes()).unwrap();
    let mut after = Line::to(host.smtp).await;
    after.reply().await;
    after.say("EHLO client.example").await;
    assert!(after.say("STARTTLS").await.starts_with("220 "));
    assert!(after.start_tls().await);
}
