//! Look-ups with DNSSEC: signatures of a real name server, verified here.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mailapi_backend::{Dns, DnsError, MailExchange, Proven};
use mailapi_dns::{DnsSettings, NetworkDns, RootKeys};
use mailapi_model::TlsaRecord;
use tempfile::TempDir;

/// The root, with a signed part, and the delegations of `plain.test`, which is not signed, `forged.test`, whose keys are
/// others than the root says, and `two.test`. The records of its keys follow.
const ROOT: &str = "\
$TTL 3600
. IN SOA ns. hostmaster. 1 3600 600 86400 60
. IN NS ns.
ns. IN A 127.0.0.1
signed.test. IN MX 10 mx.signed.test.
mx.signed.test. IN A 192.0.2.1
_25._tcp.mx.signed.test. IN TLSA 3 1 1 \
    0000000000000000000000000000000000000000000000000000000000000001
alias.signed.test. IN CNAME mx.signed.test.
outside.signed.test. IN CNAME mx.plain.test.
bare.signed.test. IN AAAA 2001:db8::1
plain.test. IN NS ns.
two.test. IN NS ns.
forged.test. IN NS ns.
forged.test. IN DS 12345 13 2 0000000000000000000000000000000000000000000000000000000000000002
";

const PLAIN: &str = "\
$TTL 3600
@ IN SOA ns. hostmaster. 1 3600 600 86400 60
@ IN NS ns.
@ IN MX 10 mx
mx IN A 192.0.2.2
_25._tcp.mx IN TLSA 3 1 1 0000000000000000000000000000000000000000000000000000000000000003
";

/// Is signed with keys of two algorithms, and proves absence by hashed names (NSEC3). Its keys need an answer over TCP.
const TWO: &str = "\
$TTL 3600
@ IN SOA ns. hostmaster. 1 3600 600 86400 60
@ IN NS ns.
@ IN MX 10 mx
mx IN A 192.0.2.3
_25._tcp.mx IN TLSA 3 1 1 0000000000000000000000000000000000000000000000000000000000000004
other IN A 192.0.2.4
*.wild IN MX 10 mx
";

/// A private BIND, and the public keys of its root.
struct NameServer {
    process: Child,
    address: SocketAddr,
    root_keys: RootKeys,
    _directory: TempDir,
}

impl NameServer {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::write(path.join("plain.zone"), PLAIN).unwrap();
        fs::write(path.join("two.zone"), TWO).unwrap();
        for algorithm in ["ECDSAP256SHA256", "RSASHA256"] {
            key(path, "two.test", &["-a", algorithm, "-f", "KSK"]);
            key(path, "two.test", &["-a", algorithm]);
        }
        run(path, "dnssec-signzone", &["-q", "-S", "-3", "-", "-o", "two.test", "-f", "two.signed", "two.zone"]);
        let keys_of_two = fs::read_to_string(path.join("dsset-two.test.")).unwrap();
        fs::write(path.join("root.zone"), ROOT.to_owned() + &keys_of_two).unwrap();
        let root_keys = key(path, ".", &["-a", "ECDSAP256SHA256", "-f", "KSK"]).parse().unwrap();
        run(path, "dnssec-signzone", &["-q", "-z", "-S", "-o", ".", "-f", "root.signed", "root.zone"]);
        let address = mailapi_testkit::free_port();
        let zone = |name: &str, file: &str| format!("zone \"{name}\" {{ type primary; file \"{file}\"; }};\n");
        let options = format!(
            "options {{ directory \"{}\"; listen-on port {} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; \
             recursion no; dnssec-validation no; pid-file none; session-keyfile none; notify no; }};\n\
             controls {{ }};\n",
            path.display(),
            address.port()
        );
        let zones = [
            (".", "root.signed"),
            ("plain.test", "plain.zone"),
            ("forged.test", "plain.zone"),
            ("two.test", "two.signed"),
        ];
        let zones: String = zones.iter().map(|(name, file)| zone(name, file)).collect();
        fs::write(path.join("named.conf"), options + &zones).unwrap();
        let process = mailapi_testkit::start_copy(Path::new("/usr/sbin/named"), path, |command| {
            command.args(["-f", "-c"]).arg(path.join("named.conf")).stdout(Stdio::null()).stderr(Stdio::null());
        });
        Self { process, address, root_keys, _directory: directory }
    }

    /// Returns a resolver that trusts the keys of this root, after the server has opened its port.
    async fn resolver(&mut self) -> NetworkDns {
        let dns = resolver(self.address, Some(self.root_keys.clone()));
        while let Err(DnsError::Timeout | DnsError::Failed(_)) = dns.mx("signed.test").await {
            let ended = self.process.try_wait().unwrap();
            assert_eq!(ended, None, "named has ended; another server may have taken its port");
        }
        dns
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Creates a key of a zone; returns its public part.
fn key(directory: &Path, zone: &str, arguments: &[&str]) -> String {
    let name = run(directory, "dnssec-keygen", &[&["-q"], arguments, &[zone]].concat());
    fs::read_to_string(directory.join(format!("{}.key", name.trim()))).unwrap()
}

fn run(directory: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(directory).output();
    let output = output.unwrap_or_else(|error| panic!("{program} (Debian package bind9-utils): {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn resolver(server: SocketAddr, root_keys: Option<RootKeys>) -> NetworkDns {
    let settings = DnsSettings {
        servers: vec![server],
        timeout: Duration::from_secs(3),
        retries: 2,
        cached_answers: 0,
        dnssec: true,
        root_keys,
    };
    NetworkDns::new(&settings).unwrap()
}

fn mx(domain: &str, is_proven: bool) -> Result<Proven<Vec<MailExchange>>, DnsError> {
    let exchange = MailExchange { preference: 10, exchange: format!("mx.{domain}") };
    Ok(Proven { value: vec![exchange], is_proven })
}

fn not_valid<T: std::fmt::Debug>(found: &Result<T, DnsError>) -> bool {
    matches!(found, Err(DnsError::Failed(reason)) if reason.contains("signatures are not valid"))
}

#[tokio::test]
async fn signatures_prove_records_and_forged_ones_are_refused() {
    let mut server = NameServer::start();
    let dns = server.resolver().await;
    assert_eq!(dns.mx_with_proof("signed.test").await, mx("signed.test", true));
    assert_eq!(dns.mx_with_proof("plain.test").await, mx("plain.test", false));
    let forged = dns.mx_with_proof("forged.test").await;
    assert!(not_valid(&forged), "{forged:?}");
    assert_eq!(dns.mx_with_proof("nowhere.test").await, Err(DnsError::NoSuchName));
    let without = dns.mx_with_proof("bare.signed.test").await.unwrap();
    assert_eq!(without.value, [], "the name exists without an MX record");
}

#[tokio::test]
async fn tlsa_records_count_with_signed_addresses_only() {
    let mut server = NameServer::start();
    let dns = server.resolver().await;
    let mut data = vec![0; 32];
    data[31] = 1;
    let record = TlsaRecord { usage: 3, selector: 1, matching: 1, data };
    for host in ["mx.signed.test", "mx.signed.test.", "alias.signed.test"] {
        let found = dns.tlsa(host, 25).await.unwrap().unwrap();
        assert_eq!((found.base.as_str(), &found.records[..]), ("mx.signed.test", &[record.clone()][..]), "{host}");
    }
    for host in ["mx.plain.test", "outside.signed.test", "bare.signed.test", "signed.test", "nowhere.test"] {
        assert_eq!(dns.tlsa(host, 25).await, Ok(None), "{host}");
    }
    assert_eq!(dns.tlsa("mx.signed.test", 26).await, Ok(None), "another port");
    let forged = dns.tlsa("mx.forged.test", 25).await;
    assert!(not_valid(&forged), "{forged:?}");
}

#[tokio::test]
async fn an_alias_has_one_target() {
    let mut server = NameServer::start();
    let dns = server.resolver().await;
    assert_eq!(dns.alias_target("alias.signed.test").await, Ok(Some("mx.signed.test".to_owned())));
    for host in ["mx.signed.test", "bare.signed.test"] {
        assert_eq!(dns.alias_target(host).await, Ok(None), "{host}");
    }
    assert_eq!(dns.alias_target("nowhere.signed.test").await, Err(DnsError::NoSuchName));
}

#[tokio::test]
async fn two_algorithms_wildcards_and_hashed_names_are_understood() {
    let mut server = NameServer::start();
    let dns = server.resolver().await;
    assert_eq!(dns.mx_with_proof("two.test").await, mx("two.test", true));
    let by_wildcard = dns.mx_with_proof("any.wild.two.test").await;
    assert_eq!(by_wildcard, mx("two.test", true));
    assert!(dns.tlsa("mx.two.test", 25).await.unwrap().is_some());
    assert_eq!(dns.tlsa("other.two.test", 25).await, Ok(None), "it has no records");
    assert_eq!(dns.mx_with_proof("other.two.test").await.unwrap().value, []);
    assert_eq!(dns.mx_with_proof("nowhere.two.test").await, Err(DnsError::NoSuchName));
}

#[tokio::test]
async fn without_signatures_of_the_root_mail_goes_on_unproven() {
    let mut server = NameServer::start();
    server.resolver().await;
    // With the keys of IANA, this root is like one whose signatures were removed.
    let dns = resolver(server.address, None);
    assert_eq!(dns.mx_with_proof("signed.test").await, mx("signed.test", false));
    assert_eq!(dns.mx_with_proof("forged.test").await, mx("forged.test", false));
    assert_eq!(dns.tlsa("mx.signed.test", 25).await, Ok(None));
}

#[tokio::test]
async fn a_server_that_is_lost_after_it_proved_records_lowers_nothing() {
    let mut server = NameServer::start();
    let dns = server.resolver().await;
    assert!(dns.tlsa("mx.signed.test", 25).await.unwrap().is_some());
    drop(server);
    let found = dns.tlsa("mx.signed.test", 25).await;
    assert!(found.is_err(), "{found:?}");
}
