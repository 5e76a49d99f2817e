//! A private certificate authority: Pebble, the ACME server that checks clients of Let's Encrypt.
//!
//! Every name has the address 127.0.0.1 there. It refuses one in twenty requests because of their nonces, as it does by
//! default; clients must try again.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::guard::Guard;
use crate::ports::free_port;

/// Longer than the server takes to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server, which stops when this is dropped.
pub struct Pebble {
    directory: TempDir,
    address: SocketAddr,
    /// Where its own name server takes records.
    control: SocketAddr,
    /// Where it checks names.
    settings: PebbleSettings,
    certificate: String,
    programs: Vec<Program>,
}

/// Where and how the server issues certificates.
#[derive(Debug, Clone, Copy)]
pub struct PebbleSettings {
    /// Port of every name for checks over HTTP.
    pub http_port: u16,
    /// Port of every name for checks over TLS.
    pub tls_port: u16,
    /// Lifetime of certificates in seconds.
    pub lifetime: u64,
    /// The name server that it asks; `None` for one in which every name is this machine.
    pub name_server: Option<SocketAddr>,
}

struct Program {
    process: Child,
    _guard: Guard,
}

impl Pebble {
    /// Starts the server. `certificate` and `key` are PEM texts for `localhost`.
    ///
    /// # Panics
    /// When the package `pebble` is not installed, or the server does not start.
    #[must_use]
    pub fn start(settings: PebbleSettings, certificate: &str, key: &str) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        fs::write(directory.path().join("cert.pem"), certificate).expect("a file");
        fs::write(directory.path().join("key.pem"), key).expect("a file");
        let address = free_port();
        let certificate = certificate.to_owned();
        let control = free_port();
        let mut server = Self { directory, address, control, settings, certificate, programs: Vec::new() };
        server.run();
        server
    }

    /// URL of the directory.
    #[must_use]
    pub fn directory_url(&self) -> String {
        format!("https://localhost:{}/dir", self.address.port())
    }

    /// PEM text of the certificate to trust.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Starts again without accounts and orders.
    pub fn forget_everything(&mut self) {
        self.programs.clear();
        self.run();
    }

    /// Sets the text of a name in its own name server; an empty one removes all of them.
    ///
    /// # Panics
    /// When the name server does not take it.
    pub fn set_text(&self, name: &str, text: &str) {
        let (path, value) = match text {
            "" => ("/clear-txt", String::new()),
            text => ("/set-txt", format!(r#","value":"{text}""#)),
        };
        let body = format!(r#"{{"host":"{name}."{value}}}"#);
        let mut stream = TcpStream::connect(self.control).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}")
            .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.split(' ').nth(1) == Some("200"), "{answer}");
    }

    fn run(&mut self) {
        let (names, control, management) = (free_port(), self.control, free_port());
        let mut resolver = Command::new("pebble-challtestsrv");
        resolver.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", ""]);
        resolver.args(["-tlsalpn01", "", "-dns01", &names.to_string(), "-management", &control.to_string()]);
        self.start_program(resolver, "Starting management server", control);
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "{}", "managementListenAddress": "{management}", "certificate": "{}",
               "privateKey": "{}", "httpPort": {}, "tlsPort": {}, "certificateValidityPeriod": {}}}}}"#,
            self.address,
            path("cert.pem"),
            path("key.pem"),
            self.settings.http_port,
            self.settings.tls_port,
            self.settings.lifetime
        );
        fs::write(path("config.json"), config).expect("a file");
        let mut server = Command::new("pebble");
        let names = self.settings.name_server.unwrap_or(names);
        server.args(["-config", &path("config.json"), "-dnsserver", &names.to_string()]);
        // Without pauses between the checks.
        server.env("PEBBLE_VA_NOSLEEP", "1");
        // By default it rejects one nonce in twenty: the client, which tries three times, fails in one run in some dozens.
        server.env("PEBBLE_WFE_NONCEREJECT", "1");
        self.start_program(server, "ACME directory available", self.address);
    }

    /// Starts a program and waits until it listens.
    fn start_program(&mut self, mut command: Command, ready: &'static str, listens_on: SocketAddr) {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the package pebble is installed");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            // All of it is read, so that a full pipe never stops the program.
            for line in output.lines().map_while(Result::ok).filter(|line| line.contains(ready)) {
                let _ = sender.send(line);
            }
        });
        receiver.recv_timeout(PATIENCE).expect("the program is ready");
        // Both programs write the line just before they open the listener.
        let limit = Instant::now() + PATIENCE;
        while TcpStream::connect(listens_on).is_err() {
            assert!(Instant::now() < limit, "the program listens on {listens_on}");
            std::thread::yield_now();
        }
        let guard = Guard::over(i64::from(process.id()), Path::new("/nonexistent"));
        self.programs.push(Program { process, _guard: guard });
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
