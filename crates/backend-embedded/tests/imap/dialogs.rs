//! Plays every file in `tests/dialogs/imap` over a socket.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mailapi_backend::Provisioning;
use mailapi_backend_embedded::net::ServerTls;
use mailapi_testkit::dialog::{Dialog, Peer};
use rcgen::CertifiedKey;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::test_server::{TestServer, TestServerSettings, ann};

/// The client's end of the socket, with everything that TLS needs.
struct SocketPeer {
    wire: Wire,
    roots: RootCertStore,
    /// Bytes read that do not form a line yet.
    read: Vec<u8>,
}

enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Lost,
}

impl SocketPeer {
    fn connect(address: SocketAddr, certificate: &CertifiedKey<rcgen::KeyPair>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.cert.der().clone()).unwrap();
        Self { wire: Wire::Plain(stream), roots, read: Vec::new() }
    }

    /// Returns false at the end of the connection, or without input in time.
    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let read = match &mut self.wire {
            Wire::Plain(stream) => stream.read(&mut buffer),
            Wire::Tls(stream) => stream.read(&mut buffer),
            Wire::Lost => Ok(0),
        };
        let read = read.unwrap_or_default();
        self.read.extend_from_slice(&buffer[..read]);
        read > 0
    }
}

impl Peer for SocketPeer {
    fn send(&mut self, bytes: &[u8]) {
        // A server that disconnected is noticed by its missing replies.
        let _ = match &mut self.wire {
            Wire::Plain(stream) => stream.write_all(bytes),
            Wire::Tls(stream) => stream.write_all(bytes),
            Wire::Lost => Ok(()),
        };
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&self.read[..end]).into_owned();
                self.read.drain(..end + 2);
                return Some(line);
            }
            if !self.read_more() {
                return None;
            }
        }
    }

    fn is_closed(&mut self) -> bool {
        self.read.is_empty() && !self.read_more()
    }

    fn start_tls(&mut self) -> bool {
        let Wire::Plain(stream) = std::mem::replace(&mut self.wire, Wire::Lost) else { return false };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(self.roots.clone()).with_no_client_auth();
        let name = ServerName::try_from("mx.example.org").unwrap();
        let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream);
        let is_done = stream.conn.complete_io(&mut stream.sock).is_ok();
        self.wire = Wire::Tls(Box::new(stream));
        is_done
    }

    fn host_event(&mut self) -> Option<String> {
        None
    }

    fn hang_up(&mut self) {
        let _ = match &self.wire {
            Wire::Plain(stream) => stream.shutdown(Shutdown::Write),
            Wire::Tls(stream) => stream.sock.shutdown(Shutdown::Write),
            Wire::Lost => Ok(()),
        };
    }
}

/// `= tls no`: no certificate. `= plaintext no`: passwords over TLS only, also on loopback. `= quota N`:
/// ann's quota in bytes. `= max-message N`: the maximum message size in bytes.
fn change(settings: &mut TestServerSettings, dialog: &Dialog, tls: ServerTls) {
    settings.listeners.tls = Some(tls);
    for (key, value) in &dialog.settings {
        match key.as_str() {
            "tls" => settings.listeners.tls = settings.listeners.tls.take().filter(|_| value == "yes"),
            "plaintext" => settings.listeners.imap.plaintext_on_loopback = value == "yes",
            "max-message" => settings.message_store.max_message_bytes = value.parse().unwrap(),
            "quota" => {}
            other => panic!("unknown setting {other}"),
        }
    }
}

fn play(dialog: &Dialog) -> Result<(), String> {
    let certificate = rcgen::generate_simple_self_signed(["mx.example.org".to_owned()]).unwrap();
    let key = certificate.signing_key.serialize_pem();
    let tls = ServerTls::from_pem(certificate.cert.pem().as_bytes(), key.as_bytes()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(async {
        let server = TestServer::open_with(|settings| change(settings, dialog, tls)).await;
        if let Some((_, quota)) = dialog.settings.iter().find(|(key, _)| key == "quota") {
            server.message_store.put_mailbox(&ann(), Some(quota.parse().unwrap())).await.unwrap();
        }
        server
    });
    let played = dialog.play(&mut SocketPeer::connect(server.address, &certificate));
    runtime.block_on(server.end());
    played
}

#[test]
fn every_dialog_goes_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogs/imap");
    let mut failures = Vec::new();
    let mut played = 0;
    for entry in fs::read_dir(folder).expect("the folder of dialogs") {
        let path = entry.expect("a dialog").path();
        let name = path.file_name().unwrap_or_default().display().to_string();
        let text = fs::read_to_string(&path).expect("a dialog is text");
        let dialog = Dialog::parse(&text).unwrap_or_else(|what| panic!("{name}, {what}"));
        if let Err(what) = play(&dialog) {
            failures.push(format!("{name}, {what}"));
        }
        played += 1;
    }
    assert!(played > 0, "no dialog was found");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
