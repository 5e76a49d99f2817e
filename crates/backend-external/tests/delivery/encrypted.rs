//! STARTTLS with a real Postfix.

use std::fs;

use mailapi_backend_external::TlsMode;
use mailapi_backend_external::smtp_pool::{CommitGate, SmtpPool, SmtpSettings};
use mailapi_model::Blob;
use mailapi_smtp::Envelope;
use mailapi_smtp::client::End;
use mailapi_tls::{Trust, client_config};

use crate::mail_host::MailHost;

#[tokio::test]
async fn mail_goes_encrypted_to_the_trusted_server_only() {
    let dir = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (dir.path().join("certificate.pem"), dir.path().join("key.pem"));
    fs::write(&certificate, certified.cert.pem()).unwrap();
    fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let host = MailHost::open(|settings| settings.tls = Some((certificate, key))).await;
    let settings = SmtpSettings { tls: TlsMode::StartTls, ..SmtpSettings::new("localhost", host.postfix.api().port()) };
    let envelope = Envelope::new("ann@example.org", ["bob@example.org"]);
    let message = Blob::from(b"Subject: hello\r\n\r\nhello\r\n".to_vec());

    let distrustful = SmtpPool::new(settings.clone(), client_config(&Trust::System).unwrap());
    let error = distrustful.send(&envelope, message.clone(), CommitGate::opened()).await.unwrap_err();
    assert!(error.contains("certificate"), "{error}");

    let trust = Trust::Authorities(certified.cert.pem().into_bytes());
    let pool = SmtpPool::new(settings, client_config(&trust).unwrap());
    for _ in 0..2 {
        let outcome = pool.send(&envelope, message.clone(), CommitGate::opened()).await.unwrap();
        assert!(matches!(outcome.end, End::Accepted(_)), "{outcome:?}");
    }
    assert_eq!(pool.idle_connections(), 1);
}
