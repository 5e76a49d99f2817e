//! Certificates that the library does not read, at a server with OpenSSL.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mailapi_backend_embedded::delivery_agent::TlsResult;
use mailapi_model::Outcome;
use mailapi_model::TlsaRecord;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;

use crate::mail_host::{MailHost, tls_counts};

const MX: &str = "mx.far.example";

/// Longer than a start of Python on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A server in another process.
struct OddServer {
    process: Child,
    lines: Receiver<String>,
    port: u16,
    certificate: Vec<u8>,
    _directory: TempDir,
}

impl OddServer {
    /// Starts a server whose certificate of version 1 has this key.
    fn start(key: &[&str], newest_tls: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let openssl = |arguments: &[&str]| {
            let made = Command::new("openssl").args(arguments).output().expect("openssl is installed");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        };
        openssl(&[&["genpkey", "-quiet", "-out", &path("key.pem")], key].concat());
        let request =
            ["req", "-new", "-key", &path("key.pem"), "-subj", "/CN=odd.example", "-out", &path("request.pem")];
        openssl(&request.map(|argument| argument));
        let signed =
            ["x509", "-req", "-in", &path("request.pem"), "-signkey", &path("key.pem"), "-out", &path("cert.pem")];
        openssl(&signed.map(|argument| argument));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/smtp/odd_servers.py");
        let arguments = [script, &path("cert.pem"), &path("key.pem"), newest_tls];
        let process = Command::new("python3").args(arguments).stdout(Stdio::piped()).spawn();
        let mut process = process.expect("python3 is installed");
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let port = lines.recv_timeout(LIMIT).unwrap().parse().unwrap();
        let certificate = CertificateDer::from_pem_file(path("cert.pem")).unwrap().to_vec();
        Self { process, lines, port, certificate, _directory: directory }
    }

    /// Sends a message. Returns its outcome, how it was protected, and what was counted.
    async fn gets(&self, records: Option<Vec<TlsaRecord>>) -> (Outcome, Option<String>, Vec<(TlsResult, u64)>) {
        let host = MailHost::open().await;
        host.dns.set_mx("far.example", &[MX]);
        host.dns.set_addresses(MX, &["127.0.0.1"]);
        if let Some(records) = records {
            host.dns.sign_mx("far.example");
            host.dns.set_tlsa(MX, self.port, MX, records);
        }
        let agent = host.agent(|settings| {
            settings.port = self.port;
            settings.allow_loopback = true;
        });
        let (outcome, _) = host.attempt(&agent, "zoe@far.example").await;
        let protection = (outcome == Outcome::Sent).then(|| self.lines.recv_timeout(LIMIT).unwrap());
        (outcome, protection, tls_counts(&agent))
    }
}

impl Drop for OddServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const SHORT_RSA: [&str; 4] = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"];
const CURVE: [&str; 4] = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];

#[tokio::test]
async fn mail_is_encrypted_for_old_certificates_and_short_keys() {
    for (key, version, expected) in [
        (SHORT_RSA, "TLSv1_3", "TLSv1.3"),
        (SHORT_RSA, "TLSv1_2", "TLSv1.2"),
        (CURVE, "TLSv1_3", "TLSv1.3"),
        (CURVE, "TLSv1_2", "TLSv1.2"),
    ] {
        let server = OddServer::start(&key, version);
        let counted = vec![(TlsResult::Unverified, 1)];
        assert_eq!(server.gets(None).await, (Outcome::Sent, Some(expected.to_owned()), counted), "{key:?}");
    }
}

#[tokio::test]
async fn old_tls_falls_back_to_none() {
    let server = OddServer::start(&CURVE, "TLSv1_1");
    let counted = vec![(TlsResult::Plain, 1)];
    assert_eq!(server.gets(None).await, (Outcome::Sent, Some("plain".to_owned()), counted));
}

#[tokio::test]
async fn a_published_certificate_need_not_be_one_that_others_accept() {
    for (key, expected) in [(SHORT_RSA, "TLSv1.2"), (CURVE, "TLSv1.3")] {
        let server = OddServer::start(&key, "TLSv1_3");
        let record = |usage| TlsaRecord { usage, selector: 0, matching: 0, data: server.certificate.clone() };
        let other = TlsaRecord { data: vec![0x30, 0], ..record(3) };
        for wrong in [vec![record(2)], vec![other]] {
            let (outcome, _, counted) = server.gets(Some(wrong)).await;
            assert_eq!(outcome, Outcome::Deferred);
            assert_eq!(counted.iter().map(|(_, number)| number).sum::<u64>(), 1, "{counted:?}");
        }
        let counted = vec![(TlsResult::Verified, 1)];
        assert_eq!(server.gets(Some(vec![record(3)])).await, (Outcome::Sent, Some(expected.to_owned()), counted));
    }
}
