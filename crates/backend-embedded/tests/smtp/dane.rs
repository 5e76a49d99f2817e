//! Servers whose certificates DNS publishes (DANE), between two servers.

use mailapi_backend::Provisioning;
use mailapi_backend_embedded::delivery_agent::{DeliveryAgent, TlsResult};
use mailapi_backend_embedded::net::ServerTls;
use mailapi_model::Outcome;
use mailapi_model::TlsaRecord;
use mailapi_testkit::SmtpSink;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::mail_host::{MailHost, tls_counts};

const MX: &str = "mx.far.example";

/// The certificate of a server.
struct Certificate {
    tls: ServerTls,
    der: Vec<u8>,
    authority: Vec<u8>,
}

impl Certificate {
    fn for_name(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let chain = certificate.pem() + &issuer.pem();
        let tls = ServerTls::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
        Self { tls, der: certificate.der().to_vec(), authority: issuer.der().to_vec() }
    }

    /// Returns the record of usage 3 with the whole certificate.
    fn record(&self) -> TlsaRecord {
        TlsaRecord { usage: 3, selector: 0, matching: 0, data: self.der.clone() }
    }

    /// Returns the record of its authority.
    fn record_of_authority(&self) -> TlsaRecord {
        TlsaRecord { usage: 2, selector: 0, matching: 0, data: self.authority.clone() }
    }
}

/// A sender, and the server of `far.example`, whose MX record is signed.
struct Pair {
    here: MailHost,
    there: MailHost,
    agent: DeliveryAgent,
    port: u16,
}

impl Pair {
    async fn new(certificate: &Certificate) -> Self {
        let there = MailHost::open_far(certificate.tls.clone()).await;
        let port = there.smtp.port();
        Self::with(there, port).await
    }

    async fn with(there: MailHost, port: u16) -> Self {
        let here = MailHost::open().await;
        here.dns.set_mx("far.example", &[MX]);
        here.dns.set_addresses(MX, &["127.0.0.1"]);
        here.dns.sign_mx("far.example");
        let agent = here.agent(|settings| {
            settings.port = port;
            settings.allow_loopback = true;
            settings.retry_jitter_percent = 0;
        });
        Self { here, there, agent, port }
    }

    fn publish(&self, records: &[TlsaRecord]) {
        self.here.dns.set_tlsa(MX, self.port, MX, records.to_vec());
    }

    /// Sends a message; returns the outcome of the attempt, and the reply.
    async fn send(&self) -> (Outcome, String) {
        self.here.attempt(&self.agent, "zoe@far.example").await
    }

    fn counted(&self) -> Vec<(TlsResult, u64)> {
        tls_counts(&self.agent)
    }
}

#[tokio::test]
async fn mail_travels_with_the_published_certificate() {
    let certificate = Certificate::for_name(MX);
    let pair = Pair::new(&certificate).await;
    for record in [certificate.record(), certificate.record_of_authority()] {
        pair.publish(&[record]);
        assert_eq!(pair.send().await.0, Outcome::Sent);
        assert_eq!(pair.counted(), [(TlsResult::Verified, 1)]);
    }
    assert_eq!(pair.there.inbox("zoe@far.example").await.len(), 2);
}

#[tokio::test]
async fn a_server_with_a_certificate_not_published_gets_no_mail() {
    let (certificate, other) = (Certificate::for_name(MX), Certificate::for_name(MX));
    let pair = Pair::new(&other).await;
    pair.publish(&[certificate.record()]);
    let (outcome, reply) = pair.send().await;
    assert_eq!(outcome, Outcome::Deferred);
    let expected = "the DANE records of mx.far.example demand verified TLS: TLS handshake failed";
    assert!(reply.starts_with(expected), "{reply}");
    assert_eq!(pair.here.events().await.pop().unwrap().dsn.unwrap().to_string(), "4.7.5");
    assert_eq!(pair.counted(), [(TlsResult::NotTrusted, 1)]);
    pair.publish(&[certificate.record_of_authority()]);
    assert_eq!(pair.send().await.0, Outcome::Deferred);
    assert!(pair.there.inbox("zoe@far.example").await.is_empty());
}

#[tokio::test]
async fn a_published_server_without_tls_gets_no_mail() {
    let sink = SmtpSink::start().await;
    let pair = Pair::with(MailHost::open().await, sink.address().port()).await;
    pair.publish(&[Certificate::for_name(MX).record()]);
    let (outcome, reply) = pair.send().await;
    assert_eq!(outcome, Outcome::Deferred);
    assert!(reply.contains("does not offer STARTTLS"), "{reply}");
    assert!(sink.received().is_empty());
    assert_eq!(pair.counted(), [(TlsResult::NotOffered, 1)]);
}

#[tokio::test]
async fn records_that_cannot_be_used_still_demand_tls() {
    let unusable = TlsaRecord { usage: 1, ..Certificate::for_name(MX).record() };
    let pair = Pair::new(&Certificate::for_name("any.example")).await;
    pair.publish(std::slice::from_ref(&unusable));
    assert_eq!(pair.send().await.0, Outcome::Sent);
    assert_eq!(pair.counted(), [(TlsResult::Unverified, 1), (TlsResult::TlsaInvalid, 1)]);
    let sink = SmtpSink::start().await;
    let pair = Pair::with(MailHost::open().await, sink.address().port()).await;
    pair.publish(&[unusable]);
    assert_eq!(pair.send().await.0, Outcome::Deferred);
    assert!(sink.received().is_empty());
}

#[tokio::test]
async fn a_failed_look_up_of_records_defers() {
    let pair = Pair::new(&Certificate::for_name(MX)).await;
    pair.here.dns.break_tlsa(MX, pair.port);
    let (outcome, reply) = pair.send().await;
    assert_eq!(outcome, Outcome::Deferred);
    assert!(reply.contains("the TLSA records of mx.far.example failed"), "{reply}");
    assert_eq!(pair.counted(), [(TlsResult::DnssecInvalid, 1)]);
}

#[tokio::test]
async fn records_count_only_if_the_mx_record_is_signed() {
    let pair = Pair::new(&Certificate::for_name(MX)).await;
    pair.here.dns.set_mx("near.example", &[MX]);
    pair.publish(&[Certificate::for_name(MX).record()]);
    pair.there.message_store.put_domain(&"near.example".parse().unwrap()).await.unwrap();
    pair.there.message_store.put_mailbox(&"zoe@near.example".parse().unwrap(), None).await.unwrap();
    assert_eq!(pair.here.attempt(&pair.agent, "zoe@near.example").await.0, Outcome::Sent);
    assert_eq!(pair.counted(), [(TlsResult::Unverified, 1)]);
}

#[tokio::test]
async fn an_authority_vouches_for_the_name_of_an_alias() {
    let certificate = Certificate::for_name("host.far.example");
    let pair = Pair::new(&certificate).await;
    pair.publish(&[certificate.record_of_authority()]);
    assert_eq!(pair.send().await.0, Outcome::Deferred, "the certificate is for another name");
    assert_eq!(pair.counted(), [(TlsResult::HostMismatch, 1)]);
    pair.here.dns.set_tlsa(MX, pair.port, "host.far.example", vec![certificate.record_of_authority()]);
    assert_eq!(pair.send().await.0, Outcome::Sent);
}
