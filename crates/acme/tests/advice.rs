//! An authority that advises when to renew (ARI, RFC 9773). It knows one certificate and issues none.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use mailapi_acme::{Acme, AcmeSettings, load};
use mailapi_model::Clock;
use mailapi_testkit::{FakeClock, SeededEntropy};
use mailapi_tls::{ServerTls, Trust};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What the authority advises and hears.
#[derive(Default)]
struct Talk {
    /// The answer about renewals, its head included; none by default.
    advice: String,
    /// Requests: method, path and content.
    heard: Vec<String>,
}

struct Authority {
    address: SocketAddr,
    certificate: String,
    talk: Arc<Mutex<Talk>>,
    _listener: JoinSet<()>,
}

impl Authority {
    async fn open() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = made.cert.pem();
        let tls = ServerTls::from_pem(certificate.as_bytes(), made.signing_key.serialize_pem().as_bytes()).unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, talk) = (socket.local_addr().unwrap(), Arc::<Mutex<Talk>>::default());
        let (mut listener, shared) = (JoinSet::new(), Arc::clone(&talk));
        listener.spawn(async move {
            loop {
                let (stream, _) = socket.accept().await.unwrap();
                answer(stream, &tls, address, &shared).await;
            }
        });
        Self { address, certificate, talk, _listener: listener }
    }

    /// Advises a window, and to ask again after some seconds.
    fn advise(&self, start: &str, end: &str, retry_after: u32) {
        let body = format!(r#"{{"suggestedWindow": {{"start": "{start}", "end": "{end}"}}}}"#);
        self.talk.lock().unwrap().advice =
            format!("200 OK\r\nRetry-After: {retry_after}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.talk.lock().unwrap().heard)
    }
}

async fn answer(stream: TcpStream, tls: &ServerTls, address: SocketAddr, talk: &Mutex<Talk>) {
    let Ok(stream) = TlsAcceptor::from(tls.https()).accept(stream).await else { return };
    let mut stream = BufReader::new(stream);
    let (mut request, mut line, mut length) = (String::new(), String::new(), 0);
    stream.read_line(&mut request).await.unwrap();
    while stream.read_line(&mut line).await.unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let request = request.trim_end_matches(" HTTP/1.1\r\n").to_owned();
    let answer = {
        let mut talk = talk.lock().unwrap();
        talk.heard.push(format!("{request} {}", content(&body)));
        reply(&request, address, &talk.advice)
    };
    stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await.unwrap();
    let _ = stream.shutdown().await;
}

/// Returns the content of a signed request.
fn content(body: &[u8]) -> String {
    let Ok(signed) = serde_json::from_slice::<serde_json::Value>(body) else { return String::new() };
    let payload = BASE64_URL_SAFE_NO_PAD.decode(signed["payload"].as_str().unwrap()).unwrap();
    String::from_utf8(payload).unwrap()
}

fn reply(request: &str, address: SocketAddr, advice: &str) -> String {
    let url = |name: &str| format!(r#""{name}": "https://localhost:{}/{name}""#, address.port());
    let (status, body) = match request.split('/').nth(1).unwrap() {
        "directory" => {
            ("200 OK", format!("{{{}}}", ["newNonce", "newAccount", "newOrder", "renewalInfo"].map(url).join(", ")))
        }
        "newNonce" => ("200 OK", String::new()),
        "newAccount" => ("201 Created\r\nLocation: https://localhost/account/1", "{}".to_owned()),
        "renewalInfo" if !advice.is_empty() => return advice.to_owned(),
        _ => ("503 Unavailable", r#"{"detail": "later"}"#.to_owned()),
    };
    format!("{status}\r\nReplay-Nonce: {}\r\nContent-Length: {}\r\n\r\n{body}", request.len(), body.len())
}

/// A server with a certificate from 1 January to 1 April 2027, on 10 January.
struct Site {
    authority: Authority,
    settings: AcmeSettings,
    clock: Arc<FakeClock>,
    acme: Acme,
    _data: TempDir,
}

impl Site {
    async fn new() -> Self {
        let (authority, data) = (Authority::open().await, tempfile::tempdir().unwrap());
        let directory = format!("https://localhost:{}/directory", authority.address.port());
        let files = data.path().join(format!("acme/localhost-{}-directory", authority.address.port()));
        std::fs::create_dir_all(&files).unwrap();
        std::fs::write(files.join("certificate.pem"), issued()).unwrap();
        let settings = AcmeSettings {
            directory,
            names: vec!["mx.example.org".to_owned()],
            data_dir: data.path().to_owned(),
            domain: None,
            has_https: true,
            trust: Trust::Authorities(authority.certificate.clone().into_bytes()),
        };
        let (tls, clock) = (ServerTls::empty(), Arc::new(FakeClock::at("2027-01-10")));
        let acme = Acme::open(settings.clone(), tls, clock.clone(), Arc::new(SeededEntropy::default())).unwrap();
        Self { authority, settings, clock, acme, _data: data }
    }
}

/// The key and a certificate with an authority key identifier.
fn issued() -> String {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(authority, KeyPair::generate().unwrap());
    let mut params = CertificateParams::new(vec!["mx.example.org".to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (date_time_ymd(2027, 1, 1), date_time_ymd(2027, 4, 1));
    let key = KeyPair::generate().unwrap();
    format!("{}{}", key.serialize_pem(), params.signed_by(&key, &issuer).unwrap().pem())
}

#[tokio::test]
async fn advice_to_renew_at_once_is_followed() {
    let mut site = Site::new().await;
    site.authority.advise("2027-01-08T00:00:00Z", "2027-01-09T00:00:00Z", 3600);
    site.acme.step().await;
    let heard = site.authority.heard();
    let asked = heard.iter().find_map(|request| request.strip_prefix("GET /renewalInfo/")).unwrap().trim();
    let ordered = heard.iter().find(|request| request.starts_with("POST /newOrder ")).unwrap();
    assert!(ordered.contains(&format!(r#""replaces":"{asked}""#)), "{ordered}");
    let failure = load(&site.settings, &ServerTls::empty()).unwrap().unwrap();
    assert!(failure.reason.contains("later"), "{failure:?}");
    // The next attempt has no such member, which may have been the cause.
    site.clock.advance(Duration::from_secs(600));
    site.acme.step().await;
    let again = site.authority.heard();
    assert!(again.iter().any(|request| request.starts_with("POST /newOrder ") && !request.contains("replaces")));
}

#[tokio::test]
async fn advice_for_later_is_waited_for_and_asked_again() {
    let mut site = Site::new().await;
    site.authority.advise("2027-02-01T00:00:00Z", "2027-02-02T00:00:00Z", 3600);
    let pause = site.acme.step().await;
    assert!((3_500..=3_600).contains(&pause.as_secs()), "{pause:?}");
    assert!(!site.authority.heard().iter().any(|request| request.contains("newOrder")));
    site.clock.advance(Duration::from_secs(1800));
    site.acme.step().await;
    assert_eq!(site.authority.heard(), Vec::<String>::new(), "it is not asked again too early");
    site.clock.advance(Duration::from_secs(1800));
    site.acme.step().await;
    assert!(site.authority.heard().iter().any(|request| request.starts_with("GET /renewalInfo/")));
    let until = 1_801_569_600 - site.clock.now().as_seconds();
    site.clock.advance(Duration::from_secs(until.unsigned_abs()));
    site.acme.step().await;
    assert!(site.authority.heard().iter().any(|request| request.contains("newOrder")), "2 February");
}

#[tokio::test]
async fn without_advice_the_lifetime_decides() {
    let mut site = Site::new().await;
    assert_eq!(site.acme.step().await, Duration::from_secs(6 * 3600));
    site.authority.heard();
    // On 1 March, two months of three are over.
    site.clock.advance(Duration::from_secs(51 * 24 * 3600));
    site.acme.step().await;
    assert!(site.authority.heard().iter().any(|request| request.contains("newOrder")));
}
