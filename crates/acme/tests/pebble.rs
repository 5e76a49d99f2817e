//! Orders at Pebble, an authority that checks the names at this machine.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailapi_acme::{Acme, AcmeSettings, ChallengeRecords, KeyRecords, key_digests, load};
use mailapi_model::{Clock, KeyDigests, KeyPublication};
use mailapi_testkit::{FakeClock, Pebble, PebbleSettings, SeededEntropy, free_port};
use mailapi_tls::{ServerTls, Trust};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;
const NAMES: [&str; 2] = ["mx.example.org", "api.example.org"];

/// A server without a certificate, beside an authority.
struct Site {
    pebble: Arc<Pebble>,
    tls: ServerTls,
    clock: Arc<FakeClock>,
    data: TempDir,
    https: SocketAddr,
    http: SocketAddr,
    listeners: JoinSet<()>,
}

impl Site {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (http, https) = (free_port(), free_port());
        let settings =
            PebbleSettings { http_port: http.port(), tls_port: https.port(), lifetime: 90 * DAY, name_server: None };
        Self {
            pebble: Arc::new(Pebble::start(settings, &made.cert.pem(), &made.signing_key.serialize_pem())),
            tls: ServerTls::empty(),
            clock: Arc::new(FakeClock::at_real_time()),
            data: tempfile::tempdir().unwrap(),
            https,
            http,
            listeners: JoinSet::new(),
        }
    }

    fn settings(&self) -> AcmeSettings {
        AcmeSettings {
            directory: self.pebble.directory_url(),
            names: NAMES.map(str::to_owned).to_vec(),
            data_dir: self.data.path().to_owned(),
            domain: None,
            has_https: true,
            trust: Trust::Authorities(self.pebble.certificate().as_bytes().to_vec()),
        }
    }

    fn acme_with(&self, settings: AcmeSettings) -> Acme {
        Acme::open(settings, self.tls.clone(), self.clock.clone(), Arc::new(SeededEntropy::default())).unwrap()
    }

    fn acme(&self) -> Acme {
        self.acme_with(self.settings())
    }

    /// Opens the listener of HTTPS.
    async fn listen_https(&mut self) {
        let (listener, tls) = (TcpListener::bind(self.https).await.unwrap(), self.tls.clone());
        self.listeners.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let _ = TlsAcceptor::from(tls.https()).accept(stream).await;
            }
        });
    }

    /// Opens the listener of HTTP.
    async fn listen_http(&mut self) {
        let (listener, tls) = (TcpListener::bind(self.http).await.unwrap(), self.tls.clone());
        self.listeners.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                answer(stream, &tls).await;
            }
        });
    }

    /// Returns the file of this name, which is the only one beside those of the other names.
    fn file(&self, name: &str) -> std::path::PathBuf {
        let mut directories = std::fs::read_dir(self.data.path().join("acme")).unwrap();
        directories.next().unwrap().unwrap().path().join(name)
    }

    fn now(&self) -> i64 {
        self.clock.now().as_seconds()
    }
}

/// Answers a request for the file of a challenge, as the API does.
async fn answer(stream: TcpStream, tls: &ServerTls) {
    let mut stream = BufReader::new(stream);
    let (mut request, mut line) = (String::new(), String::new());
    stream.read_line(&mut request).await.unwrap();
    while stream.read_line(&mut line).await.unwrap() > 2 {
        line.clear();
    }
    let token = request.split(['/', ' ']).nth(4).unwrap_or_default();
    let (status, text) = match tls.challenges().text(token) {
        Some(text) => ("200 OK", text),
        None => ("404 Not Found", String::new()),
    };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    let _ = stream.read(&mut [0]).await;
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn an_unreachable_server_gets_no_certificate() {
    let site = Site::new();
    let mut acme = site.acme();
    let pause = acme.step().await;
    assert!((240..=360).contains(&pause.as_secs()), "{pause:?}");
    assert!(!site.tls.is_ready());
    let failure = load(&site.settings(), &site.tls).unwrap().unwrap();
    assert!(failure.reason.contains("could not be checked") && failure.reason.contains("example.org"), "{failure:?}");
    assert_eq!((failure.count, mode(&site.file("failure.json"))), (1, 0o600));
    // Neither another call nor a start is another attempt.
    let _ = (acme.step().await, site.acme().step().await);
    assert_eq!(load(&site.settings(), &site.tls).unwrap().unwrap().count, 1);
    site.clock.advance(pause);
    let second = acme.step().await;
    assert!((480..=720).contains(&second.as_secs()), "{second:?}");
    assert_eq!(load(&site.settings(), &site.tls).unwrap().unwrap().count, 2);
}

#[tokio::test]
async fn names_are_checked_by_a_handshake() {
    let mut site = Site::new();
    site.listen_https().await;
    site.acme().step().await;
    assert!(NAMES.iter().all(|name| site.tls.is_for(name)));
    for name in ["account.json", "certificate.pem"] {
        assert_eq!(mode(&site.file(name)), 0o600, "{name}");
    }
    assert_eq!(site.tls.challenges().text(""), None);
    let again = ServerTls::empty();
    assert_eq!(load(&site.settings(), &again).unwrap(), None);
    assert_eq!(again.leaf(), site.tls.leaf(), "the next start has the same certificate");
}

/// Publishes records in the authority's own name server.
struct OwnRecords {
    pebble: Arc<Pebble>,
    /// What was published and withdrawn, in order.
    log: Mutex<Vec<String>>,
    /// Why publishing fails.
    failure: Option<&'static str>,
}

impl OwnRecords {
    fn at(site: &Site, failure: Option<&'static str>) -> Arc<Self> {
        Arc::new(Self { pebble: Arc::clone(&site.pebble), log: Mutex::default(), failure })
    }
}

#[async_trait]
impl ChallengeRecords for OwnRecords {
    async fn can_publish(&self, names: &[String]) -> bool {
        names == NAMES
    }

    async fn publish(&self, name: &str, text: &str) -> Result<(), String> {
        self.log.lock().unwrap().push(format!("+{name}"));
        if let Some(failure) = self.failure {
            return Err(failure.to_owned());
        }
        self.pebble.set_text(&format!("_acme-challenge.{name}"), text);
        Ok(())
    }

    async fn withdraw(&self, name: &str, _: &str) {
        self.log.lock().unwrap().push(format!("-{name}"));
        self.pebble.set_text(&format!("_acme-challenge.{name}"), "");
    }
}

#[tokio::test]
async fn names_are_checked_by_records_at_a_server_out_of_reach() {
    let site = Site::new();
    let records = OwnRecords::at(&site, None);
    site.acme().with_records(records.clone()).step().await;
    assert!(NAMES.iter().all(|name| site.tls.is_for(name)));
    let log = records.log.lock().unwrap().clone();
    let (published, withdrawn): (Vec<_>, Vec<_>) = log.iter().partition(|line| line.starts_with('+'));
    assert_eq!((published.len(), withdrawn.len()), (2, 2), "{log:?}");
    assert!(log[2].starts_with('-'), "all stay until every name is checked: {log:?}");
}

#[tokio::test]
async fn after_records_that_fail_names_are_checked_otherwise() {
    let mut site = Site::new();
    site.listen_https().await;
    let records = OwnRecords::at(&site, Some("the provider is away"));
    let mut acme = site.acme().with_records(records.clone());
    let pause = acme.step().await;
    let failure = load(&site.settings(), &site.tls).unwrap().unwrap();
    assert!(failure.reason.contains("the provider is away"), "{failure:?}");
    let log = records.log.lock().unwrap().clone();
    assert_eq!((log.len(), &log[0][1..]), (2, &log[1][1..]), "what may be there is withdrawn: {log:?}");
    site.clock.advance(pause);
    acme.step().await;
    assert!(NAMES.iter().all(|name| site.tls.is_for(name)));
    assert_eq!(records.log.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn names_are_checked_by_a_file() {
    let mut site = Site::new();
    site.listen_http().await;
    site.acme_with(AcmeSettings { has_https: false, ..site.settings() }).step().await;
    assert!(NAMES.iter().all(|name| site.tls.is_for(name)));
}

#[tokio::test]
async fn a_broken_domain_holds_back_no_other() {
    let mut site = Site::new();
    site.listen_https().await;
    site.acme().step().await;
    let order = async |domain: &str, listens: bool| {
        let hosts = vec![format!("mta-sts.{domain}")];
        let settings = AcmeSettings {
            names: hosts.clone(),
            domain: Some(domain.to_owned()),
            has_https: listens,
            ..site.settings()
        };
        let tls = site.tls.for_hosts(&hosts, None);
        Acme::open(settings, tls.clone(), site.clock.clone(), Arc::new(SeededEntropy::default())).unwrap().step().await;
        (
            tls.is_for(&hosts[0]),
            load(&AcmeSettings { domain: Some(domain.to_owned()), ..site.settings() }, &tls).unwrap(),
        )
    };
    // Nothing answers over HTTP here.
    let (is_issued, failure) = order("broken.example", false).await;
    assert!(!is_issued && failure.unwrap().reason.contains("mta-sts.broken.example"));
    assert_eq!(order("whole.example", true).await, (true, None));
    assert_eq!(load(&site.settings(), &site.tls).unwrap(), None, "the certificate of the listeners has no failure");
    assert!(site.tls.is_for(NAMES[0]) && !site.tls.is_for("mta-sts.whole.example"));
}

#[tokio::test]
async fn after_a_failure_the_other_way_is_tried() {
    let mut site = Site::new();
    site.listen_http().await;
    let mut acme = site.acme();
    site.clock.advance(acme.step().await);
    assert!(!site.tls.is_ready(), "nothing answers handshakes");
    acme.step().await;
    assert!(site.tls.is_ready());
    assert_eq!(load(&site.settings(), &site.tls).unwrap(), None, "the failure is forgotten");
}

#[tokio::test]
async fn the_certificate_is_renewed_after_two_thirds() {
    let mut site = Site::new();
    site.listen_https().await;
    let mut acme = site.acme();
    acme.step().await;
    let first = site.tls.leaf();
    let validity = site.tls.validity().unwrap();
    assert_eq!(validity.expires_at - validity.begins_at, 90 * 24 * 60 * 60 - 1);
    let account = std::fs::read(site.file("account.json")).unwrap();
    let pause = acme.step().await;
    assert!(pause > Duration::from_secs(60 * 60), "nothing is due: {pause:?}");
    let nearly = validity.begins_at + 59 * 24 * 60 * 60 - site.now();
    site.clock.advance(Duration::from_secs(nearly.unsigned_abs()));
    acme.step().await;
    assert_eq!(site.tls.leaf(), first);
    site.clock.advance(Duration::from_secs(DAY));
    acme.step().await;
    assert_ne!(site.tls.leaf(), first);
    assert_eq!(std::fs::read(site.file("account.json")).unwrap(), account, "the account is used again");
}

/// Name servers with a given answer about the server's keys.
struct KeysInDns(Mutex<KeyPublication>);

#[async_trait]
impl KeyRecords for KeysInDns {
    async fn keep(&self) -> KeyPublication {
        *self.0.lock().unwrap()
    }
}

#[tokio::test]
async fn a_certificate_gets_the_next_key_when_all_servers_have_it() {
    let mut site = Site::new();
    site.listen_https().await;
    let in_dns = Arc::new(KeysInDns(Mutex::new(KeyPublication::Absent)));
    let mut acme = site.acme().with_key_records(in_dns.clone());
    let keys = |site: &Site| key_digests(&site.settings()).unwrap();
    let is_shown = |site: &Site, key: [u8; 32]| mailapi_tls::key_digest_of(&site.tls.leaf().unwrap()) == Some(key);
    assert_eq!(keys(&site), None);
    acme.step().await;
    let first = keys(&site).unwrap();
    assert!(is_shown(&site, first.current) && first.former.is_none() && first.next != first.current);
    assert_eq!(mode(&site.file("next-key.pem")), 0o600);

    // A name server does not answer, so only the key in use is safe. From then on the certificate is always due, because the
    // authority has the real time.
    let orders = async |acme: &mut Acme, site: &Site| {
        let before = site.tls.leaf();
        acme.step().await;
        site.tls.leaf() != before
    };
    *in_dns.0.lock().unwrap() = KeyPublication::Open;
    site.clock.advance(Duration::from_secs(61 * DAY));
    assert!(orders(&mut acme, &site).await);
    assert!(is_shown(&site, first.current) && keys(&site) == Some(first), "another certificate with the same key");

    // The records are there, for less than twice their TTL.
    *in_dns.0.lock().unwrap() = KeyPublication::Complete { ttl: 3600 };
    site.clock.advance(Duration::from_secs(5 * HOUR));
    assert!(!orders(&mut acme, &site).await);
    site.clock.advance(Duration::from_secs(HOUR));
    assert!(orders(&mut acme, &site).await && is_shown(&site, first.current));
    site.clock.advance(Duration::from_secs(6 * HOUR));
    assert!(orders(&mut acme, &site).await);
    let second = keys(&site).unwrap();
    assert!(is_shown(&site, first.next), "the certificate has the key that others know");
    let expected = KeyDigests { current: first.next, next: second.next, former: Some(first.current) };
    assert!(second == expected && second.next != first.current);

    // After a start, the records have to be seen again.
    let mut acme = site.acme().with_key_records(in_dns.clone());
    assert!(orders(&mut acme, &site).await && is_shown(&site, second.current));
    site.clock.advance(Duration::from_secs(6 * HOUR));
    assert!(orders(&mut acme, &site).await && is_shown(&site, second.next));
}

#[tokio::test]
async fn a_new_certificate_that_is_due_is_used_for_hours() {
    let mut site = Site::new();
    site.listen_https().await;
    let mut acme = site.acme();
    // The clock is wrong: more than two thirds of each new lifetime are over.
    site.clock.advance(Duration::from_secs(70 * DAY));
    acme.step().await;
    let first = site.tls.leaf();
    assert!(first.is_some());
    let pause = acme.step().await;
    assert_eq!(site.tls.leaf(), first, "it is not ordered again at once");
    assert!(pause > Duration::from_secs(5 * 60 * 60), "{pause:?}");
    site.clock.advance(Duration::from_secs(6 * 60 * 60));
    acme.step().await;
    assert_ne!(site.tls.leaf(), first);
}

#[tokio::test]
async fn a_certificate_that_the_disk_refuses_is_used() {
    let mut site = Site::new();
    site.listen_http().await;
    let mut acme = site.acme();
    site.clock.advance(acme.step().await);
    assert!(!site.tls.is_ready(), "the first attempt only creates the account");
    let obstacle = site.file("certificate.pem.new");
    std::fs::create_dir(&obstacle).unwrap();
    let pause = acme.step().await;
    let issued = site.tls.leaf();
    assert!(issued.is_some() && !site.file("certificate.pem").exists());
    let failure = load(&site.settings(), &ServerTls::empty()).unwrap().unwrap();
    assert!(failure.reason.contains("certificate.pem"), "{failure:?}");
    std::fs::remove_dir(&obstacle).unwrap();
    site.clock.advance(pause);
    acme.step().await;
    assert_eq!(site.tls.leaf(), issued, "only the write is repeated");
    let again = ServerTls::empty();
    assert_eq!(load(&site.settings(), &again).unwrap(), None);
    assert_eq!(again.leaf(), issued);
}

#[tokio::test]
async fn another_name_needs_another_certificate() {
    let mut site = Site::new();
    site.listen_https().await;
    site.acme().step().await;
    let mut settings = site.settings();
    settings.names.push("new.example.org".to_owned());
    let mut acme = site.acme_with(settings);
    assert!(site.tls.is_ready(), "the earlier one is used until then");
    acme.step().await;
    assert!(NAMES.iter().chain(&["new.example.org"]).all(|name| site.tls.is_for(name)));
}

#[tokio::test]
async fn an_account_that_the_authority_forgot_is_replaced() {
    let mut site = Site::new();
    site.listen_https().await;
    site.acme().step().await;
    let account = std::fs::read(site.file("account.json")).unwrap();
    Arc::get_mut(&mut site.pebble).unwrap().forget_everything();
    let mut acme = site.acme_with(AcmeSettings { names: vec!["new.example.org".to_owned()], ..site.settings() });
    site.clock.advance(acme.step().await);
    assert!(site.tls.is_for(NAMES[0]), "the certificate stays in use");
    site.listen_http().await;
    acme.step().await;
    assert!(site.tls.is_for("new.example.org"));
    assert_ne!(std::fs::read(site.file("account.json")).unwrap(), account);
}

#[tokio::test]
async fn an_authority_with_an_unknown_certificate_gets_no_account() {
    let site = Site::new();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let settings = AcmeSettings { trust: Trust::Authorities(other.cert.pem().into_bytes()), ..site.settings() };
    site.acme_with(settings).step().await;
    let failure = load(&site.settings(), &site.tls).unwrap().unwrap();
    assert!(failure.reason.contains("certificate"), "{failure:?}");
    assert!(!site.file("account.json").exists());
}
