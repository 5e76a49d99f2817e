//! Private authoritative name servers that take dynamic updates: BIND, Knot and PowerDNS.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::copied_program::start_copy;
use crate::guard::Guard;
use crate::ports::free_port;

/// Longer than a server takes to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs of name servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameServerProgram {
    /// Debian package bind9.
    Bind,
    /// Debian package knot.
    Knot,
    /// Debian packages pdns-server and pdns-backend-sqlite3.
    PowerDns,
}

/// A running server, which stops when this is dropped. Its zones may be updated with one key.
pub struct RealNameServer {
    program: NameServerProgram,
    directory: TempDir,
    address: SocketAddr,
    zones: Vec<String>,
    /// Whether a BIND also serves the signed root.
    has_root: bool,
    running: Option<(Child, Guard)>,
}

impl RealNameServer {
    /// Every program.
    pub const ALL: [NameServerProgram; 3] =
        [NameServerProgram::Bind, NameServerProgram::Knot, NameServerProgram::PowerDns];
    /// Name of the key that may update the zones, with the algorithm hmac-sha256.
    pub const KEY: &'static str = "mailapi";
    /// The secret of the key, in base64.
    pub const SECRET: &'static str = "c2VjcmV0IG9mIHRoZSB0ZXN0cywgMzIgYnl0ZXMuLi4=";
    /// A key of BIND that may only update texts at `_dmarc` of each zone; it has the same secret.
    pub const NARROW_KEY: &'static str = "narrow";

    /// Starts a server with these zones, each a name and its records below SOA and NS. Their server is `ns` of the zone, at
    /// 127.0.0.1. A BIND signs a zone whose name begins with `signed`.
    ///
    /// # Panics
    /// When the package is not installed, or the server does not start.
    #[must_use]
    pub fn start(program: NameServerProgram, zones: &[(&str, &str)]) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        for (name, records) in zones {
            let begin = "$TTL 3600\n@ IN SOA ns hostmaster 1 3600 600 86400 60\n@ IN NS ns\nns IN A 127.0.0.1\n";
            let file = directory.path().join(format!("{name}.zone"));
            fs::write(file, format!("$ORIGIN {name}.\n{begin}{records}")).expect("a zone file");
        }
        let zones = zones.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut server = Self { program, directory, address: free_port(), zones, has_root: false, running: None };
        server.configure();
        server.run();
        server
    }

    /// Starts a BIND with a signed zone below a signed root of its own. Returns a file with the public keys of the root, too.
    ///
    /// # Panics
    /// As [`RealNameServer::start`].
    #[must_use]
    pub fn start_below_a_signed_root(zone: &str, records: &str) -> (Self, PathBuf) {
        assert!(zone.starts_with("signed"), "a zone that BIND signs");
        // It makes the key of the zone when it starts.
        let mut server = Self::start(NameServerProgram::Bind, &[(zone, records)]);
        let path = server.path().to_owned();
        let (end, mut key) = (Instant::now() + PATIENCE, None);
        while key.is_none() {
            assert!(Instant::now() < end, "the zone gets no key");
            let mut files = fs::read_dir(&path).expect("a directory").filter_map(Result::ok).map(|entry| entry.path());
            key = files.find(|file| {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                name.starts_with(&format!("K{zone}.")) && name.ends_with(".key")
            });
            std::thread::yield_now();
        }
        server.stop();
        let run = |program: &str, arguments: &[&str]| output(Command::new(program).args(arguments).current_dir(&path));
        let key = key.expect("a key").to_string_lossy().into_owned();
        let delegation = run("dnssec-dsfromkey", &["-2", &key]);
        let root_key = run("dnssec-keygen", &["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", "."]);
        let root = format!(
            "$TTL 3600\n. IN SOA ns. hostmaster. 1 3600 600 86400 60\n. IN NS ns.\nns. IN A 127.0.0.1\n\
             {zone}. IN NS ns.{zone}.\nns.{zone}. IN A 127.0.0.1\n{delegation}"
        );
        fs::write(path.join("root.zone"), root).expect("a zone file");
        run("dnssec-signzone", &["-q", "-z", "-S", "-o", ".", "-f", "root.signed", "root.zone"]);
        server.has_root = true;
        server.configure();
        server.run();
        (server, path.join(format!("{}.key", root_key.trim())))
    }

    /// Returns the address at which it answers and takes updates.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server; it keeps its zones.
    pub fn stop(&mut self) {
        if let Some((mut process, _guard)) = self.running.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts a stopped server, and waits until it answers.
    ///
    /// # Panics
    /// When it does not start.
    pub fn run(&mut self) {
        let process = self.started();
        let guard = Guard::over(i64::from(process.id()), self.directory.path());
        self.running = Some((process, guard));
        let end = Instant::now() + PATIENCE;
        while !self.zones.iter().all(|zone| self.answers_for(zone).unwrap_or_default()) {
            let (process, _) = self.running.as_mut().expect("a process");
            let ended = process.try_wait().expect("a state");
            assert_eq!(ended, None, "the server has ended; another one may have taken its port");
            assert!(Instant::now() < end, "the name server does not start");
            std::thread::yield_now();
        }
    }

    /// Whether it has loaded a zone: BIND answers SERVFAIL before.
    fn answers_for(&self, zone: &str) -> io::Result<bool> {
        // RFC 1035 section 4.1: a header with one question, and the name, type SOA and class IN.
        let mut question = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in zone.split('.') {
            question.push(u8::try_from(label.len()).expect("a label"));
            question.extend(label.as_bytes());
        }
        question.extend([0, 0, 6, 0, 1]);
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = u16::try_from(question.len()).expect("a short message").to_be_bytes();
        stream.write_all(&[&length[..], &question].concat())?;
        let mut answer = [0; 6];
        stream.read_exact(&mut answer)?;
        let (is_authoritative, code) = (answer[4] & 4 != 0, answer[5] & 15);
        Ok(is_authoritative && code == 0)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn configure(&self) {
        match self.program {
            NameServerProgram::Bind => fs::write(self.path().join("named.conf"), self.bind()).expect("a file"),
            NameServerProgram::Knot => fs::write(self.path().join("knot.conf"), self.knot()).expect("a file"),
            NameServerProgram::PowerDns => self.power_dns(),
        }
    }

    fn bind(&self) -> String {
        let (path, port) = (self.path().display(), self.address.port());
        let key = |name: &str| format!("key \"{name}\" {{ algorithm hmac-sha256; secret \"{}\"; }};\n", Self::SECRET);
        let mut text = format!(
            "options {{ directory \"{path}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; \
             recursion no; dnssec-validation no; pid-file none; session-keyfile none; notify no; \
             key-directory \"{path}\"; }};\ncontrols {{ }};\n{}{}",
            key(Self::KEY),
            key(Self::NARROW_KEY)
        );
        for zone in &self.zones {
            let signing = if zone.starts_with("signed") { "dnssec-policy default; inline-signing yes; " } else { "" };
            text += &format!(
                "zone \"{zone}\" {{ type primary; file \"{zone}.zone\"; {signing}update-policy {{ \
                 grant {} zonesub ANY; grant {} name _dmarc.{zone}. TXT; }}; }};\n",
                Self::KEY,
                Self::NARROW_KEY
            );
        }
        if self.has_root {
            text += "zone \".\" { type primary; file \"root.signed\"; };\n";
        }
        text
    }

    fn knot(&self) -> String {
        let (path, port) = (self.path().display(), self.address.port());
        let mut text = format!(
            "server:\n  listen: 127.0.0.1@{port}\n  rundir: {path}\n  identity: \"\"\n\
             control:\n  listen: {path}/knot.sock\ndatabase:\n  storage: {path}\n\
             key:\n  - id: {key}\n    algorithm: hmac-sha256\n    secret: {secret}\n\
             acl:\n  - id: update\n    key: {key}\n    action: update\nzone:\n",
            key = Self::KEY,
            secret = Self::SECRET
        );
        for zone in &self.zones {
            text += &format!("  - domain: {zone}\n    storage: {path}\n    file: {zone}.zone\n    acl: update\n");
        }
        text
    }

    fn power_dns(&self) {
        let (path, port) = (self.path().display(), self.address.port());
        let settings = format!(
            "launch=gsqlite3\ngsqlite3-database={path}/pdns.db\nlocal-address=127.0.0.1\nlocal-port={port}\n\
             socket-dir={path}\ndnsupdate=yes\nallow-dnsupdate-from=127.0.0.0/8\ndaemon=no\nguardian=no\n\
             cache-ttl=0\nnegquery-cache-ttl=0\nquery-cache-ttl=0\nzone-cache-refresh-interval=0\n"
        );
        fs::write(self.path().join("pdns.conf"), settings).expect("a file");
        let schema = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";
        let create =
            format!("import sqlite3; sqlite3.connect('{path}/pdns.db').executescript(open('{schema}').read())");
        succeed(Command::new("python3").args(["-c", &create]));
        let set_up = |arguments: &[&str]| {
            succeed(Command::new("pdnsutil").arg(format!("--config-dir={path}")).args(arguments));
        };
        set_up(&["import-tsig-key", Self::KEY, "hmac-sha256", Self::SECRET]);
        for zone in &self.zones {
            set_up(&["load-zone", zone, &format!("{path}/{zone}.zone")]);
            set_up(&["set-meta", zone, "TSIG-ALLOW-DNSUPDATE", Self::KEY]);
        }
    }

    fn started(&self) -> Child {
        let path = self.path();
        let quiet = |command: &mut Command| {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        };
        let start = |program: &str, option: &str, file: &str| {
            let mut command = Command::new(program);
            command.arg(format!("{option}{}", path.join(file).display()));
            quiet(&mut command);
            command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"))
        };
        match self.program {
            NameServerProgram::Bind => start_copy(Path::new("/usr/sbin/named"), path, |command| {
                command.args(["-f", "-c"]).arg(path.join("named.conf"));
                quiet(command);
            }),
            NameServerProgram::Knot => start("/usr/sbin/knotd", "--config=", "knot.conf"),
            NameServerProgram::PowerDns => start("/usr/sbin/pdns_server", "--config-dir=", ""),
        }
    }
}

impl Drop for RealNameServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn succeed(command: &mut Command) {
    output(command);
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
