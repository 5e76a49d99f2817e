//! The real binary on machines that lack what small images leave out.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

use mailapi_testkit::Answer;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use serde_json::json;
use support::{Server, WorkDir};
use tokio_rustls::TlsAcceptor;

/// A machine that trusts no CA certificate, and has neither HOME, nor a time zone, nor a directory for temporary files.
struct SmallMachine {
    work_dir: WorkDir,
}

impl SmallMachine {
    fn new() -> Self {
        let work_dir = WorkDir::new();
        std::fs::create_dir(work_dir.path().join("no-certificates")).unwrap();
        Self { work_dir }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.work_dir.command(arguments);
        let nothing = self.work_dir.path().join("no-certificates");
        command.env("SSL_CERT_DIR", &nothing).env("SSL_CERT_FILE", nothing.join("none.pem"));
        command.env_remove("HOME").env("TMPDIR", nothing.join("none")).env("TZ", "Nowhere/Nothing");
        command
    }

    fn run(&self, arguments: &[&str], input: &str) -> support::Answer {
        support::Answer::of_command(self.command(arguments), input)
    }
}

/// Accepts TLS connections; returns the port.
async fn serve_tls() -> u16 {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(acceptor.accept(stream).await);
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_ca_certificates_all_but_verified_tls_works() {
    let machine = SmallMachine::new();
    let mut server = Server::start(machine.command(&["serve", "--log-format", "json"]));
    let token = server.token();
    server.drain();

    for (arguments, input) in [
        (&["domain", "add", "example.org"][..], ""),
        (&["user", "add", "ann@example.org"], "correct horse battery\n"),
        (&["user", "list"], ""),
        (&["token", "create", "--type", "admin", "--name", "script"], ""),
    ] {
        let done = machine.run(arguments, input);
        assert!(!done.stderr.contains("name servers"), "{arguments:?}: {}", done.stderr);
    }
    let doctor = machine.run(&["doctor"], "");
    assert!(doctor.stdout.contains("ok     database"), "{}{}", doctor.stdout, doctor.stderr);
    assert!(doctor.stdout.contains("note   CA certificates"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("install the package ca-certificates"), "{}", doctor.stdout);

    // A server whose certificate must be verified.
    let port = serve_tls().await.to_string();
    let source = ["import", "ann@example.org", "imap", "127.0.0.1", "--port", &port, "--user", "x"];
    let imported = machine.run(&source, "secret\n");
    assert_eq!(imported.code, Some(1));
    assert!(imported.stderr.contains("install the package ca-certificates"), "{}", imported.stderr);

    let client = reqwest::Client::new();
    let message = json!({ "from": "ann@example.org", "to": ["ann@example.org"], "body": { "text": "Hello" } });
    let send = client.post(server.api("/mail/send")).header("X-MAILAPI-TOKEN", &token).json(&message);
    assert_eq!(Answer::of(send).await.status, 202);
    let health = client.get(server.api("/health").replace("/api/v1", "")).send().await.unwrap();
    assert_eq!(health.status(), 200);
    server.stop("TERM");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_file_that_is_renamed_or_replaced_accepts_no_mail() {
    let work_dir = WorkDir::new();
    let mut server = work_dir.serve();
    let token = server.token();
    for (arguments, input) in
        [(&["domain", "add", "example.org"][..], ""), (&["user", "add", "ann@example.org"], "correct horse battery\n")]
    {
        let done = work_dir.run_with_input(arguments, input);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    let client = reqwest::Client::new();
    let send = async |subject: &str| {
        let message = json!({ "from": "ann@example.org", "to": ["ann@example.org"], "subject": subject, "body": { "text": "-" } });
        let request = client.post(server.api("/mail/send")).header("X-MAILAPI-TOKEN", &token).json(&message);
        Answer::of(request).await
    };
    assert_eq!(send("before").await.status, 202);

    let (file, elsewhere) = (work_dir.data().join("mailapi.db"), work_dir.data().join("elsewhere.db"));
    std::fs::rename(&file, &elsewhere).unwrap();
    assert_eq!(send("renamed").await.error(), (503, "SERVICE_UNAVAILABLE".to_owned()));
    let health = Answer::of(client.get(server.api("/health").replace("/api/v1", ""))).await.expect(503);
    assert_eq!(health["checks"]["database"], "moved", "{health}");
    std::fs::copy(&elsewhere, &file).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(send("replaced").await.error(), (503, "SERVICE_UNAVAILABLE".to_owned()));
    std::fs::rename(&elsewhere, &file).unwrap();
    assert_eq!(send("back").await.status, 202);

    let noticed = server.read_until("changes are refused");
    assert!(noticed["error"].as_str().unwrap().contains("mailapi.db was renamed, removed or replaced"), "{noticed}");
    server.read_until("the database file is in its place again; changes are accepted");
    server.stop("TERM");
    // What was answered with 202 survives.
    let server = work_dir.serve();
    let list = client.get(server.api("/mail/sent")).header("X-MAILAPI-TOKEN", &token);
    let sent = Answer::of(list).await.expect(200).to_string();
    for (subject, is_there) in [("before", true), ("back", true), ("renamed", false), ("replaced", false)] {
        assert_eq!(sent.contains(subject), is_there, "{subject}: {sent}");
    }
    server.stop("TERM");
}
