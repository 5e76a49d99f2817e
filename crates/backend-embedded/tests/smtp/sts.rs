//! Policies of other domains that demand verified TLS (MTA-STS), between two servers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailapi_backend_embedded::delivery_agent::{DeliveryAgent, TlsResult};
use mailapi_backend_embedded::net::ServerTls;
use mailapi_model::Outcome;
use mailapi_testkit::SmtpSink;
use mailapi_tls::Trust;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::mail_host::{MailHost, tls_counts};

const ENFORCE: &str = "version: STSv1\r\nmode: enforce\r\nmx: mx.far.example\r\nmax_age: 86400\r\n";

/// An authority, and certificates by it.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    fn certificate(&self, name: &str) -> ServerTls {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        ServerTls::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }
}

/// The host of the policy of `far.example`.
struct PolicyHost {
    address: SocketAddr,
    /// The answer, its head included.
    answer: Arc<Mutex<String>>,
    requests: Arc<Mutex<Vec<String>>>,
    _listener: JoinSet<()>,
}

impl PolicyHost {
    async fn open(tls: ServerTls) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (answer, requests) = (Arc::<Mutex<String>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (mut listener, (shown, heard)) = (JoinSet::new(), (Arc::clone(&answer), Arc::clone(&requests)));
        listener.spawn(async move {
            loop {
                let (stream, _) = socket.accept().await.unwrap();
                let Ok(mut stream) = TlsAcceptor::from(tls.https()).accept(stream).await else { continue };
                let mut request = [0; 2048];
                let length = stream.read(&mut request).await.unwrap();
                heard.lock().unwrap().push(String::from_utf8_lossy(&request[..length]).into_owned());
                let answer = shown.lock().unwrap().clone();
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { address, answer, requests, _listener: listener }
    }

    fn show(&self, policy: &str) {
        self.answer("200 OK", policy);
    }

    fn answer(&self, status: &str, body: &str) {
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
        *self.answer.lock().unwrap() = head + body;
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

/// A sender, a receiver with a certificate for `name`, and the policy host of its domain.
struct Pair {
    here: MailHost,
    there: MailHost,
    policy_host: PolicyHost,
    agent: DeliveryAgent,
    /// Port of the receiver.
    port: u16,
    trust: Trust,
}

fn agent_of(here: &MailHost, port: u16, policy_host: &PolicyHost, trust: &Trust) -> DeliveryAgent {
    here.agent(|settings| {
        settings.port = port;
        settings.allow_loopback = true;
        settings.policy_port = policy_host.address.port();
        settings.trust = trust.clone();
        settings.retry_jitter_percent = 0;
    })
}

impl Pair {
    async fn new(name: &str) -> Self {
        let authority = Authority::new();
        let tls = authority.certificate(name);
        let there = MailHost::open_far(tls).await;
        let port = there.smtp.port();
        Self::with(authority, there, port).await
    }

    async fn with(authority: Authority, there: MailHost, port: u16) -> Self {
        let policy_tls = authority.certificate("mta-sts.far.example");
        Self::with_policy_host(authority, there, port, policy_tls).await
    }

    async fn with_policy_host(authority: Authority, there: MailHost, port: u16, policy_tls: ServerTls) -> Self {
        let here = MailHost::open().await;
        let policy_host = PolicyHost::open(policy_tls).await;
        here.dns.set_mx("far.example", &["mx.far.example"]);
        for host in ["mx.far.example", "mta-sts.far.example"] {
            here.dns.set_addresses(host, &["127.0.0.1"]);
        }
        here.dns.set_txt("_mta-sts.far.example", &["v=STSv1; id=1"]);
        let trust = Trust::Authorities(authority.pem.into_bytes());
        let agent = agent_of(&here, port, &policy_host, &trust);
        Self { here, there, policy_host, agent, port, trust }
    }

    /// The agent of the sender after a restart.
    fn new_agent(&self) -> DeliveryAgent {
        agent_of(&self.here, self.port, &self.policy_host, &self.trust)
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
async fn a_server_with_another_certificate_gets_no_mail() {
    let pair = Pair::new("mx.other.example").await;
    pair.policy_host.show(ENFORCE);
    let (outcome, reply) = pair.send().await;
    assert_eq!(outcome, Outcome::Deferred);
    assert!(
        reply.starts_with("the MTA-STS policy of far.example demands verified TLS: TLS handshake failed"),
        "{reply}"
    );
    assert_eq!(pair.here.events().await.pop().unwrap().dsn.unwrap().to_string(), "4.7.5");
    assert!(pair.there.inbox("zoe@far.example").await.is_empty());
    assert_eq!(pair.counted(), [(TlsResult::HostMismatch, 1)]);
}

#[tokio::test]
async fn a_server_without_tls_gets_no_mail() {
    let sink = SmtpSink::start().await;
    let pair = Pair::with(Authority::new(), MailHost::open().await, sink.address().port()).await;
    pair.policy_host.show(ENFORCE);
    let (outcome, reply) = pair.send().await;
    assert_eq!(outcome, Outcome::Deferred);
    assert!(reply.contains("does not offer STARTTLS"), "{reply}");
    assert!(sink.received().is_empty());
    assert_eq!(pair.counted(), [(TlsResult::NotOffered, 1)]);
}

#[tokio::test]
async fn a_server_that_the_policy_does_not_name_gets_no_mail() {
    let pair = Pair::new("mx.far.example").await;
    pair.policy_host.show(&ENFORCE.replace("mx.far.example", "*.mail.far.example"));
    let (outcome, reply) = pair.send().await;
    assert_eq!(outcome, Outcome::Deferred);
    assert!(reply.contains("it does not allow the server mx.far.example"), "{reply}");
    assert_eq!(pair.counted(), [(TlsResult::Invalid, 1)]);
}

#[tokio::test]
async fn mail_travels_with_a_verified_certificate() {
    let pair = Pair::new("mx.far.example").await;
    pair.policy_host.show(ENFORCE);
    assert_eq!([pair.send().await.0, pair.send().await.0], [Outcome::Sent; 2]);
    assert_eq!(pair.there.inbox("zoe@far.example").await.len(), 2);
    assert_eq!(pair.counted(), [(TlsResult::Verified, 2)]);
    let requests = pair.policy_host.requests();
    assert_eq!(requests.len(), 1, "the policy is kept");
    let head = requests[0].to_ascii_lowercase();
    assert!(head.starts_with("get /.well-known/mta-sts.txt http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nhost: mta-sts.far.example\r\n"), "{head}");
    // Another identifier announces another policy.
    pair.here.dns.set_txt("_mta-sts.far.example", &["v=STSv1; id=2"]);
    pair.policy_host.show(&ENFORCE.replace("mx.far.example", "mx2.far.example"));
    assert_eq!(pair.send().await.0, Outcome::Deferred);
}

#[tokio::test]
async fn a_policy_in_testing_delivers_and_counts() {
    let pair = Pair::new("mx.other.example").await;
    pair.policy_host.show(&ENFORCE.replace("enforce", "testing"));
    assert_eq!(pair.send().await.0, Outcome::Sent);
    assert_eq!(pair.counted(), [(TlsResult::Unverified, 1), (TlsResult::HostMismatch, 1)]);
}

#[tokio::test]
async fn a_policy_outlives_its_host_until_it_expires() {
    let pair = Pair::new("mx.other.example").await;
    pair.policy_host.show(ENFORCE);
    assert_eq!(pair.send().await.0, Outcome::Deferred);
    pair.here.dns.set_txt("_mta-sts.far.example", &[]);
    assert_eq!(pair.send().await.0, Outcome::Deferred, "an attacker could have removed the record");
    // A server that has just started remembers the policy.
    let pair = Pair { agent: pair.new_agent(), ..pair };
    assert_eq!(pair.send().await.0, Outcome::Deferred);
    pair.here.clock.advance(Duration::from_secs(86_401));
    assert_eq!(pair.send().await.0, Outcome::Sent);
}

#[tokio::test]
async fn a_policy_in_use_does_not_expire() {
    let pair = Pair::new("mx.far.example").await;
    pair.policy_host.show(ENFORCE);
    for _ in 0..4 {
        assert_eq!(pair.send().await.0, Outcome::Sent);
        assert_eq!(pair.policy_host.requests().len(), 1, "it is fetched again after half of its time");
        pair.here.clock.advance(Duration::from_secs(43_201));
    }
    pair.policy_host.answer("404 Not Found", "");
    assert_eq!((pair.send().await.0, pair.policy_host.requests().len()), (Outcome::Sent, 1));
    pair.here.dns.set_mx("far.example", &["mx.evil.example"]);
    assert_eq!(pair.send().await.0, Outcome::Deferred, "the policy remains while its host does not answer");
}

#[tokio::test]
async fn without_a_readable_policy_mail_travels_as_before() {
    let pair = Pair::new("mx.other.example").await;
    let answers = [("301 Moved", ENFORCE), ("200 OK", "version: STSv2\n"), ("404 Not Found", "")];
    for (number, (status, body)) in answers.into_iter().enumerate() {
        pair.policy_host.answer(status, body);
        assert_eq!(pair.send().await.0, Outcome::Sent, "{status}");
        assert_eq!(pair.send().await.0, Outcome::Sent, "{status}");
        assert_eq!(pair.policy_host.requests().len(), 1, "a failed fetch is not repeated at once: {number}");
        pair.here.clock.advance(Duration::from_secs(301));
    }
    let failed = [(TlsResult::Unverified, 6), (TlsResult::PolicyNotFetched, 2), (TlsResult::PolicyInvalid, 1)];
    assert_eq!(pair.counted(), failed);
}

#[tokio::test]
async fn a_policy_of_a_host_without_proof_is_not_used() {
    let sink = SmtpSink::start().await;
    let (authority, stranger) = (Authority::new(), Authority::new());
    let other_name = authority.certificate("mta-sts.other.example");
    for tls in [stranger.certificate("mta-sts.far.example"), other_name] {
        let authority = Authority { pem: authority.pem.clone(), issuer: Authority::new().issuer };
        let pair = Pair::with_policy_host(authority, MailHost::open().await, sink.address().port(), tls).await;
        pair.policy_host.show(ENFORCE);
        assert_eq!(pair.send().await.0, Outcome::Sent);
        assert_eq!(pair.counted(), [(TlsResult::Plain, 1), (TlsResult::PolicyNotAuthentic, 1)]);
    }
}
