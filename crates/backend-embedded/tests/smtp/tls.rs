//! Encrypted connections, inbound and outbound.

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
