//! The pages of mail domains: policies for mail servers, and settings for mail programs.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use mailapi_service::MailPrograms;
use mailapi_tls::ServerTls;

use crate::support::{Answer, App};

const PROGRAMS: MailPrograms =
    MailPrograms::BuiltIn { submission: Some(587), submissions: Some(465), imap: None, imaps: Some(993) };
const QUESTION: &str = "<Autodiscover><Request><EMailAddress>ann@example.org</EMailAddress></Request></Autodiscover>";

fn text(answer: &Answer) -> String {
    String::from_utf8(answer.bytes.to_vec()).unwrap()
}

async fn app(tls: Option<&ServerTls>) -> App {
    let app = App::with(|service, http| {
        service.mail_host = "mx.example.net".to_owned();
        service.mail_programs = PROGRAMS;
        http.tls = tls.cloned();
    })
    .await;
    app.domain("example.org").await;
    app
}

async fn ask(app: &App, host: &str, path: &str) -> Answer {
    app.send(Request::get(path).header("host", host).body(Body::empty()).unwrap()).await
}

async fn discover(app: &App, host: &str, question: &str) -> Answer {
    let request = Request::builder().method(Method::POST).uri("/autodiscover/autodiscover.xml").header("host", host);
    app.send(request.body(Body::from(question.to_owned())).unwrap()).await
}

#[tokio::test]
async fn unknown_hosts_have_no_pages() {
    let app = app(None).await;
    for host in ["mta-sts.example.net", "example.org", "autoconfig.example.org", "mta-sts.", "mx.example.net", "[::1]"]
    {
        ask(&app, host, "/.well-known/mta-sts.txt").await.assert(StatusCode::NOT_FOUND);
    }
    for host in ["autoconfig.example.net", "elsewhere.example", "mx.example.net", "mta-sts.example.org"] {
        ask(&app, host, "/mail/config-v1.1.xml").await.assert(StatusCode::NOT_FOUND);
    }
    for (host, question) in [
        ("autodiscover.example.net", QUESTION),
        ("elsewhere.example", QUESTION),
        ("autodiscover.example.org", "<EMailAddress>ann@example.net</EMailAddress>"),
        ("autodiscover.example.org", "no address"),
    ] {
        discover(&app, host, question).await.assert(StatusCode::NOT_FOUND);
    }
    let long = "x".repeat(20_000);
    assert_eq!(discover(&app, "autodiscover.example.org", &long).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_policy_is_enforced_with_a_verifiable_certificate() {
    let tls = ServerTls::empty();
    let app = app(Some(&tls)).await;
    let mode = async || {
        let answer = ask(&app, "MTA-STS.Example.org:443", "/.well-known/mta-sts.txt").await;
        assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "text/plain; charset=utf-8"));
        let text = text(&answer);
        assert!(text.starts_with("version: STSv1\r\n") && text.contains("\r\nmx: mx.example.net\r\n"), "{text}");
        text.split("mode: ").nth(1).unwrap().split('\r').next().unwrap().to_owned()
    };
    assert_eq!(mode().await, "testing", "there is no certificate");
    let own = rcgen::generate_simple_self_signed(["mx.example.net".to_owned()]).unwrap();
    tls.replace(own.cert.pem().as_bytes(), own.signing_key.serialize_pem().as_bytes()).unwrap();
    assert_eq!(mode().await, "testing", "senders cannot verify a certificate that no authority issued");
    for (name, expected) in [("mx.other.example", "testing"), ("mx.example.net", "enforce")] {
        let (certificate, key) = issued(name);
        tls.replace(certificate.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(mode().await, expected, "{name}");
    }
}

/// A certificate for `name` by an authority, and its key.
fn issued(name: &str) -> (String, String) {
    let mut authority = rcgen::CertificateParams::default();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = rcgen::Issuer::new(authority, rcgen::KeyPair::generate().unwrap());
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
}

#[tokio::test]
async fn mail_programs_find_their_ports() {
    let app = app(None).await;
    for (host, path) in [
        ("autoconfig.example.org", "/mail/config-v1.1.xml?emailaddress=ann%40example.org"),
        ("example.org", "/.well-known/autoconfig/mail/config-v1.1.xml"),
    ] {
        let shown = text(&ask(&app, host, path).await);
        for part in ["<hostname>mx.example.net</hostname>", "<port>993</port>", "<port>465</port>", "<port>587</port>"]
        {
            assert!(shown.contains(part), "{part} is missing from {shown}");
        }
    }
    for host in ["autodiscover.example.org", "example.org", "mx.example.net"] {
        let shown = text(&discover(&app, host, QUESTION).await);
        assert!(shown.contains("<Port>993</Port>") && shown.contains("<Port>465</Port>"), "{shown}");
        assert!(shown.contains("<LoginName>ann@example.org</LoginName>"), "{shown}");
    }
}

#[tokio::test]
async fn the_answers_do_not_show_which_mailboxes_exist() {
    let app = app(None).await;
    let before = text(&discover(&app, "example.org", QUESTION).await);
    app.user("ann@example.org").await;
    assert_eq!(text(&discover(&app, "example.org", QUESTION).await), before);
}
