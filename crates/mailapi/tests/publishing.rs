//! The way from an empty zone of a real name server to a verified domain, and back, by commands.

mod support;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mailapi_testkit::{NameServerProgram, Pebble, PebbleSettings, RealNameServer, free_port};
use serde_json::{Value, json};
use support::{Answer, Server, WorkDir};

const DOMAIN: &str = "example.test";
/// The domain whose zone is signed.
const SIGNED: &str = "signed.test";

/// Runs of a command that is killed as soon as it has begun a change.
const KILLS: u32 = 8;

struct Fixture {
    work_dir: WorkDir,
    domain: &'static str,
    name_server: RealNameServer,
    /// The public keys of the root.
    root_keys: Option<PathBuf>,
    /// The authority that certificates come from.
    directory_url: Option<String>,
}

impl Fixture {
    /// An installation with a domain, whose zone has the address of the mail server.
    fn new(program: NameServerProgram) -> Self {
        // A policy of DMARC is looked for above the domain, too.
        let zones = [(DOMAIN, "mx IN A 192.0.2.25\n@ IN TXT \"other\"\n"), ("test", "")];
        let name_server = RealNameServer::start(program, &zones);
        Self::with(DOMAIN, name_server, None)
    }

    /// An installation with a domain whose zone is signed.
    fn signed() -> Self {
        let (name_server, root_keys) = RealNameServer::start_below_a_signed_root(SIGNED, "mx IN A 192.0.2.25\n");
        Self::with(SIGNED, name_server, Some(root_keys))
    }

    fn with(domain: &'static str, name_server: RealNameServer, root_keys: Option<PathBuf>) -> Self {
        let fixture = Self { work_dir: WorkDir::new(), domain, name_server, root_keys, directory_url: None };
        fixture.run(&["domain", "add", domain, "--init"]).answer();
        fixture
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.work_dir.command(arguments);
        let servers = self.name_server.address().to_string();
        command.env("MAILAPI_DNS__SERVERS", servers);
        command.env("MAILAPI_MAIL__EMBEDDED__HOSTNAME", format!("mx.{}", self.domain));
        if let Some(root_keys) = &self.root_keys {
            command.env("MAILAPI_DNS__DNSSEC", root_keys);
        }
        if let Some(directory_url) = &self.directory_url {
            command.env("MAILAPI_TLS__MODE", "acme").env("MAILAPI_TLS__ACME_DIRECTORY", directory_url);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of_command(self.command(arguments), "")
    }

    fn set_provider(&self) {
        let server = self.name_server.address().to_string();
        let set = ["dns", "provider", "set", self.domain, "--server", &server, "--key-name", RealNameServer::KEY];
        Answer::of_command(self.command(&set), &format!("{}\n", RealNameServer::SECRET)).answer();
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.run(&[arguments, &["--json"]].concat()).answer();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    fn plan(&self) -> Value {
        self.json(&["domain", "dns", "plan", self.domain])
    }

    fn apply(&self) -> Child {
        let mut command = self.command(&["domain", "dns", "apply", DOMAIN, "--yes"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Counts the changes that were begun. Each row is there before its change is sent.
    fn begun(&self) -> i64 {
        let database = rusqlite::Connection::open(self.work_dir.data().join("mailapi.db")).unwrap();
        database.query_row("SELECT COUNT(*) FROM dns_changes", [], |row| row.get(0)).unwrap()
    }

    /// Returns the number of texts that the name server has at a name.
    fn texts_at(&self, name: &str) -> u16 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // A question about TXT in the class IN (RFC 1035 section 4.1).
        let mut query = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend(label.bytes());
        }
        query.extend([0, 0, 16, 0, 1]);
        socket.send_to(&query, self.name_server.address()).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).unwrap();
        assert!(length >= 12 && answer[..2] == query[..2], "an answer");
        u16::from_be_bytes([answer[6], answer[7]])
    }

    /// Whether the record of the newest key was found.
    fn has_published_key(&self) -> bool {
        let database = rusqlite::Connection::open(self.work_dir.data().join("mailapi.db")).unwrap();
        let newest = "SELECT published_at IS NOT NULL FROM dkim_keys ORDER BY id DESC LIMIT 1";
        database.query_row(newest, [], |row| row.get(0)).unwrap()
    }

    fn rotate(&self) {
        self.run(&["domain", "dkim", "rotate", DOMAIN, "--algorithm", "ed25519-sha256"]).answer();
    }

    /// Returns the state of each key, newest first.
    fn key_states(&self) -> Vec<String> {
        let shown = self.json(&["domain", "dkim", "list", DOMAIN]);
        let keys = shown["keys"].as_array().unwrap().iter();
        keys.map(|key| key["state"].as_str().unwrap().to_owned()).collect()
    }

    fn states(&self) -> Vec<String> {
        let changes = self.json(&["domain", "dns", "history", DOMAIN]);
        changes.as_array().unwrap().iter().map(|change| change["state"].as_str().unwrap().to_owned()).collect()
    }
}

fn number_of(list: &Value) -> usize {
    list.as_array().unwrap().len()
}

#[test]
fn one_command_makes_a_verified_domain_and_one_undoes_it() {
    for program in RealNameServer::ALL {
        let fixture = Fixture::new(program);
        let without = fixture.run(&["domain", "dns", "plan", DOMAIN]).complaint();
        assert!(without.contains("has no DNS provider"), "{without}");
        fixture.set_provider();
        let shown = fixture.run(&["dns", "provider", "show", DOMAIN]).answer();
        assert!(shown.contains("hmac-sha256") && !shown.contains(RealNameServer::SECRET), "{shown}");
        let before = fixture.plan();
        assert!(number_of(&before["changes"]) >= 4, "{before}");
        let dry = fixture.run(&["domain", "dns", "apply", DOMAIN]).answer();
        assert!(
            dry.contains("+ example.test. 3600 IN MX 10 mx.example.test.") && dry.contains("Nothing was changed"),
            "{dry}"
        );
        assert_eq!(fixture.plan(), before, "{program:?}");
        let applied = fixture.run(&["domain", "dns", "apply", DOMAIN, "--yes"]).answer();
        assert!(applied.contains("ns.example.test has all records"), "{applied}");
        assert!(applied.contains("The domain is verified."), "{applied}");
        assert_eq!(number_of(&fixture.plan()["changes"]), 0);
        let found = fixture.json(&["domain", "dns", DOMAIN]);
        let required = found["records"].as_array().unwrap().iter().filter(|record| record["required"] == true);
        assert!(required.clone().count() >= 4 && required.clone().all(|record| record["status"] == "found"), "{found}");
        let dry = fixture.run(&["domain", "dns", "rollback", DOMAIN]).answer();
        assert!(dry.contains("Nothing was changed"), "{dry}");
        fixture.run(&["domain", "dns", "rollback", DOMAIN, "--yes"]).answer();
        assert_eq!(fixture.plan(), before, "{program:?}: all is as it was");
        let again = fixture.run(&["domain", "dns", "rollback", DOMAIN, "--yes"]).complaint();
        assert!(again.contains("no applied plan"), "{again}");
    }
}

#[test]
fn a_wrong_key_is_named_and_changes_nothing() {
    let fixture = Fixture::new(NameServerProgram::Bind);
    let server = fixture.name_server.address().to_string();
    let set = ["dns", "provider", "set", DOMAIN, "--server", &server, "--key-name", "unknown"];
    let refused = Answer::of_command(fixture.command(&set), &format!("{}\n", RealNameServer::SECRET)).complaint();
    assert!(refused.contains("does not accept the key") && !refused.contains(RealNameServer::SECRET), "{refused}");
    let missing = fixture.run(&["dns", "provider", "show", DOMAIN]).complaint();
    assert!(missing.contains("has no DNS provider"), "{missing}");
}

#[test]
fn after_each_kill_the_history_agrees_with_dns() {
    let fixture = Fixture::new(NameServerProgram::Bind);
    fixture.set_provider();
    let all = number_of(&fixture.plan()["changes"]);
    for kill in 0..KILLS {
        let (begun, mut running) = (fixture.begun(), fixture.apply());
        while fixture.begun() == begun && running.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = running.kill();
        running.wait().unwrap();
        // The history looks at the changes without an answer.
        let states = fixture.states();
        assert!(!states.iter().any(|state| state == "pending"), "{states:?}");
        let applied = states.iter().filter(|state| *state == "applied").count();
        assert_eq!(applied + number_of(&fixture.plan()["changes"]), all, "kill {kill}: {states:?}");
    }
    fixture.run(&["domain", "dns", "apply", DOMAIN, "--yes"]).answer();
    assert_eq!(number_of(&fixture.plan()["changes"]), 0);
}

#[test]
fn a_new_key_signs_once_its_record_is_published() {
    for program in RealNameServer::ALL {
        let fixture = Fixture::new(program);
        fixture.set_provider();
        fixture.run(&["domain", "dns", "apply", DOMAIN, "--yes"]).answer();
        fixture.rotate();
        assert_eq!(fixture.key_states(), ["pending", "active"], "{program:?}");
        let plan = fixture.plan();
        let purposes: Vec<_> = plan["changes"].as_array().unwrap().iter().map(|change| &change["purpose"]).collect();
        assert_eq!(purposes, ["DKIM"], "{plan}");
        fixture.run(&["domain", "dns", "apply", DOMAIN, "--yes"]).answer();
        // Keys of both algorithms sign.
        assert_eq!(fixture.key_states(), ["active", "active"], "{program:?}");
        fixture.rotate();
        fixture.run(&["domain", "dns", "apply", DOMAIN, "--yes"]).answer();
        assert_eq!(fixture.key_states(), ["active", "retiring", "active"], "{program:?}");
        assert_eq!(number_of(&fixture.plan()["changes"]), 0, "the record of the old key stays");
    }
}

#[test]
fn after_each_kill_one_key_signs_and_the_next_run_completes() {
    let fixture = Fixture::new(NameServerProgram::Bind);
    fixture.set_provider();
    fixture.run(&["domain", "dns", "apply", DOMAIN, "--yes"]).answer();
    for kill in 0..KILLS {
        fixture.rotate();
        let (begun, mut running) = (fixture.begun(), fixture.apply());
        let has_come = || if kill % 2 == 0 { fixture.begun() > begun } else { fixture.has_published_key() };
        while !has_come() && running.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = running.kill();
        running.wait().unwrap();
        let states = fixture.key_states();
        // The last one is that of the other algorithm; the first key of this one has nothing to replace.
        let signing = states.iter().filter(|state| *state == "active").count();
        assert!(signing == 2 || kill == 0 && signing == 1, "kill {kill}: {states:?}");
        fixture.run(&["domain", "dns", "apply", DOMAIN, "--yes"]).answer();
        let states = fixture.key_states();
        let signing = states.iter().filter(|state| *state == "active").count();
        assert_eq!((states[0].as_str(), signing), ("active", 2), "kill {kill}: {states:?}");
        assert_eq!(number_of(&fixture.plan()["changes"]), 0);
    }
}

#[test]
fn of_two_commands_at_once_one_makes_the_changes() {
    let fixture = Fixture::new(NameServerProgram::Bind);
    fixture.set_provider();
    let all = number_of(&fixture.plan()["changes"]);
    let mut running: Vec<_> = (0..2).map(|_| fixture.apply()).collect();
    let codes: Vec<_> = running.iter_mut().map(|command| command.wait().unwrap().code()).collect();
    assert!(codes.contains(&Some(0)), "{codes:?}");
    assert_eq!(fixture.states(), vec!["applied"; all]);
    assert_eq!(number_of(&fixture.plan()["changes"]), 0);
}

/// Forms in which a secret could leave: as it was given, in a URL, and its octets as text, in hexadecimal digits and as a
/// list of numbers.
fn forms_of_the_secret() -> Vec<String> {
    let octets = STANDARD.decode(RealNameServer::SECRET).unwrap();
    let numbers: Vec<_> = octets.iter().take(8).map(ToString::to_string).collect();
    vec![
        RealNameServer::SECRET.to_owned(),
        RealNameServer::SECRET.replace('=', "%3D"),
        String::from_utf8(octets.clone()).unwrap(),
        octets.iter().map(|octet| format!("{octet:02x}")).collect(),
        numbers.join(", "),
    ]
}

/// Returns the files of a directory and below it, with their contents.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(self::files(&entry.path())),
            false => files.push((entry.path(), std::fs::read(entry.path()).unwrap())),
        }
    }
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_of_a_key_is_in_the_database_alone() {
    let fixture = Fixture::new(NameServerProgram::Bind);
    fixture.set_provider();
    let mut outputs: Vec<(String, String)> = Vec::new();
    let history = format!("/domains/{DOMAIN}/dns/history");
    for arguments in [
        &["dns", "provider", "show", DOMAIN][..],
        &["domain", "dns", "plan", DOMAIN],
        &["domain", "dns", "apply", DOMAIN, "--yes"],
        &["domain", "dns", "history", DOMAIN],
        &["domain", "dns", "rollback", DOMAIN, "--yes"],
        &["domain", "show", DOMAIN],
        &["domain", "dns", DOMAIN],
        &["config", "print"],
        &["doctor"],
    ] {
        let Answer { stdout, stderr, .. } = fixture.run(arguments);
        outputs.push((arguments.join(" "), stdout + &stderr));
    }
    let token = fixture.run(&["token", "create", "--type", "admin", "--name", "canary"]).answer();
    let token = token.split_whitespace().find(|word| word.starts_with("mapi_")).unwrap().to_owned();
    let mut serve = fixture.command(&["serve", "--log-format", "json"]);
    serve.env("MAILAPI_LOG__LEVEL", "debug").env("MAILAPI_METRICS__LISTEN", "127.0.0.1:0");
    let server = Server::start(serve);
    let client = reqwest::Client::new();
    let provider = format!("/domains/{DOMAIN}/dns/provider");
    let wrong = json!({ "server": "127.0.0.1:1", "key_name": "other", "secret": RealNameServer::SECRET });
    let set = client.put(server.api(&provider)).header("X-MAILAPI-TOKEN", &token).json(&wrong).send().await.unwrap();
    outputs.push(("a provider that does not answer".to_owned(), set.text().await.unwrap()));
    let plan = format!("/domains/{DOMAIN}/dns/plan");
    for path in [&provider, &plan, &history, &format!("/domains/{DOMAIN}"), "/events?after=start", "/openapi.json"] {
        let got = client.get(server.api(path)).header("X-MAILAPI-TOKEN", &token).send().await.unwrap();
        outputs.push((path.to_owned(), got.text().await.unwrap()));
    }
    outputs.push(("metrics".to_owned(), server.metrics().await));
    let (_, log) = server.stop("TERM");
    assert!(log.contains(DOMAIN), "the log tells of the requests: {log}");
    outputs.push(("log".to_owned(), log));
    let is_database =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("mailapi.db"));
    for (path, bytes) in files(&fixture.work_dir.data()) {
        if !is_database(&path) {
            outputs.push((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    for (from, text) in outputs {
        for form in forms_of_the_secret() {
            assert!(!text.contains(&form), "{from} has the secret");
        }
    }
}

/// A server that orders its certificate by records in DNS, as no listener is at the ports of its names.
struct OrderingServer {
    fixture: Fixture,
    server: Server,
    _pebble: Pebble,
}

impl OrderingServer {
    fn start(fixture: Fixture) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (http_port, tls_port) = (free_port().port(), free_port().port());
        let name_server = Some(fixture.name_server.address());
        let settings = PebbleSettings { http_port, tls_port, lifetime: 90 * 24 * 60 * 60, name_server };
        let pebble = Pebble::start(settings, &made.cert.pem(), &made.signing_key.serialize_pem());
        let authority = fixture.work_dir.path().join("authority.pem");
        std::fs::write(&authority, pebble.certificate()).unwrap();
        let fixture = Fixture { directory_url: Some(pebble.directory_url()), ..fixture };
        let mut command = fixture.command(&["serve", "--log-format", "json"]);
        command.env("MAILAPI_MAIL__EMBEDDED__IMAPS_LISTEN", "127.0.0.1:0").env("SSL_CERT_FILE", &authority);
        let mut server = Server::start(command);
        let outcomes = ["a new certificate is in use now", "the certificate could not be ordered or stored"];
        let outcome = server.read_until_one_of(&outcomes);
        assert_eq!(outcome["message"], outcomes[0], "{outcome}");
        Self { fixture, server, _pebble: pebble }
    }

    /// What openssl sees at the port for IMAP with TLS.
    fn seen(&self, host: &str, arguments: &[&str]) -> String {
        let imaps = self.server.running["imaps"].as_str().unwrap().to_owned();
        let mut client = Command::new("openssl");
        client.args(["s_client", "-connect", &imaps, "-servername", host, "-verify_hostname", host]).args(arguments);
        let shown = client.stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }
}

#[test]
fn a_server_out_of_reach_gets_its_certificate_by_records() {
    let fixture = Fixture::new(NameServerProgram::Bind);
    fixture.set_provider();
    let ordering = OrderingServer::start(fixture);
    let shown = ordering.seen("mx.example.test", &[]);
    assert!(shown.contains("Pebble Intermediate CA"), "{shown}");
    ordering.server.stop("TERM");
    let texts = ordering.fixture.texts_at("_acme-challenge.mx.example.test");
    assert_eq!(texts, 0, "the record is withdrawn");
}

#[test]
fn the_keys_of_a_server_in_a_signed_zone_are_published() {
    let fixture = Fixture::signed();
    fixture.set_provider();
    let ordering = OrderingServer::start(fixture);
    let fixture = &ordering.fixture;
    let values = |plan: &Value| -> Vec<String> {
        let changes = plan["changes"].as_array().unwrap().iter().filter(|change| change["purpose"] == "TLSA");
        let of_smtp = changes.filter(|change| change["name"] == "_25._tcp.mx.signed.test");
        of_smtp
            .map(|change| change["after"]["records"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned())
            .collect()
    };
    // Nothing proves that the zone is signed before it has an MX record, which is published by the first plan.
    assert!(values(&fixture.plan()).is_empty());
    fixture.run(&["domain", "dns", "apply", fixture.domain, "--yes"]).answer();
    let keys = values(&fixture.plan());
    assert_eq!(keys.len(), 2, "the key in use and the next one: {keys:?}");
    let applied = fixture.run(&["domain", "dns", "apply", fixture.domain, "--yes"]).answer();
    assert!(applied.contains(&format!("_25._tcp.mx.signed.test. 3600 IN TLSA {}", keys[0])), "{applied}");
    assert!(values(&fixture.plan()).is_empty());
    let found = fixture.json(&["domain", "dns", fixture.domain]);
    let of_keys = found["records"].as_array().unwrap().iter().filter(|record| record["purpose"] == "TLSA");
    assert!(of_keys.clone().count() == 2 && of_keys.clone().all(|record| record["status"] == "found"), "{found}");

    // Another program verifies the certificate by these records, and without trust in the authority.
    let by_dane =
        |key: &str| ordering.seen("mx.signed.test", &["-dane_tlsa_domain", "mx.signed.test", "-dane_tlsa_rrdata", key]);
    assert!(by_dane(&keys[0]).contains("DANE TLSA 3 1 1"), "{}", by_dane(&keys[0]));
    assert!(!by_dane(&keys[1]).contains("DANE TLSA 3 1 1"));
    let next = std::fs::read_dir(fixture.work_dir.data().join("acme")).unwrap().next().unwrap().unwrap().path();
    assert!(next.join("next-key.pem").exists());
}
